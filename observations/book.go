package observations

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	exchangeEvery = 3 * time.Second / 2 // with other processes: what one knows the others do after two of these
	seenEvery     = time.Minute         // that a cluster was seen, and nothing else: by whichever process
	seenCheck     = seenEvery / 4       // whether that is due
	lookBack      = time.Minute         // what was written late is looked for
	keepEvery     = time.Hour           // what may go is dropped from the table
	overlap       = 10 * time.Second    // no write takes longer
	maxUntold     = 10_000              // rows that are written again at once
	maxBatch      = 500                 // rows, and a mark
	maxPending    = 100_000             // rows that wait to be written; more are dropped
)

// Config is what a Book is made of. The zero value keeps everything in memory.
type Config struct {
	Table  Table // nil: there is none
	Logger *slog.Logger
	// Clusters are the ids of all clusters there are; not ok while nobody knows. Others are forgotten after a while; nil: none is.
	Clusters func() (ids []string, ok bool)
	// Tidy drops them from the table as well.
	Tidy bool
}

// Book is what all clusters said, as far as this process knows. Noting something takes no longer than a look into a map; it is
// exchanged with other processes by Run.
type Book struct {
	cfg Config

	mu       sync.RWMutex
	clusters map[string]*cluster

	queue      sync.Mutex
	pending    map[waiting]struct{}
	room       int  // for rows in pending
	overflowed bool // some rows did not get in

	stored  atomic.Int64 // receipts
	highest highest      // floor

	dropped  atomic.Int64
	failures atomic.Int64
	complete atomic.Bool
	filters  filters

	// What follows is Run's alone.
	marks             marks
	untold            []*cluster // whose rows are to be written again, those that are there included
	from              time.Time  // what was written before is known, by the table's clock
	lastLook          time.Time  // for what was written late
	lastSeen          time.Time
	lastKeep          time.Time
	recent            recent // told again after a failure
	denied, complains bool
}

// waiting is a row that waits to be written.
type waiting struct {
	cluster *cluster
	subject subject
}

// NewBook makes an empty Book.
func NewBook(cfg Config) *Book {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Book{cfg: cfg, clusters: map[string]*cluster{}, pending: map[waiting]struct{}{}, room: maxPending, marks: newMarks()}
	b.complete.Store(cfg.Table == nil)
	return b
}

// of is a cluster's page, made when it is first needed.
func (b *Book) of(id string) *cluster {
	b.mu.RLock()
	c := b.clusters[id]
	b.mu.RUnlock()
	if c != nil {
		return c
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c = b.clusters[id]; c == nil {
		id = strings.Clone(id)
		c = &cluster{id: id, stored: &b.stored}
		b.clusters[id] = c
	}
	return c
}

// tell has a row written, soon.
func (b *Book) tell(c *cluster, sort string, on about) {
	if b.cfg.Table == nil {
		return
	}
	w := waiting{c, subject{sort, on}}
	b.queue.Lock()
	defer b.queue.Unlock()
	if _, there := b.pending[w]; !there && len(b.pending) >= b.room {
		b.dropped.Add(1)
		b.overflowed = true
		return
	}
	b.pending[w] = struct{}{}
}

// EachSeen visits the clusters that were seen, by whichever process.
func (b *Book) EachSeen(visit func(id string, at time.Time)) {
	for _, c := range b.all() {
		c.mu.Lock()
		seen := c.seen
		c.mu.Unlock()
		if seen > 0 {
			visit(c.id, time.UnixMilli(seen))
		}
	}
}

func (b *Book) all() []*cluster {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]*cluster, 0, len(b.clusters))
	for _, c := range b.clusters {
		out = append(out, c)
	}
	return out
}

// Stats are for metrics.
type Stats struct {
	Dropped  int64 // observations that were not kept, because there were too many
	Failures int64 // exchanges with the table that failed
	Complete bool  // what the table had at the start has been read
}

// Stats tells how the Book is doing.
func (b *Book) Stats() Stats { return Stats{b.dropped.Load(), b.failures.Load(), b.complete.Load()} }

// tidy forgets clusters that are gone.
func (b *Book) tidy(ctx context.Context, now time.Time) error {
	if b.cfg.Clusters == nil || now.Sub(b.lastKeep) < keepEvery {
		return nil
	}
	ids, ok := b.cfg.Clusters()
	if !ok || len(ids) == 0 {
		return nil
	}
	b.lastKeep = now
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	b.Forget(func(id string) bool { return !known[id] })
	if !b.cfg.Tidy || b.cfg.Table == nil {
		return nil
	}
	return b.cfg.Table.Keep(ctx, append(slices.Clone(ids), tableID), maxRows)
}

// Forget forgets the clusters that gone says are gone.
func (b *Book) Forget(gone func(id string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, c := range b.clusters {
		if gone(id) {
			c.mu.Lock()
			c.dropReceipts(func(about, receipt) bool { return true })
			c.mu.Unlock()
			delete(b.clusters, id)
		}
	}
}
