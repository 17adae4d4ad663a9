package cli_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestRenovateExpression: the expression of docs/versions.md finds the Helm charts of an export, and nothing else.
func TestRenovateExpression(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no configuration of Renovate")
	}
	var config struct {
		CustomManagers []struct{ MatchStrings []string }
	}
	if err := json.Unmarshal(block[1], &config); err != nil {
		t.Fatal(err)
	}
	const rest = `"depends_on":[],"release_name":"","target_namespace":"","secret_ref":"","cluster_env_enabled":false,"revision":1,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`
	url, _ := scripted(t, map[string][]string{
		"GET /layers": {"200 []"}, "GET /resource_types": {"200 []"}, "GET /namespaces": {"200 []"}, "GET /rolebindings": {"200 []"}, "GET /clusters": {"200 []", "200 []"}, "GET /whoami": {`200 {"role":"admin"}`}, "GET /rollouts": {"200 []"}, "GET /strategies": {"200 []"}, "GET /freezes": {"200 []"}, "GET /access": {"200 []"}, "GET /webhooks": {"200 []"}, "GET /sources": {"200 []"}, "GET /policies": {"200 []"},
		"GET /platform_components": {`200 [
			{"id":"grafana","component_path":"grafana","component_version":"17.0.0","oci_url":"https://grafana.github.io/helm-charts","oci_tag":"latest","type":"helm",` + rest + `,
			{"id":"ingress","component_path":"networking","component_version":"latest","oci_url":"oci://registry.example.com/platform","oci_tag":"v1.0.0","type":"kustomize",` + rest + `,
			{"id":"redis","component_path":"redis","component_version":"20.1","oci_url":"https://charts.example.com","oci_tag":"latest","type":"helm",` + rest + `]`},
	})
	got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": url}, "export")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	e := regexp.MustCompile(config.CustomManagers[0].MatchStrings[0])
	var found []string
	for _, m := range e.FindAllStringSubmatch(got.stdout, -1) {
		for _, group := range []string{"depName", "currentValue", "registryUrl"} {
			found = append(found, m[e.SubexpIndex(group)])
		}
	}
	want := []string{"grafana", "17.0.0", "https://grafana.github.io/helm-charts", "redis", "20.1", "https://charts.example.com"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q in\n%s", found, got.stdout)
	}
}
