package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// requestFor is a batch of one operation that requests a reconciliation of clusters.
func requestFor(on, at string) func(*Tx) error {
	return batch(fmt.Sprintf(`{"op":"reconcile","requested_at":%q,%s}`, at, on))
}

// TestRequestReconciliation: a request changes the cluster block of the inputs of its clusters, and nothing that they install.
func TestRequestReconciliation(t *testing.T) {
	t.Parallel()
	const at = "2026-01-02T03:04:05.678Z"
	w := tiers(t, baseLayer, prodLayer)
	before, polled := map[string]string{}, map[string]string{}
	for _, c := range []string{"c0", "c1", "c2", "c3"} {
		before[c] = answersTo(t, w.state, c+".example.com")
		require.NotContains(t, before[c], "reconcile_requested_at")
		for _, kind := range []Kind{KindComponent, KindNamespace, KindRoleBinding, ResourceKind("quotas")} {
			polled[c+string(kind)] = poll(t, w.state, c+".example.com", kind)
		}
	}
	plan := w.plan(requestFor(`"selector":"tier=prod"`, at))
	require.Zero(t, plan.Totals.Removals)
	res := w.must(requestFor(`"selector":"tier=prod"`, at))
	require.Len(t, res.Commit.Changes, 2)
	for _, c := range []string{"c0", "c1"} {
		require.Equal(t, before[c], answersTo(t, w.state, c+".example.com"))
	}
	for _, c := range []string{"c2", "c3"} {
		for _, kind := range []Kind{KindComponent, KindNamespace, KindRoleBinding, ResourceKind("quotas")} {
			body := poll(t, w.state, c+".example.com", kind)
			require.Contains(t, body, `"environment":"dev","reconcile_requested_at":"`+at+`"}`)
			require.Equal(t, polled[c+string(kind)], strings.ReplaceAll(body, `,"reconcile_requested_at":"`+at+`"`, ""))
		}
	}
	require.Empty(t, w.must(requestFor(`"selector":"tier=prod"`, at)).Commit.Changes, "a repeated request changes nothing")
	w.must(requestFor(`"cluster_ids":["c2"]`, "2026-01-02T03:04:06Z"))
	require.Contains(t, poll(t, w.state, "c2.example.com", KindComponent), "03:04:06Z")

	// Documents that are sent back do not repeat or remove a request.
	w.must(put(KindCluster, "c2", `{"reconcile_requested_at":"2020-01-01T00:00:00Z","labels":{"tier":"prod"}}`))
	w.must(patch(KindCluster, "c2", `{"reconcile_requested_at":null}`))
	doc, _ := w.state.Get(KindCluster, "c2")
	require.Equal(t, "2026-01-02T03:04:06Z", doc.View().(*api.Cluster).ReconcileRequestedAt)

	for _, wrong := range []string{"", "now", "2026-01-02", "<< inputs.id >>"} {
		w.refused(CodeInvalid, requestFor(`"all":true`, wrong))
	}
	w.refused(CodeInvalid, requestFor(`"layers":["prod"]`, at))
}
