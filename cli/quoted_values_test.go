package cli_test

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestQuotesNeedTheType: while the type of the component is not known, no value is written whose quotes would become part of it.
func TestQuotesNeedTheType(t *testing.T) {
	t.Parallel()
	const forbidden = `403 {"error":"forbidden","detail":"no read access"}`
	url, requests := scripted(t, map[string][]string{"GET /platform_components/podinfo": {forbidden}, "POST /batch": {`200 {}`}})
	got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "component", "set", "podinfo", "--cluster", "c", "--set-string", "a=3")
	if got.code != 1 || !strings.Contains(got.stderr, "no read access") || strings.Contains(strings.Join(*requests, " "), "POST") {
		t.Errorf("code %d after %v: %s", got.code, *requests, got.stderr)
	}
}
