package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A request with the header removes no entry from a protected environment that it does not name, on any route.
func TestProtectedEnvironmentsOnEveryRoute(t *testing.T) {
	t.Parallel()
	const cluster = "/clusters/prod-00"
	for name, route := range map[string]struct{ method, path, body, operation string }{
		"PUT []":     {"PUT", cluster, `{"platform_components":[]}`, `{"op":"update","kind":"cluster","id":"prod-00","document":{"platform_components":[]}}`},
		"moved":      {"PATCH", cluster, `{"environment":"dev","namespaces":null}`, `{"op":"patch","kind":"cluster","id":"prod-00","patch":{"environment":"dev","namespaces":null}}`},
		"DELETE":     {"DELETE", cluster, "", `{"op":"delete","kind":"cluster","id":"prod-00"}`},
		"forgotten":  {"DELETE", cluster + "?mode=orphan", "", `{"op":"delete","kind":"cluster","id":"prod-00","mode":"orphan"}`},
		"disable":    {"PUT", cluster + "/platform_components/podinfo", `{"enabled":false}`, `{"op":"set_component","cluster_ids":["prod-00"],"component_id":"podinfo","enabled":false}`},
		"unassign":   {"DELETE", cluster + "/platform_components/podinfo", "", `{"op":"unassign_component","cluster_ids":["prod-00"],"component_id":"podinfo"}`},
		"definition": {"PUT", "/platform_components/podinfo", `{"release_name":"other"}`, `{"op":"update","kind":"platform_component","id":"podinfo","document":{"release_name":"other"}}`},
		"revert":     {"POST", "/revisions/2/revert", "", `{"op":"revert","revision":2}`},
		"batch": {
			"POST", "/batch", `{"operations":[{"op":"unassign_component","all":true,"component_id":"podinfo"}]}`,
			`{"op":"unassign_component","all":true,"component_id":"podinfo"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.clusters(1, "prod")
			do := func(names ...string) *answer {
				headers := []string{"Content-Type", "application/json"}
				for _, name := range names {
					headers = append(headers, "X-Fleet-Removes-From", name)
				}
				return w.do(route.method, route.path, route.body, headers...)
			}
			w.unchanged(func() {
				for _, names := range []string{"none", "dev,pro", "PROD", ","} {
					require.Contains(t, do(names).problem(409, "confirmation_required").json()["detail"], `the protected environment "prod"`)
				}
			})
			plan := w.plan(route.operation)
			require.Equal(t, "prod", at(plan, "protected", 0, "environment"))
			require.EqualValues(t, 1, at(plan, "protected", 0, "clusters"))
			if name == "moved" { // out of the environment: its name is not enough
				require.Equal(t, true, plan["confirmation_required"])
				do("qa, prod").problem(409, "confirmation_required")
				route.path += "?plan_hash=" + plan["plan_hash"].(string)
			}
			require.Equal(t, name == "moved", plan["confirmation_required"])
			require.Less(t, do("qa, prod").status, 300)
		})
	}
}

// The hash of a plan confirms it; requests without the header are not affected, and changes without removals pass.
func TestProtectedEnvironmentsPerRequest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "prod")
	w.clusters(1, "qa")
	careful := []string{"X-Fleet-Removes-From", "none"}
	w.delete("/clusters/qa-00", careful...).want(200)
	w.put("/clusters/prod-00/platform_components/podinfo", `{"component_version":"9"}`, careful...).want(200)
	w.delete("/clusters/prod-00/platform_components/podinfo").want(200)
	w.delete("/clusters/prod-00/platform_components/podinfo", careful...).want(200)

	plan := w.plan(`{"op":"unassign_component","cluster_ids":["prod-01"],"component_id":"podinfo"}`)
	w.delete("/clusters/prod-01/platform_components/podinfo?plan_hash="+plan["plan_hash"].(string), careful...).want(200)
	w.unchanged(func() {
		w.delete("/clusters/prod-02/platform_components/podinfo?dry_run=true", careful...).problem(409, "confirmation_required")
	})
	require.Empty(t, w.plan(`{"op":"set_labels","all":true,"labels":{"a":"b"}}`)["protected"])
}
