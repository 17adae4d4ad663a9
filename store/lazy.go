package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Lazy is a Store that is opened when it is first needed, and again until that succeeds: for a process that starts
// before its store has been initialised, or while it cannot be reached. Until then every method returns open's error.
type Lazy struct {
	open func(context.Context) (Store, error)
	life context.Context //nolint:containedctx // it is the Lazy's life, and ends an attempt to open
	end  context.CancelFunc

	mu      sync.Mutex
	store   Store
	attempt *attempt // under way
	closed  bool
}

// attempt is an attempt to open the store. Its result may be read when done is closed.
type attempt struct {
	done  chan struct{}
	store Store
	err   error
}

var (
	_ Store     = (*Lazy)(nil)
	_ Shortened = (*Lazy)(nil)
)

// NewLazy makes a Lazy of a function that opens the store. It is called by one goroutine at a time.
func NewLazy(open func(context.Context) (Store, error)) *Lazy {
	l := &Lazy{open: open}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// Open opens the store now, unless it is open.
func (l *Lazy) Open(ctx context.Context) error {
	_, err := l.get(ctx)
	return err
}

// get returns the store when it is open, or ctx's error. Opening continues after the caller's context has ended: it may include
// a migration, which takes longer than the timeout of a head query.
func (l *Lazy) get(ctx context.Context) (Store, error) {
	l.mu.Lock()
	if l.closed || l.store != nil {
		defer l.mu.Unlock()
		if l.closed {
			return nil, ErrUnavailable
		}
		return l.store, nil
	}
	a := l.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		l.attempt = a
		go l.try(a)
	}
	l.mu.Unlock()
	select {
	case <-a.done:
		return a.store, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the store to be opened: %w", ctx.Err())
	}
}

func (l *Lazy) try(a *attempt) {
	defer close(a.done)
	a.store, a.err = l.open(l.life)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempt, l.store = nil, a.store
}

// with runs one method of the opened store.
func with[T any](ctx context.Context, l *Lazy, f func(Store) (T, error)) (T, error) {
	s, err := l.get(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return f(s)
}

// Head implements Store.
func (l *Lazy) Head(ctx context.Context) (fleet.Head, error) {
	return with(ctx, l, func(s Store) (fleet.Head, error) { return s.Head(ctx) })
}

// Barrier implements Store.
func (l *Lazy) Barrier(ctx context.Context) (fleet.Head, error) {
	return with(ctx, l, func(s Store) (fleet.Head, error) { return s.Barrier(ctx) })
}

// Load implements Store.
func (l *Lazy) Load(ctx context.Context) (Snapshot, error) {
	return with(ctx, l, func(s Store) (Snapshot, error) { return s.Load(ctx) })
}

// Commit implements Store.
func (l *Lazy) Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Commit(ctx, base, c)
}

// Quarantine implements Store.
func (l *Lazy) Quarantine(ctx context.Context, h Quarantine) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Quarantine(ctx, h)
}

// CommitLocked implements Store.
func (l *Lazy) CommitLocked(ctx context.Context, id uuid.UUID, next func(context.Context, fleet.Head) (fleet.Commit, error)) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.CommitLocked(ctx, id, next)
}

// Probe implements Store.
func (l *Lazy) Probe(ctx context.Context) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Probe(ctx)
}

// Since implements Store.
func (l *Lazy) Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error) {
	return with(ctx, l, func(s Store) ([]fleet.Commit, error) { return s.Since(ctx, after, limit) })
}

// Latest implements Store.
func (l *Lazy) Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (head fleet.Head, docs map[string]json.RawMessage, err error) {
	s, err := l.get(ctx)
	if err != nil {
		return head, nil, err
	}
	return s.Latest(ctx, kind, after)
}

// History implements Store.
func (l *Lazy) History(ctx context.Context, q HistoryQuery) ([]fleet.Commit, error) {
	return with(ctx, l, func(s Store) ([]fleet.Commit, error) { return s.History(ctx, q) })
}

// Summaries implements Store.
func (l *Lazy) Summaries(ctx context.Context, q HistoryQuery, names int) ([]Summary, error) {
	return with(ctx, l, func(s Store) ([]Summary, error) { return s.Summaries(ctx, q, names) })
}

// Changes implements Store.
func (l *Lazy) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	return with(ctx, l, func(s Store) ([]fleet.Change, error) { return s.Changes(ctx, rev, offset, limit) })
}

// DocumentLog implements Store.
func (l *Lazy) DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (fleet.DocumentLog, error) {
	return with(ctx, l, func(s Store) (fleet.DocumentLog, error) { return s.DocumentLog(ctx, q) })
}

// Past implements Store.
func (l *Lazy) Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error) {
	return with(ctx, l, func(s Store) (fleet.Documents, error) { return s.Past(ctx, q) })
}

// At implements Store.
func (l *Lazy) At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (rec fleet.Record, found bool, err error) {
	s, err := l.get(ctx)
	if err != nil {
		return rec, false, err
	}
	return s.At(ctx, kind, id, rev)
}

// Kept implements Shortened. ErrCompacted when the store is none.
func (l *Lazy) Kept(ctx context.Context, after, oldest fleet.Revision, limit int) ([]fleet.Commit, error) {
	return with(ctx, l, func(s Store) ([]fleet.Commit, error) {
		shortened, ok := s.(Shortened)
		if !ok {
			return nil, ErrCompacted
		}
		return shortened.Kept(ctx, after, oldest, limit)
	})
}

// Ping implements Store.
func (l *Lazy) Ping(ctx context.Context) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Ping(ctx)
}

// Close implements Store. It ends an attempt to open.
func (l *Lazy) Close() error {
	l.mu.Lock()
	l.closed = true
	a := l.attempt
	l.mu.Unlock()
	l.end()
	if a != nil {
		<-a.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		return nil
	}
	return l.store.Close()
}
