package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// divergence describes the history that a Replica serves instead of the store's.
type divergence struct {
	ours fleet.Head // what is served
	// seen is the store's head when the quarantine began. Older acceptances do not apply to it.
	seen fleet.Head
	// searched is the store's head when acceptances were last looked for.
	searched fleet.Head
}

// quarantineHistory continues to serve from, although the store's history does not contain it, until an operator accepts the
// store's content. The store may be a backup restored on purpose, the wrong database, or an emptied one. Only an operator can
// decide, and clusters uninstall everything that a wrong fleet omits.
func (r *Replica) quarantineHistory(ctx context.Context, from *view, head fleet.Head, cause error) error {
	if err := acquire(ctx, r.loading); err != nil {
		return err
	}
	defer release(r.loading)
	if r.current.Load() != from {
		return nil // the next attempt checks again
	}
	if from.state.Revision() == 0 {
		return r.replace(ctx, from, cause) // there is no State to lose
	}
	why := fmt.Sprintf("the store has another history, which ends with %s, and %s is served until an operator runs `flux-resourceset accept`",
		FormatHead(head), FormatHead(from.state.Head()))
	first := r.setQuarantineReason(why)
	if first {
		r.cfg.Logger.ErrorContext(ctx, "the store's history was replaced; the last good state is served and changes are refused until an operator accepts it",
			slog.String("served", FormatHead(from.state.Head())), slog.String("refused", FormatHead(head)),
			slog.Int("clusters", from.state.Clusters()), slog.Any("error", cause))
	}
	accepted, err := r.lookForAcceptance(ctx, from.state.Head(), head)
	if err != nil {
		return fmt.Errorf("%w: %s: looking for an acceptance: %w", ErrReplaced, why, err)
	}
	if accepted {
		return r.replace(ctx, from, cause)
	}
	if err := r.recordQuarantine(ctx, from.state); err != nil && first {
		r.cfg.Logger.WarnContext(ctx, "the quarantine cannot be recorded in the store: until a process with that permission records it, others may serve its content", slog.Any("error", err))
	}
	return fmt.Errorf("%w: %s", ErrReplaced, why)
}

// recordQuarantine records in the store that its content is quarantined in favor of the State served here.
func (r *Replica) recordQuarantine(ctx context.Context, served *fleet.State) error {
	h := NewQuarantine(served, r.cfg.Now())
	_, err := ask(ctx, r.cfg.CommitTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.cfg.Store.Quarantine(ctx, h)
	})
	return err
}

// applyQuarantine obeys a quarantine recorded in the store. A process that serves the head named in it continues for as long as
// the record exists. All other processes stop answering clusters, because alternating answers from two States would uninstall
// workloads. They follow the store's content for reads by users.
func (r *Replica) applyQuarantine(ctx context.Context, quarantined *QuarantinedError, asked time.Duration) error {
	from := r.current.Load()
	ours := from.state.Head()
	why := quarantined.Error()
	if r.setQuarantineReason(why) {
		r.cfg.Logger.ErrorContext(ctx, "the store is quarantined; changes are refused until an operator accepts what it has", slog.String("why", why),
			slog.String("here", FormatHead(ours)), slog.Bool("served_here", FormatHead(ours) == quarantined.Quarantine.Served))
	}
	if FormatHead(ours) == quarantined.Quarantine.Served {
		r.noteDivergence(ours, quarantined.Head)
		r.setQuarantined(from, false)
		r.noteConfirmed(from, asked)
		return quarantined
	}
	_, err := ask(ctx, r.cfg.LoadTimeout, func(ctx context.Context) ([]fleet.Commit, error) { return r.cfg.Store.Since(ctx, ours, 1) })
	another := errors.Is(err, ErrDiverged) || errors.Is(err, ErrCompacted)
	if newer := (Quarantine{Reason: QuarantineReplaced, Served: FormatHead(ours)}); another && newer.Supersedes(&quarantined.Quarantine, quarantined.Head) {
		// This State is newer than the one named in the quarantine, so this one prevails.
		r.noteDivergence(ours, quarantined.Head)
		if err := r.recordQuarantine(ctx, from.state); err != nil {
			r.setQuarantined(from, true)
			return errors.Join(quarantined, err)
		}
		return quarantined
	}
	r.setQuarantined(from, true)
	if another || err != nil {
		r.noteDivergence(ours, quarantined.Head)
		return errors.Join(quarantined, err)
	}
	if err := r.followTo(ctx, quarantined.Head); err != nil {
		return errors.Join(quarantined, err)
	}
	r.setQuarantineReason(why)
	now := r.current.Load()
	r.setQuarantined(now, true)
	r.noteConfirmed(now, asked)
	return quarantined
}

// noteDivergence records that this process serves ours although the store's history ends with head.
func (r *Replica) noteDivergence(ours, head fleet.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.divergence.ours != ours {
		r.divergence = divergence{ours: ours, seen: head}
	}
}

// lookForAcceptance reports whether an operator accepted the store's history, which ends with head, in place of ours. Only
// quarantineHistory calls it, so only clearQuarantineReason changes r.divergence meanwhile.
func (r *Replica) lookForAcceptance(ctx context.Context, ours, head fleet.Head) (bool, error) {
	r.mu.Lock()
	h, known := r.divergence, r.followed
	r.mu.Unlock()
	if h.ours == ours && h.searched == head {
		return false, nil // no change since the last search
	}
	if h.ours == ours {
		// If this is a third history, acceptances of the second one do not apply to it.
		_, err := askLong(ctx, r.cfg.LoadTimeout, func(ctx context.Context) ([]fleet.Commit, error) { return r.cfg.Store.Since(ctx, h.seen, 1) })
		switch {
		case errors.Is(err, ErrDiverged), errors.Is(err, ErrCompacted):
			h = divergence{}
		case err != nil:
			return false, err
		}
	}
	if h.ours != ours {
		h = divergence{ours: ours, seen: head}
	}
	commits, err := askLong(ctx, r.cfg.LoadTimeout, func(ctx context.Context) ([]fleet.Commit, error) {
		return r.cfg.Store.History(ctx, HistoryQuery{Actor: actorAccept, Limit: 1000})
	})
	if err != nil {
		return false, err
	}
	for _, c := range commits {
		// The history that followed an empty store is no evidence, unless the commit is the acceptance itself.
		if c.RequestID == acceptAny && accepts(c, ours, fleet.Head{}) && !known.IsZero() && c.At.After(known) {
			return true, nil // accepted while this process was away, in place of any served history
		}
		if accepts(c, ours, h.seen) && (h.seen.Revision > 0 || c.Revision == 1 || c.RequestID != acceptAny) {
			return true, nil
		}
	}
	h.searched = head
	r.mu.Lock()
	r.divergence = h
	r.mu.Unlock()
	return false, nil
}

// isHistoryReplaced reports whether an error means that the store's history does not continue the one that was read.
func isHistoryReplaced(err error) bool {
	return errors.Is(err, ErrDiverged) || errors.Is(err, ErrCompacted)
}

// replace loads everything in place of from, which cannot go on because of cause.
func (r *Replica) replace(ctx context.Context, from *view, cause error) error {
	asked := r.cfg.Elapsed()
	next, quarantined, err := r.loadState(ctx)
	if err != nil {
		return fmt.Errorf("loading everything again: %w, because: %w", err, cause)
	}
	if !r.publishAsOf(from, next, asked, quarantined != nil) {
		return nil
	}
	r.setStatus(func(s *Status) {
		s.Reloads++
		r.later.Store(nil) // it was about the other history
	})
	r.clearQuarantineReason()
	r.cfg.Logger.ErrorContext(ctx, "the state was replaced by the store's new content", slog.Any("cause", cause),
		slog.String("old", FormatHead(from.state.Head())), slog.String("new", FormatHead(next.Head())),
		slog.Int("old_clusters", from.state.Clusters()), slog.Int("new_clusters", next.Clusters()))
	return nil
}

// MayAct reports whether this process may take automatic actions: deliver webhooks, run rollouts, move and scan versions, and end
// freezes. It may not with Config.Passive, for a copy that no operator has accepted, and before the store has answered.
func (r *Replica) MayAct() bool { return r.acts.Load() && !r.cfg.Passive }

// noteCopied records, when the store has answered, whether it is a copy that no operator has accepted.
func (r *Replica) noteCopied(ctx context.Context, q *Quarantine) {
	why := ""
	if q.Copied() {
		why = q.Message(fleet.Head{})
	}
	r.acts.Store(why == "")
	changed := false
	r.setStatus(func(s *Status) { changed, s.PassiveReason = s.PassiveReason != why, why })
	switch {
	case changed && why != "":
		r.cfg.Logger.WarnContext(ctx, "this process takes no automatic actions", slog.String("reason", why))
	case changed:
		r.cfg.Logger.InfoContext(ctx, "an operator accepted the copy: automatic actions begin")
	}
}

// setQuarantineReason records why the store's content is not served, and reports whether it was served until now.
func (r *Replica) setQuarantineReason(why string) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.status.QuarantineReason == ""
	r.status.QuarantineReason = why
	return first
}

// clearQuarantineReason ends a refusal: the store has our history, or we have the store's.
func (r *Replica) clearQuarantineReason() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.QuarantineReason, r.divergence = "", divergence{}
}
