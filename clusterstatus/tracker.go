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
	syncInterval      = 3 * time.Second / 2 // between two calls of Sync; another process knows an observation after two of them
	seenInterval      = time.Minute         // between two writes of the last poll of a cluster, by any process
	sharedSeenFactor  = 15                  // the last poll with a shared token is written less often, by this factor
	seenCheckInterval = seenInterval / 4    // between two searches for clusters whose last poll is due to be written
	lateReadInterval  = time.Minute         // between two reads of late rows, and how far back they reach
	pruneInterval     = time.Hour           // between two calls of Store.Prune
	maxWriteDelay     = 10 * time.Second    // a write to the Store takes at most this long
	maxResyncRows     = 10_000              // rows rewritten in one Sync after the Store has failed or lost rows
	maxBatch          = 500                 // rows of one write, without the mark
	pendingLimit      = 100_000             // rows that wait to be written; further ones are dropped and written by a resync
)

// Config configures a Tracker. The zero value keeps everything in memory.
type Config struct {
	Store  Store // nil: memory only
	Logger *slog.Logger
	// Clusters returns the ids of all clusters; not ok while they are not known yet. Other clusters are removed every
	// pruneInterval. nil: none is removed.
	Clusters func() (ids []string, ok bool)
	// PruneStore removes them from the Store as well.
	PruneStore bool
	// ServiceRows are exchanged as well; nil: none.
	ServiceRows ServiceRows
}

// Tracker holds the observations of all clusters that this process knows. Recording one takes a map lookup; Run exchanges them
// with other processes.
type Tracker struct {
	cfg Config

	mu       sync.RWMutex
	clusters map[string]*cluster // by the id, or by the name of the record of the shared token

	queue      sync.Mutex
	pending    map[pendingRow]struct{}
	maxPending int  // of pending
	overflowed bool // rows were dropped since the last write

	receiptCount atomic.Int64 // stored receipts of all clusters
	maxFloor     maxRevision

	dropped      atomic.Int64
	failures     atomic.Int64
	complete     atomic.Bool
	filters      filters
	counts       countHistory
	countDetails detailHistory
	tokenUses    tokenUses

	fleetChanges fleetChanges

	clocksDiffer atomic.Bool

	// Only Run and Sync use the fields below.
	lossDetector    lossDetector
	clocks          clocks
	backlog         []*cluster // clusters that a resync has yet to write
	readFrom        time.Time  // rows written before are known; by the clock of the Store
	lastLateRead    time.Time
	lastSeenWrite   time.Time
	lastPrune       time.Time
	recent          recentWrites // written again after a failure
	denied, failing bool
}

// pendingRow identifies a row that waits to be written. Its content is taken when it is written.
type pendingRow struct {
	cluster *cluster
	subject subject
}

// NewTracker returns an empty Tracker.
func NewTracker(cfg Config) *Tracker {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Tracker{cfg: cfg, clusters: map[string]*cluster{}, pending: map[pendingRow]struct{}{}, maxPending: pendingLimit, lossDetector: newLossDetector()}
	b.complete.Store(cfg.Store == nil)
	return b
}

// lookup returns the observations of a cluster; nil: there are none.
func (t *Tracker) lookup(id string) *cluster {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.clusters[id]
}

// cluster returns the observations of a cluster, and creates them on first use.
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

// enqueue marks a row to be written by the next Sync.
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

// EachSeen visits the clusters that polled any process, with the time of their last poll.
func (t *Tracker) EachSeen(visit func(id string, at time.Time)) {
	last := map[string]int64{}
	for _, c := range t.allClusters() {
		c.mu.Lock()
		id, _ := clusterOf(c.id)
		last[id] = max(last[id], c.seen)
		c.mu.Unlock()
	}
	for id, seen := range last {
		if seen > 0 {
			visit(id, time.UnixMilli(seen))
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

// Stats are counters for metrics.
type Stats struct {
	Dropped  int64 // observations that were dropped because of a limit
	Failures int64 // calls of Sync that failed
	Complete bool  // the Store was read once
	// ClocksDiffer: the clock of a process that shares the Store is or was wrong, so observations may be in a wrong order.
	ClocksDiffer bool
}

// Stats returns the current counters.
func (t *Tracker) Stats() Stats {
	return Stats{t.dropped.Load(), t.failures.Load(), t.complete.Load(), t.clocksDiffer.Load()}
}

// prune removes deleted clusters from memory and, with PruneStore, from the Store.
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

// Forget removes the clusters for which gone returns true from memory.
func (t *Tracker) Forget(gone func(id string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, c := range t.clusters {
		if id, _ := clusterOf(name); gone(id) {
			c.mu.Lock()
			c.dropReceipts(func(inputKey, receipt) bool { return true })
			c.mu.Unlock()
			delete(t.clusters, name)
		}
	}
}
