package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every route that can remove entries from clusters counts removals, reports them, and accepts the hash of a plan.
func TestRemovalBudgetOnEveryRoute(t *testing.T) {
	t.Parallel()
	const qa = "/clusters/qa-00"
	for name, route := range map[string]struct{ method, path, body, operation string }{
		"PUT []":               {"PUT", qa, `{"platform_components":[]}`, `{"op":"update","kind":"cluster","id":"qa-00","document":{"platform_components":[]}}`},
		"PATCH null":           {"PATCH", qa, `{"namespaces":null}`, `{"op":"patch","kind":"cluster","id":"qa-00","patch":{"namespaces":null}}`},
		"DELETE":               {"DELETE", qa, "", `{"op":"delete","kind":"cluster","id":"qa-00"}`},
		"disable":              {"PUT", qa + "/platform_components/podinfo", `{"enabled":false}`, `{"op":"set_component","cluster_ids":["qa-00"],"component_id":"podinfo","enabled":false}`},
		"unassign a component": {"DELETE", qa + "/platform_components/podinfo", "", `{"op":"unassign_component","cluster_ids":["qa-00"],"component_id":"podinfo"}`},
		"unassign a namespace": {"DELETE", qa + "/namespaces/podinfo", "", `{"op":"unassign_namespace","cluster_ids":["qa-00"],"namespace_id":"podinfo"}`},
		"unassign a binding":   {"DELETE", demoCluster + "/rolebindings/dev-readers", "", `{"op":"unassign_rolebinding","cluster_ids":["demo-cluster-01"],"rolebinding_id":"dev-readers"}`},
		"POST of a name that was forgotten": {
			"POST", "/clusters", `{"id":"heir","cluster_dns":"gone.example.com","environment":"qa"}`,
			`{"op":"create","kind":"cluster","document":{"id":"heir","cluster_dns":"gone.example.com","environment":"qa"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.clusters(52, "qa")
			w.create("/clusters", `{"id":"gone","cluster_dns":"gone.example.com","environment":"qa","rolebindings":[{"id":"dev-readers"}]}`)
			w.delete("/clusters/gone?mode=orphan").want(200)
			w.clock.advance(time.Hour) // that counted as one
			var many []string
			for i := range 50 {
				many = append(many, fmt.Sprintf("%q", fmt.Sprintf("qa-%02d", i+1)))
			}
			w.batch(`{"op":"unassign_component","cluster_ids":[` + strings.Join(many, ",") + `],"component_id":"podinfo"}`).want(200)
			spent := w.revision()
			do := func(query string) *answer {
				return w.do(route.method, route.path+query, route.body, "Content-Type", "application/json")
			}
			reason := fmt.Sprintf("50 were within the last hour without a plan_hash (revision %d)", spent)
			if route.method == "POST" { // it requires a plan with any budget
				reason = `cluster "heir" takes over the name "gone.example.com"`
			}
			w.unchanged(func() {
				refusal := do("").problem(409, "confirmation_required").json()["detail"]
				require.Contains(t, refusal, reason)
			})
			plan := w.plan(route.operation)
			require.Equal(t, true, plan["confirmation_required"])
			require.Contains(t, plan["confirmation_reason"], reason)
			require.Less(t, do("?plan_hash="+plan["plan_hash"].(string)).status, 300)
			w.clock.advance(time.Hour)
			w.delete("/clusters/qa-51/platform_components/podinfo").want(200)
		})
	}
}

// The counted removals are not in the history of the fleet.
func TestRemovalBudgetNotInHistory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.delete(demoCluster + "/namespaces/podinfo").want(200)
	w.delete(demoCluster + "/namespaces/traefik").want(200)
	head := w.get("/revisions?limit=1").list()[0]
	require.Equal(t, []any{map[string]any{"kind": "cluster", "id": "demo-cluster-01", "action": "update"}}, head["changes"])
	require.EqualValues(t, 1, head["change_count"])
	revision := w.get(fmt.Sprintf("/revisions/%v", head["revision"])).want(200)
	require.Equal(t, "1", revision.header.Get("X-Total-Count"))
	require.Len(t, revision.json()["changes"], 1)
	require.Empty(t, w.get(fmt.Sprintf("/revisions/%v?offset=1", head["revision"])).want(200).json()["changes"])
	require.EqualValues(t, 1, w.batch(`{"op":"unassign_namespace","all":true,"namespace_id":"cert-manager"}`).want(200).json()["results"].([]any)[0].(map[string]any)["documents"])
}
