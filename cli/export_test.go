package cli_test

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// An older server has no resource types: its fleet is exported as it always was. What else goes wrong with them fails the
// export, which would be taken for all of a fleet.
func TestExportOfAnOlderServer(t *testing.T) {
	t.Parallel()
	for types, code := range map[string]int{`200 []`: 0, missingAnswer: 0, `500 {"error":"internal","detail":"x"}`: 1} {
		url, _ := scripted(t, map[string][]string{
			"GET /layers": {missingAnswer}, "GET /resource_types": {types}, "GET /platform_components": {"200 []"}, "GET /namespaces": {"200 []"}, "GET /rolebindings": {"200 []"}, "GET /clusters": {"200 []"},
		})
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "export")
		if got.code != code || strings.Contains(got.stdout, "clusters:") != (code == 0) {
			t.Errorf("%s: %d %q %q", types, got.code, got.stdout, got.stderr)
		}
	}
}

// TestExportHasLayers: what clusters have of one is in no cluster's document, so that an export without them would be taken
// for all of a fleet.
func TestExportHasLayers(t *testing.T) {
	t.Parallel()
	for layers, has := range map[string]bool{`200 [{"id":"base"}]`: true, `200 []`: false, missingAnswer: false} {
		url, _ := scripted(t, map[string][]string{
			"GET /layers": {layers, layers}, "GET /resource_types": {"200 []"},
			"GET /platform_components": {"200 []"}, "GET /namespaces": {"200 []"}, "GET /rolebindings": {"200 []"}, "GET /clusters": {"200 []"},
		})
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "export")
		if got.code != 0 || !strings.Contains(got.stdout, "clusters:") || strings.Contains(got.stdout, "layers:") != has {
			t.Errorf("%s: %d %q %q", layers, got.code, got.stdout, got.stderr)
		}
	}
}
