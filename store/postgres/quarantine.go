package postgres

import (
	"context"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Quarantine implements [store.Store]. A store that was opened read-only tries as well: its role may have been given the right.
func (s *Store) Quarantine(ctx context.Context, h store.Quarantine) error {
	const doing = "holding the store"
	text, err := h.Encode()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	inner, cancel := s.within(ctx, writeTimeout)
	defer cancel()
	ses, err := s.begin(inner, writing, writeTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	var now sqlstore.HeadRow
	if _, err = ses.tx.Exec(inner, `SELECT FROM head FOR UPDATE`); err == nil {
		now, err = s.readHead(inner, reading{ses.tx})
	}
	if err == nil && h.Supersedes(store.DecodeQuarantine(now.Quarantine), now.Head) {
		if _, err = ses.tx.Exec(inner, s.durability); err == nil {
			_, err = ses.tx.Exec(inner, `UPDATE head SET hold = $1`, text)
		}
		if err == nil {
			err = ses.tx.Commit(inner)
		}
	}
	return s.translate(ctx, doing, ses.end(err))
}
