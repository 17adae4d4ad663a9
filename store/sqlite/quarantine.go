package sqlite

import (
	"context"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// Quarantine implements [store.Store].
func (s *Store) Quarantine(ctx context.Context, h store.Quarantine) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	const doing = "holding the store"
	text, err := h.Encode()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	handles, err := s.handles(ctx)
	if err != nil {
		return err
	}
	tx, err := begin(ctx, handles.writer)
	if err != nil {
		return translate(ctx, doing, err)
	}
	defer tx.end()
	if err = putQuarantine(ctx, tx, h, text); err == nil {
		err = handles.intact()
	}
	if err == nil {
		err = commit(context.WithoutCancel(ctx), tx.conn)
		tx.ended = err == nil
	}
	return translate(ctx, doing, err)
}

func putQuarantine(ctx context.Context, tx *transaction, h store.Quarantine, text string) error {
	now, err := readHead(ctx, reading{tx})
	if err != nil || !h.Supersedes(store.DecodeQuarantine(now.Quarantine), now.Head) {
		return err
	}
	return affectOne(tx.ExecContext(ctx, `UPDATE head SET hold = ?`, text))
}
