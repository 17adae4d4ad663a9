package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// counting counts the writes to a table.
type counting struct {
	clusterstatus.Store
	mu         sync.Mutex
	puts, rows int
}

func (c *counting) Put(ctx context.Context, rows []clusterstatus.Row) error {
	c.mu.Lock()
	c.puts, c.rows = c.puts+1, c.rows+len(rows)
	c.mu.Unlock()
	return c.Store.Put(ctx, rows)
}

// BenchmarkObservations: 10,000 clusters with 30 inputs on two processes. It measures the writes in a minute without changes,
// and the time until a process sees the receipts of another one.
func BenchmarkObservations(b *testing.B) {
	const clusters, inputs = 10_000, 30
	url := pgtest.URL(b)
	require.NoError(b, Migrate(b.Context(), url))
	open := func() (*clusterstatus.Tracker, *counting) {
		o, err := NewObservations(Config{URL: url})
		require.NoError(b, err)
		table := &counting{Store: o}
		return clusterstatus.NewTracker(clusterstatus.Config{Store: table}), table
	}
	list := func(etag string, receipts ...fleet.Receipt) fleet.DesiredInputs {
		return fleet.DesiredInputs{List: "platform-components", ETag: etag, Receipts: receipts, Inputs: func(yield func(string, bool) bool) {
			for i := range receipts {
				if !yield(fmt.Sprint("c", i), true) {
					return
				}
			}
		}}
	}
	poll := func(book *clusterstatus.Tracker, id string, served fleet.DesiredInputs, now time.Time) {
		if book.RecordPoll(clusterstatus.Poll{Cluster: id, List: served.List, ETag: served.ETag, Agent: "flux-operator/v0.58.1"}, now) {
			book.RecordServed(id, served, now)
		}
	}
	send := func(book *clusterstatus.Tracker, id string, served fleet.DesiredInputs, i int, now time.Time) {
		if input := fmt.Sprint("c", i); !book.RecordRepeatedReceipt(id, served.List, input, served.Receipts[i], now) {
			require.Zero(b, book.RecordReceipt(id, served, input, served.Receipts[i], now))
		}
	}
	var receipts []fleet.Receipt
	for i := range inputs {
		receipts = append(receipts, fleet.Receipt{1, byte(i)})
	}
	all := list(`"0123456789abcdef01234567"`, receipts...)
	say := func(book *clusterstatus.Tracker, now time.Time) {
		for c := range clusters {
			id := fmt.Sprint("cluster-", c)
			poll(book, id, all, now)
			for i := range inputs {
				send(book, id, all, i, now)
			}
		}
	}
	first, table := open()
	second, _ := open()
	now := time.Now()
	say(first, now)
	began := time.Now()
	for before := -1; before != table.puts; { // rows that did not fit into the queue are written later
		before = table.puts
		first.Sync(b.Context(), now)
		require.Zero(b, first.Stats().Failures)
	}
	fill := time.Since(began)
	began = time.Now()
	second.Sync(b.Context(), now)
	load := time.Since(began)

	// Polls and repeated receipts, a minute at a time.
	const minutes = 5
	puts, rows := table.puts, table.rows
	for range minutes {
		now = now.Add(time.Minute)
		say(first, now)
		for range 30 {
			first.Sync(b.Context(), now)
		}
	}
	puts, rows = table.puts-puts, table.rows-rows

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { first.Run(ctx) })
	running.Go(func() { second.Run(ctx) })
	var longest time.Duration
	n := byte(1)
	for b.Loop() {
		n++
		want := list(fmt.Sprint(n), fleet.Receipt{n})
		began := time.Now()
		poll(first, "cluster-7", want, began)
		send(first, "cluster-7", want, 0, began)
		for second.Evaluate(clusterstatus.Query{Cluster: "cluster-7", Desired: []fleet.DesiredInputs{want}, Now: began, OfflineAfter: time.Hour}).State != clusterstatus.Confirmed {
			require.Less(b, time.Since(began), time.Minute)
			time.Sleep(10 * time.Millisecond)
		}
		longest = max(longest, time.Since(began))
	}
	b.ReportMetric(float64(puts)/minutes, "upserts/min")
	b.ReportMetric(float64(rows)/minutes, "rows/min")
	b.ReportMetric(fill.Seconds(), "fill-s")
	b.ReportMetric(load.Seconds(), "load-s")
	b.ReportMetric(longest.Seconds(), "visible-s")
	b.ReportMetric(0, "ns/op")
	cancel()
	running.Wait()
}
