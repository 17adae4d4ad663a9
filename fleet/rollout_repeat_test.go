package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestRolloutRequestedAgain: the same change under the same name changes nothing, while the rollout is open and after its
// completion; any other change is a conflict.
func TestRolloutRequestedAgain(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	version, path := patchOp(KindComponent, "grafana", `{"component_version":"18.0.0"}`), patchOp(KindComponent, "grafana", `{"component_path":"other"}`)
	selector := patchOp(KindLayer, "prod", `{"selector":"region=eu"}`)
	again := func(ops ...api.Operation) {
		t.Helper()
		res, err := w.try(rollOut(w, "r", nil, ops...))
		require.NoError(t, err)
		require.Empty(t, res.Commit.Changes)
		require.Equal(t, w.state.Revision(), res.State.Revision())
	}
	others := func() {
		t.Helper()
		for _, ops := range [][]api.Operation{
			{version},
			{selector},
			{version, selector, path},
			{patchOp(KindComponent, "grafana", `{"component_version":"19.0.0"}`), selector},
			{version, patchOp(KindLayer, "prod", `{"selector":"region=us"}`)},
			{version, patchOp(KindLayer, "base", `{"description":"x"}`)},
			{version, selector, patchOp(KindLayer, "base", `{"description":"x"}`)},
		} {
			w.refused(CodeConflict, rollOut(w, "r", nil, ops...))
		}
	}
	w.must(rollOut(w, "r", devFirst, version, selector))
	again(version, selector)
	again(selector, version)
	others()
	w.must(act("r", RolloutStart))
	again(version, selector)
	w.must(operations(w, patchOp(KindComponent, "grafana", `{"patches":{"replicas":"2"}}`))) // another field
	again(version, selector)
	again(version, selector, patchOp(KindComponent, "grafana", `{"patches":{"replicas":"2"}}`))
	others()
	w.must(act("r", RolloutStart))
	w.must(act("r", RolloutComplete))
	again(version, selector)
	w.refused(CodeConflict, rollOut(w, "r", nil, version, path))

	w.must(rollOut(w, "s", nil, path))
	w.must(act("s", RolloutAbort))
	w.refused(CodeConflict, rollOut(w, "s", nil, path))
}
