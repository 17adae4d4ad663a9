package observations

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	exchangeEvery = 2 * time.Second  // with other processes
	seenEvery     = time.Minute      // that a cluster was seen, and nothing else
	keepEvery     = time.Hour        // what may go is dropped from the table
	overlap       = 10 * time.Second // what was written within may have been committed late
	maxBatch      = 500              // rows
	maxPending    = 100_000          // rows that wait to be written; more are dropped
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

	queue   sync.Mutex
	pending map[waiting]struct{}

	dropped  atomic.Int64
	failures atomic.Int64
	complete atomic.Bool

	// What follows is Run's alone.
	written           time.Time // when the last row that we know of was written, by the table's clock
	lastSeen          time.Time
	lastKeep          time.Time
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
	b := &Book{cfg: cfg, clusters: map[string]*cluster{}, pending: map[waiting]struct{}{}}
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
		c = &cluster{id: id}
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
	if _, there := b.pending[w]; !there && len(b.pending) >= maxPending {
		b.dropped.Add(1)
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

// Run exchanges what is noted with the table until ctx ends. It writes what is left, and closes the table.
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	for {
		b.Exchange(ctx, time.Now())
		select {
		case <-ctx.Done():
			if b.cfg.Table == nil {
				return
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeEvery)
			defer cancel()
			b.lastSeen = time.Time{}
			b.failed(last, errors.Join(b.write(last, time.Now()), b.cfg.Table.Close()))
			return
		case <-tick.C:
		}
	}
}

// Exchange writes what is new here and reads what is new elsewhere. Run does it again and again; it is not for several
// goroutines at once.
func (b *Book) Exchange(ctx context.Context, now time.Time) {
	if b.cfg.Table == nil {
		b.failed(ctx, b.tidy(ctx, now))
		return
	}
	b.failed(ctx, errors.Join(b.write(ctx, now), b.read(ctx), b.tidy(ctx, now)))
}

// failed logs trouble with the table once, until it is over.
func (b *Book) failed(ctx context.Context, err error) {
	switch {
	case err == nil:
		b.complains = false
	case ctx.Err() != nil:
	case errors.Is(err, ErrDenied):
		b.failures.Add(1)
		if !b.denied {
			b.cfg.Logger.WarnContext(ctx, "what clusters say here is kept in memory and told to no other process: the role may not write to the table of observations", "error", err)
		}
		b.denied = true
	default:
		b.failures.Add(1)
		if !b.complains {
			b.cfg.Logger.WarnContext(ctx, "what clusters say cannot be exchanged with other processes at the moment; it is kept in memory", "error", err)
		}
		b.complains = true
	}
}

func (b *Book) write(ctx context.Context, now time.Time) error {
	b.queue.Lock()
	pending := b.pending
	b.pending = make(map[waiting]struct{}, min(len(pending), maxBatch))
	b.queue.Unlock()
	if now.Sub(b.lastSeen) >= seenEvery {
		b.lastSeen = now
		for _, c := range b.all() {
			c.mu.Lock()
			if c.seen > c.kept {
				pending[waiting{c, subject{sort: sortSeen, on: aboutOf("", "")}}] = struct{}{}
			}
			c.mu.Unlock()
		}
	}
	batch, rows := make([]waiting, 0, maxBatch), make([]Row, 0, maxBatch)
	var err error
	flush := func() {
		if err == nil && len(rows) > 0 {
			if err = b.cfg.Table.Put(ctx, rows); err == nil && b.denied {
				b.denied = false
				b.tellAll()
			}
		}
		if err != nil && !errors.Is(err, ErrDenied) {
			b.again(batch)
		}
		batch, rows = batch[:0], rows[:0]
	}
	for w := range pending {
		w.cluster.mu.Lock()
		row, ok := w.cluster.row(w.subject)
		if w.subject.sort == sortSeen {
			w.cluster.kept = w.cluster.seen
		}
		w.cluster.mu.Unlock()
		if !ok {
			continue
		}
		if batch, rows = append(batch, w), append(rows, row); len(rows) == maxBatch {
			flush()
		}
	}
	flush()
	return err
}

// again has rows written later, when the table does not take them now.
func (b *Book) again(batch []waiting) {
	for _, w := range batch {
		if w.subject.sort == sortSeen {
			w.cluster.mu.Lock()
			w.cluster.kept = 0
			w.cluster.mu.Unlock()
			continue
		}
		b.tell(w.cluster, w.subject.sort, w.subject.on)
	}
}

// tellAll has everything written that is known here, when this process may write what it had to keep to itself.
func (b *Book) tellAll() {
	for _, c := range b.all() {
		c.mu.Lock()
		subjects := c.subjects()
		c.mu.Unlock()
		for _, s := range subjects {
			b.tell(c, s.sort, s.on)
		}
	}
}

func (b *Book) read(ctx context.Context) error {
	from := b.written
	if !from.IsZero() {
		from = from.Add(-overlap)
	}
	latest, err := b.cfg.Table.Since(ctx, from, func(r Row) {
		c := b.of(r.Cluster)
		c.mu.Lock()
		on, outdated := c.merge(r)
		c.mu.Unlock()
		if outdated {
			b.tell(c, sortReceipt, on)
		}
	})
	if err != nil {
		return err
	}
	if latest.After(b.written) {
		b.written = latest
	}
	b.complete.Store(true)
	return nil
}

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
	return b.cfg.Table.Keep(ctx, ids, maxRows)
}

// Forget forgets the clusters that gone says are gone.
func (b *Book) Forget(gone func(id string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.clusters {
		if gone(id) {
			delete(b.clusters, id)
		}
	}
}
