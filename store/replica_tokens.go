package store

import (
	"context"
	"log/slog"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// laterTokens is the store's state of managed tokens at a head newer than the State.
type laterTokens struct {
	head   fleet.Head
	tokens fleet.TokenRevocations
}

// Holder returns the holder of a secret in a State of this Replica, as [fleet.State.Holder] does, or nil if the store has
// revoked the token since. A revocation must not wait until the large commits before it in the log are read. Holder neither
// waits nor allocates.
func (r *Replica) Holder(st *fleet.State, secret fleet.Digest) *fleet.Holder {
	h := st.Holder(secret)
	if later := r.later.Load(); later != nil && h != nil && later.head.Revision > st.Revision() {
		return later.tokens.Restrict(secret, h)
	}
	return h
}

// followTokens reads changes of tokens while the State is behind the store, until ctx ends. It uses a separate connection,
// because the follower may be busy with one commit for minutes.
func (r *Replica) followTokens(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.Interval)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := r.lookAtTokens(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			r.cfg.Logger.ErrorContext(ctx, "tokens that were revoked since cannot be looked for while the state is behind", slog.Any("error", err), r.revision())
		}
		failed = err != nil
	}
}

func (r *Replica) lookAtTokens(ctx context.Context) error {
	reloads := r.Status().Reloads
	state, later := r.State(), r.later.Load()
	if later != nil && later.head.Revision <= state.Revision() {
		r.later.CompareAndSwap(later, nil) // the State includes it
		later = nil
	}
	if state == nil || int64(state.Revision()) >= r.ahead.Load() {
		return nil
	}
	if later == nil {
		later = &laterTokens{head: state.Head()}
	}
	next, err := r.laterThan(ctx, later)
	if isHistoryReplaced(err) && later.head != state.Head() {
		next, err = r.laterThan(ctx, &laterTokens{head: state.Head()}) // the commits between were lost
	}
	switch {
	case isHistoryReplaced(err):
		return nil // the follower finds the same, and acts on it
	case err != nil:
		return err
	}
	r.setStatus(func(s *Status) {
		if s.Reloads == reloads { // or this is about a history that was replaced
			r.later.Store(next)
		}
	})
	return nil
}

// laterThan adds the token changes in the store that are newer than from.
func (r *Replica) laterThan(ctx context.Context, from *laterTokens) (*laterTokens, error) {
	return askLong(ctx, r.cfg.QueryTimeout, func(ctx context.Context) (*laterTokens, error) {
		head, tokens, err := r.cfg.Store.Latest(ctx, fleet.KindToken, from.head)
		if err != nil || head == from.head {
			return from, err
		}
		return &laterTokens{head: head, tokens: from.tokens.With(tokens)}, nil
	})
}
