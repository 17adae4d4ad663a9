package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
)

// Observations is an [clusterstatus.Store] in a separate file beside a fleet's, so that commits never wait for it. The file is
// opened for each query, so it can be deleted or replaced without a restart.
type Observations struct{ path string }

var _ clusterstatus.Store = (*Observations)(nil)

// observationsSuffix is the suffix of the file's name.
const observationsSuffix = "-observations"

// NewObservations returns the observations beside the fleet file path. It does not open the file yet.
func NewObservations(path string) *Observations { return &Observations{path + observationsSuffix} }

// The most frequent write is one subject ("seen") of all clusters, so the rows of a subject are stored together.
const observationsSchema = `CREATE TABLE IF NOT EXISTS observations (cluster_id TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL,
	said INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (subject, cluster_id)) WITHOUT ROWID;
	CREATE INDEX IF NOT EXISTS observations_at ON observations (at)`

// do runs one query on the file. A damaged file, or one of another program, is replaced: its content can be lost.
func (o *Observations) do(ctx context.Context, doing string, question func(context.Context, *sql.Tx) error) error {
	err := o.once(ctx, question)
	if unreadable(err) {
		for _, suffix := range []string{"", "-journal"} {
			if gone := os.Remove(o.path + suffix); gone != nil && !errors.Is(gone, os.ErrNotExist) {
				return fmt.Errorf("%s: %w", doing, errors.Join(err, gone))
			}
		}
		err = o.once(ctx, question)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

// unreadable reports whether the file is damaged or not a database of ours.
func unreadable(err error) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR: // the last: another schema
		return true
	}
	return false
}

func (o *Observations) once(ctx context.Context, question func(context.Context, *sql.Tx) error) (err error) {
	path, err := filepath.Abs(o.path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would make it readable by all
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(2000)", "synchronous(0)"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	if _, err := tx.ExecContext(ctx, observationsSchema); err != nil {
		return err
	}
	if err := question(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Put implements [clusterstatus.Store].
func (o *Observations) Put(ctx context.Context, rows []clusterstatus.Row) error {
	return o.do(ctx, "writing observations", func(ctx context.Context, tx *sql.Tx) (err error) {
		insert, err := tx.PrepareContext(ctx, `INSERT INTO observations AS o (cluster_id, subject, body, said, at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (cluster_id, subject) DO UPDATE SET body = excluded.body, said = excluded.said, at = excluded.at
			WHERE o.said < excluded.said OR o.said = excluded.said AND o.body <> excluded.body`)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, insert.Close()) }()
		now := time.Now().UnixMicro()
		for _, r := range rows {
			if _, err := insert.ExecContext(ctx, r.Cluster, r.Subject, r.Body, r.ObservedAt.UnixMicro(), now); err != nil {
				return err
			}
		}
		return nil
	})
}

// Since implements [clusterstatus.Store].
func (o *Observations) Since(ctx context.Context, at time.Time, subjects []string, visit func(clusterstatus.Row)) (next time.Time, err error) {
	from := int64(0)
	if !at.IsZero() {
		from = at.UnixMicro()
	}
	of, err := json.Marshal(subjects)
	if err != nil {
		return at, err
	}
	err = o.do(ctx, "reading observations", func(ctx context.Context, tx *sql.Tx) (err error) {
		next = time.Now() // no other process writes now
		rows, err := tx.QueryContext(ctx, `SELECT CAST(cluster_id AS TEXT), CAST(subject AS TEXT), CAST(body AS TEXT), CAST(said AS INTEGER) FROM observations
			WHERE at >= $1 OR cluster_id = '' AND subject IN (SELECT value FROM json_each($2))`, from, string(of))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var r clusterstatus.Row
			var said int64
			if err := rows.Scan(&r.Cluster, &r.Subject, &r.Body, &said); err != nil {
				return err
			}
			r.ObservedAt = time.UnixMicro(said)
			visit(r)
		}
		return rows.Err()
	})
	return next, err
}

// Prune implements [clusterstatus.Store].
func (o *Observations) Prune(ctx context.Context, clusters []string, most int) error {
	known, err := json.Marshal(clusters)
	if err != nil {
		return err
	}
	return o.do(ctx, "tidying observations", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM observations WHERE cluster_id NOT IN (SELECT value FROM json_each($1)) OR (cluster_id, subject) IN (
			SELECT cluster_id, subject FROM (SELECT cluster_id, subject, row_number() OVER (PARTITION BY cluster_id, subject LIKE 'version/%' ORDER BY at DESC, subject) AS n FROM observations) WHERE n > $2)`,
			string(known), most)
		return err
	})
}

// Close implements [clusterstatus.Store].
func (o *Observations) Close() error { return nil }
