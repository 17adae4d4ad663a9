package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEditsOfARebuiltState: caches of a State (checked clusters, rendered templates, shared content) never affect results. A
// State that is read from the records again refuses, warns, removes and plans the same.
func TestEditsOfARebuiltState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		for range rapid.IntRange(1, 10).Draw(rt, "commits") {
			edit, _ := randomLayerEdit(rt)
			if rapid.Bool().Draw(rt, "two edits") {
				cluster := fmt.Sprint("k", rapid.IntRange(0, 2).Draw(rt, "of cluster"))
				edit = both(edit, rapid.SampledFrom([]func(*Tx) error{
					patch(KindComponent, "c0", `{"component_path":"r"}`),
					patch(KindNamespace, "n0", `{"labels":{"a":"b"}}`),
					patch(ResourceKind("t"), "r0", `{"spec":{"x":7}}`),
					assign(cluster, ResourceKind("t"), "r0", `{"overrides":{"x":1}}`),
					assign(cluster, ResourceKind("t"), "r0", `{"overrides":{"x":2}}`),
					batch(`{"op":"set_labels","all":true,"labels":{"tier":"a"}}`),
					batch(`{"op":"set_labels","all":true,"labels":{"tier":"b"}}`),
				}).Draw(rt, "second edit"))
			}
			rebuilt, err := NewState(testRules, w.state.Head(), w.state.at, slices.Collect(w.state.Records()))
			require.NoError(rt, err)
			id := uuid.New()
			finish := func(s *State) (Result, error) {
				tx := s.Begin()
				tx.Guard(Guard{Off: true})
				if err := edit(tx); err != nil {
					return Result{}, err
				}
				return tx.Finish(Commit{ID: id, At: w.now, Actor: "test"})
			}
			got, err := finish(w.state)
			want, wantErr := finish(rebuilt)
			require.Equal(rt, wantErr, err)
			if err != nil {
				continue
			}
			require.Equal(rt, want.Warnings, got.Warnings)
			require.Equal(rt, want.Commit, got.Commit)
			plan, err := got.Plan()
			require.NoError(rt, err)
			wantPlan, err := want.Plan()
			require.NoError(rt, err)
			require.Equal(rt, wantPlan, plan)
			require.Equal(rt, polls(rt, want.State), polls(rt, got.State))
			w.keep(got)
		}
	})
}
