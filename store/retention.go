package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Retention says how long history is kept.
//
// How old a commit is, is judged by the log: by what most of the newest commits say the time is, and never by a clock
// that is ahead of this process's. A clock that was a year ahead when one process started, or wrote, ages nothing. And at
// most half of the log is removed at once, so that a mistake can be seen before it has cost everything.
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
		oldest, removed, err := r.shorten(WithPriority(ctx))
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

// newestCommits is how many commits are asked for the time, and farAhead how much later than this process's clock a
// commit's time may be before somebody should look at the clocks.
const (
	newestCommits = 21
	farAhead      = time.Hour
)

// shorten removes what is too old, and no more than half of the log.
func (r Retention) shorten(ctx context.Context) (oldest fleet.Revision, removed int64, err error) {
	newest, err := r.Store.Summaries(ctx, HistoryQuery{Limit: newestCommits}, 0)
	if err != nil || len(newest) == 0 {
		return 0, 0, err
	}
	now := r.Now()
	if at := newest[0].At; at.After(now.Add(farAhead)) {
		r.Logger.WarnContext(ctx, "the newest revision was made later than now: a clock is wrong, here or where it was made",
			slog.Int64("revision", int64(newest[0].Revision)), slog.Time("at", at))
	}
	before := logTime(newest, now).Add(-r.Keep)
	if oldest, _, err = r.Store.Compact(ctx, time.Time{}); err != nil { // it ends what was interrupted
		return oldest, 0, err
	}
	half := oldest + (newest[0].Revision-oldest+1)/2
	bound, err := r.Store.Summaries(ctx, HistoryQuery{Before: half + 1, Limit: 1}, 0)
	if err != nil {
		return oldest, 0, err
	}
	for _, c := range bound {
		if c.At.Before(before) {
			before = c.At
		}
	}
	return r.Store.Compact(ctx, before)
}

// logTime is the median of the commits' times, or now when that is earlier.
func logTime(newest []Summary, now time.Time) time.Time {
	times := make([]time.Time, len(newest))
	for i, c := range newest {
		times[i] = c.At
	}
	slices.SortFunc(times, time.Time.Compare)
	if median := times[(len(times)-1)/2]; median.Before(now) {
		return median
	}
	return now
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

// Sizer is a Store that can tell how large it is.
type Sizer interface {
	Store
	// Size is how many bytes the database takes on disk, with its log and its indexes.
	Size(ctx context.Context) (int64, error)
}

var _ Sizer = (*Lazy)(nil)

// Size implements Sizer.
func (l *Lazy) Size(ctx context.Context) (int64, error) {
	return with(ctx, l, func(s Store) (int64, error) {
		sizer, ok := s.(Sizer)
		if !ok {
			return 0, fmt.Errorf("a store of type %T cannot tell how large it is", s)
		}
		return sizer.Size(ctx)
	})
}
