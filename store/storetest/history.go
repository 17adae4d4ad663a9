package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func testHistory(t *testing.T, b *bench) {
	by := func(actor string, changes ...fleet.Change) fleet.Commit {
		c := next(b.head, changes...)
		c.Actor = actor
		b.must(c)
		return c
	}
	doc := body(`{}`)
	c1 := by("ann", create(fleet.KindNamespace, "a", doc))
	c2 := by("bob", create(fleet.KindCluster, "a", doc), create(fleet.KindNamespace, "b", doc))
	c3 := by("ann", update(fleet.KindNamespace, "a", doc, body(`{"n":1}`)), create(fleet.KindCluster, "c", doc))
	c4 := by("bob", remove(fleet.KindNamespace, "a", body(`{"n":1}`)))

	for name, tc := range map[string]struct {
		q    store.HistoryQuery
		want []fleet.Commit
	}{
		"everything":           {store.HistoryQuery{}, []fleet.Commit{c4, c3, c2, c1}},
		"among":                {store.HistoryQuery{Among: []fleet.Revision{c3.Revision, c1.Revision, 1000}}, []fleet.Commit{c3, c1}},
		"among, of a kind":     {store.HistoryQuery{Among: []fleet.Revision{c3.Revision, c4.Revision}, Kind: fleet.KindCluster}, []fleet.Commit{c3}},
		"kind":                 {store.HistoryQuery{Kind: fleet.KindCluster}, []fleet.Commit{c3, c2}},
		"kind and id":          {store.HistoryQuery{Kind: fleet.KindNamespace, ID: "a"}, []fleet.Commit{c4, c3, c1}},
		"id of another kind":   {store.HistoryQuery{Kind: fleet.KindCluster, ID: "a"}, []fleet.Commit{c2}},
		"unknown id":           {store.HistoryQuery{Kind: fleet.KindCluster, ID: "%"}, nil},
		"unknown kind":         {store.HistoryQuery{Kind: "nothing"}, nil},
		"actor":                {store.HistoryQuery{Actor: "ann"}, []fleet.Commit{c3, c1}},
		"since is inclusive":   {store.HistoryQuery{Since: c3.At}, []fleet.Commit{c4, c3}},
		"until is exclusive":   {store.HistoryQuery{Until: c3.At}, []fleet.Commit{c2, c1}},
		"to the microsecond":   {store.HistoryQuery{Since: c2.At.Add(time.Microsecond), Until: c3.At.Add(time.Microsecond)}, []fleet.Commit{c3}},
		"in another time zone": {store.HistoryQuery{Since: c3.At.In(time.FixedZone("", 3600))}, []fleet.Commit{c4, c3}},
		"before":               {store.HistoryQuery{Before: 3}, []fleet.Commit{c2, c1}},
		"before the first":     {store.HistoryQuery{Before: 1}, nil},
		"limit":                {store.HistoryQuery{Limit: 2}, []fleet.Commit{c4, c3}},
		"everything at once": {store.HistoryQuery{
			Kind: fleet.KindNamespace, ID: "a", Actor: "ann", Since: c1.At, Until: c4.At, Before: 3, Limit: 1,
		}, []fleet.Commit{c1}},
	} {
		if tc.q.Limit == 0 {
			tc.q.Limit = 1000
		}
		require.Equal(t, tc.want, nilIfEmpty(b.history(tc.q)), name)
	}
}

// The changes of one revision come in pages, which end early where documents are large.
func testChanges(t *testing.T, b *bench) {
	var all []fleet.Change
	for i := range 25 {
		all = append(all, create(fleet.KindNamespace, fmt.Sprintf("%02d", i), body(`{"n":%d}`, i)))
	}
	b.commit(all...)
	large := body(`{"n":%q}`, strings.Repeat("x", 7<<20))
	b.commit(create(fleet.KindCluster, "a", large), create(fleet.KindCluster, "b", large), create(fleet.KindCluster, "c", large))
	b.commit(remove(fleet.KindNamespace, "00", all[0].After), update(fleet.KindNamespace, "01", all[1].After, body(`{}`)))
	b.commit()
	changes := func(rev fleet.Revision, offset, limit int) []fleet.Change {
		got, err := b.Store.Changes(b.ctx(), rev, offset, limit)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, all, changes(1, 0, 1000))
	require.Equal(t, all[:10], changes(1, 0, 10))
	require.Equal(t, all[20:], changes(1, 20, 10))
	require.Empty(t, changes(1, 25, 10))
	require.Empty(t, changes(1, 1<<40, 10))
	require.Len(t, changes(2, 0, 1000), 2, "the third would be too much at once")
	require.Equal(t, "c", changes(2, 2, 1000)[0].ID)
	documents := []fleet.DocumentName{{Kind: fleet.KindCluster}, {Kind: fleet.KindNamespace}}
	for _, unknown := range []int{0, 300} { // documents are found in another way where there are many
		for i := range unknown {
			documents = append(documents, fleet.DocumentName{Kind: fleet.KindNamespace, ID: fmt.Sprint("unknown-", i)})
		}
		log, err := b.Store.DocumentLog(b.ctx(), fleet.DocumentLogQuery{Documents: documents, Before: 3, Limit: 1000})
		require.NoError(t, err)
		require.Len(t, log.Changes, 3, "all of revision 2, and then the page is full")
	}
	require.Equal(t, []fleet.Change{remove(fleet.KindNamespace, "00", all[0].After), update(fleet.KindNamespace, "01", all[1].After, body(`{}`))}, changes(3, 0, 10))
	require.Empty(t, changes(4, 0, 10), "it changes nothing")
	require.Empty(t, changes(5, 0, 10), "there is none")
}

// The changes of many documents are found in another way than those of few, in the same pages.
func testDocumentLogOfMany(t *testing.T, b *bench) {
	few := make([]fleet.DocumentName, 20)
	bodies := make([]json.RawMessage, len(few))
	for i := range few {
		few[i] = fleet.DocumentName{Kind: fleet.KindNamespace, ID: fmt.Sprint(i)}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 25 {
		changes := []fleet.Change{create(fleet.KindCluster, fmt.Sprint(n), body(`{}`))} // of no queried document
		for _, i := range random.Perm(len(few))[:random.IntN(4)] {
			before, after := bodies[i], body(`{"n":%d}`, n)
			if before == nil {
				changes = append(changes, create(fleet.KindNamespace, few[i].ID, after))
			} else {
				changes = append(changes, update(fleet.KindNamespace, few[i].ID, before, after))
			}
			bodies[i] = after
		}
		b.commit(changes...)
	}
	many := slices.Clone(few)
	for i := range 300 {
		many = append(many, fleet.DocumentName{Kind: fleet.KindNamespace, ID: fmt.Sprint("unknown-", i)})
	}
	for _, limit := range []int{1, 2, 1000} {
		for before := fleet.Revision(26); ; {
			want, err := b.Store.DocumentLog(b.ctx(), fleet.DocumentLogQuery{Documents: few, Before: before, Limit: limit})
			require.NoError(t, err)
			got, err := b.Store.DocumentLog(b.ctx(), fleet.DocumentLogQuery{Documents: many, Before: before, Limit: limit})
			require.NoError(t, err)
			require.Equal(t, want, got, "limit %d, before %d", limit, before)
			if len(want.Changes) == 0 {
				break
			}
			before = want.Changes[len(want.Changes)-1].Revision
		}
	}
}

func nilIfEmpty(commits []fleet.Commit) []fleet.Commit {
	if len(commits) == 0 {
		return nil
	}
	return commits
}

func testHistoryPages(t *testing.T, b *bench) {
	var want []fleet.Commit
	before := body(`{"n":0}`)
	b.commit(create(fleet.KindNamespace, "a", before), create(fleet.KindNamespace, "b", before))
	for i := range 20 {
		after := body(`{"n":%d}`, i+1)
		c := b.commit(update(fleet.KindNamespace, "a", before, after))
		b.commit(create(fleet.KindCluster, fmt.Sprint(i), before))
		want, before = append([]fleet.Commit{c}, want...), after
	}
	q := store.HistoryQuery{Kind: fleet.KindNamespace, ID: "a", Limit: 3}
	var got []fleet.Commit
	for page := b.history(q); len(page) > 0; page = b.history(q) {
		require.LessOrEqual(t, len(page), 3)
		got = append(got, page...)
		q.Before = page[len(page)-1].Revision
	}
	require.Equal(t, want, got[:20])
	require.Len(t, got, 21)
	require.Len(t, got[20].Changes, 2, "a commit comes with all its changes")
}

func testHistoryRefused(t *testing.T, b *bench) {
	for name, q := range map[string]store.HistoryQuery{
		"no limit":          {},
		"a negative limit":  {Limit: -1},
		"too high a limit":  {Limit: 1001},
		"id without a kind": {ID: "a", Limit: 1},
	} {
		_, err := b.Store.History(b.ctx(), q)
		require.Error(t, err, name)
	}
	for _, limit := range []int{-1, 0, 1001} {
		_, err := b.Store.DocumentLog(b.ctx(), fleet.DocumentLogQuery{Documents: []fleet.DocumentName{{Kind: fleet.KindCluster}}, Before: 5, Limit: limit})
		require.Error(t, err, limit)
	}
}
