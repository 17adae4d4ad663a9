package cli_test

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestExportFails: a list that cannot be read fails the export, which would otherwise look complete.
func TestExportFails(t *testing.T) {
	t.Parallel()
	for types, code := range map[string]int{`200 []`: 0, missingAnswer: 1, `500 {"error":"internal","detail":"x"}`: 1} {
		url, _ := scripted(t, map[string][]string{
			"GET /layers": {"200 []"}, "GET /resource_types": {types}, "GET /platform_components": {"200 []"}, "GET /namespaces": {"200 []"}, "GET /rolebindings": {"200 []"}, "GET /clusters": {"200 []", "200 []"}, "GET /whoami": {`200 {"role":"admin"}`}, "GET /rollouts": {"200 []"}, "GET /strategies": {"200 []"}, "GET /freezes": {"200 []"}, "GET /access": {"200 []"}, "GET /webhooks": {"200 []"}, "GET /sources": {"200 []"}, "GET /policies": {"200 []"},
		})
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "export")
		if got.code != code || strings.Contains(got.stdout, "clusters:") != (code == 0) {
			t.Errorf("%s: %d %q %q", types, got.code, got.stdout, got.stderr)
		}
	}
}

// TestExportHasLayers: entries of a layer are in no cluster's document, so an export without layers would look complete.
func TestExportHasLayers(t *testing.T) {
	t.Parallel()
	for layers, has := range map[string]bool{`200 [{"id":"base"}]`: true, `200 []`: false} {
		url, _ := scripted(t, map[string][]string{
			"GET /layers": {layers, layers}, "GET /resource_types": {"200 []"},
			"GET /platform_components": {"200 []"}, "GET /namespaces": {"200 []"}, "GET /rolebindings": {"200 []"}, "GET /clusters": {"200 []", "200 []"}, "GET /whoami": {`200 {"role":"admin"}`}, "GET /rollouts": {"200 []"}, "GET /strategies": {"200 []"}, "GET /freezes": {"200 []"}, "GET /access": {"200 []"}, "GET /webhooks": {"200 []"}, "GET /sources": {"200 []"}, "GET /policies": {"200 []"},
		})
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "export")
		if got.code != 0 || !strings.Contains(got.stdout, "clusters:") || strings.Contains(got.stdout, "layers:") != has {
			t.Errorf("%s: %d %q %q", layers, got.code, got.stdout, got.stderr)
		}
	}
}
