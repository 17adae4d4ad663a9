package clusterstatus

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// late adds a row that was written a while ago and becomes visible now.
func (s *fakeStore) late(r Row, ago time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Cluster + " " + r.Subject
	s.rows[key], s.at[key] = r, time.Now().Add(-ago)
}

// TestLateRowsRead: rows of a transaction that commits long after it wrote them are read.
func TestLateRowsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, ctx := newFakeStore(), context.WithoutCancel(t.Context())
		tracker := NewTracker(Config{Store: store})
		exchange := func(over time.Duration) {
			for range over / syncInterval {
				time.Sleep(syncInterval)
				tracker.Sync(ctx, time.Now())
			}
		}
		exchange(5 * time.Minute)
		for i, ago := range []time.Duration{0, 3 * time.Second, maxWriteDelay} {
			id := fmt.Sprint("c", i)
			list := inputSet{desiredLists("1", 1)[0].Receipts, true}
			store.late(Row{Cluster: id, Subject: "poll/components", Body: fmt.Sprintf(`{"etag":"1","asked":%q}`, list.encode()), ObservedAt: time.Now()}, ago)
			store.late(Row{Cluster: id, Subject: "receipt/components/c0", Body: `{"input":"0100000000000000"}`, ObservedAt: time.Now()}, ago)
			exchange(lateReadInterval + syncInterval)
			require.EqualValues(t, 1, tracker.Evaluate(Query{Cluster: id, Desired: desiredLists("1", 1), Now: time.Now(), OfflineAfter: OfflineAfter}).Counts[Confirmed.rank()], ago)
		}
	})
}

// TestStoreClockGoesBack: rows that are written by the new time are read.
func TestStoreClockGoesBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{time.Second, lateReadInterval / 2, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store, ctx := newFakeStore(), context.WithoutCancel(t.Context())
			a, b := NewTracker(Config{Store: store}), NewTracker(Config{Store: store})
			exchange := func(n int) {
				for range n {
					time.Sleep(syncInterval / 2)
					a.Sync(ctx, time.Now())
					time.Sleep(syncInterval / 2) // b reads from a time that is later than the clock of the store shows now
					b.Sync(ctx, time.Now())
				}
			}
			exchange(100)
			store.set(-back)
			a.confirm("x", "components", "c0", rcpt(1), time.Now())
			exchange(int(lateReadInterval/syncInterval) + 2)
			require.EqualValues(t, 1, b.Evaluate(Query{Cluster: "x", Desired: desiredLists("1", 1), Now: time.Now(), OfflineAfter: OfflineAfter}).Counts[Confirmed.rank()])
		})
	}
}

// TestSeenWrittenByOneProcess: however many processes a cluster polls, its last poll is written once a minute, and all know
// it.
func TestSeenWrittenByOneProcess(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			const processes, clusters = 4, 30
			store, ctx := newFakeStore(), context.WithoutCancel(t.Context())
			trackers, oldest, n := make([]*Tracker, processes), time.Duration(0), 0
			for i := range trackers {
				trackers[i] = NewTracker(Config{Store: store})
			}
			second := func() {
				for c := range clusters {
					if now := time.Now(); (now.Unix()+int64(c))%int64(every/time.Second) == 0 {
						n++
						trackers[n%processes].RecordPoll(Poll{Cluster: fmt.Sprint("c", c), List: "components", ETag: "1", Agent: "flux-operator/v1"}, now)
					}
				}
				for i, tracker := range trackers {
					if n := (time.Now().UnixMilli()/500 + int64(i)) % 3; n == 0 {
						tracker.Sync(ctx, time.Now())
					}
				}
			}
			minutes := func(n int, visit func()) {
				for range n * 120 {
					time.Sleep(time.Second / 2)
					second()
					visit()
				}
			}
			minutes(3, func() {})
			store.given = 0
			minutes(10, func() {
				for _, tracker := range trackers {
					tracker.EachSeen(func(_ string, at time.Time) { oldest = max(oldest, time.Since(at)) })
				}
			})
			require.LessOrEqual(t, store.given, clusters*10*5/4+processes*40, "rows, and a mark with each batch")
			require.LessOrEqual(t, oldest, seenInterval+seenCheckInterval+3*syncInterval, "known to all")
		})
	}
}
