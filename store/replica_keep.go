package store

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Restore publishes the last good State that an earlier process left in StateDir, and tells whether there was one, so
// that polls are answered before the store is. It must not run beside Run. What the store has must lead on from there: see [Accept].
//
// A file that is damaged or of another format is never used, and not an error: what is wrong with it is logged, and the
// store is waited for.
func (r *Replica) Restore(ctx context.Context) bool {
	from := r.current.Load()
	if r.cfg.StateDir == "" || from.state != nil {
		return false
	}
	state, err := readStateFile(r.cfg.StateDir, r.cfg.Rules)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		r.cfg.Logger.ErrorContext(ctx, "the last good state cannot be used; waiting for the store", slog.Any("error", err))
		return false
	case !r.publishCold(from, state):
		return false
	}
	r.onDisk = state
	r.setStatus(func(s *Status) { s.FromDisk = true })
	r.cfg.Logger.InfoContext(ctx, "serving the last good state from disk until the store answers", r.revision(),
		slog.Int("clusters", state.Clusters()), slog.Time("at", state.At()))
	return true
}

func (r *Replica) publishCold(from *view, state *fleet.State) bool {
	v := newView(state, r.cfg.Elapsed())
	v.cold.Store(true)
	return r.swap(from, v)
}

// keep writes the State to StateDir when it has changed, until ctx ends, and once more then. It takes its time: what a
// process that starts without a store needs is a State that was good, not the very last one.
func (r *Replica) keep(ctx context.Context) {
	kept, failed := r.onDisk, false
	for ctx.Err() == nil {
		now := r.current.Load()
		if now.state == nil || now.state == kept {
			select {
			case <-now.replaced:
			case <-ctx.Done():
			}
			continue
		}
		start := time.Now()
		err := r.keepNow(ctx, now, &failed)
		if err == nil {
			kept = now.state
		}
		// A large fleet that is written to all the time must not keep a core busy with this.
		sleep(ctx, max(r.cfg.KeepInterval, 20*time.Since(start)))
	}
	if now := r.current.Load(); now.state != nil && now.state != kept {
		_ = r.keepNow(ctx, now, &failed) // logged
	}
}

// keepNow writes once, and logs it when that begins or ceases to fail.
func (r *Replica) keepNow(ctx context.Context, now *view, failed *bool) error {
	err := writeStateFile(r.cfg.StateDir, now.state)
	if err != nil && !*failed {
		r.cfg.Logger.ErrorContext(ctx, "the last good state cannot be written to disk", slog.Any("error", err))
	}
	if err == nil && *failed {
		r.cfg.Logger.InfoContext(ctx, "the last good state is written to disk again")
	}
	*failed = err != nil
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
