package sqlite

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

var _ store.Chained = (*Store)(nil)

// FillChain implements [store.Chained].
func (s *Store) FillChain(ctx context.Context, after fleet.Revision, limit int) (last fleet.Revision, err error) {
	if s.cfg.ReadOnly {
		return after, store.ErrReadOnly
	}
	err = s.transact(ctx, "adding to the hash chain", uuid.Nil, func(tx *transaction) error {
		h, err := readHead(ctx, reading{tx})
		if err != nil {
			return err
		}
		var links []store.Link
		if links, last, err = sqlstore.Unchained(ctx, reading{tx}, h, after, limit); err != nil {
			return err
		}
		for _, l := range links {
			if _, err := tx.ExecContext(ctx, sqlstore.FillLink, l.Previous, l.Hash, blob(l.Checkpoint), int64(l.Revision)); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, sqlstore.FillHead)
		return err
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
	return s.transact(ctx, "writing the checkpoint", uuid.Nil, func(tx *transaction) error {
		_, err := tx.ExecContext(ctx, sqlstore.SetCheckpoint, checkpoint, int64(binary.BigEndian.Uint64(checkpoint)))
		return err
	})
}
