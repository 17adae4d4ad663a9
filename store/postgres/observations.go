package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
)

// Observations is an [clusterstatus.Store] in the database of a fleet. It has a connection of its own, opened on first use, so
// that it never delays commits or followers of the log.
type Observations struct {
	pool *pgxpool.Pool
	name string
}

var _ clusterstatus.Store = (*Observations)(nil)

// observationsTimeout is for one question about observations, here and in the server.
const observationsTimeout = 5 * time.Second

// observationsSettle is how long a write usually takes at most until others see it.
const observationsSettle = 2 * time.Second

// observationsLoad is for reading all of them, once in the life of a process.
const observationsLoad = time.Minute

// NewObservations does not connect yet, so it fails only for an invalid URL.
func NewObservations(cfg Config) (*Observations, error) {
	p, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	p.MinConns, p.MinIdleConns, p.MaxConns = 0, 0, 1
	pool, err := pgxpool.NewWithConfig(context.Background(), p)
	if err != nil {
		return nil, err
	}
	return &Observations{pool: pool, name: name(p.ConnConfig)}, nil
}

// Put implements [clusterstatus.Store].
func (o *Observations) Put(ctx context.Context, rows []clusterstatus.Row) error {
	clusters, subjects, bodies, said := make([]string, len(rows)), make([]string, len(rows)), make([]string, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		clusters[i], subjects[i], bodies[i], said[i] = r.Cluster, r.Subject, r.Body, r.ObservedAt.UnixMicro()
	}
	put := func() error {
		return o.write(ctx, `INSERT INTO observations AS o (cluster_id, subject, body, said, at)
		SELECT c, s, b, t, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS new (c, s, b, t)
		ORDER BY c, s
		ON CONFLICT (cluster_id, subject) DO UPDATE SET body = excluded.body, said = excluded.said, at = excluded.at
			WHERE o.said < excluded.said OR o.said = excluded.said AND o.body <> excluded.body`,
			clusters, subjects, bodies, said)
	}
	err := put()
	if hasCode(err, codeUndefinedTable) {
		if err = o.restore(ctx); err == nil {
			err = put()
		}
	}
	return o.failed("writing observations", err)
}

// restore creates the table again, with the columns of the migration. It does nothing in a database without our schema: an
// operator must see that such a database has lost everything.
func (o *Observations) restore(ctx context.Context) error {
	return o.write(ctx, `DO $$ BEGIN IF to_regclass('head') IS NOT NULL AND to_regclass('`+versionTable+`') IS NOT NULL THEN
		CREATE TABLE IF NOT EXISTS observations (cluster_id text COLLATE "C" NOT NULL, subject text COLLATE "C" NOT NULL,
		body text COLLATE "C" NOT NULL, said bigint NOT NULL, at bigint NOT NULL, PRIMARY KEY (cluster_id, subject));
		CREATE INDEX IF NOT EXISTS observations_at ON observations (at); END IF; END $$`)
}

// write runs one change in a transaction of its own. It does not wait for the disk: lost rows are written again.
func (o *Observations) write(ctx context.Context, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, observationsTimeout)
	defer cancel()
	c, err := o.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	defer c.Release()
	tx, err := c.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin(writing, observationsTimeout) + "; SET LOCAL synchronous_commit = off"})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // no effect after a commit
	if _, err = tx.Exec(ctx, sql, args...); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Since implements [clusterstatus.Store].
func (o *Observations) Since(ctx context.Context, at time.Time, subjects []string, visit func(clusterstatus.Row)) (time.Time, error) {
	limit := observationsTimeout
	if at.IsZero() {
		limit = observationsLoad
	}
	next, err := o.since(ctx, limit, at, subjects, visit)
	if hasCode(err, codeUndefinedTable) {
		// The table does not exist yet. A role that may create it does so; other roles wait for that.
		if err = o.restore(ctx); hasCode(err, codeDenied) || hasCode(err, codeReadOnly) {
			err = nil
		}
	}
	return next, o.failed("reading observations", err)
}

func (o *Observations) since(ctx context.Context, limit time.Duration, at time.Time, subjects []string, visit func(clusterstatus.Row)) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := o.pool.Acquire(ctx)
	if err != nil {
		return at, fmt.Errorf("%w: %w", errLost, err)
	}
	defer c.Release()
	tx, err := c.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin(snapshot, limit)})
	if err != nil {
		return at, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	from := int64(0)
	if !at.IsZero() {
		from = at.UnixMicro()
	}
	both := &pgx.Batch{}
	// When the transaction began, which was before it sees anything. A standby has its rows, and their times, from another server, and
	// knows how far it has come.
	both.Queue(`SELECT (extract(epoch FROM CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_xact_replay_timestamp(), now()) ELSE now() END) * 1e6)::bigint`)
	both.Queue(`SELECT cluster_id, subject, body, said FROM observations WHERE at >= $1 OR cluster_id = '' AND subject = ANY ($2::text[])`, from, subjects)
	answers := tx.SendBatch(ctx, both)
	defer func() { err = errors.Join(err, answers.Close()) }()
	var began int64
	if err := answers.QueryRow().Scan(&began); err != nil {
		return at, err
	}
	rows, err := answers.Query()
	if err != nil {
		return at, err
	}
	defer rows.Close()
	for rows.Next() {
		var r clusterstatus.Row
		var said int64
		if err := rows.Scan(&r.Cluster, &r.Subject, &r.Body, &said); err != nil {
			return at, err
		}
		r.ObservedAt = time.UnixMicro(said)
		visit(r)
	}
	return time.UnixMicro(began).Add(-observationsSettle), rows.Err()
}

// Prune implements [clusterstatus.Store].
func (o *Observations) Prune(ctx context.Context, clusters []string, most int) error {
	err := o.write(ctx, `DELETE FROM observations AS o USING (
		SELECT cluster_id, subject, cluster_id = ANY ($1::text[]) AS known, row_number() OVER (PARTITION BY cluster_id, subject LIKE 'version/%' ORDER BY at DESC, subject) AS n FROM observations) AS old
		WHERE o.cluster_id = old.cluster_id AND o.subject = old.subject AND (NOT old.known OR old.n > $2)`, clusters, most)
	if hasCode(err, codeUndefinedTable) {
		return nil
	}
	return o.failed("tidying observations", err)
}

// Close implements [clusterstatus.Store].
func (o *Observations) Close() error {
	go o.pool.Close() // which waits for a connection that hangs
	return nil
}

func (o *Observations) failed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case hasCode(err, codeDenied):
		return fmt.Errorf("%s: %w: %w", doing, clusterstatus.ErrDenied, err)
	case hasCode(err, codeReadOnly): // a standby
		return fmt.Errorf("%s: %w: %w", doing, clusterstatus.ErrDenied, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return translate(doing+" in "+o.name, err)
}
