package store

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Retention limits how long history is kept.
//
// The age of a commit is judged by the log: by the median time of the newest commits, and never by a clock that is ahead of
// this process's. So a process that started, or wrote, with a clock one year ahead does not age any commit. At most half of the
// log is removed at once, so that a mistake is noticed before all history is lost.
type Retention struct {
	Store Store
	// Keep is how old a commit may become; 0 keeps all.
	Keep   time.Duration
	Logger *slog.Logger
	// May reports whether the store's history is the served one. While it is not, no commits are removed, because the store may
	// be the wrong database. nil: always.
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

// newestCommits is the number of commits for the median time. farAhead is the tolerance between a commit's time and this
// process's clock before a warning is logged.
const (
	newestCommits = 21
	farAhead      = time.Hour
)

// shorten removes commits older than the retention, at most half of the log.
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
	if oldest, _, err = r.Store.Compact(ctx, time.Time{}); err != nil { // completes an interrupted call
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
