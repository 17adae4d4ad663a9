package store

import (
	"context"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// chunks holds the received part of the commit after a State, when reading that commit in one query failed. It is kept between
// attempts, so a connection that is cut repeatedly still transfers a commit of any size. The commit is applied when it is
// complete. Only the holder of Replica.collecting accesses it.
type chunks struct {
	after  fleet.Head
	commit fleet.Commit // no revision: unknown yet
	count  int          // of its changes
	size   int          // how many changes are asked for
}

// initialChunkSize is how many changes are asked for at once at first: a megabyte or two of large documents.
const initialChunkSize = 32

// next returns the commits after the State of a view, or only the first of them, in chunks, after that has failed. None:
// there are none, or the State has been replaced meanwhile.
func (r *Replica) next(ctx context.Context, from *view) ([]fleet.Commit, error) {
	after := from.state.Head()
	if r.fetchesChunks(after) {
		return r.collect(ctx, from)
	}
	commits, err := askLong(ctx, r.cfg.LoadTimeout, func(ctx context.Context) ([]fleet.Commit, error) {
		return r.cfg.Store.Since(ctx, after, r.cfg.BatchSize)
	})
	if err != nil && !isHistoryReplaced(err) && ctx.Err() == nil {
		r.setChunks(&chunks{after: after, size: initialChunkSize})
	}
	return commits, err
}

func (r *Replica) fetchesChunks(after fleet.Head) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chunks != nil && r.chunks.after == after
}

func (r *Replica) setChunks(p *chunks) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil || r.chunks == nil || r.chunks.after != p.after {
		r.chunks = p
	}
}

// dropChunks discards a partial commit that does not follow the published State.
func (r *Replica) dropChunks(now fleet.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.chunks != nil && r.chunks.after != now {
		r.chunks = nil
	}
}

// collect continues to fetch the chunks of the commit after the State of a view, and returns the commit when it is complete.
func (r *Replica) collect(ctx context.Context, from *view) ([]fleet.Commit, error) {
	if err := acquire(ctx, r.collecting); err != nil {
		return nil, err
	}
	defer release(r.collecting)
	r.mu.Lock()
	p := r.chunks
	r.mu.Unlock()
	if r.current.Load() != from || p == nil || p.after != from.state.Head() {
		return nil, nil
	}
	had := len(p.commit.Changes)
	commits, err := r.fetchChunks(WithPriority(ctx), p)
	switch {
	case err == nil, isHistoryReplaced(err): // then Since returns a better error
		r.setChunks(nil)
	case len(p.commit.Changes) == had: // not even one part came
		p.size = max(1, p.size/2)
	}
	return commits, err
}

func (r *Replica) fetchChunks(ctx context.Context, p *chunks) ([]fleet.Commit, error) {
	if p.commit.Revision == 0 {
		commit, count, err := r.nextHeader(ctx, p.after)
		if err != nil {
			return nil, err
		}
		p.commit, p.count = commit, count
	}
	for len(p.commit.Changes) < p.count {
		some, err := askLong(ctx, r.cfg.LoadTimeout, func(ctx context.Context) ([]fleet.Change, error) {
			return r.cfg.Store.Changes(ctx, p.commit.Revision, len(p.commit.Changes), p.size)
		})
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			return nil, ErrDiverged // it had more
		}
		p.commit.Changes = append(p.commit.Changes, some...)
	}
	// The chunks were read at different times but belong to one commit: a revision does not change, and it still has the same
	// id.
	now, count, err := r.nextHeader(ctx, p.after)
	if err != nil {
		return nil, err
	}
	if now.ID != p.commit.ID || count != len(p.commit.Changes) {
		return nil, ErrDiverged
	}
	return []fleet.Commit{p.commit}, nil
}

// nextHeader returns the commit after a head without its changes, and how many these are. ErrDiverged when the log does not
// have both, which may also mean that it no longer has.
func (r *Replica) nextHeader(ctx context.Context, after fleet.Head) (fleet.Commit, int, error) {
	found, err := ask(ctx, r.cfg.QueryTimeout, func(ctx context.Context) ([]Summary, error) {
		return r.cfg.Store.Summaries(ctx, HistoryQuery{Before: after.Revision + 2, Limit: 2}, 0)
	})
	if err != nil {
		return fleet.Commit{}, 0, err
	}
	if len(found) == 0 || found[0].Revision != after.Revision+1 ||
		after.Revision > 0 && (len(found) < 2 || found[1].Head() != after) {
		return fleet.Commit{}, 0, ErrDiverged
	}
	return found[0].Commit, found[0].Count, nil
}
