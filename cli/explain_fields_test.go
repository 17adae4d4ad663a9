package cli_test

import (
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestExplainFields: fields are explained from the OpenAPI document, without a server.
func TestExplainFields(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"cluster.patches":                     {"FIELD:       cluster.patches <map[string]map[string]", "DESCRIPTION: Values by component id and Helm value path."},
		"clusters":                            {"id <string> -required-\n    DNS-1123 subdomain", "  labels <map[string]string>\n", "revision <integer> -read-only-", "namespaces <[]object>"},
		"cluster.platform_components.oci_tag": {"platform_components.oci_tag <string>"},
		"rb.subjects":                         {"rb.subjects <[]object>", "FIELDS:\n  kind <string> -required-"},
		"resource":                            {"spec <", "id <string> -required-"},
		"cluster.excludes.resources":          {"<map[string][]string>\nDESCRIPTION: By resource type."},
	} {
		got := run(t, cli.Env{}, nil, "explain", "--fields", path)
		for _, text := range want {
			if got.code != 0 || !strings.Contains(got.stdout, text) {
				t.Errorf("%s: %d, no %q in %s%s", path, got.code, text, got.stdout, got.stderr)
			}
		}
	}
	for path, want := range map[string]string{
		"pod":                "\"pod\" is not a kind; it is one of access, cluster, freeze, layer",
		"cluster.color":      "cluster has no field \"color\"; it has cluster_dns",
		"cluster.id.further": "cluster.id has no field \"further\"; it has none",
	} {
		if got := run(t, cli.Env{}, nil, "explain", "--fields", path); got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %d %s%s", path, got.code, got.stdout, got.stderr)
		}
	}
	if got := run(t, cli.Env{}, nil, "explain", "--fields", "cluster.patches", "-o", "json"); got.code != 0 || !strings.Contains(got.stdout, `"type": "object"`) {
		t.Errorf("%+v", got)
	}
}
