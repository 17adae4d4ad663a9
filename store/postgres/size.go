package postgres

import "context"

// Size implements [store.Store]: the size of our tables and their indexes, without other content of the database.
func (s *Store) Size(ctx context.Context) (int64, error) {
	if err := s.first.Wait(ctx); err != nil {
		return 0, err
	}
	var size int64
	err := s.connected(ctx, func(ctx context.Context, c *session) error {
		return c.conn.QueryRow(ctx, `SELECT sum(pg_total_relation_size(name::regclass))::bigint
			FROM unnest(ARRAY['head', 'documents', 'commits', 'changes']) AS name`).Scan(&size)
	})
	return size, s.translate(ctx, "measuring the database", err)
}
