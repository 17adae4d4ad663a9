package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Clusters of started stages are served the variant by every process: a follower, and one that starts from its disk without
// a store. A commit of another program that the variant cannot be merged with is quarantined: the last good fleet is served.
func TestRolloutsFollowAndAreKept(t *testing.T) {
	t.Parallel()
	w, dir, _ := kept(t)
	follower := attach(t, w.path)
	require.NoError(t, follower.replica.Load(t.Context()))
	follower.run(t)
	writer := keeping(t, w.path, dir)
	require.True(t, writer.replica.Restore(t.Context()))
	require.NoError(t, writer.replica.Load(t.Context()))
	writer.run(t)
	writer.update(t, func(tx *fleet.Tx) error {
		_, err := tx.Assign("a", fleet.KindNamespace, "n", nil)
		return err
	})
	writer.update(t, func(tx *fleet.Tx) error {
		_, err := tx.CreateRollout(fleet.NewRollout{ID: "r", Operations: []api.Operation{{Op: "patch", Kind: string(fleet.KindNamespace), ID: "n", Patch: json.RawMessage(`{"labels":{"new":"one"}}`)}}}, nil)
		return err
	})
	none := answerOf(t, writer.replica.State(), "namespaces")
	writer.update(t, func(tx *fleet.Tx) error {
		_, err := tx.ChangeRollout("r", fleet.RolloutStart, "")
		return err
	})
	want := answerOf(t, writer.replica.State(), "namespaces")
	require.NotEqual(t, none, want)
	eventually(t, func() bool { return answerOf(t, follower.replica.State(), "namespaces") == want })
	writer.stop()

	late := keeping(t, w.path, dir)
	late.fail(store.ErrUnavailable)
	require.True(t, late.replica.Restore(t.Context()))
	require.Equal(t, want, answerOf(t, late.replica.State(), "namespaces"))
	late.heal()

	st := follower.replica.State()
	doc, _ := st.Record(fleet.KindNamespace, "n")
	after := json.RawMessage(strings.Replace(string(doc.Body), `"labels":{}`, `"labels":{"new":"other"}`, 1))
	require.NotEqual(t, string(doc.Body), string(after))
	c := fleet.Commit{
		ID: uuid.New(), Revision: st.Revision() + 1, At: st.At(), Actor: "another program",
		Changes: []fleet.Change{{Kind: fleet.KindNamespace, ID: "n", Before: doc.Body, After: after}},
	}
	require.NoError(t, follower.faulty.Commit(t.Context(), st.Head(), c))
	eventually(t, func() bool { return follower.replica.Status().QuarantineReason != "" })
	require.Equal(t, want, answerOf(t, follower.replica.State(), "namespaces"))
	require.Error(t, attach(t, w.path).replica.Load(t.Context()), "a start does not serve it either")
}

// TestAcceptedBackupPausesRollouts: clusters are served as at the backup, and no rollout advances by itself.
func TestAcceptedBackupPausesRollouts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createClusters("a"))
	w.update(t, createNamespace("n"))
	w.update(t, func(tx *fleet.Tx) error {
		_, err := tx.Assign("a", fleet.KindNamespace, "n", nil)
		return err
	})
	create := func(id, field string) {
		w.update(t, func(tx *fleet.Tx) error {
			op := api.Operation{Op: "patch", Kind: string(fleet.KindNamespace), ID: "n", Patch: json.RawMessage(`{"` + field + `":{"new":"one"}}`)}
			_, err := tx.CreateRollout(fleet.NewRollout{ID: id, Stages: []fleet.RolloutStage{{Name: "one", ClusterIDs: []string{"a"}}}, Operations: []api.Operation{op}}, nil)
			return err
		})
	}
	act := func(id, action string) {
		w.update(t, func(tx *fleet.Tx) error {
			_, err := tx.ChangeRollout(id, action, "")
			return err
		})
	}
	create("labels", "labels")
	create("annotations", "annotations") // stays proposed
	act("labels", fleet.RolloutStart)
	served := answerOf(t, w.replica.State(), "namespaces")
	data := backup(t, w)
	act("labels", fleet.RolloutAbort)
	w.run(t)
	restore(t, w, data)
	w.holds(t, w.replica.State())
	w.accept(t, fleet.Head{})
	eventually(t, func() bool { return w.replica.Status().Following })
	require.Equal(t, served, answerOf(t, w.replica.State(), "namespaces"))
	for id, state := range map[string]string{"labels": "paused", "annotations": "proposed"} {
		doc, ok := w.replica.State().Record(fleet.KindRollout, id)
		require.True(t, ok)
		require.Contains(t, string(doc.Body), `"state":"`+state+`"`)
	}
	act("labels", fleet.RolloutResume)
}
