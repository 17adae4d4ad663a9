package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

// head is the row every commit moves.
type head struct {
	fleet.Head
	at        int64
	documents int64
	oldest    fleet.Revision // that the log holds whole
	hold      string         // why it is not served; see Hold
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// readHead reads the head, and refuses when the schema is no longer the one this binary knows: another process may
// have migrated the file since we opened it.
func readHead(ctx context.Context, q querier) (head, error) {
	var h head
	var version sql.NullInt64
	var dirty sql.NullBool
	err := q.QueryRowContext(ctx, `SELECT h.revision, h.commit_id, h.at, h.documents, h.oldest, h.hold, v.version, v.dirty
		FROM head h LEFT JOIN `+versionTable+` v ON true`).
		Scan(&h.Revision, &h.ID, &h.at, &h.documents, &h.oldest, &h.hold, &version, &dirty)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return h, errNoHead
	case hasCode(err, sqlite3.SQLITE_ERROR):
		return h, fmt.Errorf("%w: %w", store.ErrSchema, err) // a table of ours is missing
	case err != nil:
		return h, err
	}
	found := contents{exists: true, version: int(version.Int64), dirty: dirty.Bool}
	return h, found.ours("the database")
}

func microtime(us int64) time.Time { return time.UnixMicro(us).UTC() }

// read runs f in one read transaction: everything f sees is of one moment.
func (s *Store) read(ctx context.Context, doing string, f func(*sql.Tx, head) error) error {
	h, err := s.handles(ctx)
	if err != nil {
		return err
	}
	conn, err := h.reader.Conn(ctx)
	if err != nil {
		return translate(ctx, doing, err)
	}
	defer func() { _ = conn.Close() }() // back into the pool, unless it was thrown away
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		discard(conn)
		return translate(ctx, doing, err)
	}
	defer func() {
		if tx.Rollback() != nil { // it ended with ctx, and nobody says how
			discard(conn)
		}
	}()
	at, err := readHead(ctx, tx)
	if err == nil {
		err = f(tx, at)
	}
	return translate(ctx, doing, err)
}

// recall is read for people who look at the history. However many they are, they leave connections to those who follow the
// log and commit.
func (s *Store) recall(ctx context.Context, doing string, f func(*sql.Tx, head) error) error {
	if store.HasPrecedence(ctx) {
		return s.read(ctx, doing, f)
	}
	select {
	case s.recalls <- struct{}{}:
	case <-ctx.Done():
		return translate(ctx, doing, ctx.Err())
	}
	defer func() { <-s.recalls }()
	return s.read(ctx, doing, f)
}

// Head implements [store.Store].
func (s *Store) Head(ctx context.Context) (fleet.Head, error) {
	h, err := s.handles(ctx)
	if err != nil {
		return fleet.Head{}, err
	}
	at, err := readHead(ctx, h.reader)
	if err != nil {
		return fleet.Head{}, translate(ctx, "reading the head", err)
	}
	return at.free()
}

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	if _, err := s.Head(ctx); !errors.Is(err, store.ErrHeld) {
		return err
	}
	return nil
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context) (store.Snapshot, error) {
	var snap store.Snapshot
	err := s.read(ctx, "loading the fleet", func(tx *sql.Tx, h head) error {
		if err := inLog(ctx, tx, h.Head); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx,
			`SELECT kind, id, revision, commit_id, created_at, updated_at, body FROM documents ORDER BY kind, id`)
		if err != nil {
			return err
		}
		records, err := collect(rows, func(rows *sql.Rows, r *fleet.Record) error {
			store.Advance(ctx)
			return scanRecord(rows, r)
		})
		if err != nil {
			return err
		}
		found := store.Snapshot{Head: h.Head, Records: records}
		if hold := store.DecodeHold(h.hold); hold.Binds(h.Head) {
			found.Hold = hold
		}
		if err := backend.CheckSnapshot(found, h.documents); err != nil {
			return err
		}
		if h.Revision > 0 {
			found.At = microtime(h.at)
		}
		snap = found
		return nil
	})
	return snap, err
}

func scanRecord(rows *sql.Rows, r *fleet.Record) error {
	var created, updated int64
	if err := rows.Scan(&r.Kind, &r.ID, &r.Revision, &r.CommitID, &created, &updated, (*[]byte)(&r.Body)); err != nil {
		return err
	}
	r.CreatedAt, r.UpdatedAt = microtime(created), microtime(updated)
	return nil
}

// inLog returns ErrCorrupt when the log does not end with the commit that the head names.
func inLog(ctx context.Context, q querier, h fleet.Head) error {
	var last fleet.Head
	err := q.QueryRowContext(ctx, `SELECT revision, id FROM commits ORDER BY revision DESC LIMIT 1`).Scan(&last.Revision, &last.ID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if last != h {
		return fmt.Errorf("%w: the head is revision %d, the log ends with %d", store.ErrCorrupt, h.Revision, last.Revision)
	}
	return nil
}

// Since implements [store.Store]. ErrCompacted is also for a log that somebody shortened by hand.
func (s *Store) Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error) {
	if limit < 1 {
		return nil, fmt.Errorf("commits since revision %d: the limit is %d", after.Revision, limit)
	}
	var commits []fleet.Commit
	err := s.read(ctx, "reading the log", func(tx *sql.Tx, h head) error {
		if after == h.Head {
			return nil
		}
		if err := known(ctx, tx, after, h); err != nil {
			return err
		}
		var err error
		commits, err = commitRows(ctx, tx,
			`SELECT revision, id, at, actor, author, reason, request_id, operations FROM commits WHERE revision > ? ORDER BY revision LIMIT ?`,
			after.Revision, limit)
		if err != nil {
			return err
		}
		if err := backend.CheckLog(commits, after, h.Head, limit); err != nil {
			return err
		}
		if commits, err = page(ctx, tx, commits); err != nil {
			return err
		}
		return addChanges(ctx, tx, commits)
	})
	if err != nil {
		return nil, err
	}
	return commits, nil
}

// Latest implements [store.Store].
func (s *Store) Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (now fleet.Head, docs map[string]json.RawMessage, err error) {
	err = s.read(ctx, "reading what has changed", func(tx *sql.Tx, h head) error {
		if after != h.Head {
			if err := known(ctx, tx, after, h); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(ctx, backend.SelectLatest, string(kind), int64(after.Revision))
		if err != nil {
			return err
		}
		found, err := collect(rows, func(rows *sql.Rows, r *backend.Latest) error {
			store.Advance(ctx)
			return rows.Scan(&r.ID, &r.Body)
		})
		if err == nil {
			now, docs = h.Head, backend.ByID(found)
		}
		return err
	})
	if err != nil {
		return fleet.Head{}, nil, err
	}
	return now, docs, nil
}

// known tells whether the log contains the commit that after names: ErrDiverged or ErrCompacted when it does not.
func known(ctx context.Context, tx *sql.Tx, after fleet.Head, h head) error {
	if after.Revision >= h.Revision {
		return fmt.Errorf("%w: revision %d is not a past of the head, revision %d", store.ErrDiverged, after.Revision, h.Revision)
	}
	var first sql.NullInt64
	if err := tx.QueryRowContext(ctx, `SELECT min(revision) FROM commits`).Scan(&first); err != nil {
		return err
	}
	if h.oldest > 1 && after.Revision < h.oldest {
		return backend.Compacted(h.oldest)
	}
	if after == (fleet.Head{}) {
		if first.Int64 != 1 {
			return fmt.Errorf("%w: it starts at revision %d", store.ErrCompacted, first.Int64)
		}
		return nil
	}
	var id uuid.UUID
	err := tx.QueryRowContext(ctx, `SELECT id FROM commits WHERE revision = ?`, after.Revision).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows) && int64(after.Revision) < first.Int64 && after.Revision > 0:
		return fmt.Errorf("%w: it starts at revision %d", store.ErrCompacted, first.Int64)
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: it has no revision %d", store.ErrDiverged, after.Revision)
	case err != nil:
		return err
	case id != after.ID:
		return fmt.Errorf("%w: revision %d is commit %s there and %s here", store.ErrDiverged, after.Revision, id, after.ID)
	}
	return nil
}

// page leaves of the commits those that Since may return at once.
func page(ctx context.Context, tx *sql.Tx, commits []fleet.Commit) ([]fleet.Commit, error) {
	if len(commits) < 2 {
		return commits, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT revision, sum(coalesce(bytes, coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0)))
		FROM changes WHERE revision IN (SELECT value FROM json_each(?)) GROUP BY revision`, revisions(commits))
	if err != nil {
		return nil, err
	}
	type size struct {
		revision fleet.Revision
		bytes    int64
	}
	found, err := collect(rows, func(rows *sql.Rows, s *size) error { return rows.Scan(&s.revision, &s.bytes) })
	if err != nil {
		return nil, err
	}
	sizes := make(map[fleet.Revision]int64, len(found))
	for _, s := range found {
		sizes[s.revision] = s.bytes
	}
	return backend.FirstPage(commits, sizes), nil
}

// revisions are the commits' as JSON: one parameter, however many there are.
func revisions(commits []fleet.Commit) string {
	list := []byte("[")
	for i, c := range commits {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, int64(c.Revision), 10)
	}
	return string(append(list, ']'))
}

// queryCommits runs a query for rows of the table commits and adds their changes.
func queryCommits(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]fleet.Commit, error) {
	commits, err := commitRows(ctx, tx, query, args...)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	return commits, addChanges(ctx, tx, commits)
}

// commitRows runs a query for rows of the table commits.
func commitRows(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]fleet.Commit, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(rows *sql.Rows, c *fleet.Commit) error {
		var at int64
		var operations string
		err := rows.Scan(&c.Revision, &c.ID, &at, &c.Actor, &c.Author, &c.Reason, &c.RequestID, &operations)
		c.At, c.Operations = microtime(at), backend.Operations(operations)
		return err
	})
}

func addChanges(ctx context.Context, tx *sql.Tx, commits []fleet.Commit) error {
	to := make(map[fleet.Revision]*fleet.Commit, len(commits))
	for i := range commits {
		to[commits[i].Revision] = &commits[i]
	}
	rows, err := queryRows(ctx, tx, `SELECT `+backend.RowColumns+` FROM `+backend.RowTables+`
		WHERE c.revision IN (SELECT value FROM json_each(?)) ORDER BY c.revision, c.seq`, revisions(commits))
	if err != nil {
		return err
	}
	changes, err := bodies(ctx, tx, rows)
	if err != nil {
		return err
	}
	for i, ch := range changes {
		c := to[rows[i].Revision]
		c.Changes = append(c.Changes, ch)
	}
	return nil
}

// queryRows runs a query for backend.RowColumns.
func queryRows(ctx context.Context, q querier, query string, args ...any) ([]backend.Row, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(rows *sql.Rows, r *backend.Row) error {
		store.Advance(ctx)
		return rows.Scan(r.Fields()...)
	})
}

// bodies are the changes that rows are.
func bodies(ctx context.Context, q querier, rows []backend.Row) ([]fleet.Change, error) {
	return backend.Bodies(rows, func(of []*backend.Row) ([]backend.Row, error) {
		var all []backend.Row
		for _, r := range of {
			later, err := queryRows(ctx, q, backend.LaterChanges, string(r.Kind), r.ID, int64(r.Revision))
			if err != nil {
				return nil, err
			}
			all = append(all, later...)
		}
		return all, nil
	})
}
