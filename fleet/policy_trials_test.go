package fleet

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestPolicyTrial: a policy fails on a revision of the log exactly as it did on the change when that was made.
func TestPolicyTrial(t *testing.T) {
	t.Parallel()
	rules := []string{
		`{"id":"p","rule":"effect.clusters.size() <= 1","message":"string(effect.clusters.size())","action":"deny"}`,
		`{"id":"p","match":{"selector":"tier=prod"},"rule":"effect.clusters.all(c, c.removals == 0)","action":"warn"}`,
		`{"id":"p","rule":"effect.removals + recent.removals <= 1","message":"string(recent.removals)","action":"deny"}`,
		`{"id":"p","rule":"!change.documents.exists(d, d.kind == 'layer' && d.action == 'update' && d.before.priority == 30)","action":"deny"}`,
		`{"id":"p","rule":"false","action":"approve"}`,
	}
	edits := []func(*Tx) error{
		patch(KindComponent, "loki", `{"component_version":"6.0.0"}`),
		patch(KindCluster, "c2", `{"labels":{"tier":"dev"}}`),
		patch(KindLayer, "prod", `{"priority":30}`),
		patch(KindLayer, "prod", `{"platform_components":[]}`),
		create(KindFreeze, `{"id":"f","selector":"tier=none","reason":"x"}`),
		remove(KindCluster, "c3", DeleteOptions{}),
		create(KindPolicy, `{"id":"p","rule":"true","action":"warn"}`),
	}
	w := tiers(t, prodLayer, baseLayer)
	var commits []Commit
	var want [][]api.PolicyVerdict
	for _, edit := range edits {
		tx := w.state.Begin()
		tx.Guard(Guard{Off: true})
		require.NoError(t, edit(tx))
		res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "ann"})
		require.NoError(t, err)
		var each []api.PolicyVerdict
		for _, rule := range rules {
			trial, err := tryPolicy(w.state, rule)
			require.NoError(t, err)
			got, err := trial.Change(res)
			require.NoError(t, err)
			each = append(each, got.PolicyVerdict)
		}
		commits, want = append(commits, res.Commit), append(want, each)
		w.keep(res)
	}
	failed := 0
	for i, rule := range rules {
		trial, err := tryPolicy(w.state, rule)
		require.NoError(t, err)
		for n, c := range slices.Backward(commits) {
			got, err := trial.Revision(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, want[n][i], got.PolicyVerdict, "revision %d, rule %s", n, rule)
			require.Equal(t, n == 4 || n == 6, got.Exempt)
			if got.Failed {
				failed++
			}
		}
	}
	require.Positive(t, failed)
	broken, err := tryPolicy(w.state, rules[0])
	require.NoError(t, err)
	_, err = broken.Revision(t.Context(), Commit{Revision: 7, Changes: []Change{{Kind: KindCluster, ID: "c1", Before: []byte(`{"id":`)}}})
	require.ErrorIs(t, err, ErrNotRebuilt)
	_, err = tryPolicy(w.state, `{"id":"p","rule":"effect.cluster","action":"deny"}`)
	require.ErrorContains(t, err, "undefined field")
}

func tryPolicy(s *State, policy string) (*PolicyTrial, error) {
	body, err := ParseObject([]byte(policy))
	if err != nil {
		return nil, err
	}
	return s.TryPolicy(body, ClusterFilters{})
}
