package sqlstore

import (
	"context"
	"time"
)

// EndSession implements [store.Store].
func (s *Store) EndSession(ctx context.Context, id string, until time.Time) error {
	return s.write(ctx, Job{Doing: "ending a session"}, func(ctx context.Context, tx WriteTx, _ HeadRow) error {
		if err := tx.Queue(ctx, nil, `DELETE FROM ended_sessions WHERE until < $1`, time.Now().UnixMicro()); err != nil {
			return err
		}
		return tx.Queue(ctx, nil, `INSERT INTO ended_sessions (id, until) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id, until.UnixMicro())
	})
}

// SessionEnded implements [store.Store].
func (s *Store) SessionEnded(ctx context.Context, id string) (ended bool, err error) {
	err = s.db.Ask(ctx, "looking a session up", func(ctx context.Context, tx Tx) error {
		return QueryOne(ctx, tx, []any{&ended}, `SELECT count(*) > 0 FROM ended_sessions WHERE id = $1`, id)
	})
	return ended, err
}
