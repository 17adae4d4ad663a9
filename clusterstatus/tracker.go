package clusterstatus

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
	syncInterval      = 3 * time.Second / 2 // with other processes: what one knows the others do after two of these
	seenInterval      = time.Minute         // that a cluster was seen, and nothing else: by whichever process
	seenCheckInterval = seenInterval / 4    // whether that is due
	lateReadInterval  = time.Minute         // what was written late is looked for
	pruneInterval     = time.Hour           // what may go is dropped from the table
	maxWriteDelay     = 10 * time.Second    // no write takes longer
	maxResyncRows     = 10_000              // rows that are written again at once
	maxBatch          = 500                 // rows, and a mark
	pendingLimit      = 100_000             // rows that wait to be written; more are dropped
)

// Config is what a Tracker is made of. The zero value keeps everything in memory.
type Config struct {
	Store  Store // nil: there is none
	Logger *slog.Logger
	// Clusters are the ids of all clusters there are; not ok while nobody knows. Others are forgotten after a while; nil: none is.
	Clusters func() (ids []string, ok bool)
	// Tidy drops them from the table as well.
	PruneStore bool
}

// Tracker is what all clusters said, as far as this process knows. Noting something takes no longer than a look into a map; it is
// exchanged with other processes by Run.
type Tracker struct {
	cfg Config

	mu       sync.RWMutex
	clusters map[string]*cluster

	queue      sync.Mutex
	pending    map[pendingRow]struct{}
	maxPending int  // for rows in pending
	overflowed bool // some rows did not get in

	receiptCount atomic.Int64 // receipts
	maxFloor     maxRevision  // floor

	dropped  atomic.Int64
	failures atomic.Int64
	complete atomic.Bool
	filters  filters

	// What follows is Run's alone.
	lossDetector    lossDetector
	backlog         []*cluster // whose rows are to be written again, those that are there included
	readFrom        time.Time  // what was written before is known, by the table's clock
	lastLateRead    time.Time  // for what was written late
	lastSeenWrite   time.Time
	lastPrune       time.Time
	recent          recentWrites // told again after a failure
	denied, failing bool
}

// waiting is a row that waits to be written.
type pendingRow struct {
	cluster *cluster
	subject subject
}

// NewTracker makes an empty Book.
func NewTracker(cfg Config) *Tracker {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Tracker{cfg: cfg, clusters: map[string]*cluster{}, pending: map[pendingRow]struct{}{}, maxPending: pendingLimit, lossDetector: newLossDetector()}
	b.complete.Store(cfg.Store == nil)
	return b
}

// of is a cluster's page, made when it is first needed.
func (t *Tracker) cluster(id string) *cluster {
	t.mu.RLock()
	c := t.clusters[id]
	t.mu.RUnlock()
	if c != nil {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c = t.clusters[id]; c == nil {
		id = strings.Clone(id)
		c = &cluster{id: id, receiptCount: &t.receiptCount}
		t.clusters[id] = c
	}
	return c
}

// tell has a row written, soon.
func (t *Tracker) enqueue(c *cluster, kind string, key inputKey) {
	if t.cfg.Store == nil {
		return
	}
	row := pendingRow{c, subject{kind, key}}
	t.queue.Lock()
	defer t.queue.Unlock()
	if _, queued := t.pending[row]; !queued && len(t.pending) >= t.maxPending {
		t.dropped.Add(1)
		t.overflowed = true
		return
	}
	t.pending[row] = struct{}{}
}

// EachSeen visits the clusters that were seen, by whichever process.
func (t *Tracker) EachSeen(visit func(id string, at time.Time)) {
	for _, c := range t.allClusters() {
		c.mu.Lock()
		seen := c.seen
		c.mu.Unlock()
		if seen > 0 {
			visit(c.id, time.UnixMilli(seen))
		}
	}
}

func (t *Tracker) allClusters() []*cluster {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*cluster, 0, len(t.clusters))
	for _, c := range t.clusters {
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

// Stats tells how the Tracker is doing.
func (t *Tracker) Stats() Stats { return Stats{t.dropped.Load(), t.failures.Load(), t.complete.Load()} }

// tidy forgets clusters that are gone.
func (t *Tracker) prune(ctx context.Context, now time.Time) error {
	if t.cfg.Clusters == nil || now.Sub(t.lastPrune) < pruneInterval {
		return nil
	}
	ids, ok := t.cfg.Clusters()
	if !ok || len(ids) == 0 {
		return nil
	}
	t.lastPrune = now
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	t.Forget(func(id string) bool { return !known[id] })
	if !t.cfg.PruneStore || t.cfg.Store == nil {
		return nil
	}
	return t.cfg.Store.Prune(ctx, append(slices.Clone(ids), storeID), maxRows)
}

// Forget forgets the clusters that gone says are gone.
func (t *Tracker) Forget(gone func(id string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, c := range t.clusters {
		if gone(id) {
			c.mu.Lock()
			c.dropReceipts(func(inputKey, receipt) bool { return true })
			c.mu.Unlock()
			delete(t.clusters, id)
		}
	}
}
