package sqlstore

import (
	"context"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// Quarantine implements [store.Store]. A store that was opened read-only tries as well: its role may be allowed to.
func (s *Store) Quarantine(ctx context.Context, q store.Quarantine) error {
	const doing = "holding the store"
	text, err := q.Encode()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.db.Write(ctx, Job{Doing: doing, Mode: HeadLocked}, func(ctx context.Context, tx WriteTx, now HeadRow) error {
		if !q.Supersedes(store.DecodeQuarantine(now.Quarantine), now.Head) {
			return nil
		}
		return tx.Queue(ctx, nil, `UPDATE head SET hold = $1`, text)
	})
}
