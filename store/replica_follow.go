package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Load loads everything for the first time. Nothing is compared with what was there before, as nothing was: a restart
// is how an operator accepts a store whose content a running process refuses. Load on a loaded Replica catches up.
func (r *Replica) Load(ctx context.Context) error {
	err := r.refresh(ctx)
	r.contact(err)
	return err
}

// Run follows the store until ctx ends. It loads what Load has not.
func (r *Replica) Run(ctx context.Context) {
	defer r.setStatus(func(s *Status) { s.Following = false })
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
		return r.reload(ctx, first, nil)
	}
	head, err := ask(ctx, r.cfg.QueryTimeout, r.cfg.Store.Head)
	if err != nil {
		return err
	}
	for {
		from := r.current.Load()
		if head == from.state.Head() {
			r.accept()
			return nil
		}
		commits, err := ask(ctx, r.cfg.LoadTimeout, func(ctx context.Context) ([]fleet.Commit, error) {
			return r.cfg.Store.Since(ctx, from.state.Head(), r.cfg.BatchSize)
		})
		if errors.Is(err, ErrDiverged) || errors.Is(err, ErrCompacted) {
			return r.reload(ctx, from, err)
		}
		if err != nil {
			return err
		}
		if len(commits) == 0 { // somebody else caught up meanwhile, or it was the head by now
			r.accept()
			return nil
		}
		next, err := applyAll(from.state, commits)
		if err != nil {
			return r.reload(ctx, from, err)
		}
		r.publish(from, next) // when another was faster, the next turn goes on from there
		if next.Head() == head || len(commits) < r.cfg.BatchSize {
			r.accept()
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

// reload loads everything in place of from, which cannot go on because of cause; nil for the first load. When something
// else is published by the time it could start, it leaves that alone: the next attempt will tell whether it is well.
func (r *Replica) reload(ctx context.Context, from *view, cause error) error {
	if err := acquire(ctx, r.loading); err != nil {
		return err
	}
	defer release(r.loading)
	if r.current.Load() != from {
		return nil
	}
	if from.state == nil {
		next, err := r.loadState(ctx)
		if err == nil {
			r.publish(from, next)
		}
		return err
	}
	if why := r.stillRefused(ctx); why != "" {
		return fmt.Errorf("%w: %s", ErrDiverged, why)
	}
	log := r.cfg.Logger
	if r.Status().LastError == nil { // else this is the next attempt of many
		log.ErrorContext(ctx, "the log cannot be followed from here; loading everything again",
			slog.Any("error", cause), r.revision())
	}
	next, err := r.loadState(ctx)
	if err != nil {
		return fmt.Errorf("loading everything again: %w, because: %w", err, cause)
	}
	if next.Head() == from.state.Head() {
		r.accept() // the store came back to our history while we loaded
		return nil
	}
	if why := shrunken(from.state, next); why != "" {
		r.refuseState(next, why)
		log.ErrorContext(ctx, "the store's new content is refused; a restart accepts it",
			slog.String("reason", why), slog.Int64("refused_revision", int64(next.Revision())), r.revision())
		return fmt.Errorf("%w: %s", ErrDiverged, why)
	}
	if !r.publish(from, next) {
		return nil // an update was committed meanwhile, to the store's present history
	}
	r.setStatus(func(s *Status) { s.Reloads++; s.Refused = "" })
	log.ErrorContext(ctx, "the state was replaced by the store's new content",
		slog.Int64("old_revision", int64(from.state.Revision())), slog.Int64("new_revision", int64(next.Revision())),
		slog.Int("old_clusters", from.state.Clusters()), slog.Int("new_clusters", next.Clusters()))
	return nil
}

func (r *Replica) loadState(ctx context.Context) (*fleet.State, error) {
	snap, err := ask(ctx, r.cfg.LoadTimeout, r.cfg.Store.Load)
	if err != nil {
		return nil, err
	}
	return fleet.NewState(r.cfg.Rules, snap.Head, snap.At, snap.Records)
}

func (r *Replica) refuseState(next *fleet.State, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Refused, r.refused = why, next.Head()
}

// stillRefused returns why the store's content was refused while its head is still the same, so that it is not loaded
// again ten times a second.
func (r *Replica) stillRefused(ctx context.Context) string {
	r.mu.Lock()
	why, head := r.status.Refused, r.refused
	r.mu.Unlock()
	if why == "" {
		return ""
	}
	if now, err := ask(ctx, r.cfg.QueryTimeout, r.cfg.Store.Head); err != nil || now != head {
		return ""
	}
	return why
}

// accept ends a refusal: the store has our history again.
func (r *Replica) accept() {
	r.setStatus(func(s *Status) { s.Refused = "" })
}

// shrunken says why a State loaded in place of ours must not be served: it has lost so many clusters that a backup
// restored half-way, an emptied table or the wrong database is likelier than a decision. Clusters that are removed by
// commits of a history we follow never come here.
func shrunken(ours, next *fleet.State) string {
	had, has := ours.Clusters(), next.Clusters()
	if had > 0 && (has == 0 || 2*has < had) {
		return fmt.Sprintf("the store has another history with %d clusters at revision %d, and %d are served at revision %d",
			has, next.Revision(), had, ours.Revision())
	}
	if had, has := ours.Assignments(), next.Assignments(); 2*has < had {
		return fmt.Sprintf("the store has another history with %d things assigned to clusters at revision %d, and %d are served at revision %d",
			has, next.Revision(), had, ours.Revision())
	}
	return ""
}
