package storetest

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Latest returns the documents of one kind, and reads no other changes of the commits.
func testLatest(t *testing.T, b *bench) {
	type docs = map[string]json.RawMessage
	latest := func(after fleet.Head) docs {
		head, got, err := b.Store.Latest(b.ctx(), fleet.KindToken, after)
		require.NoError(t, err)
		require.Equal(t, b.head, head)
		return got
	}
	require.Empty(t, latest(fleet.Head{}))
	one, two := body(`{"n":1}`), body(`{"n":2}`)
	first := b.commit(create(fleet.KindToken, "a", one), create(fleet.KindToken, "b", one), create(fleet.KindCluster, "a", one))
	require.Equal(t, docs{"a": one, "b": one}, latest(fleet.Head{}))
	require.Empty(t, latest(first.Head()))
	b.commit(remove(fleet.KindToken, "a", one), update(fleet.KindCluster, "a", one, two))
	third := b.commit(create(fleet.KindToken, "c", one))
	b.commit(create(fleet.KindToken, "a", two), update(fleet.KindToken, "b", one, two))
	fifth := b.commit(remove(fleet.KindToken, "b", two), remove(fleet.KindCluster, "a", two))
	require.Equal(t, docs{"a": two, "b": nil, "c": one}, latest(first.Head()), "as they are now, also those that are gone")
	require.Equal(t, docs{"a": two, "b": nil}, latest(third.Head()))
	require.Empty(t, latest(fifth.Head()))
	for name, after := range map[string]fleet.Head{
		"another commit at the head": {Revision: fifth.Revision, ID: uuid.New()},
		"another commit in the past": {Revision: third.Revision, ID: uuid.New()},
		"ahead of the head":          {Revision: fifth.Revision + 1, ID: uuid.New()},
	} {
		head, got, err := b.Store.Latest(b.ctx(), fleet.KindToken, after)
		require.ErrorIs(t, err, store.ErrDiverged, name)
		require.Empty(t, got)
		require.Equal(t, fleet.Head{}, head)
	}
	// Unreadable changes of other kinds are not read.
	b.exec(`UPDATE changes SET before = CASE WHEN before IS NULL THEN NULL ELSE '' END, after = CASE WHEN after IS NULL THEN NULL ELSE '' END,
		sum = 1, packed_before = NULL, packed_after = NULL`)
	_, err := b.Store.Since(b.ctx(), fleet.Head{}, 100)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.Equal(t, docs{"a": two, "b": nil, "c": one}, latest(first.Head()))
	b.exec(`DELETE FROM changes WHERE revision < 4`)
	b.exec(`DELETE FROM commits WHERE revision < 4`)
	_, _, err = b.Store.Latest(b.ctx(), fleet.KindToken, first.Head())
	require.ErrorIs(t, err, store.ErrCompacted)
}
