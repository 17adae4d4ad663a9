package server_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestPoliciesOfAPlan: a team sees the policies that its own plan fails, and no other one; an admin sees all. Both are refused.
func TestPoliciesOfAPlan(t *testing.T) {
	t.Parallel()
	w := twoTeams(t)
	web := bearer(w.issue(scopedBody).secret)
	w.do(http.MethodPatch, "/clusters/web-01", `{"pinned":null}`).want(200)
	w.create("/access", accessFor("team", `["read","plan","write"]`, teamRead))
	for _, body := range []string{
		`{"id":"fails","rule":"effect.clusters.size() == 0","message":"'changes ' + effect.clusters[0].id","action":"deny"}`,
		`{"id":"holds","rule":"effect.clusters.all(c, c.id != 'zebra-01')","action":"deny"}`,
		`{"id":"warns","description":"Ask first.","rule":"false","action":"warn"}`,
	} {
		w.post("/policies", body).want(201)
	}
	const change = `{"operations":[{"op":"patch","kind":"cluster","id":"web-01","patch":{"patches":{"web-app":{"replicas":"3"}}}}]}`
	for _, as := range [][]string{web, nil} {
		got := w.do(http.MethodPost, "/plan", change, as...).want(200)
		var plan api.Plan
		require.NoError(t, json.Unmarshal(got.body, &plan))
		var ids []string
		for _, p := range plan.Policies {
			ids = append(ids, p.ID)
		}
		want := []string{"fails", "warns"}
		if as == nil {
			want = []string{"fails", "holds", "warns"}
		} else {
			require.NotContains(t, noted(got), "zebra")
		}
		require.Equal(t, want, ids)
		require.Contains(t, plan.Warnings, `the change would be refused: policy "fails": changes web-01`)
		require.Contains(t, plan.Warnings, `policy "warns": Ask first.`)
		w.do(http.MethodPost, "/batch", change, as...).problem(422, "policy")
	}
}
