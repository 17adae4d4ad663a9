package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Load loads everything for the first time. It trusts the store's content, because there is no earlier State to compare it
// with. Quarantined content is loaded for reads, and a *[QuarantinedError] is returned. On a loaded Replica, or after Restore,
// Load syncs to the store's head.
func (r *Replica) Load(ctx context.Context) error {
	err := r.refresh(ctx)
	r.contact(err)
	return err
}

// Run follows the store until ctx ends. It loads the State if Load has not, and keeps the State in StateDir.
func (r *Replica) Run(ctx context.Context) {
	defer r.setStatus(func(s *Status) { s.Following = false })
	if r.cfg.StateDir != "" {
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			r.keep(ctx)
		}()
		defer func() { <-kept }()
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { r.followTokens(ctx) })
	wait := r.cfg.Interval
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := r.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		wait = r.noteFollowing(ctx, err, wait)
		timer.Reset(wait)
	}
}

// noteFollowing records and logs how an attempt ended, once per change, and returns how long to wait for the next.
func (r *Replica) noteFollowing(ctx context.Context, err error, waited time.Duration) time.Duration {
	changed := r.contact(err)
	r.setStatus(func(s *Status) { s.Following = err == nil })
	log := r.cfg.Logger
	switch {
	case err != nil && changed:
		log.ErrorContext(ctx, "the store cannot be followed; the last good state, if there is one, is served",
			slog.Any("error", err), r.revision())
	case err == nil && changed:
		log.InfoContext(ctx, "following the store", r.revision())
	}
	if err == nil {
		return r.cfg.Interval
	}
	return min(2*waited, max(r.cfg.MaxBackoff, r.cfg.Interval))
}

func (r *Replica) revision() slog.Attr {
	if s := r.State(); s != nil {
		return slog.Int64("revision", int64(s.Revision()))
	}
	return slog.Int64("revision", -1)
}

// refresh brings the State up to the store's head. It may run at any time and in parallel.
func (r *Replica) refresh(ctx context.Context) error {
	if first := r.current.Load(); first.state == nil {
		return r.loadFirst(ctx, first)
	}
	asked := r.cfg.Elapsed()
	head, err := ask(ctx, r.cfg.QueryTimeout, r.cfg.Store.Head)
	quarantined := asQuarantined(err)
	switch {
	case quarantined != nil && quarantined.Quarantine.Copied():
		r.noteCopied(ctx, &quarantined.Quarantine)
	case quarantined != nil:
		return r.applyQuarantine(ctx, quarantined, asked)
	case err != nil:
		return err
	default:
		r.noteCopied(ctx, nil)
	}
	if err := r.followTo(ctx, head); err != nil {
		return err
	}
	if now := r.current.Load(); now.state.Head() == head || now.state.Revision() > head.Revision {
		r.noteConfirmed(now, asked)
		r.setQuarantined(now, false)
	}
	return nil
}

// followTo brings a State that was loaded up to a head of the store.
func (r *Replica) followTo(ctx context.Context, head fleet.Head) error {
	r.ahead.Store(int64(head.Revision))
	for {
		from := r.current.Load()
		if head == from.state.Head() {
			r.clearQuarantineReason()
			return nil
		}
		chunks := r.fetchesChunks(from.state.Head())
		commits, err := r.next(ctx, from)
		if isHistoryReplaced(err) {
			if chunks {
				continue // with the error of Since
			}
			return r.quarantineHistory(ctx, from, head, err)
		}
		if err != nil {
			return err
		}
		if len(commits) == 0 && r.current.Load() != from {
			continue
		}
		if len(commits) == 0 { // another goroutine caught up meanwhile, or this is the head by now
			r.clearQuarantineReason()
			return nil
		}
		next, err := applyAll(from.state, commits)
		if err != nil {
			return r.quarantineHistory(ctx, from, head, err)
		}
		r.publish(from, next, commits) // when another was faster, the next turn goes on from there
		if next.Revision() >= head.Revision {
			r.clearQuarantineReason()
			return nil
		}
	}
}

// ask gives one question to the store a deadline.
func ask[T any](ctx context.Context, timeout time.Duration, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return question(ctx)
}

// askLong is ask for an answer of any size: it may take any time, as long as it comes.
func askLong[T any](ctx context.Context, idle time.Duration, question func(context.Context) (T, error)) (T, error) {
	inner, cancel := WithIdleTimeout(ctx, idle)
	defer cancel()
	answer, err := question(inner)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(inner), errIdle) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return answer, err
}

func applyAll(s *fleet.State, commits []fleet.Commit) (*fleet.State, error) {
	for _, c := range commits {
		if c.Revision != s.Revision()+1 {
			return nil, fmt.Errorf("%w: revision %d came after %d", ErrCorrupt, c.Revision, s.Revision())
		}
		next, err := s.Apply(c)
		if err != nil {
			return nil, fmt.Errorf("applying revision %d: %w", c.Revision, err)
		}
		s = next
	}
	return s, nil
}

// loadFirst loads the first State.
func (r *Replica) loadFirst(ctx context.Context, from *view) error {
	if err := acquire(ctx, r.loading); err != nil {
		return err
	}
	defer release(r.loading)
	if r.current.Load() != from {
		return nil
	}
	asked := r.cfg.Elapsed()
	next, quarantined, err := r.loadState(ctx)
	if err != nil {
		return err
	}
	r.publishAsOf(from, next, asked, quarantined != nil)
	if quarantined != nil {
		r.setQuarantineReason(quarantined.Message(next.Head()))
		return &QuarantinedError{Head: next.Head(), Quarantine: *quarantined}
	}
	return nil
}

// loadState loads everything, and the quarantine if there is one.
func (r *Replica) loadState(ctx context.Context) (*fleet.State, *Quarantine, error) {
	snap, err := askLong(ctx, r.cfg.LoadTimeout, r.cfg.Store.Load)
	if err != nil {
		return nil, nil, err
	}
	st, err := fleet.NewState(r.cfg.Rules, snap.Head, snap.At, snap.Records)
	r.noteCopied(ctx, snap.Quarantine)
	if snap.Quarantine.Copied() {
		return st, nil, err
	}
	return st, snap.Quarantine, err
}
