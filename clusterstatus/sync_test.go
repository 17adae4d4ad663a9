package clusterstatus

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// late has a row in the table that was written a while ago, and that nobody has seen there until now.
func (s *fakeStore) late(r Row, ago time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Cluster + " " + r.Subject
	s.rows[key], s.at[key] = r, time.Now().Add(-ago)
}

// TestLateRowsRead: a process that takes its time between writing and committing is heard, too.
func TestLateRowsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, ctx := newFakeStore(), context.WithoutCancel(t.Context())
		book := NewTracker(Config{Store: table})
		exchange := func(over time.Duration) {
			for range over / syncInterval {
				time.Sleep(syncInterval)
				book.Sync(ctx, time.Now())
			}
		}
		exchange(5 * time.Minute)
		for i, ago := range []time.Duration{0, 3 * time.Second, maxWriteDelay} {
			id := fmt.Sprint("c", i)
			list := inputSet{desiredLists("1", 1)[0].Receipts, true}
			table.late(Row{Cluster: id, Subject: "poll/components", Body: fmt.Sprintf(`{"etag":"1","asked":%q}`, list.encode()), ObservedAt: time.Now()}, ago)
			table.late(Row{Cluster: id, Subject: "receipt/components/c0", Body: `{"input":"0100000000000000"}`, ObservedAt: time.Now()}, ago)
			exchange(lateReadInterval + syncInterval)
			require.Equal(t, 1, book.Evaluate(Query{Cluster: id, Desired: desiredLists("1", 1), Now: time.Now(), OfflineAfter: OfflineAfter}).Counts[Confirmed], ago)
		}
	})
}

// TestStoreClockGoesBack is read all the same: what is written by its new time is not missed.
func TestStoreClockGoesBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{time.Second, lateReadInterval / 2, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			table, ctx := newFakeStore(), context.WithoutCancel(t.Context())
			a, b := NewTracker(Config{Store: table}), NewTracker(Config{Store: table})
			exchange := func(n int) {
				for range n {
					time.Sleep(syncInterval / 2)
					a.Sync(ctx, time.Now())
					time.Sleep(syncInterval / 2) // b asks for what was written since, by a clock that shows less than when it asked last
					b.Sync(ctx, time.Now())
				}
			}
			exchange(100)
			table.set(-back)
			a.confirm("x", "components", "c0", rcpt(1), time.Now())
			exchange(int(lateReadInterval/syncInterval) + 2)
			require.Equal(t, 1, b.Evaluate(Query{Cluster: "x", Desired: desiredLists("1", 1), Now: time.Now(), OfflineAfter: OfflineAfter}).Counts[Confirmed])
		})
	}
}

// TestSeenWrittenByOneProcess: however many of them it polls, the table is told once a minute, and all know it in time.
func TestSeenWrittenByOneProcess(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			const processes, clusters = 4, 30
			table, ctx := newFakeStore(), context.WithoutCancel(t.Context())
			books, oldest, n := make([]*Tracker, processes), time.Duration(0), 0
			for i := range books {
				books[i] = NewTracker(Config{Store: table})
			}
			second := func() {
				for c := range clusters {
					if now := time.Now(); (now.Unix()+int64(c))%int64(every/time.Second) == 0 {
						n++
						books[n%processes].RecordPoll(fmt.Sprint("c", c), "components", "1", "flux-operator/v1", now)
					}
				}
				for i, book := range books {
					if n := (time.Now().UnixMilli()/500 + int64(i)) % 3; n == 0 {
						book.Sync(ctx, time.Now())
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
			table.given = 0
			minutes(10, func() {
				for _, book := range books {
					book.EachSeen(func(_ string, at time.Time) { oldest = max(oldest, time.Since(at)) })
				}
			})
			require.LessOrEqual(t, table.given, clusters*10*5/4+processes*40, "rows, and a mark with each batch")
			require.LessOrEqual(t, oldest, seenInterval+seenCheckInterval+3*syncInterval, "known to all")
		})
	}
}
