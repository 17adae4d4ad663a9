package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// touch is an unrelated commit.
func touch(w *world) {
	w.t.Helper()
	w.must(patch(KindNamespace, "team", fmt.Sprintf(`{"labels":{"revision":"%d"}}`, w.state.Revision())))
}

func forgottenNames(s *State) int { return len(s.docs[KindOrphan]) }

// TestOrphanRecordsExpire: otherwise every short-lived cluster with a name of its own would leave one forever.
func TestOrphanRecordsExpire(t *testing.T) {
	t.Parallel()
	const n = 2*maxExpired + 1
	w := fleetOf(t, n)
	w.state.rules.MaxRemovals = n
	start := w.now
	w.must(batch(entries(n-1, `{"op":"delete","kind":"cluster","id":"c%03d","mode":"orphan"}`)))
	w.now = w.now.Add(time.Hour)
	w.must(remove(KindCluster, fmt.Sprintf("c%03d", n-1), DeleteOptions{Orphan: true}))
	require.Equal(t, n, forgottenNames(w.state))

	w.now = start.Add(orphanRetention - time.Microsecond)
	touch(w)
	touch(w)
	require.Equal(t, n, forgottenNames(w.state))
	w.now = start.Add(orphanRetention)
	touch(w)
	require.Equal(t, n, forgottenNames(w.state), "not by one clock alone")
	touch(w)
	require.Equal(t, n-maxExpired, forgottenNames(w.state), "so many at once")
	res, err := w.try(patch(KindNamespace, "team", `{"labels":{"a":"b"}}`))
	require.NoError(t, err)
	require.Len(t, res.Changes(), 1, "nobody is told")
	touch(w)
	touch(w)
	require.Equal(t, 1, forgottenNames(w.state), "the one that was forgotten later")
	w.refusedAt0(create(KindCluster, fmt.Sprintf(`{"id":"heir","cluster_dns":"c%03d.example.com","environment":"dev"}`, n-1)))
	w.now = w.now.Add(time.Hour)
	touch(w)
	touch(w)
	require.Zero(t, forgottenNames(w.state))
}

// refusedAt0 expects a refusal when no removal is allowed without a plan.
func (w *world) refusedAt0(edit func(*Tx) error) {
	w.t.Helper()
	w.state.rules.MaxRemovals = 0
	w.refused(CodeConfirm, edit)
}

// TestWrongClockDoesNotExpireOrphanRecords: it must not open the guard.
func TestWrongClockDoesNotExpireOrphanRecords(t *testing.T) {
	t.Parallel()
	heir := create(KindCluster, `{"id":"heir","cluster_dns":"c000.example.com","environment":"dev"}`)
	orphan := remove(KindCluster, "c000", DeleteOptions{Orphan: true})
	t.Run("the clock that forgets is far behind", func(t *testing.T) {
		t.Parallel()
		w := fleetOf(t, 1)
		right := w.now
		w.now = time.Unix(0, 0).UTC()
		w.must(orphan)
		w.now = right.Add(time.Hour)
		touch(w)
		touch(w)
		w.refusedAt0(heir)
	})
	t.Run("one commit by a clock that is ahead", func(t *testing.T) {
		t.Parallel()
		w := fleetOf(t, 1)
		right := w.now
		w.must(orphan)
		w.now = right.Add(2 * orphanRetention)
		touch(w)
		w.now = right.Add(time.Hour)
		touch(w)
		touch(w)
		w.refusedAt0(heir)
	})
	t.Run("the very commit that registers it again", func(t *testing.T) {
		t.Parallel()
		w := fleetOf(t, 1)
		w.must(orphan)
		w.now = w.now.Add(orphanRetention)
		touch(w) // from now on any commit would end it
		w.refusedAt0(heir)
		ended := 0
		for _, ch := range w.must(confirmedBy(w, heir)).Commit.Changes {
			if ch.Kind == KindOrphan {
				ended++
			}
		}
		require.Equal(t, 1, ended)
		require.Zero(t, forgottenNames(w.state))
	})
}
