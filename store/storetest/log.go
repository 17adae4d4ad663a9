package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func testEmpty(t *testing.T, b *bench) {
	head, err := b.Store.Head(b.ctx())
	require.NoError(t, err)
	require.Equal(t, fleet.Head{}, head)
	require.Equal(t, fleet.Head{}, b.load().Head)
	require.True(t, b.load().At.IsZero())
	require.Empty(t, b.load().Records)
	require.Empty(t, b.since(fleet.Head{}, 10))
	require.Empty(t, b.history(store.HistoryQuery{Limit: 10}))
	require.NoError(t, b.Store.Ping(b.ctx()))
}

func testCommit(t *testing.T, b *bench) {
	one, two := body(`{"id":"a","n":1}`), body(`{"id":"a","n":2}`)
	first := b.commit(create(fleet.KindNamespace, "a", one), create(fleet.KindCluster, "a", one))
	second := b.commit(update(fleet.KindNamespace, "a", one, two), create(fleet.KindNamespace, "b", one))
	third := b.commit(remove(fleet.KindCluster, "a", one))

	head, err := b.Store.Head(b.ctx())
	require.NoError(t, err)
	require.Equal(t, third.Head(), head)
	require.Equal(t, store.Snapshot{Head: third.Head(), At: third.At, Records: []fleet.Record{
		record(first, second, fleet.KindNamespace, "a", two),
		record(second, second, fleet.KindNamespace, "b", one),
	}}, b.load())
	require.Equal(t, []fleet.Commit{first, second, third}, b.since(fleet.Head{}, 10))

	// A document of that name made again is a new one.
	fourth := b.commit(create(fleet.KindCluster, "a", two))
	require.Contains(t, b.load().Records, record(fourth, fourth, fleet.KindCluster, "a", two))
}

func testSorted(t *testing.T, b *bench) {
	// Byte order, regardless of the database's collation for case, digits, dashes and dots.
	ids := []string{"B", "a", "a-b", "a.b", "a0", "ab", "b", "ä"}
	var changes []fleet.Change
	for i := range ids {
		id := ids[len(ids)-1-i]
		changes = append(changes, create(fleet.KindNamespace, id, body(`{}`)), create(fleet.KindCluster, id, body(`{}`)))
	}
	b.commit(changes...)
	var got []string
	for _, r := range b.load().Records {
		got = append(got, string(r.Kind)+"/"+r.ID)
	}
	var want []string
	for _, kind := range []fleet.Kind{fleet.KindCluster, fleet.KindNamespace} {
		for _, id := range ids {
			want = append(want, string(kind)+"/"+id)
		}
	}
	require.Equal(t, want, got)
}

func testGapless(t *testing.T, b *bench) {
	var all []fleet.Commit
	for i := range 25 {
		all = append(all, b.commit(create(fleet.KindNamespace, fmt.Sprintf("n%d", i), body(`{"n":%d}`, i))))
	}
	for _, limit := range []int{1, 3, 25, 100} {
		var got []fleet.Commit
		for at := (fleet.Head{}); at != b.head; at = got[len(got)-1].Head() {
			page := b.since(at, limit)
			require.NotEmpty(t, page)
			require.LessOrEqual(t, len(page), limit)
			got = append(got, page...)
		}
		require.Equal(t, all, got, "limit %d", limit)
	}
	require.Empty(t, b.since(b.head, 10))
	_, err := b.Store.Since(b.ctx(), fleet.Head{}, 0)
	require.Error(t, err, "without a limit a caller would read the whole log")
}

func testStale(t *testing.T, b *bench) {
	first := b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	b.commit(create(fleet.KindNamespace, "b", body(`{}`)))
	b.unchanged(func() {
		for name, base := range map[string]fleet.Head{
			"empty history":                   {},
			"an older revision":               first.Head(),
			"a newer revision":                {Revision: b.head.Revision + 1, ID: uuid.New()},
			"the revision of another history": {Revision: b.head.Revision, ID: uuid.New()},
			"the revision without a commit":   {Revision: b.head.Revision},
		} {
			err := b.Store.Commit(b.ctx(), base, next(base, create(fleet.KindNamespace, "c", body(`{}`))))
			require.ErrorIs(t, err, store.ErrStale, name)
		}
	})
	b.commit(create(fleet.KindNamespace, "c", body(`{}`)))
}

func testAllOrNothing(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)), create(fleet.KindNamespace, "b", body(`{}`)))
	good := []fleet.Change{
		create(fleet.KindNamespace, "c", body(`{}`)),
		update(fleet.KindNamespace, "a", body(`{}`), body(`{"n":1}`)),
		remove(fleet.KindNamespace, "b", body(`{}`)),
	}
	b.unchanged(func() {
		for name, bad := range map[string]fleet.Change{
			"creates what exists":        create(fleet.KindNamespace, "a", body(`{}`)),
			"creates twice":              create(fleet.KindNamespace, "c", body(`{}`)),
			"changes what is not there":  update(fleet.KindNamespace, "x", body(`{}`), body(`{}`)),
			"removes what is not there":  remove(fleet.KindCluster, "a", body(`{}`)),
			"is of neither before/after": {Kind: fleet.KindNamespace, ID: "a"},
		} {
			err := b.Store.Commit(b.ctx(), b.head, next(b.head, append(append([]fleet.Change{}, good...), bad)...))
			require.Error(t, err, name)
			require.NotErrorIs(t, err, store.ErrStale, "%s: trying again would not help", name)
			require.NotErrorIs(t, err, store.ErrUnavailable, "%s: trying again would not help", name)
			require.NotErrorIs(t, err, store.ErrUnknown, name)
		}
	})
	b.commit(good...)
}

func testRefusedCommits(t *testing.T, b *bench) {
	first := b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	b.unchanged(func() {
		for _, rev := range []fleet.Revision{b.head.Revision - 1, b.head.Revision, b.head.Revision + 2} {
			c := next(b.head, create(fleet.KindNamespace, "b", body(`{}`)))
			c.Revision = rev
			require.Error(t, b.Store.Commit(b.ctx(), b.head, c), "revision %d", rev)
		}
		again := next(b.head, create(fleet.KindNamespace, "b", body(`{}`)))
		again.ID = first.ID
		require.Error(t, b.Store.Commit(b.ctx(), b.head, again), "one id names one commit")
	})
}

func testDiverged(t *testing.T, b *bench) {
	var commits []fleet.Commit
	for i := range 4 {
		commits = append(commits, b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`))))
	}
	for name, after := range map[string]fleet.Head{
		"another commit at the head":         {Revision: 4, ID: uuid.New()},
		"another commit in the past":         {Revision: 2, ID: uuid.New()},
		"a commit of ours at another number": {Revision: 3, ID: commits[1].ID},
		"ahead of the head":                  {Revision: 5, ID: uuid.New()},
		"no commit at a revision":            {Revision: 2},
		"a commit at no revision":            {ID: uuid.New()},
	} {
		_, err := b.Store.Since(b.ctx(), after, 10)
		require.ErrorIs(t, err, store.ErrDiverged, name)
	}
}

func testHistoryReplaced(t *testing.T, b *bench) {
	var commits []fleet.Commit
	for i := range 4 {
		commits = append(commits, b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`))))
	}
	// A backup of revision 2 is restored ...
	b.exec(`DELETE FROM changes WHERE revision > 2`)
	b.exec(`DELETE FROM commits WHERE revision > 2`)
	b.exec(`DELETE FROM documents WHERE revision > 2`)
	b.exec(fmt.Sprintf(`UPDATE head SET revision = 2, commit_id = '%s', documents = 2`, commits[1].ID))
	_, err := b.Store.Since(b.ctx(), commits[3].Head(), 10)
	require.ErrorIs(t, err, store.ErrDiverged)
	_, err = b.Store.Since(b.ctx(), commits[2].Head(), 10)
	require.ErrorIs(t, err, store.ErrDiverged)
	require.Empty(t, b.since(commits[1].Head(), 10))

	// ... and written to, until it is longer than the known one.
	b.head = commits[1].Head()
	for i := range 4 {
		b.commit(create(fleet.KindCluster, fmt.Sprint(i), body(`{}`)))
	}
	_, err = b.Store.Since(b.ctx(), commits[3].Head(), 10)
	require.ErrorIs(t, err, store.ErrDiverged)
	require.Len(t, b.since(commits[1].Head(), 10), 4)
}

func testCompacted(t *testing.T, b *bench) {
	var commits []fleet.Commit
	for i := range 6 {
		commits = append(commits, b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`))))
	}
	b.exec(`DELETE FROM changes WHERE revision < 4`)
	b.exec(`DELETE FROM commits WHERE revision < 4`)
	for _, after := range []fleet.Head{{}, commits[0].Head(), commits[2].Head()} {
		_, err := b.Store.Since(b.ctx(), after, 10)
		require.ErrorIs(t, err, store.ErrCompacted, "revision %d", after.Revision)
	}
	require.Equal(t, commits[4:], b.since(commits[3].Head(), 10))
	require.Empty(t, b.since(b.head, 10))
	require.Len(t, b.load().Records, 6)
}

func testCorrupt(t *testing.T, b *bench) {
	for i := range 4 {
		b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`)))
	}
	corrupt := func(name, damage, undo string) {
		b.exec(damage)
		snap, err := b.Store.Load(b.ctx())
		require.ErrorIs(t, err, store.ErrCorrupt, name)
		require.Empty(t, snap, "%s: nothing of it may be served", name)
		b.exec(undo)
		require.Len(t, b.load().Records, 4)
	}
	corrupt("a document too many is counted", `UPDATE head SET documents = documents + 1`, `UPDATE head SET documents = documents - 1`)
	corrupt("a document too few is counted", `UPDATE head SET documents = documents - 1`, `UPDATE head SET documents = documents + 1`)
	corrupt("a document of the future", `UPDATE documents SET revision = 9 WHERE id = '3'`, `UPDATE documents SET revision = 4 WHERE id = '3'`)
	other := uuid.NewString()
	corrupt("a head that is not in the log", fmt.Sprintf(`UPDATE head SET commit_id = '%s'`, other),
		fmt.Sprintf(`UPDATE head SET commit_id = '%s'`, b.head.ID))
	corrupt("a head behind the log", `UPDATE head SET revision = 3`, `UPDATE head SET revision = 4`)

	b.exec(`DELETE FROM changes WHERE revision = 3`)
	b.exec(`DELETE FROM commits WHERE revision = 3`)
	commits, err := b.Store.Since(b.ctx(), b.history(store.HistoryQuery{Limit: 10})[1].Head(), 10)
	require.ErrorIs(t, err, store.ErrCorrupt, "a gap in the log")
	require.Empty(t, commits)

	b.exec(`DELETE FROM documents`)
	snap, err := b.Store.Load(b.ctx())
	require.ErrorIs(t, err, store.ErrCorrupt, "an emptied table")
	require.Empty(t, snap)

	b.exec(`DELETE FROM head`)
	_, err = b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrCorrupt, "no head")
	_, err = b.Store.Load(b.ctx())
	require.ErrorIs(t, err, store.ErrCorrupt, "no head")
	err = b.Store.Commit(b.ctx(), b.head, next(b.head))
	require.ErrorIs(t, err, store.ErrCorrupt, "no head")
}

// A follower that is many large commits behind gets them in pieces that fit into memory, and all of them.
func testLargePages(t *testing.T, b *bench) {
	const each, large = 40, 3 << 20
	var all []fleet.Commit
	at := b.head
	for i := range each {
		size := 10
		if i%4 == 0 {
			size = large
		}
		if i == 8 {
			size = 9 * large // alone more than a page
		}
		all = append(all, b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{"x":%q}`, strings.Repeat("x", size)))))
	}
	var got []fleet.Commit
	for at != b.head {
		page := b.since(at, 1000)
		require.NotEmpty(t, page)
		bytes := 0
		for _, c := range page {
			bytes += len(c.Changes[0].After)
		}
		require.True(t, bytes <= 16<<20 || len(page) == 1, "%d bytes in %d commits", bytes, len(page))
		got = append(got, page...)
		at = page[len(page)-1].Head()
	}
	require.Equal(t, all, got)
}

// A commit without changes is part of the log as any other.
func testNoChanges(t *testing.T, b *bench) {
	first := b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	second := b.commit()
	third := b.commit(create(fleet.KindNamespace, "b", body(`{}`)))
	require.Equal(t, []fleet.Commit{first, second, third}, b.since(fleet.Head{}, 10))
	require.Equal(t, []fleet.Commit{third, second, first}, b.history(store.HistoryQuery{Limit: 10}))
	require.Equal(t, third.Head(), b.load().Head)
}

// The size is the database's: it grows with writes.
func testSize(t *testing.T, b *bench) {
	s := b.Store
	before, err := s.Size(b.ctx())
	require.NoError(t, err)
	require.Positive(t, before)
	var noise strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&noise, "%x", i*i*i)
	}
	b.commit(create(fleet.KindNamespace, "a", body(`{"x":%q}`, noise.String())))
	after, err := s.Size(b.ctx())
	require.NoError(t, err)
	require.Greater(t, after-before, int64(noise.Len()/4))
}

// Monitoring sees the store's connections, and finished queries hold none.
func testPool(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	b.load()
	stats, ok := b.Store.Pool()
	require.True(t, ok)
	require.Positive(t, stats.Max)
	require.Positive(t, stats.InUse+stats.Idle)
	require.LessOrEqual(t, stats.InUse+stats.Idle, stats.Max)
}
