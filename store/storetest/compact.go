package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

type documentKey struct {
	kind fleet.Kind
	id   string
}

// lived is a history of a few documents that are created, changed, decommissioned, created again and removed, and their state
// at every revision.
type lived struct {
	commits []fleet.Commit
	at      []map[documentKey]fleet.Record // by revision; without decommissioned documents
}

func live(b *bench, seed uint64, revisions int) lived {
	random := rand.New(rand.NewPCG(seed, seed))
	l := lived{at: []map[documentKey]fleet.Record{{}}}
	bodies := map[documentKey][]byte{}
	for n := range revisions {
		at := map[documentKey]fleet.Record{}
		maps.Copy(at, l.at[n])
		var changes []fleet.Change
		for i := range 3 {
			k := documentKey{[]fleet.Kind{fleet.KindCluster, fleet.KindNamespace}[random.IntN(2)], fmt.Sprint(i, random.IntN(3))}
			before := bodies[k]
			after := body(`{"n":%d}`, n)
			if random.IntN(4) == 0 {
				after = nil
			}
			if k.kind == fleet.KindCluster && random.IntN(4) == 0 && at[k].Body != nil {
				after = body(`{"deleted_at":"2026-01-02T03:04:05Z","n":%d}`, n)
			}
			if before == nil && after == nil {
				continue
			}
			changes = append(changes, fleet.Change{Kind: k.kind, ID: k.id, Before: before, After: after})
			bodies[k] = after
		}
		c := next(b.head, changes...)
		b.must(c)
		for _, ch := range changes {
			k := documentKey{ch.Kind, ch.ID}
			if ch.Action() == "delete" {
				delete(at, k)
				continue
			}
			created := c
			if ch.Action() == "update" {
				created.At = at[k].CreatedAt
			}
			at[k] = record(created, c, k.kind, k.id, ch.After)
		}
		l.commits, l.at = append(l.commits, c), append(l.at, at)
	}
	return l
}

// check compares all results of the store for revisions from oldest on with the recorded history.
func (l lived) check(b *bench, oldest int) {
	for rev := oldest; rev < len(l.at); rev++ {
		for _, kind := range []fleet.Kind{fleet.KindCluster, fleet.KindNamespace} {
			for i := range 9 {
				k := documentKey{kind, fmt.Sprint(i/3, i%3)}
				want, exists := l.at[rev][k]
				got, found, err := b.Store.At(b.ctx(), k.kind, k.id, fleet.Revision(rev))
				require.NoError(b.t, err)
				require.Equal(b.t, exists, found, "%v at %d", k, rev)
				require.Equal(b.t, want, got, "%v at %d", k, rev)
			}
		}
	}
	for rev := max(oldest-1, 0); rev < len(l.at); rev++ {
		l.checkPast(b, rev)
	}
	var want []fleet.Commit
	for i := len(l.commits) - 1; i >= oldest-1; i-- {
		want = append(want, l.commits[i])
	}
	require.Equal(b.t, want, b.history(store.HistoryQuery{Limit: 1000}))
	summaries, err := b.Store.Summaries(b.ctx(), store.HistoryQuery{Limit: 1000}, 2)
	require.NoError(b.t, err)
	require.Len(b.t, summaries, len(want))
	for i, c := range want {
		sum := store.Summary{Commit: c, Count: len(c.Changes)}
		sum.Changes = nil
		for _, ch := range c.Changes[:min(2, len(c.Changes))] {
			sum.First = append(sum.First, store.ChangedName{Kind: ch.Kind, ID: ch.ID, Action: ch.Action()})
		}
		require.Equal(b.t, sum, summaries[i])
	}
	l.checkDocumentLog(b, oldest)
	for i, c := range l.commits[:len(l.commits)-1] {
		commits, err := b.Store.Since(b.ctx(), c.Head(), 1000)
		if i+1 < oldest {
			require.ErrorIs(b.t, err, store.ErrCompacted, "since %d", c.Revision)
			continue
		}
		require.NoError(b.t, err)
		require.Equal(b.t, l.commits[i+1:], commits)
	}
}

// checkPast compares Past with the commits made since.
func (l lived) checkPast(b *bench, rev int) {
	want := fleet.Documents{}
	for i := len(l.commits) - 1; i >= rev; i-- {
		for _, ch := range l.commits[i].Changes {
			want.Set(ch.Kind, ch.ID, ch.Before)
		}
	}
	q := fleet.PastQuery{At: fleet.Revision(rev), UpTo: b.head.Revision}
	got, err := b.Store.Past(b.ctx(), q)
	require.NoError(b.t, err)
	require.Equal(b.t, want, got, "at %d", rev)
	q.Kind, q.ID = fleet.KindCluster, "00"
	one := fleet.Documents{}
	if body, changed := want[q.Kind][q.ID]; changed {
		one.Set(q.Kind, q.ID, body)
	}
	got, err = b.Store.Past(b.ctx(), q)
	require.NoError(b.t, err)
	require.Equal(b.t, one, got, "at %d", rev)
}

// checkDocumentLog holds the log of documents, read in pages, against the commits: of single documents, of kinds, and of all.
func (l lived) checkDocumentLog(b *bench, oldest int) {
	all := []fleet.DocumentName{{Kind: fleet.KindCluster}, {Kind: fleet.KindNamespace, ID: "unknown"}, {Kind: fleet.KindNamespace}}
	many := slices.Clone(all[:2]) // documents are found in another way where there are many
	for i := range 300 {
		many = append(many, fleet.DocumentName{Kind: fleet.KindCluster, ID: fmt.Sprint("unknown-", i)})
	}
	for _, documents := range [][]fleet.DocumentName{
		many,
		{{Kind: fleet.KindCluster, ID: "00"}},
		{{Kind: fleet.KindNamespace, ID: "11"}, {Kind: fleet.KindCluster, ID: "11"}, {Kind: fleet.KindNamespace, ID: "11"}},
		{{Kind: fleet.KindNamespace}},
		all,
		nil,
	} {
		asked := func(ch fleet.Change) bool {
			return slices.Contains(documents, fleet.DocumentName{Kind: ch.Kind, ID: ch.ID}) || slices.Contains(documents, fleet.DocumentName{Kind: ch.Kind})
		}
		var want []fleet.DocumentChange
		for i := len(l.commits) - 1; i >= oldest-1; i-- {
			changes := slices.Clone(l.commits[i].Changes)
			slices.SortFunc(changes, func(a, b fleet.Change) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
			for _, ch := range changes {
				if asked(ch) {
					want = append(want, fleet.DocumentChange{Revision: l.commits[i].Revision, Change: ch})
				}
			}
		}
		for _, limit := range []int{1, 7, 1000} {
			var got []fleet.DocumentChange
			q := fleet.DocumentLogQuery{Documents: documents, Before: b.head.Revision + 1, Limit: limit}
			for {
				log, err := b.Store.DocumentLog(b.ctx(), q)
				require.NoError(b.t, err)
				require.EqualValues(b.t, oldest, log.Oldest)
				if len(log.Changes) == 0 {
					break
				}
				got = append(got, log.Changes...)
				q.Before = got[len(got)-1].Revision
			}
			require.Equal(b.t, want, got)
		}
	}
	for rev := max(oldest-1, 0); rev < len(l.at); rev += 5 {
		whole, err := b.Store.Past(b.ctx(), fleet.PastQuery{At: fleet.Revision(rev), UpTo: b.head.Revision})
		require.NoError(b.t, err)
		some, err := b.Store.Past(b.ctx(), fleet.PastQuery{At: fleet.Revision(rev), UpTo: b.head.Revision, Documents: all})
		require.NoError(b.t, err)
		require.Equal(b.t, whole, some)
	}
}

func testHistoryOfDocuments(t *testing.T, b *bench) {
	l := live(b, 1, 60)
	l.check(b, 1)
	_, found, err := b.Store.At(b.ctx(), fleet.KindNamespace, "00", 0)
	require.False(t, found)
	require.ErrorIs(t, err, store.ErrCompacted, "there is no revision 0")
	rec, found, err := b.Store.At(b.ctx(), fleet.KindNamespace, "unknown", 5)
	require.NoError(t, err)
	require.False(t, found)
	require.Empty(t, rec)
}

// Commits before the oldest revision are removed; that revision and all later ones stay complete.
func testCompact(t *testing.T, b *bench) {
	s := b.Store
	oldest, removed, err := s.Compact(b.ctx(), time.Now())
	require.NoError(t, err, "an empty log")
	require.Zero(t, removed)
	require.LessOrEqual(t, oldest, fleet.Revision(1))

	l := live(b, 2, 60)
	documents := b.load()
	oldest, removed, err = s.Compact(b.ctx(), l.commits[0].At)
	require.NoError(t, err)
	require.Zero(t, removed)
	require.EqualValues(t, 1, oldest)
	for _, first := range []int{1, 2, 20, 19, 45, 60} {
		want := max(first, int(oldest)) // removed history does not come back
		oldest, _, err = s.Compact(b.ctx(), l.commits[first-1].At)
		require.NoError(t, err)
		require.EqualValues(t, want, oldest)
		l.check(b, want)
		documents.Oldest = 0
		if want > 1 {
			documents.Oldest = oldest
			documents.Checkpoint = store.CheckpointFor(oldest, nil)
		}
		require.Equal(t, documents, b.load())
		_, _, err = b.Store.At(b.ctx(), fleet.KindNamespace, "00", oldest-1)
		require.ErrorIs(t, err, store.ErrCompacted)
		_, err = b.Store.Changes(b.ctx(), oldest-1, 0, 10)
		require.ErrorIs(t, err, store.ErrCompacted)
		if oldest > 1 {
			_, err = b.Store.Past(b.ctx(), fleet.PastQuery{At: oldest - 2, UpTo: b.head.Revision})
			require.ErrorIs(t, err, store.ErrCompacted)
		}
		_, err = b.Store.Since(b.ctx(), fleet.Head{}, 10)
		require.Equal(t, oldest > 1, err != nil)
	}
	oldest, removed, err = s.Compact(b.ctx(), l.commits[59].At.Add(time.Hour))
	require.NoError(t, err)
	require.EqualValues(t, 60, oldest, "the newest commit stays")
	require.Zero(t, removed)
	l.check(b, 60)
	b.commit(create(fleet.KindNamespace, "more", body(`{}`)))

	b.exec(`DELETE FROM changes WHERE revision >= 60`)
	b.exec(`DELETE FROM head WHERE (SELECT count(*) FROM changes) > 36`) // two for each of 18 documents
	_, err = b.Store.Head(b.ctx())
	require.NoError(t, err, "no more is kept than each document's creation and last change")
}

// A document that is changed all the time leaves one change behind, in however many transactions.
func testCompactLong(t *testing.T, b *bench) {
	s := b.Store
	const many = 700
	created := body(`{}`)
	var all []fleet.Change
	for i := range many {
		all = append(all, create(fleet.KindNamespace, fmt.Sprint(i), created))
	}
	b.commit(all...)
	before := created
	for n := range 12 {
		after := body(`{"n":%d}`, n)
		for i := range many {
			all[i] = update(fleet.KindNamespace, fmt.Sprint(i), before, after)
		}
		b.commit(all...)
		before = after
	}
	oldest, removed, err := s.Compact(b.ctx(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.EqualValues(t, 13, oldest)
	require.EqualValues(t, 11, removed, "the first commit created what there is")
	rec, found, err := b.Store.At(b.ctx(), fleet.KindNamespace, "699", 13)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, string(before), string(rec.Body))
}
