package clusterstatus

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// failingFleet is clusters c-0000, c-0001, … with one input each, as one process knows them.
type failingFleet struct {
	*testing.T

	tracker *Tracker
	now     time.Time
	docs    []*fleet.Document
}

func newFailingFleet(t *testing.T, clusters int, store Store) *failingFleet {
	t.Helper()
	f := &failingFleet{T: t, tracker: NewTracker(Config{Store: store}), now: noon}
	for i := range clusters {
		doc := &fleet.Document{Record: fleet.Record{ID: fmt.Sprintf("c-%04d", i), CreatedAt: noon.Add(-time.Hour)}}
		f.docs = append(f.docs, doc)
		f.serve(i, "1", 1)
	}
	return f
}

func (f *failingFleet) sync() { f.tracker.Sync(f.Context(), f.now) }

// serve has a cluster poll a list.
func (f *failingFleet) serve(i int, etag string, receipts ...byte) {
	f.tracker.RecordPoll(Poll{Cluster: f.docs[i].ID, List: "components", ETag: etag, Agent: "flux"}, f.now)
	f.tracker.RecordServed(f.docs[i].ID, desiredLists(etag, receipts...)[0], f.now)
}

// fail has a cluster report a failure of its input.
func (f *failingFleet) fail(i int, receipt byte) {
	f.tracker.RecordEvent(f.docs[i].ID, "components", "c0", Event{Input: rcpt(receipt).String(), Severity: "error", Message: fmt.Sprint("crash on ", i), At: f.now}, f.now)
}

func (f *failingFleet) confirm(i int, receipt byte) {
	f.tracker.confirm(f.docs[i].ID, "components", "c0", rcpt(receipt), f.now)
}

func (f *failingFleet) query() FleetChangeQuery {
	return FleetChangeQuery{Clusters: f.docs, Now: f.now, Cause: func(*fleet.Document, string, *Event) string { return "crash" }}
}

// next returns the change after some time, and announces it.
func (f *failingFleet) next(after time.Duration) (FleetChange, bool) {
	f.now = f.now.Add(after)
	change, ok := f.tracker.FleetChange(f.query())
	if ok {
		f.tracker.Announce(change)
	}
	return change, ok
}

func (f *failingFleet) wantNone(after time.Duration, why string) {
	f.Helper()
	change, ok := f.next(after)
	require.False(f, ok, "%s: %+v", why, change)
}

// TestFleetChangeIsOne: a thousand failures are one change, with the first ten clusters and one cause.
func TestFleetChangeIsOne(t *testing.T) {
	t.Parallel()
	f := newFailingFleet(t, 1200, nil)
	f.wantNone(0, "the first evaluation")
	for i := range 1000 {
		f.fail(i, 1)
	}
	f.wantNone(59*time.Second, "less than a minute")
	change, ok := f.next(time.Second)
	require.True(t, ok)
	require.Equal(t, ClustersFailing, change.Type)
	require.Equal(t, []int{1000, 1000, 0}, []int{change.Failing, change.Began, change.Recovered})
	require.Len(t, change.BeganClusters, 10)
	require.Equal(t, "c-0009", change.BeganClusters[9])
	require.Len(t, change.Causes, 1)
	require.Equal(t, []any{"components", "c0", "crash", 1000, "c-0000", "crash on 0"}, []any{change.Causes[0].List, change.Causes[0].Input, change.Causes[0].Cause, change.Causes[0].Clusters, change.Causes[0].Cluster, change.Causes[0].Example.Message})
	f.wantNone(time.Hour, "nothing changed")

	f.confirm(3, 1)
	f.fail(1100, 1)
	change, ok = f.next(time.Minute)
	require.True(t, ok)
	require.Equal(t, ClustersFailing, change.Type, "one change, also when others recovered")
	require.Equal(t, []int{1000, 1, 1}, []int{change.Failing, change.Began, change.Recovered})
	require.Equal(t, []string{"c-0003"}, change.RecoveredClusters)
	for i := range 1000 {
		f.confirm(i, 1)
	}
	change, ok = f.next(time.Minute)
	require.True(t, ok)
	require.Equal(t, ClustersRecovered, change.Type)
	require.Equal(t, []int{1, 0, 999}, []int{change.Failing, change.Began, change.Recovered})
	require.Empty(t, change.Causes)
}

// TestFleetChangeOfReplacedInputs: a cluster that fails still fails while nothing shows the result of its next input.
func TestFleetChangeOfReplacedInputs(t *testing.T) {
	t.Parallel()
	f := newFailingFleet(t, 3, nil)
	f.wantNone(0, "the first evaluation")
	f.fail(0, 1)
	f.fail(1, 1)
	_, ok := f.next(time.Minute)
	require.True(t, ok)
	f.now = f.now.Add(time.Second)
	for i := range 3 {
		f.serve(i, "2", 2)
	}
	f.wantNone(time.Minute, "the new input has no result yet")
	f.fail(0, 2)
	f.wantNone(time.Minute, "it goes on")
	f.confirm(1, 2)
	change, ok := f.next(time.Minute)
	require.True(t, ok)
	require.Equal(t, []string{"c-0001"}, change.RecoveredClusters)
	f.serve(0, "3")
	f.wantNone(time.Minute, "removed, but it may still be there")
	change, ok = f.next(replacedFailureLifetime)
	require.True(t, ok)
	require.Equal(t, []string{"c-0000"}, change.RecoveredClusters)
	require.Zero(t, change.Failing)
	f.fail(2, 1)
	f.wantNone(time.Minute, "a late failure of an input that the cluster was served before")
}

// TestFleetChangeFlaps: clusters that fail and recover again and again cause one change a minute, or none.
func TestFleetChangeFlaps(t *testing.T) {
	t.Parallel()
	f := newFailingFleet(t, 10, nil)
	f.wantNone(0, "the first evaluation")
	changes := 0
	for step := range 10 * 60 {
		f.now = f.now.Add(time.Second)
		for i := range f.docs {
			if (step+i)%14 == 0 {
				f.fail(i, 1)
			} else if (step+i)%7 == 0 {
				f.confirm(i, 1)
			}
		}
		if _, ok := f.next(0); ok {
			changes++
		}
	}
	require.LessOrEqual(t, changes, 10)
}

// TestFleetChangeAfterRestart: a process that starts again, or another one, announces only what changed since the last announcement; after
// a loss of the Store nothing is announced again.
func TestFleetChangeAfterRestart(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	f := newFailingFleet(t, 20, store)
	_, ok := f.tracker.FleetChange(f.query())
	require.False(t, ok, "the Store was not read")
	f.sync()
	f.wantNone(0, "the first evaluation")
	f.fail(0, 1)
	first, ok := f.next(time.Minute)
	require.True(t, ok)
	require.Equal(t, 1, first.Began)
	f.sync()

	restarted := &failingFleet{T: t, tracker: NewTracker(Config{Store: store}), now: f.now, docs: f.docs}
	restarted.sync()
	restarted.wantNone(time.Minute, "announced before the restart")
	restarted.fail(1, 1)
	restarted.sync()
	f.now = restarted.now
	f.sync()
	a, ok := f.tracker.FleetChange(FleetChangeQuery{Clusters: f.docs, Now: f.now.Add(time.Minute), Cause: f.query().Cause})
	require.True(t, ok)
	b, ok := restarted.next(time.Minute)
	require.True(t, ok)
	require.Equal(t, []string{"c-0001"}, b.BeganClusters)
	require.Equal(t, a.ID, b.ID, "two processes that find a change at once")
	restarted.sync()
	f.now = restarted.now
	f.sync()
	f.wantNone(time.Minute, "announced by the other process")

	store.clear()
	f.sync()
	f.sync()
	require.Contains(t, store.rows, " "+failingSubject, "written again")
	f.wantNone(time.Minute, "announced before the loss")
	store.clear()
	f.now = f.now.Add(time.Minute)
	other := &failingFleet{T: t, tracker: NewTracker(Config{Store: store}), now: f.now, docs: f.docs}
	for i := range f.docs {
		other.serve(i, "1", 1)
	}
	other.fail(0, 1)
	other.sync()
	other.wantNone(0, "without a baseline, nothing is news")
}

// TestFleetChangeUntilAnnounced: a change that could not be sent is returned again, with what happened since. A deleted cluster has not
// recovered.
func TestFleetChangeUntilAnnounced(t *testing.T) {
	t.Parallel()
	f := newFailingFleet(t, 5, nil)
	f.wantNone(0, "the first evaluation")
	for i := range 3 {
		f.fail(i, 1)
		f.now = f.now.Add(time.Minute)
		change, ok := f.tracker.FleetChange(f.query())
		require.True(t, ok)
		require.Equal(t, i+1, change.Began)
		if i == 2 {
			f.tracker.Announce(change)
			f.tracker.Announce(FleetChange{}) // of a caller that found none
		}
	}
	f.docs = f.docs[1:]
	f.wantNone(time.Minute, "deleted")
	created := *f.docs[0]
	created.CreatedAt = f.now
	f.docs[0] = &created
	change, ok := f.next(time.Minute)
	require.True(t, ok)
	require.Equal(t, []string{"c-0001"}, change.RecoveredClusters, "another cluster of the same id has not failed")
}

// TestFleetChangeRows: a row that is unreadable, or from a clock that is ahead, does no harm.
func TestFleetChangeRows(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "null", `{"clusters":"x"}`, `{"clusters":"AAA"}`, `[]`, `{"clusters":1}`} {
		var changes fleetChanges
		changes.merge(Row{Subject: failingSubject, Body: body, ObservedAt: noon}, noon)
		if body != "null" {
			require.Nil(t, changes.announced, body)
		}
	}
	f := newFailingFleet(t, 3, nil)
	f.tracker.fleetChanges.merge(Row{Subject: failingSubject, Body: `{"clusters":""}`, ObservedAt: noon.Add(48 * time.Hour)}, noon)
	f.fail(0, 1)
	_, ok := f.next(time.Minute)
	require.True(t, ok)
}

// BenchmarkFleetChange measures an evaluation of 10,000 clusters that all fail, and of as many that do not.
func BenchmarkFleetChange(b *testing.B) {
	for _, failing := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprint(failing), func(b *testing.B) {
			f := newFailingFleet(&testing.T{}, 10_000, nil)
			for i := range failing {
				f.fail(i, 1)
			}
			f.tracker.fleetChanges.announced = map[clusterDigest]struct{}{}
			for b.Loop() {
				f.now = f.now.Add(time.Minute)
				f.tracker.FleetChange(f.query())
			}
		})
	}
}
