package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var _ store.Chained = (*Store)(nil)

// FillChain implements [store.Chained]. Commits that have begun are waited for, as for CommitLocked; one that waits meanwhile
// finds that the commit before it is in the chain now, and is computed again.
func (s *Store) FillChain(ctx context.Context, after fleet.Revision, limit int) (last fleet.Revision, err error) {
	if s.cfg.ReadOnly {
		return after, store.ErrReadOnly
	}
	err = s.transact(ctx, "adding to the hash chain", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockLog); err != nil {
			return err
		}
		h, err := s.readHead(ctx, reading{tx})
		if err != nil {
			return err
		}
		var links []store.Link
		if links, last, err = sqlstore.Unchained(ctx, reading{tx}, h, after, limit); err != nil {
			return err
		}
		out := &pipeline{tx: tx}
		for _, l := range links {
			out.add(nil, sqlstore.FillLink, l.Previous, l.Hash, l.Checkpoint, int64(l.Revision))
		}
		out.add(nil, sqlstore.FillHead)
		return out.send(ctx)
	})
	return last, err
}

// SetCheckpoint implements [store.Chained].
func (s *Store) SetCheckpoint(ctx context.Context, checkpoint []byte) error {
	switch {
	case s.cfg.ReadOnly:
		return store.ErrReadOnly
	case len(checkpoint) <= 8:
		return fmt.Errorf("a checkpoint has %d bytes", len(checkpoint))
	}
	return s.transact(ctx, "writing the checkpoint", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sqlstore.SetCheckpoint, checkpoint, int64(binary.BigEndian.Uint64(checkpoint)))
		return err
	})
}
