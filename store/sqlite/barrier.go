package sqlite

import (
	"context"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Barrier implements [store.Store]. A commit holds the write lock, so no commit is under way once Barrier has it.
func (s *Store) Barrier(ctx context.Context) (fleet.Head, error) {
	if s.cfg.ReadOnly {
		return fleet.Head{}, store.ErrReadOnly
	}
	const doing = "confirming the head"
	h, err := s.handles(ctx)
	if err != nil {
		return fleet.Head{}, err
	}
	tx, err := begin(ctx, h.writer)
	if err != nil {
		return fleet.Head{}, translate(ctx, doing, err)
	}
	now, err := readHead(ctx, reading{tx})
	tx.end()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = h.intact()
	}
	if err != nil {
		return fleet.Head{}, translate(ctx, doing, err)
	}
	return now.Free()
}
