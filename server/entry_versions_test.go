package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEntryVersions: a team that may push versions to its clusters and layers changes the versions of entries there, and nothing else.
func TestEntryVersions(t *testing.T) {
	t.Parallel()
	w := teams(t)
	for _, path := range []string{demoCluster, "/clusters/other"} {
		w.put(path+"/platform_components/podinfo", "").want(200)
	}
	w.create("/platform_components", `{"id":"second","component_path":"p","oci_url":"https://charts.example.com"}`)
	w.create("/layers", `{"id":"web","priority":10,"selector":"team=web","platform_components":[{"id":"podinfo"}],"overrides":{"second":{"component_version":"1.0.0"}},"patches":{"podinfo":{"n":"1"}}}`)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("reads", `["read"]`, ""))
	w.create("/access", accessFor("team", `["push_version"]`, `{"selector":"team=web","kinds":["cluster","layer"]}`))
	send := func(op string) *answer { return w.post("/batch", `{"operations":[`+op+`]}`, as...) }
	for _, op := range []string{
		`{"op":"set_component","cluster_ids":["demo-cluster-01"],"component_id":"podinfo","component_version":"9.0.0"}`,
		`{"op":"set_component","selector":"team=web","component_id":"podinfo","component_version":"9.1.0","oci_tag":"v9"}`,
		`{"op":"set_component","layers":["web"],"component_id":"podinfo","component_version":"9.2.0"}`,
		`{"op":"set_component","layers":["web"],"component_id":"second","component_version":"2.0.0"}`,
		`{"op":"set_component","cluster_ids":["demo-cluster-01"],"component_id":"podinfo","component_version":null}`,
	} {
		send(op).want(200)
	}
	w.unchanged(func() {
		for _, op := range []string{
			`{"op":"set_component","cluster_ids":["other"],"component_id":"podinfo","component_version":"9.0.0"}`,
			`{"op":"set_component","all":true,"component_id":"podinfo","component_version":"9.0.0"}`,
			`{"op":"set_component","cluster_ids":["demo-cluster-01"],"component_id":"podinfo","component_version":"9.3.0","enabled":false}`,
			`{"op":"assign_component","cluster_ids":["demo-cluster-01"],"component_id":"second","component_version":"9.0.0"}`,
			`{"op":"unassign_component","cluster_ids":["demo-cluster-01"],"component_id":"podinfo"}`,
			`{"op":"patch","kind":"layer","id":"web","patch":{"overrides":{"podinfo":{"component_version":"1"}}}}`,
			`{"op":"patch","kind":"layer","id":"web","patch":{"overrides":null}}`,
			`{"op":"patch","kind":"layer","id":"web","patch":{"patches":{"podinfo":{"n":"2"}}}}`,
			`{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"cluster_name":"x"}}`,
			`{"op":"patch","kind":"platform_component","id":"second","patch":{"component_version":"5.0.0"}}`,
			`{"op":"delete","kind":"layer","id":"web"}`,
		} {
			send(op).problem(403, "out_of_scope")
		}
	})
	w.create("/access", accessFor("clusters", `["push_version"]`, `{"selector":"team=data"}`)) // an older document: it does not name kinds
	send(`{"op":"set_component","cluster_ids":["other"],"component_id":"podinfo","component_version":"9.0.0"}`).problem(403, "out_of_scope")
}

// TestRightsWithoutEffect: the creation of an access document warns about rights that it does not grant.
func TestRightsWithoutEffect(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.issue(scopedBody)
	for on, want := range map[string]map[string]string{
		"push_version":    {``: "", `{"kinds":["cluster"]}`: "", `{"components":["a"]}`: "", `{"selector":"a=b"}`: "no effect", `{"kinds":["namespace"]}`: "no effect"},
		"approve":         {``: "", `{"kinds":["rollout","platform_component"]}`: "", `{"kinds":["rollout"]}`: "no effect", `{"selector":"a=b"}`: ""},
		"override_freeze": {``: "no effect", `{"selector":"a=b"}`: "no effect"},
		"override_policy": {``: "no effect", `{"selector":"a=b"}`: "no effect"},
		"write":           {``: "", `{"selector":"a=b"}`: ""},
	} {
		for limits, warning := range want {
			got := w.post("/access?dry_run=true", accessFor("one", `["`+on+`"]`, limits)).want(200).header.Values("Warning")
			if warning == "" {
				require.NotContains(t, strings.Join(got, "\n"), "no effect", on+limits)
			} else {
				require.Contains(t, strings.Join(got, "\n"), warning, on+limits)
			}
		}
	}
}
