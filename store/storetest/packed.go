package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// testLongPast: the past of a document can be read after any number of changes, removals and new creations, with changes of
// other documents in between.
func testLongPast(t *testing.T, b *bench) {
	noise := incompressible(2000)
	bodyAt := func(n int) []byte { return body(`{"n":%d,"noise":%q,"end":%d}`, n, noise, n%7) }
	var commits []fleet.Commit
	var before []byte
	for n := range 300 {
		after := bodyAt(n)
		if n%100 == 99 {
			after = nil
		}
		changes := []fleet.Change{{Kind: fleet.KindCluster, ID: "often", Before: before, After: after}}
		if n%50 == 0 {
			changes = append(changes, create(fleet.KindCluster, fmt.Sprint("seldom", n), bodyAt(n)))
		}
		commits = append(commits, b.commit(changes...))
		before = after
	}
	for at := (fleet.Head{}); at != b.head; {
		page := b.since(at, 7)
		require.Equal(t, commits[at.Revision:int(at.Revision)+len(page)], page)
		at = page[len(page)-1].Head()
	}
	for _, n := range []int{0, 1, 98, 100, 150, 298} {
		rec, found, err := b.Store.At(b.ctx(), fleet.KindCluster, "often", commits[n].Revision)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, string(bodyAt(n)), string(rec.Body))
	}
	docs, err := b.Store.Past(b.ctx(), fleet.PastQuery{At: 20, UpTo: b.head.Revision})
	require.NoError(t, err)
	require.Equal(t, string(bodyAt(19)), string(docs[fleet.KindCluster]["often"]))
}

// testDamagedLog: a document that cannot be put together as it was is an error, and never another document.
func testDamagedLog(t *testing.T, b *bench) {
	const id = "a"
	noise := incompressible(500)
	var before []byte
	for n := range 20 {
		after := body(`{"noise":%q,"n":%d}`, noise, n)
		b.commit(fleet.Change{Kind: fleet.KindCluster, ID: id, Before: before, After: after})
		before = after
	}
	read := func(rev fleet.Revision) error {
		_, err := b.Store.Changes(b.ctx(), rev, 0, 10)
		return err
	}
	require.NoError(t, read(3))
	b.exec(`UPDATE changes SET sum = sum + 1 WHERE revision = 3`)
	require.ErrorIs(t, read(3), store.ErrCorrupt)
	_, _, err := b.Store.At(b.ctx(), fleet.KindCluster, id, 3)
	require.ErrorIs(t, err, store.ErrCorrupt)
	_, err = b.Store.Since(b.ctx(), fleet.Head{}, 100)
	require.ErrorIs(t, err, store.ErrCorrupt)
	_, err = b.Store.DocumentLog(b.ctx(), fleet.DocumentLogQuery{Documents: []fleet.DocumentName{{Kind: fleet.KindCluster, ID: id}}, Before: 21, Limit: 100})
	require.ErrorIs(t, err, store.ErrCorrupt)
	b.exec(`UPDATE changes SET sum = sum - 1 WHERE revision = 3`)
	require.NoError(t, read(3))
	b.exec(`UPDATE changes SET packed_before = NULL WHERE revision = 20`)
	require.ErrorIs(t, read(20), store.ErrCorrupt)
	b.exec(`UPDATE documents SET body = '{}'`)
	require.ErrorIs(t, read(20), store.ErrCorrupt)
}

// Growth returns by how many bytes the store grows for one change of one label of a cluster of 50 KB. tidy is the database's
// own maintenance.
func Growth(t *testing.T, s store.Store, tidy func()) int64 {
	t.Helper()
	const warm, changes = 300, 300
	noise := incompressible(50_000)
	var at fleet.Head
	var before []byte
	size := func() int64 {
		tidy()
		n, err := s.Size(t.Context())
		require.NoError(t, err)
		return n
	}
	var start int64
	for n := range warm + changes {
		if n == warm {
			start = size()
		}
		after := body(`{"id":"c","labels":{"wave":"%d"},"patches":%q}`, n, noise)
		c := next(at, fleet.Change{Kind: fleet.KindCluster, ID: "c", Before: before, After: after})
		require.NoError(t, s.Commit(t.Context(), at, c))
		at, before = c.Head(), after
		if n%50 == 0 {
			tidy()
		}
	}
	return (size() - start) / changes
}

// incompressible is text of which little can be saved.
func incompressible(n int) string {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	var s strings.Builder
	for s.Len() < n {
		s.WriteByte(byte(' ' + 1 + random.IntN(94)))
	}
	return strings.NewReplacer(`"`, "_", `\`, "_").Replace(s.String())
}
