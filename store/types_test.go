package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// answerOf returns the answer to cluster a's poll of a type; "unknown" if there is no such type.
func answerOf(t *testing.T, s *fleet.State, typ string) string {
	t.Helper()
	kind, ok := s.PolledAt(typ)
	if !ok {
		return "unknown"
	}
	cluster, ok := s.Get(fleet.KindCluster, "a")
	require.True(t, ok)
	answer, err := s.Answer(cluster, kind)
	require.NoError(t, err)
	body, err := answer.Body()
	require.NoError(t, err)
	return string(body)
}

// withTypes makes a resource type, a definition of it, and a cluster that has it.
func withTypes(tx *fleet.Tx) error {
	const quotas = `{"id":"quotas","identity":["id"],"schema":{"type":"object","additionalProperties":false,"properties":{"pods":{"type":"integer","default":10}}}}`
	if _, err := tx.Create(fleet.KindResourceType, []byte(quotas)); err != nil {
		return err
	}
	if _, err := tx.Create(fleet.ResourceKind("quotas"), []byte(`{"id":"small"}`)); err != nil {
		return err
	}
	_, err := tx.Assign("a", fleet.ResourceKind("quotas"), "small", nil)
	return err
}

// A follower has the types, and the polled inputs of them, like the process that made them; so has a process that starts from
// its disk without a store. None of them answers an empty list for an unknown type.
func TestTypesFollowAndAreKept(t *testing.T) {
	t.Parallel()
	w, dir, _ := kept(t)
	follower := attach(t, w.path)
	require.NoError(t, follower.replica.Load(t.Context()))
	follower.run(t)
	require.Equal(t, "unknown", answerOf(t, follower.replica.State(), "quotas"))

	writer := keeping(t, w.path, dir)
	require.True(t, writer.replica.Restore(t.Context()))
	require.NoError(t, writer.replica.Load(t.Context()))
	writer.run(t)
	writer.update(t, withTypes)
	want := answerOf(t, writer.replica.State(), "quotas")
	require.Contains(t, want, `"id":"small","pods":10`)
	eventually(t, func() bool { return answerOf(t, follower.replica.State(), "quotas") == want })

	// Another schema with another default reaches the polled inputs in every process.
	writer.update(t, func(tx *fleet.Tx) error {
		_, err := tx.Patch(fleet.KindResourceType, "quotas", []byte(`{"schema":{"properties":{"cpu":{"type":"string","default":"1"}}}}`))
		return err
	})
	want = answerOf(t, writer.replica.State(), "quotas")
	require.Contains(t, want, `"cpu":"1","pods":10`)
	eventually(t, func() bool { return answerOf(t, follower.replica.State(), "quotas") == want })
	writer.stop()

	late := keeping(t, w.path, dir)
	late.fail(store.ErrUnavailable)
	require.True(t, late.replica.Restore(t.Context()))
	require.Equal(t, want, answerOf(t, late.replica.State(), "quotas"))
	require.Equal(t, documents(writer.replica.State()), documents(late.replica.State()))
	late.heal()
	late.run(t)
	late.update(t, func(tx *fleet.Tx) error {
		tx.Guard(fleet.Guard{Off: true})
		_, err := tx.Delete(fleet.KindResourceType, "quotas", fleet.DeleteOptions{Cascade: true})
		return err
	})
	eventually(t, func() bool { return answerOf(t, follower.replica.State(), "quotas") == "unknown" })
	late.stop()
	last := keeping(t, w.path, dir)
	last.fail(store.ErrUnavailable)
	require.True(t, last.replica.Restore(t.Context()))
	require.Equal(t, "unknown", answerOf(t, last.replica.State(), "quotas"))
}
