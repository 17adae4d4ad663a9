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

// shared is a table in memory, as several processes would share it.
type fakeStore struct {
	mu   sync.Mutex
	rows map[string]Row
	at   map[string]time.Time
	err  error
	puts int
	// tried is how often somebody put something, and given how many rows of that were taken.
	tried, given int
	// failing is how many more puts fail, with putErr.
	failing int
	putErr  error
	// beforePut is what happens before the next one.
	beforePut func()
	off       time.Duration // of its clock
}

func newFakeStore() *fakeStore { return &fakeStore{rows: map[string]Row{}, at: map[string]time.Time{}} }

func (s *fakeStore) clear() { s.mu.Lock(); defer s.mu.Unlock(); clear(s.rows); clear(s.at) }

// content is what is there of clusters.
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

// set has its clock go ahead, or back.
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

// asked is a cluster that is asked for some components, by their receipts; 0 is one that is off.
func desiredLists(etag string, receipts ...byte) []fleet.Asked {
	list := fleet.Asked{List: "components", ETag: etag}
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
	return []fleet.Asked{list}
}

func (t *Tracker) stateOf(id string, now time.Time, a []fleet.Asked) State {
	return t.Evaluate(Query{Cluster: id, Desired: a, Now: now, OfflineAfter: OfflineAfter}).State
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestLostStoreResynced, by whichever process knows something, and with no more than it has lost.
func TestLostStoreResynced(t *testing.T) {
	t.Parallel()
	want := desiredLists(`"1"`, 1)
	table := newFakeStore()
	a, b := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
	exchange := func() {
		for range 3 {
			a.Sync(t.Context(), noon)
			b.Sync(t.Context(), noon)
		}
	}
	a.RecordPoll("x", "components", `"1"`, "flux-operator/v1", noon)
	a.confirm("x", "components", "c0", rcpt(1), noon)
	b.RecordEvent("y", "", "HelmRelease/a/b", Event{Severity: "error", Message: "m", At: noon}, noon)
	exchange()
	before := table.content()
	for range 3 {
		table.clear()
		exchange()
		require.Equal(t, before, table.content())
		c := NewTracker(Config{Store: table})
		c.Sync(t.Context(), noon)
		require.Equal(t, Confirmed, c.stateOf("x", noon, want))
	}
	puts := table.puts
	exchange()
	require.Equal(t, puts, table.puts, "and that is all")

	// One in its place that another process has made.
	table.clear()
	NewTracker(Config{Store: table}).Sync(t.Context(), noon.Add(time.Second))
	exchange()
	require.Equal(t, before, table.content())
}

// TestQueueOverflowResynced: what was dropped because too much waited to be written is written later.
func TestQueueOverflowResynced(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	book := NewTracker(Config{Store: table})
	book.maxPending = 50
	const clusters, inputs = 3, 40
	for c := range clusters {
		for i := range inputs {
			book.confirm(fmt.Sprint(c), "components", fmt.Sprint("c", i), rcpt(1), noon)
		}
	}
	require.Positive(t, book.Stats().Dropped)
	book.Sync(t.Context(), noon)
	book.maxPending = pendingLimit
	book.Sync(t.Context(), noon)
	require.Len(t, table.content(), clusters*(inputs+2), "that they polled and were seen, too")
}

// TestStoreFailures costs nothing but what others would know.
func TestStoreFailures(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"away": errors.New("gone"), "denied": ErrDenied} {
		table := newFakeStore()
		book, other := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
		table.fail(err)
		book.RecordPoll("x", "components", `"1"`, "flux-operator/v1", noon)
		book.confirm("x", "components", "c0", rcpt(1), noon)
		for range 3 {
			book.Sync(t.Context(), noon)
		}
		require.Equal(t, Confirmed, book.stateOf("x", noon, desiredLists(`"1"`, 1)), name)
		require.Positive(t, book.Stats().Failures)
		table.fail(nil)
		book.RecordPoll("x", "components", `"1"`, "flux-operator/v1", noon.Add(seenInterval))
		for range 2 {
			book.Sync(t.Context(), noon.Add(seenInterval))
			other.Sync(t.Context(), noon)
		}
		require.Equal(t, Confirmed, other.stateOf("x", noon, desiredLists(`"1"`, 1)), "nothing was lost: %s", name)
	}
}

// TestResyncAfterFailureBounded: when the table is back, it is told what it did not take, and what it took just before, which it
// may have lost with a crash; not what it has had for long.
func TestResyncAfterFailureBounded(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	book, at := NewTracker(Config{Store: table}), noon
	receive := func(cluster string, inputs int) {
		for i := range inputs {
			book.confirm(cluster, "components", fmt.Sprint("c", i), rcpt(1), at)
		}
	}
	exchange := func(times int) {
		for range times {
			at = at.Add(syncInterval)
			book.Sync(t.Context(), at)
		}
	}
	receive("long", maxBatch)
	exchange(2 + int(maxWriteDelay/syncInterval))
	receive("just", 2)
	exchange(1)
	before := table.content()

	table.fail(errors.New("gone"))
	receive("while", 2)
	exchange(100) // however long that takes
	table.fail(nil)
	table.mu.Lock()
	for key := range table.rows {
		if strings.HasPrefix(key, "just ") {
			delete(table.rows, key)
		}
	}
	table.given = 0
	table.mu.Unlock()
	exchange(3)
	after := table.content()
	for key, row := range before {
		require.Equal(t, row.Body, after[key].Body, key)
	}
	for i := range 2 {
		require.Contains(t, slices.Collect(maps.Keys(after)), fmt.Sprint("while receipt/components/c", i))
	}
	require.Less(t, table.given, 20)
	table.given = 0
	exchange(1)
	require.Zero(t, table.given, "once")
}

// TestRecentWritesBounded, however much is said between two failures.
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

// TestUnchangedRowsNotWritten: the table is not written to for every poll and every receipt.
func TestUnchangedRowsNotWritten(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	book := NewTracker(Config{Store: table})
	for i := range 40 {
		now := noon.Add(time.Duration(i) * time.Minute)
		for n := range 2 * maxBatch {
			id := fmt.Sprint(n)
			book.RecordPoll(id, "components", `"1"`, "flux-operator/v1", now)
			book.confirm(id, "components", "c0", rcpt(1), now)
		}
		if i == 1 {
			table.puts = 0
		}
		book.Sync(t.Context(), now)
	}
	require.LessOrEqual(t, table.puts, 39*2, "that each was seen, in two batches a minute")
	require.Len(t, table.content(), 3*2*maxBatch)
}

// TestMemoryPerClusterBounded: whatever a cluster sends, one receipt is stored for each input that is desired and was served, and a
// bounded number of events.
func TestMemoryPerClusterBounded(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	book := NewTracker(Config{Store: table})
	now := noon
	want := desiredLists(`"1"`, 1, 2)[0]
	book.RecordPoll("liar", want.List, want.ETag, "", now)
	book.RecordServed("liar", want, now)
	again := map[time.Duration]int{}
	for i := range 10_000 {
		now = now.Add(time.Millisecond)
		for _, r := range []fleet.Receipt{rcpt(1), {9, byte(i >> 8), byte(i)}} { // one that was served, and an invented one
			id := fmt.Sprint("invented-", i)
			require.False(t, book.RecordRepeatedReceipt("liar", want.List, id, r, now))
			again[book.RecordReceipt("liar", want, id, r, now)]++
			again[book.RecordReceipt("liar", want, "c1", r, now)]++
			again[book.RecordReceipt("liar", desiredLists(`"1"`)[0], id, r, now)]++
		}
		book.RecordEvent("liar", "", strings.Repeat("x", 300)+fmt.Sprint(i), Event{Severity: "error", Message: strings.Repeat("m", 100_000), At: now}, now)
	}
	c := book.cluster("liar")
	require.Len(t, c.receipts, 1, "that of c1, which names an input that was served")
	require.Equal(t, int64(1), book.receiptCount.Load())
	require.Equal(t, map[time.Duration]int{0: 10_000 + 20_000, receiptRetryAfter: 20_000 + 10_000}, again)
	require.LessOrEqual(t, len(c.events), maxEvents)
	require.LessOrEqual(t, c.eventBytes, maxEventBytes)
	require.Positive(t, book.Stats().Dropped)
	book.Sync(t.Context(), now)
	require.LessOrEqual(t, len(table.content()), 3+maxEvents)
	book.confirm("honest", "components", "c0", rcpt(1), now)
	require.Equal(t, Confirmed, book.stateOf("honest", now, desiredLists(`"1"`, 1)), "others are not touched")
}

// TestStoredReceiptsDropped with the inputs that they are of, with the cluster, and when it is made again.
func TestStoredReceiptsDropped(t *testing.T) {
	t.Parallel()
	book := NewTracker(Config{})
	at := noon
	give := func(etag string, receipts ...byte) {
		at = at.Add(time.Minute)
		book.RecordPoll("x", "components", etag, "", at)
		book.RecordServed("x", desiredLists(etag, receipts...)[0], at)
		for i, r := range receipts {
			require.Zero(t, book.receive("x", "components", fmt.Sprint("c", i), rcpt(r), at))
		}
		require.Equal(t, int64(len(receipts)), book.receiptCount.Load())
	}
	give("1", 1, 2, 3)
	give("2", 1)
	for range 3 {
		at = at.Add(2 * pruneInterval)
		give(fmt.Sprint(at), 4, 5, 6)
		give(fmt.Sprint(at, "again"), 1)
	}
	require.LessOrEqual(t, len(book.cluster("x").invalidations), 3)
	book.ResetCluster("x", at.Add(time.Second))
	require.Zero(t, book.receiptCount.Load())
	give("3", 7)
	book.Forget(func(string) bool { return true })
	require.Zero(t, book.receiptCount.Load())
	book.receiptCount.Store(maxReceipts)
	book.RecordPoll("x", "components", "4", "", at)
	book.RecordServed("x", desiredLists("4", 1)[0], at)
	book.receive("x", "components", "c0", rcpt(1), at)
	require.Equal(t, int64(maxReceipts), book.receiptCount.Load())
	require.Empty(t, book.cluster("x").receipts, "the limit for all clusters")
}

// TestRowsOfOtherVersionsIgnored, or of somebody's hand, are left out.
func TestRowsOfOtherVersionsIgnored(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	for _, subject := range []string{"", "seen/x", "poll", "poll/", "poll/a/b", "receipt/components", "receipt/components/c0", "event//", "future/a/b", "////"} {
		for _, body := range []string{"", "null", "[]", `{"input":1}`, `{"input":"zz"}`, `{"etag":{}}`, `"x"`} {
			require.NoError(t, table.Put(t.Context(), []Row{{Cluster: "x", Subject: subject, Body: body, ObservedAt: noon}}))
			book := NewTracker(Config{Store: table})
			book.Sync(t.Context(), noon)
			require.Equal(t, Never, book.stateOf("x", noon, desiredLists(`"1"`, 1)))
		}
	}
}

func TestDeletedClustersPruned(t *testing.T) {
	t.Parallel()
	table := newFakeStore()
	known, ok := []string{"a"}, false
	book := NewTracker(Config{Store: table, PruneStore: true, Clusters: func() ([]string, bool) { return known, ok }})
	book.RecordPoll("a", "components", `"1"`, "", noon)
	book.RecordPoll("b", "components", `"1"`, "", noon)
	book.Sync(t.Context(), noon)
	require.Len(t, book.clusters, 2, "nobody knows yet what there is")
	ok, known = true, nil
	book.Sync(t.Context(), noon)
	require.Len(t, book.clusters, 2, "an empty fleet may be a mistake")
	known = []string{"a"}
	book.Sync(t.Context(), noon)
	require.Len(t, book.clusters, 1)
	require.Len(t, table.content(), 2)
}

func TestEventTextSanitized(t *testing.T) {
	t.Parallel()
	book := NewTracker(Config{})
	book.RecordPoll("x", "components", `"1"`, "", noon)
	e := Event{Input: rcpt(1).String(), Severity: "error", Message: "<script>\x00\xff" + strings.Repeat("ü", 5000), At: noon.AddDate(1, 0, 0)}
	require.True(t, book.RecordEvent("x", "components", "c0", e, noon))
	got := book.Evaluate(Query{Cluster: "x", Desired: desiredLists(`"1"`, 1), Now: noon, OfflineAfter: OfflineAfter, Details: true}).Inputs[0]
	require.Equal(t, Failed, got.State)
	require.Equal(t, noon, got.Since.UTC(), "a year from now is now")
	require.LessOrEqual(t, len(got.Failure.Message), MaxMessage)
	require.True(t, strings.HasPrefix(got.Failure.Message, "<script>\uFFFDü"))
}
