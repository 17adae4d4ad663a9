package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// fakeStore is a Store in memory, shared by several Trackers.
type fakeStore struct {
	mu   sync.Mutex
	rows map[string]Row
	at   map[string]time.Time
	err  error
	puts int
	// tried counts the calls of Put, and given the rows that they stored.
	tried, given int
	// failing is the number of further calls of Put that fail, with putErr.
	failing int
	putErr  error
	// beforePut runs before the next Put.
	beforePut func()
	off       time.Duration // of its clock
}

func newFakeStore() *fakeStore { return &fakeStore{rows: map[string]Row{}, at: map[string]time.Time{}} }

func (s *fakeStore) clear() { s.mu.Lock(); defer s.mu.Unlock(); clear(s.rows); clear(s.at) }

// content returns the rows of clusters.
func (s *fakeStore) content() map[string]Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.rows)
	maps.DeleteFunc(out, func(_ string, r Row) bool { return r.Cluster == storeID })
	return out
}

func (s *fakeStore) failPuts(n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing, s.putErr = n, err
}

// set moves its clock ahead or back.
func (s *fakeStore) set(off time.Duration) { s.mu.Lock(); defer s.mu.Unlock(); s.off = off }

func (s *fakeStore) fail(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.err = err }

func (s *fakeStore) Put(_ context.Context, rows []Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	if s.err != nil {
		return s.err
	}
	if s.failing > 0 {
		s.failing--
		return s.putErr
	}
	if s.beforePut != nil {
		s.beforePut()
		s.beforePut = nil
	}
	s.puts++
	s.given += len(rows)
	if len(rows) > maxBatch+1 {
		return errors.New("too many at once")
	}
	for _, r := range rows {
		key := r.Cluster + " " + r.Subject
		if old, there := s.rows[key]; !there || r.ObservedAt.After(old.ObservedAt) || r.ObservedAt.Equal(old.ObservedAt) && r.Body != old.Body {
			s.rows[key], s.at[key] = r, time.Now().Add(s.off)
		}
	}
	return nil
}

func (s *fakeStore) Since(_ context.Context, at time.Time, subjects []string, visit func(Row)) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && !errors.Is(s.err, ErrDenied) {
		return at, s.err
	}
	for key, r := range s.rows {
		if !s.at[key].Before(at) || r.Cluster == storeID && slices.Contains(subjects, r.Subject) {
			visit(r)
		}
	}
	return time.Now().Add(s.off), nil
}

func (s *fakeStore) Prune(_ context.Context, clusters []string, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[string]int{}
	newest := slices.SortedFunc(maps.Keys(s.rows), func(a, b string) int { return s.at[b].Compare(s.at[a]) })
	for _, key := range newest {
		id, _, _ := strings.Cut(key, " ")
		if kept[id]++; kept[id] > most || !slices.Contains(clusters, id) {
			delete(s.rows, key)
			delete(s.at, key)
		}
	}
	return nil
}

func (s *fakeStore) Close() error { return nil }

func rcpt(n byte) fleet.Receipt { return fleet.Receipt{n} }

// desiredLists returns a list of components with these receipts; 0 is a disabled component.
func desiredLists(etag string, receipts ...byte) []fleet.DesiredInputs {
	list := fleet.DesiredInputs{List: "components", ETag: etag}
	for _, n := range receipts {
		list.Receipts = append(list.Receipts, rcpt(n))
	}
	list.Inputs = func(yield func(string, bool) bool) {
		for i, n := range receipts {
			if !yield(fmt.Sprint("c", i), n != 0) {
				return
			}
		}
	}
	return []fleet.DesiredInputs{list}
}

func (t *Tracker) stateOf(id string, now time.Time, a []fleet.DesiredInputs) State {
	return t.Evaluate(Query{Cluster: id, Desired: a, Now: now, OfflineAfter: OfflineAfter}).State
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestLostStoreResynced: any process that knows the lost rows writes them, and no others.
func TestLostStoreResynced(t *testing.T) {
	t.Parallel()
	want := desiredLists(`"1"`, 1)
	store := newFakeStore()
	a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
	exchange := func() {
		for range 3 {
			a.Sync(t.Context(), noon)
			b.Sync(t.Context(), noon)
		}
	}
	a.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"1"`, Agent: "flux-operator/v1"}, noon)
	a.confirm("x", "components", "c0", rcpt(1), noon)
	b.RecordEvent("y", "", "HelmRelease/a/b", Event{Severity: "error", Message: "m", At: noon}, noon)
	exchange()
	before := store.content()
	for range 3 {
		store.clear()
		exchange()
		require.Equal(t, before, store.content())
		c := NewTracker(Config{Store: store})
		c.Sync(t.Context(), noon)
		require.Equal(t, Confirmed, c.stateOf("x", noon, want))
	}
	puts := store.puts
	exchange()
	require.Equal(t, puts, store.puts, "and that is all")

	// A Store that another process has created in its place.
	store.clear()
	NewTracker(Config{Store: store}).Sync(t.Context(), noon.Add(time.Second))
	exchange()
	require.Equal(t, before, store.content())
}

// TestQueueOverflowResynced: rows that were dropped because the queue was full are written later.
func TestQueueOverflowResynced(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	tracker := NewTracker(Config{Store: store})
	tracker.maxPending = 50
	const clusters, inputs = 3, 40
	for c := range clusters {
		for i := range inputs {
			tracker.confirm(fmt.Sprint(c), "components", fmt.Sprint("c", i), rcpt(1), noon)
		}
	}
	require.Positive(t, tracker.Stats().Dropped)
	tracker.Sync(t.Context(), noon)
	tracker.maxPending = pendingLimit
	tracker.Sync(t.Context(), noon)
	require.Len(t, store.content(), clusters*(inputs+2), "that they polled and were seen, too")
}

// TestStoreFailures: while the Store fails, only the observations of other processes are missing.
func TestStoreFailures(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"away": errors.New("gone"), "denied": ErrDenied} {
		store := newFakeStore()
		tracker, other := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
		store.fail(err)
		tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"1"`, Agent: "flux-operator/v1"}, noon)
		tracker.confirm("x", "components", "c0", rcpt(1), noon)
		for range 3 {
			tracker.Sync(t.Context(), noon)
		}
		require.Equal(t, Confirmed, tracker.stateOf("x", noon, desiredLists(`"1"`, 1)), name)
		require.Positive(t, tracker.Stats().Failures)
		store.fail(nil)
		tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"1"`, Agent: "flux-operator/v1"}, noon.Add(seenInterval))
		for range 2 {
			tracker.Sync(t.Context(), noon.Add(seenInterval))
			other.Sync(t.Context(), noon)
		}
		require.Equal(t, Confirmed, other.stateOf("x", noon, desiredLists(`"1"`, 1)), "nothing was lost: %s", name)
	}
}

// TestResyncAfterFailureBounded: when the Store is back, the rows that it refused are written, and the rows that it accepted
// just before, which it may have lost in a crash; older ones are not.
func TestResyncAfterFailureBounded(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	tracker, at := NewTracker(Config{Store: store}), noon
	receive := func(cluster string, inputs int) {
		for i := range inputs {
			tracker.confirm(cluster, "components", fmt.Sprint("c", i), rcpt(1), at)
		}
	}
	exchange := func(times int) {
		for range times {
			at = at.Add(syncInterval)
			tracker.Sync(t.Context(), at)
		}
	}
	receive("long", maxBatch)
	exchange(2 + int(maxWriteDelay/syncInterval))
	receive("just", 2)
	exchange(1)
	before := store.content()

	store.fail(errors.New("gone"))
	receive("while", 2)
	exchange(100) // for a long time
	store.fail(nil)
	store.mu.Lock()
	for key := range store.rows {
		if strings.HasPrefix(key, "just ") {
			delete(store.rows, key)
		}
	}
	store.given = 0
	store.mu.Unlock()
	exchange(3)
	after := store.content()
	for key, row := range before {
		require.Equal(t, row.Body, after[key].Body, key)
	}
	for i := range 2 {
		require.Contains(t, slices.Collect(maps.Keys(after)), fmt.Sprint("while receipt/components/c", i))
	}
	require.Less(t, store.given, 20)
	store.given = 0
	exchange(1)
	require.Zero(t, store.given, "once")
}

func TestRecentWritesBounded(t *testing.T) {
	t.Parallel()
	var r recentWrites
	for range 10 * maxResyncRows / maxBatch {
		r.add(noon, make([]pendingRow, maxBatch))
	}
	require.Equal(t, maxResyncRows, r.rows)
	require.Len(t, r.batches, maxResyncRows/maxBatch)
	r.drop(noon)
	require.Equal(t, maxResyncRows, r.rows)
	r.drop(noon.Add(1))
	require.Zero(t, r.rows)
	require.Empty(t, r.batches)
}

// TestUnchangedRowsNotWritten: most polls and receipts write no row.
func TestUnchangedRowsNotWritten(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	tracker := NewTracker(Config{Store: store})
	for i := range 40 {
		now := noon.Add(time.Duration(i) * time.Minute)
		for n := range 2 * maxBatch {
			id := fmt.Sprint(n)
			tracker.RecordPoll(Poll{Cluster: id, List: "components", ETag: `"1"`, Agent: "flux-operator/v1"}, now)
			tracker.confirm(id, "components", "c0", rcpt(1), now)
		}
		if i == 1 {
			store.puts = 0
		}
		tracker.Sync(t.Context(), now)
	}
	require.LessOrEqual(t, store.puts, 39*2, "that each was seen, in two batches a minute")
	require.Len(t, store.content(), 3*2*maxBatch)
}

// TestMemoryPerClusterBounded: whichever receipts and events a cluster sends, one receipt is stored for each input that is
// desired and was served, and a bounded number of events.
func TestMemoryPerClusterBounded(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	tracker := NewTracker(Config{Store: store})
	now := noon
	want := desiredLists(`"1"`, 1, 2)[0]
	tracker.RecordPoll(Poll{Cluster: "liar", List: want.List, ETag: want.ETag}, now)
	tracker.RecordServed("liar", want, now)
	again := map[time.Duration]int{}
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		for _, r := range []fleet.Receipt{rcpt(1), {9, byte(i >> 8), byte(i)}} { // a served one, and an invented one
			id := fmt.Sprint("invented-", i)
			require.False(t, tracker.RecordRepeatedReceipt("liar", want.List, id, r, now))
			again[tracker.RecordReceipt("liar", want, id, r, now)]++
			again[tracker.RecordReceipt("liar", want, "c1", r, now)]++
			again[tracker.RecordReceipt("liar", desiredLists(`"1"`)[0], id, r, now)]++
		}
		tracker.RecordEvent("liar", "", strings.Repeat("x", 300)+fmt.Sprint(i), Event{Severity: "error", Message: strings.Repeat("m", 100_000), At: now}, now)
	}
	c := tracker.cluster("liar")
	require.Len(t, c.receipts, 1, "that of c1, which names an input that was served")
	require.Equal(t, int64(1), tracker.receiptCount.Load())
	require.Equal(t, map[time.Duration]int{0: 10_000 + 20_000, receiptRetryAfter: 20_000 + 10_000}, again)
	require.LessOrEqual(t, len(c.events), maxEvents)
	require.LessOrEqual(t, c.eventBytes, maxEventBytes)
	require.Positive(t, tracker.Stats().Dropped)
	tracker.Sync(t.Context(), now)
	require.LessOrEqual(t, len(store.content()), 3+maxEvents)
	tracker.confirm("honest", "components", "c0", rcpt(1), now)
	require.Equal(t, Confirmed, tracker.stateOf("honest", now, desiredLists(`"1"`, 1)), "others are not touched")
}

// TestStoredReceiptsDropped: receipts are removed with their inputs, with the cluster, and when it is created again.
func TestStoredReceiptsDropped(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(Config{})
	at := noon
	give := func(etag string, receipts ...byte) {
		at = at.Add(time.Minute)
		tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: etag}, at)
		tracker.RecordServed("x", desiredLists(etag, receipts...)[0], at)
		for i, r := range receipts {
			require.Zero(t, tracker.receive("x", "components", fmt.Sprint("c", i), rcpt(r), at))
		}
		require.Equal(t, int64(len(receipts)), tracker.receiptCount.Load())
	}
	give("1", 1, 2, 3)
	give("2", 1)
	for range 3 {
		at = at.Add(2 * pruneInterval)
		give(fmt.Sprint(at), 4, 5, 6)
		give(fmt.Sprint(at, "again"), 1)
	}
	require.LessOrEqual(t, len(tracker.cluster("x").invalidations), 3)
	tracker.cluster("x").reset(at.Add(time.Second).UnixMilli())
	require.Zero(t, tracker.receiptCount.Load())
	give("3", 7)
	tracker.Forget(func(string) bool { return true })
	require.Zero(t, tracker.receiptCount.Load())
	tracker.receiptCount.Store(maxReceipts)
	tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: "4"}, at)
	tracker.RecordServed("x", desiredLists("4", 1)[0], at)
	tracker.receive("x", "components", "c0", rcpt(1), at)
	require.Equal(t, int64(maxReceipts), tracker.receiptCount.Load())
	require.Empty(t, tracker.cluster("x").receipts, "the limit for all clusters")
}

// TestPollOfRecreatedCluster: the answer that a deleted cluster of the same id was served does not count.
func TestPollOfRecreatedCluster(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(Config{})
	list := desiredLists("1", 1)[0]
	poll := Poll{Cluster: "x", Created: noon, List: list.List, ETag: list.ETag}
	require.True(t, tracker.RecordPoll(poll, noon))
	tracker.RecordServed("x", list, noon)
	require.False(t, tracker.RecordPoll(poll, noon.Add(time.Second)))
	poll.Created = noon.Add(time.Minute)
	require.True(t, tracker.RecordPoll(poll, noon.Add(time.Minute)))
}

func TestRowsOfOtherVersionsIgnored(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	for _, subject := range []string{"", "seen/x", "poll", "poll/", "poll/a/b", "receipt/components", "receipt/components/c0", "event//", "future/a/b", "////"} {
		for _, body := range []string{"", "null", "[]", `{"input":1}`, `{"input":"zz"}`, `{"etag":{}}`, `"x"`} {
			require.NoError(t, store.Put(t.Context(), []Row{{Cluster: "x", Subject: subject, Body: body, ObservedAt: noon}}))
			tracker := NewTracker(Config{Store: store})
			tracker.Sync(t.Context(), noon)
			require.Equal(t, Never, tracker.stateOf("x", noon, desiredLists(`"1"`, 1)))
		}
	}
}

func TestDeletedClustersPruned(t *testing.T) {
	t.Parallel()
	store := newFakeStore()
	known, ok := []string{"a"}, false
	tracker := NewTracker(Config{Store: store, PruneStore: true, Clusters: func() ([]string, bool) { return known, ok }})
	tracker.RecordPoll(Poll{Cluster: "a", List: "components", ETag: `"1"`}, noon)
	tracker.RecordPoll(Poll{Cluster: "b", List: "components", ETag: `"1"`}, noon)
	tracker.Sync(t.Context(), noon)
	require.Len(t, tracker.clusters, 2, "nobody knows yet what there is")
	ok, known = true, nil
	tracker.Sync(t.Context(), noon)
	require.Len(t, tracker.clusters, 2, "an empty fleet may be a mistake")
	known = []string{"a"}
	tracker.Sync(t.Context(), noon)
	require.Len(t, tracker.clusters, 1)
	require.Len(t, store.content(), 2)
}

func TestEventTextSanitized(t *testing.T) {
	t.Parallel()
	tracker := NewTracker(Config{})
	tracker.RecordPoll(Poll{Cluster: "x", List: "components", ETag: `"1"`}, noon)
	e := Event{Input: rcpt(1).String(), Severity: "error", Message: "<script>\x00\xff" + strings.Repeat("ü", 5000), At: noon.AddDate(1, 0, 0)}
	require.True(t, tracker.RecordEvent("x", "components", "c0", e, noon))
	got := tracker.Evaluate(Query{Cluster: "x", Desired: desiredLists(`"1"`, 1), Now: noon, OfflineAfter: OfflineAfter, Details: true}).Inputs[0]
	require.Equal(t, Failed, got.State)
	require.Equal(t, noon, got.Since.UTC(), "a year from now is now")
	require.LessOrEqual(t, len(got.Failure.Message), MaxMessage)
	require.True(t, strings.HasPrefix(got.Failure.Message, "<script>\uFFFDü"))
}
