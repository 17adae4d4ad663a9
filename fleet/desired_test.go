package fleet

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireDesired requires that DesiredReceipts of a State with earlier answers equals the inputs of a State without any.
// etags are all ETags that the lists of clusters had, with their receipts.
func requireDesired(t require.TestingT, s *State, etags map[string][]Receipt, what string) {
	fresh, err := NewState(testRules, s.Head(), s.At(), slices.Collect(s.Records()))
	require.NoError(t, err)
	for _, doc := range s.docs[KindCluster] {
		want, err := fresh.DesiredInputs(fresh.docs[KindCluster][doc.ID])
		require.NoError(t, err, what)
		for range 2 { // the second time from the cache
			got, err := s.DesiredReceipts(doc)
			require.NoError(t, err, what)
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, want[i].List, got[i].List, what)
				require.Equal(t, want[i].Receipts, got[i].Receipts, "%s: %s of %s", what, want[i].List, doc.ID)
				for etag, receipts := range etags {
					require.Equal(t, etag == want[i].ETag, got[i].Matches(etag, receipts), "%s: %s of %s", what, want[i].List, doc.ID)
					if etag != want[i].ETag {
						require.False(t, got[i].Matches(etag, nil), "%s: %s of %s", what, want[i].List, doc.ID)
					}
				}
			}
		}
		got, err := s.DesiredReceipts(doc)
		require.NoError(t, err, what)
		for i := range want {
			require.True(t, got[i].Matches(want[i].ETag, nil), "%s: %s of %s", what, want[i].List, doc.ID)
		}
	}
	for _, doc := range s.docs[KindCluster] {
		if doc.ID == "k0" {
			continue // it never polls, so its earlier answers stay
		}
		inputs, err := s.DesiredInputs(doc)
		require.NoError(t, err, what)
		for _, in := range inputs {
			etags[in.ETag] = in.Receipts
		}
	}
}

// TestDesiredReceiptsOfChangedDefinitions: the receipts after a change equal those of the encoded answers, and an answer has
// the ETag that it will be served with, whichever answers are cached.
func TestDesiredReceiptsOfChangedDefinitions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t,
			string(KindComponent), `{"id":"c0","component_path":"p","oci_url":"https://charts.example.com"}`,
			string(KindComponent), `{"id":"c1","component_path":"p","oci_url":"oci://registry.example.com/x","depends_on":["c0"],"patches":{"A":"1"}}`,
			string(KindComponent), `{"id":"c2","component_path":"p","oci_url":"https://charts.example.com","depends_on":["c1"]}`,
			string(KindNamespace), `{"id":"n0"}`,
			string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev","platform_components":[{"id":"c0"},{"id":"c1"},{"id":"c2","enabled":false}],"namespaces":[{"id":"n0"}]}`,
			string(KindCluster), `{"id":"k1","cluster_dns":"k1.example.com","environment":"dev","platform_components":[{"id":"c2"},{"id":"c1"}],"namespaces":[{"id":"n0"}]}`)
		etags := map[string][]Receipt{"": nil}
		requireDesired(rt, w.state, etags, "start")
		for range rapid.IntRange(1, 15).Draw(rt, "commits") {
			edit, what := randomEdit(rt)
			if rapid.Bool().Draw(rt, "version") {
				what = fmt.Sprintf(`{"component_version":"%d"}`, rapid.IntRange(0, 1).Draw(rt, "number"))
				edit = patch(KindComponent, rapid.SampledFrom([]string{"c0", "c1", "c2"}).Draw(rt, "component"), what)
			}
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			err := edit(tx)
			var res Result
			if err == nil {
				res, err = tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
			}
			if err != nil {
				var e *Error
				require.True(rt, errors.As(err, &e), "%s: %v", what, err)
				continue
			}
			w.state = res.State
			if rapid.Bool().Draw(rt, "polls") {
				requireDesired(rt, w.state, etags, what)
			}
		}
	})
}

// TestDesiredReceiptsNeedNoAnswer: after a change of a component that all clusters have, no answer is encoded.
func TestDesiredReceiptsNeedNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.state = loadShared(t, sharedFleet(t, 3, 0))
	doc := func() *Document { return w.state.docs[KindCluster]["k00001"] }
	before, err := w.state.DesiredInputs(doc())
	require.NoError(t, err)
	res, err := w.try(patch(KindComponent, "c3", `{"component_version":"9.0.0"}`))
	require.NoError(t, err)
	w.state = res.State
	got, err := w.state.DesiredReceipts(doc())
	require.NoError(t, err)
	require.Empty(t, got[0].ETag)
	require.False(t, got[0].Matches(before[0].ETag, nil))
	require.False(t, got[0].Matches("another", before[0].Receipts))
	require.True(t, got[0].Matches("another", got[0].Receipts), "as another process encoded it")
	require.Nil(t, w.state.cachedAnswer(w.state.Effective(doc()), w.state.kinds.descriptor(KindComponent)))
	for i := range got[0].Receipts {
		require.Equal(t, i != 3, got[0].Receipts[i] == before[0].Receipts[i])
	}
	require.Equal(t, before[1].ETag, got[1].ETag, "another list has not changed")
	require.False(t, got[0].Matches("another", nil), "which encodes the answer")
	require.NotNil(t, w.state.cachedAnswer(w.state.Effective(doc()), w.state.kinds.descriptor(KindComponent)))
}
