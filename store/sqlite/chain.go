package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqllog"
)

var _ store.Chained = (*Store)(nil)

// ChainHead implements [store.Chained].
func (s *Store) ChainHead(ctx context.Context) (store.ChainHead, error) {
	h, err := s.handles(ctx)
	if err != nil {
		return store.ChainHead{}, err
	}
	at, err := readHead(ctx, h.reader)
	return at.ChainHead(), translate(ctx, "reading the head", err)
}

// Links implements [store.Chained].
func (s *Store) Links(ctx context.Context, after fleet.Revision, limit int) (links []store.Link, err error) {
	err = s.read(ctx, "reading the hash chain", func(tx *sql.Tx, h head) (err error) {
		links, err = sqllog.Links(ctx, reading{tx}, h, after, limit)
		return err
	})
	return links, err
}

// FillChain implements [store.Chained].
func (s *Store) FillChain(ctx context.Context, after fleet.Revision, limit int) (last fleet.Revision, err error) {
	if s.cfg.ReadOnly {
		return after, store.ErrReadOnly
	}
	err = s.transact(ctx, "adding to the hash chain", uuid.Nil, func(tx *transaction) error {
		h, err := readHead(ctx, tx)
		if err != nil {
			return err
		}
		var links []store.Link
		if links, last, err = sqllog.Unchained(ctx, reading{tx}, h, after, limit); err != nil {
			return err
		}
		for _, l := range links {
			if _, err := tx.ExecContext(ctx, sqllog.FillLink, l.Previous, l.Hash, blob(l.Checkpoint), int64(l.Revision)); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, sqllog.FillHead)
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
		_, err := tx.ExecContext(ctx, sqllog.SetCheckpoint, checkpoint, int64(binary.BigEndian.Uint64(checkpoint)))
		return err
	})
}
