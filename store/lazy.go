package store

import (
	"context"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Lazy is a Store that is opened when it is first needed, and again until that succeeds: for a process that starts
// before its store has been initialised, or while it cannot be reached. Until then every method returns open's error.
type Lazy struct {
	open func(context.Context) (Store, error)

	mu     sync.Mutex
	store  Store
	closed bool
}

var _ Store = (*Lazy)(nil)

// NewLazy makes a Lazy of a function that opens the store.
func NewLazy(open func(context.Context) (Store, error)) *Lazy { return &Lazy{open: open} }

// Open opens the store now, unless it is open.
func (l *Lazy) Open(ctx context.Context) error {
	_, err := l.get(ctx)
	return err
}

func (l *Lazy) get(ctx context.Context) (Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrUnavailable
	}
	if l.store == nil {
		s, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		l.store = s
	}
	return l.store, nil
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

// Since implements Store.
func (l *Lazy) Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error) {
	return with(ctx, l, func(s Store) ([]fleet.Commit, error) { return s.Since(ctx, after, limit) })
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

// Ping implements Store.
func (l *Lazy) Ping(ctx context.Context) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Ping(ctx)
}

// Close implements Store.
func (l *Lazy) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.store == nil {
		return nil
	}
	return l.store.Close()
}
