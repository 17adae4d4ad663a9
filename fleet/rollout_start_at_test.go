package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// TestRestorePausesRolloutsThatStartThemselves: after a restore, or in an accepted backup, a rollout whose time has passed waits for a
// person like a running one.
func TestRestorePausesRolloutsThatStartThemselves(t *testing.T) {
	t.Parallel()
	w := tiers(t, prodLayer, baseLayer)
	begin := w.now.Add(time.Hour)
	n := NewRollout{ID: "r", Operations: []api.Operation{patchOp(KindComponent, "loki", `{"component_version":"9"}`)}, RolloutSettings: RolloutSettings{Advance: advanceAutomatic, StartAt: &begin}, Stages: devFirst}
	w.must(func(tx *Tx) error { _, err := tx.CreateRollout(n, &w.log); return err })
	rev := w.last()
	changes, err := PauseAutomation([]Record{recordOf(t, w.state, KindRollout, "r")})
	require.NoError(t, err)
	require.Len(t, changes, 1, "an accepted backup")

	w.must(patch(KindNamespace, "team", `{"labels":{"a":"b"}}`))
	w.log.past = Documents{}
	for r := range w.state.Records() {
		w.log.past.Set(r.Kind, r.ID, r.Body)
	}
	w.must(operations(w, api.Operation{Op: "restore", Revision: rev}))
	d, err := w.state.Find(KindRollout, "r")
	require.NoError(t, err)
	require.False(t, Advances(d))
	require.Equal(t, rolloutPaused, d.rollout().State)
	w.must(act("r", RolloutResume))
	d, err = w.state.Find(KindRollout, "r")
	require.NoError(t, err)
	require.Equal(t, rolloutProposed, d.rollout().State)
	require.True(t, Advances(d))

	n.ID, n.Advance, n.StartAt = "manual", "", nil
	w.must(act("r", RolloutAbort))
	w.must(func(tx *Tx) error { _, err := tx.CreateRollout(n, &w.log); return err })
	changes, err = PauseAutomation([]Record{recordOf(t, w.state, KindRollout, "manual")})
	require.NoError(t, err)
	require.Empty(t, changes, "a person starts it")
}

func recordOf(t *testing.T, s *State, kind Kind, id string) Record {
	t.Helper()
	d, err := s.Find(kind, id)
	require.NoError(t, err)
	return Record{Kind: kind, ID: id, Body: d.Body}
}
