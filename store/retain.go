package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Retention says how long history is kept.
type Retention struct {
	Store Compactor
	// Keep is how old a commit may become; 0 keeps all.
	Keep   time.Duration
	Logger *slog.Logger
	// May tells whether the store's history is known to be the one that is served: of another one, which may be the
	// wrong database's, nothing is removed. nil: always.
	May func() bool
	// Every is the time between two looks. Default 1 h.
	Every time.Duration
	// Now is the clock; commits carry its time.
	Now func() time.Time
}

// Run shortens the log until ctx ends, every so often. Several processes may do so at once.
func (r Retention) Run(ctx context.Context) {
	if r.Keep <= 0 {
		return
	}
	setDefault(&r.Logger, slog.New(slog.DiscardHandler))
	setDefault(&r.Every, time.Hour)
	if r.Now == nil {
		r.Now = time.Now
	}
	for ctx.Err() == nil {
		if r.May != nil && !r.May() {
			sleep(ctx, min(r.Every, notYet))
			continue
		}
		oldest, removed, err := r.Store.Compact(ctx, r.Now().Add(-r.Keep))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.Logger.WarnContext(ctx, "old history could not be removed; it is tried again later", slog.Any("error", err))
		case removed > 0:
			r.Logger.InfoContext(ctx, "old history was removed", slog.Int64("oldest_revision", int64(oldest)), slog.Int64("commits", removed))
		}
		sleep(ctx, r.Every)
	}
}

// notYet is the time until May is asked again.
const notYet = time.Second

var _ Compactor = (*Lazy)(nil)

// Compact implements Compactor.
func (l *Lazy) Compact(ctx context.Context, before time.Time) (oldest fleet.Revision, removed int64, err error) {
	s, err := l.get(ctx)
	if err != nil {
		return 0, 0, err
	}
	c, ok := s.(Compactor)
	if !ok {
		return 0, 0, fmt.Errorf("a store of type %T keeps its history for ever", s)
	}
	return c.Compact(ctx, before)
}
