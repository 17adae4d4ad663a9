package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/localstate"
)

// Config configures a [Replica]. Store and Rules are required; the zero value of the rest is a good choice.
type Config struct {
	Store  Store
	Rules  fleet.Rules
	Logger *slog.Logger
	// Now is the clock; commits carry its time.
	Now func() time.Time
	// Elapsed is the clock for ages: the time since a fixed moment in the past. It cannot be set and continues while the
	// process or the machine is stopped. Default: the system's.
	Elapsed func() time.Duration
	// BootID names the start of the machine that Elapsed counts from. A State in StateDir that was confirmed under the same
	// BootID has a certain age. Nil: unknown. Default: the system's, when Elapsed is the system's too.
	BootID uuid.UUID
	// MaxStaleness is how long reads are answered after the store last confirmed the State: see [Replica.StateForPolls]. 0: for
	// ever.
	MaxStaleness time.Duration
	// Interval is the time between two head queries while none fails. Default 100 ms.
	Interval time.Duration
	// MaxBackoff between two attempts while the store does not answer. Default 2 s.
	MaxBackoff time.Duration
	// QueryTimeout ends a question for the head, so that a connection that hangs is a failure and not silence.
	// Default 2 s.
	QueryTimeout time.Duration
	// LoadTimeout is the idle timeout for reading documents or the log: reading fails when no data has arrived for this long.
	// The total size is unknown in advance, so there is no limit for the total time. Default 30 s.
	LoadTimeout time.Duration
	// CommitTimeout ends Commit, later by ExtraCommitTime. Default 10 s.
	CommitTimeout time.Duration
	// Attempts is how often an update is computed again because another process was faster, before it keeps the others
	// from committing. Default 10.
	Attempts int
	// BatchSize is how many commits are asked for at once when catching up. Default 100.
	BatchSize int
	// StateDir is a directory where every State is kept before it is published, for the next process: see [Replica.Restore].
	// One Replica at a time uses it; a second one writes no files there. Empty: States are not kept.
	StateDir string
	// Passive: this process takes no automatic actions: see [Replica.MayAct].
	Passive bool
	// StateMaxAge is how long after the store last confirmed a State from StateDir reads are answered from it, until the
	// store is asked: see [Replica.StateForPolls]. 0: for ever. Up to MaxStaleness the age must be certain, so that a restart does
	// not extend it; a longer one means that no other process answers clusters, and the clock on the wall is enough.
	StateMaxAge time.Duration
	// KeepInterval is the least time between two whole States written to StateDir, and the most between two notes of
	// when the store confirmed the State. Default 10 s.
	KeepInterval time.Duration
}

func (c Config) withDefaults() Config {
	setDefault(&c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Elapsed == nil {
		c.Elapsed, c.BootID = newBootClock().elapsed, bootID()
	}
	setDefault(&c.Interval, 100*time.Millisecond)
	setDefault(&c.MaxBackoff, 2*time.Second)
	setDefault(&c.QueryTimeout, 2*time.Second)
	setDefault(&c.LoadTimeout, 30*time.Second)
	setDefault(&c.CommitTimeout, 10*time.Second)
	setDefault(&c.Attempts, 10)
	setDefault(&c.BatchSize, 100)
	setDefault(&c.KeepInterval, 10*time.Second)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Replica is one process's copy of the fleet: an immutable State in memory that follows the store's log. It continues to answer
// from the last good State when the store fails, because a poll that is answered with an empty or partial fleet makes clusters
// uninstall their workloads.
type Replica struct {
	cfg        Config
	current    atomic.Pointer[view]
	writing    chan struct{} // holds a token while an update of this process is under way
	loading    chan struct{} // holds a token while everything is loaded
	health     sharedHealth
	collecting chan struct{} // holds a token while a commit is read in chunks
	onDisk     *fleet.State  // the State that Restore found in StateDir
	ahead      atomic.Int64  // the revision of the store's head, as far as the follower has heard
	later      atomic.Pointer[laterTokens]
	own        ownCommits

	publishing sync.Mutex  // one State at a time is published, after it was added to the journal
	disk       disk        // guarded by publishing
	acts       atomic.Bool // the store has answered, and is not a copy that no operator has accepted

	mu         sync.Mutex
	status     Status
	followed   time.Time  // when the store was last followed
	divergence divergence // while status.QuarantineReason is set
	chunks     *chunks    // nil: commits come at once
}

// view is the State published at one moment. It is replaced by compare-and-swap from the view that the new one was computed
// from, so a late publisher cannot replace a newer State with an older one.
type view struct {
	state    *fleet.State // nil until loaded
	replaced chan struct{}
	// confirmed is the time, on Config.Elapsed, of the last head query after which this State was the newest. It belongs to
	// this State, so an older State cannot inherit it.
	confirmed atomic.Int64
	// cold: the State comes from StateDir, and the store has not been asked since.
	cold atomic.Bool
	// quarantined: the State belongs to a quarantined history and must not be served to clusters: see [Quarantine].
	quarantined atomic.Bool
}

// NewReplica returns a Replica that has not loaded a State yet.
func NewReplica(cfg Config) *Replica {
	r := &Replica{
		disk:       disk{WAL: localstate.New(cfg.StateDir)},
		cfg:        cfg.withDefaults(),
		writing:    make(chan struct{}, 1),
		loading:    make(chan struct{}, 1),
		collecting: make(chan struct{}, 1),
	}
	r.current.Store(&view{replaced: make(chan struct{})})
	return r
}

// Rules returns the settings that every State is validated with.
func (r *Replica) Rules() fleet.Rules { return r.cfg.Rules }

// State returns the newest known State of any age, nil before the first load. It never changes and never blocks. Reads are
// answered from [Replica.StateForReads], polls from [Replica.StateForPolls].
func (r *Replica) State() *fleet.State { return r.current.Load().state }

// Published returns the newest State, as State does, and a channel that is closed when another one is published.
func (r *Replica) Published() (*fleet.State, <-chan struct{}) {
	v := r.current.Load()
	return v.state, v.replaced
}

// publish replaces from with next, which is from plus commits, unless another State was published meanwhile. next inherits the
// confirmation time of from: the store may have a newer State by now.
func (r *Replica) publish(from *view, next *fleet.State, commits []fleet.Commit) {
	v := newView(next, time.Duration(from.confirmed.Load()))
	v.cold.Store(from.cold.Load())
	r.swap(from, v, func() {
		v.quarantined.Store(from.quarantined.Load())
		r.keepNext(from.state.Head(), next, commits)
	})
}

// publishAsOf is publish for a State that was loaded from the store, which was asked at that time.
func (r *Replica) publishAsOf(from *view, next *fleet.State, asked time.Duration, quarantined bool) bool {
	v := newView(next, asked)
	v.quarantined.Store(quarantined)
	return r.swap(from, v, r.keepNothing)
}

// Adopt publishes a State that this process has committed to the store through another Replica, so that it need not be loaded. It does
// nothing if a State is published already.
func (r *Replica) Adopt(state *fleet.State) {
	if from := r.current.Load(); from.state == nil {
		r.publishAsOf(from, state, 0, false) // the next refresh asks the store for its head
	}
}

func newView(state *fleet.State, asked time.Duration) *view {
	v := &view{state: state, replaced: make(chan struct{})}
	v.confirmed.Store(int64(asked))
	return v
}

// swap publishes v if from is still the current view, and reports whether it did. It first calls before, which updates the files
// in StateDir: a process that is killed and restarted must not serve an older State than it has already served.
func (r *Replica) swap(from, v *view, before func()) bool {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if r.current.Load() != from {
		return false
	}
	before()
	r.current.Store(v)
	close(from.replaced)
	r.dropChunks(v.state.Head())
	return true
}

// WaitFor returns when the State has at least this revision, or with the context's error.
func (r *Replica) WaitFor(ctx context.Context, rev fleet.Revision) error {
	for {
		v := r.current.Load()
		if v.state != nil && v.state.Revision() >= rev {
			return nil
		}
		select {
		case <-v.replaced:
		case <-ctx.Done():
			return fmt.Errorf("waiting for revision %d: %w", rev, ctx.Err())
		}
	}
}

// UnknownRevisionError is the answer to a wait for a revision that the store itself does not have. Waiting does not help, unless
// the store is a standby: its history was replaced, by a restored backup or an empty database, or the revision never was.
type UnknownRevisionError struct{ Revision, Newest fleet.Revision }

func (e *UnknownRevisionError) Error() string {
	return fmt.Sprintf("the store has no revision %d; its newest is %d", e.Revision, e.Newest)
}

// SyncTo is WaitFor for writers: it queries the store at once and does not wait for Run. A revision that the store does not
// have is an *[UnknownRevisionError].
func (r *Replica) SyncTo(ctx context.Context, rev fleet.Revision) error {
	if s := r.State(); s != nil && s.Revision() < rev {
		if err := r.refresh(ctx); err != nil {
			return unavailable(fmt.Errorf("refreshing the state: %w", err))
		}
		// While the history is quarantined, the State is not the store's, so it does not show which revisions the store has.
		now := r.current.Load()
		if newest := now.state.Revision(); newest < rev && int64(newest) == r.ahead.Load() && !now.quarantined.Load() && r.Status().QuarantineReason == "" {
			return &UnknownRevisionError{Revision: rev, Newest: newest}
		}
	}
	return r.WaitFor(ctx, rev)
}

// acquire takes a token, or returns the context's error.
func acquire(ctx context.Context, token chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func release(token chan struct{}) { <-token }
