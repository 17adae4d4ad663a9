package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Meta is the author of an update and its reason, as recorded in the log.
type Meta struct {
	Actor     string
	Author    string
	Reason    string
	RequestID string
	// DryRun computes and validates, and leaves the store alone.
	DryRun bool
	// Urgent does not queue behind the other writers of this process, of which there may be hundreds.
	Urgent bool
}

// OutcomeError is an ErrUnknown with the commit, so that the caller can look it up later.
type OutcomeError struct {
	Commit fleet.Commit
	Err    error
}

// Error names the commit.
func (e *OutcomeError) Error() string { return fmt.Sprintf("commit %s: %v", e.Commit.ID, e.Err) }

// Unwrap returns the store's error, which wraps ErrUnknown.
func (e *OutcomeError) Unwrap() error { return e.Err }

// Update runs edit on a transaction of the newest State, commits the changes, and publishes the result before it returns, so
// callers read their own writes. If another process committed first, Update refreshes the State and runs edit again: edit must
// have no effect outside its transaction.
//
// Every result was computed at a head that the store had while Update ran. A commit proves this by itself. For an edit without
// changes, a refused edit or a dry run, Update queries the store and runs edit again if the State was behind.
//
// Update returns errors of edit and of the validation unchanged. ErrUnavailable: no State is loaded, or the store does not
// answer or is not usable; with ErrContended if other processes committed first in every attempt, with ErrReplaced if the
// store's history is quarantined. ErrUnknown, as an *[OutcomeError]: the commit may or may not be in the log. With any other
// error no commit was made. An edit without changes makes no commit.
func (r *Replica) Update(ctx context.Context, meta Meta, edit func(*fleet.Tx) error) (fleet.Result, error) {
	if why := r.Status().QuarantineReason; why != "" {
		return fleet.Result{}, unavailable(fmt.Errorf("%w: %s", ErrReplaced, why))
	}
	if !meta.DryRun && !meta.Urgent { // these do not queue
		// Known to be out of reach: one writer at a time finds out whether it still is. If all waited for it in turns, the
		// last would wait as long as all before it together.
		if s := r.Status(); s.LastError != nil && len(r.writing) == cap(r.writing) {
			return fleet.Result{}, unavailable(s.LastError)
		}
		// The writers of one process take turns: they would only make each other compute again.
		if err := acquire(ctx, r.writing); err != nil {
			return fleet.Result{}, unavailable(fmt.Errorf("waiting for other writers: %w", err))
		}
		defer release(r.writing)
	}
	var seen confirmation
	for attempt := range r.cfg.Attempts {
		from, res, err := r.compute(meta, uuid.New(), edit)
		if err != nil || meta.DryRun || len(res.Commit.Changes) == 0 {
			fresh, asking := r.confirmHead(ctx, from, &seen)
			if asking != nil {
				return fleet.Result{}, asking
			}
			if fresh {
				return res, err
			}
			continue
		}
		r.own.add(res.Commit.Head()) // before others can see it
		_, err = ask(ctx, r.cfg.CommitTimeout+ExtraCommitTime(res.Commit), func(ctx context.Context) (struct{}, error) {
			return struct{}{}, r.cfg.Store.Commit(ctx, from.state.Head(), res.Commit)
		})
		err = r.outcome(ctx, res.Commit, err)
		switch {
		case err == nil:
			r.publish(from, res.State, []fleet.Commit{res.Commit}) // or the follower has seen the commit and published it already
			return res, nil
		case !errors.Is(err, ErrStale):
			return fleet.Result{}, err
		}
		r.setStatus(func(s *Status) { s.Stale++ })
		if err := r.catchUp(ctx, attempt); err != nil {
			return fleet.Result{}, err
		}
	}
	if meta.DryRun {
		return fleet.Result{}, fmt.Errorf("%w: %w %d times", ErrUnavailable, ErrContended, r.cfg.Attempts)
	}
	return r.updateLocked(ctx, meta, edit)
}

// errNothing ends a locked commit that has no changes.
var errNothing = errors.New("there is nothing to commit")

// updateLocked is Update after it has lost every round because other processes commit faster than edit runs: it runs edit while
// other commits are locked out, and so at the head.
func (r *Replica) updateLocked(ctx context.Context, meta Meta, edit func(*fleet.Tx) error) (fleet.Result, error) {
	var (
		id   = uuid.New()
		from *view
		res  fleet.Result
		own  error // why there is no commit
	)
	_, err := askLong(ctx, r.cfg.CommitTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.cfg.Store.CommitLocked(ctx, id, func(ctx context.Context, head fleet.Head) (fleet.Commit, error) {
			if own = r.followTo(ctx, head); own != nil {
				own = unavailable(fmt.Errorf("refreshing the state: %w", own))
				return fleet.Commit{}, own
			}
			from, res, own = r.compute(meta, id, edit)
			switch {
			case from.state.Head() != head:
				own = fmt.Errorf("%w: %w", ErrUnavailable, ErrContended)
			case own == nil && len(res.Commit.Changes) == 0:
				own = errNothing
			}
			r.own.add(res.Commit.Head())
			Extend(ctx, ExtraCommitTime(res.Commit)) // it is sent now, which takes as long as it is large
			return res.Commit, own
		})
	})
	switch {
	case errors.Is(own, errNothing):
		return res, nil
	case own != nil:
		return fleet.Result{}, own
	}
	if err := r.outcome(ctx, fleet.Commit{ID: id, Revision: res.Commit.Revision}, err); err != nil {
		return fleet.Result{}, err
	}
	r.publish(from, res.State, []fleet.Commit{res.Commit})
	return res, nil
}

// confirmation is the head that the store confirmed during an update, if it was asked.
type confirmation struct {
	asked bool
	head  fleet.Head
}

// confirmHead reports whether a result computed from a view was computed at a head of the store that is no older than this
// update. If not, it refreshes the State for the next attempt.
func (r *Replica) confirmHead(ctx context.Context, from *view, seen *confirmation) (fresh bool, err error) {
	if from.state == nil {
		return true, nil // no State is loaded: the error is final
	}
	if seen.asked && from.state.Revision() >= seen.head.Revision {
		return true, nil
	}
	head, err := ask(ctx, r.cfg.CommitTimeout, r.cfg.Store.Barrier)
	if err != nil {
		r.noteWriting(ctx, err)
		if errors.Is(err, ErrReadOnly) {
			return false, err
		}
		return false, unavailable(fmt.Errorf("asking the store whether an answer is current: %w", err))
	}
	if head == from.state.Head() {
		return true, nil
	}
	if err := r.followTo(ctx, head); err != nil {
		return false, unavailable(fmt.Errorf("refreshing the state: %w", err))
	}
	*seen = confirmation{asked: true, head: head}
	return false, nil
}

// compute runs edit on the newest State and returns the view it was computed from.
func (r *Replica) compute(meta Meta, id uuid.UUID, edit func(*fleet.Tx) error) (*view, fleet.Result, error) {
	from := r.current.Load()
	if from.state == nil {
		return from, fleet.Result{}, fmt.Errorf("%w: the fleet is not loaded yet", ErrUnavailable)
	}
	// The time is taken before the edit: a token that is valid in the edit has then not expired at the commit's time.
	at := r.cfg.Now().UTC().Truncate(time.Microsecond)
	tx := from.state.Begin()
	if err := edit(tx); err != nil {
		return from, fleet.Result{}, err
	}
	res, err := tx.Finish(fleet.Commit{
		ID:        id,
		At:        at,
		Actor:     meta.Actor,
		Author:    meta.Author,
		Reason:    meta.Reason,
		RequestID: meta.RequestID,
	})
	return from, res, err
}

// outcome translates the result of a commit into the error of Update.
func (r *Replica) outcome(ctx context.Context, c fleet.Commit, err error) error {
	r.noteWriting(ctx, err)
	switch {
	case err == nil, errors.Is(err, ErrStale), errors.Is(err, ErrReadOnly):
		return err
	case errors.Is(err, ErrUnknown):
		r.cfg.Logger.ErrorContext(ctx, "the outcome of a commit is unknown",
			slog.String("commit_id", c.ID.String()), slog.Int64("revision", int64(c.Revision)), slog.Any("error", err))
		return &OutcomeError{Commit: c, Err: err}
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return unavailable(err) // our deadline, not the caller's
	case errors.Is(err, ErrSchema), errors.Is(err, ErrNotInitialised):
		return unavailable(err) // it may be repaired, and no commit was made
	}
	return err
}

// catchUp follows the log to where the commit that was faster is, and waits a little, longer each time, so that
// processes that collide do not keep doing so in step.
func (r *Replica) catchUp(ctx context.Context, attempt int) error {
	if err := r.refresh(ctx); err != nil {
		return unavailable(fmt.Errorf("refreshing the state: %w", err))
	}
	if attempt == 0 {
		return nil
	}
	jitter := time.NewTimer(rand.N(min(time.Duration(attempt)*2*time.Millisecond, 50*time.Millisecond)))
	defer jitter.Stop()
	select {
	case <-jitter.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
