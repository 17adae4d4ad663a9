package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/observations"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// counting counts what is written to a table.
type counting struct {
	observations.Table
	mu         sync.Mutex
	puts, rows int
}

func (c *counting) Put(ctx context.Context, rows []observations.Row) error {
	c.mu.Lock()
	c.puts, c.rows = c.puts+1, c.rows+len(rows)
	c.mu.Unlock()
	return c.Table.Put(ctx, rows)
}

// BenchmarkObservations: 10,000 clusters with 30 inputs on two processes. How much is written in a minute in which nothing changes,
// and how long until a process knows what another one was told.
func BenchmarkObservations(b *testing.B) {
	const clusters, inputs = 10_000, 30
	url := pgtest.URL(b)
	require.NoError(b, Migrate(b.Context(), url))
	open := func() (*observations.Book, *counting) {
		o, err := NewObservations(Config{URL: url})
		require.NoError(b, err)
		table := &counting{Table: o}
		return observations.NewBook(observations.Config{Table: table}), table
	}
	say := func(book *observations.Book, now time.Time) {
		for c := range clusters {
			id := fmt.Sprint("cluster-", c)
			book.Polled(id, "platform-components", `"0123456789abcdef01234567"`, "flux-operator/v0.58.1", now)
			for i := range inputs {
				book.Received(id, "platform-components", fmt.Sprint("c", i), fleet.Receipt{1, byte(i)}, now)
			}
		}
	}
	first, table := open()
	second, _ := open()
	now := time.Now()
	say(first, now)
	began := time.Now()
	for before := -1; before != table.puts; { // what did not fit into the queue is made up for
		before = table.puts
		first.Exchange(b.Context(), now)
		require.Zero(b, first.Stats().Failures)
	}
	fill := time.Since(began)
	began = time.Now()
	second.Exchange(b.Context(), now)
	load := time.Since(began)

	// Polls and repeated receipts, a minute at a time.
	const minutes = 5
	puts, rows := table.puts, table.rows
	for range minutes {
		now = now.Add(time.Minute)
		say(first, now)
		for range 30 {
			first.Exchange(b.Context(), now)
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
		want := fleet.Asked{List: "platform-components", Receipts: []fleet.Receipt{{n}}, Inputs: func(yield func(string, bool) bool) { yield("c0", true) }}
		began := time.Now()
		first.Received("cluster-7", "platform-components", "c0", want.Receipts[0], began)
		for second.Judge(observations.Question{Cluster: "cluster-7", Asked: []fleet.Asked{want}, Now: began, OfflineAfter: time.Hour}).Counts[observations.Confirmed] == 0 {
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
