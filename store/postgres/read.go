package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	standby   bool           // it was read on a server that follows another one
}

// readHead reads the head, and refuses when the schema is no longer the one this binary knows: another process may
// have migrated the database since we opened it.
func readHead(ctx context.Context, q querier, name string) (head, error) {
	return scanHead(q.QueryRow(ctx, selectHead), name)
}

// lockHead is readHead once no commit is under way, and until the transaction ends there will be none.
func lockHead(ctx context.Context, q querier, name string) (head, error) {
	return scanHead(q.QueryRow(ctx, selectHead+` FOR SHARE OF h`), name)
}

const selectHead = `SELECT h.revision, h.commit_id, h.at, h.documents, h.oldest, h.hold, v.version, v.dirty, pg_is_in_recovery()
	FROM head h LEFT JOIN ` + versionTable + ` v ON true`

func scanHead(row pgx.Row, name string) (head, error) {
	var h head
	var version sql.NullInt64
	var dirty sql.NullBool
	err := row.Scan(&h.Revision, &h.ID, &h.at, &h.documents, &h.oldest, &h.hold, &version, &dirty, &h.standby)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return h, fmt.Errorf("%w: the row that names the head is gone", store.ErrCorrupt)
	case err != nil:
		return h, err
	}
	return h, backend.Schema{Version: int(version.Int64), Dirty: dirty.Bool}.Fits(newestVersion(), name)
}

func microtime(us int64) time.Time { return time.UnixMicro(us).UTC() }

// read runs f in one read transaction: everything f sees is of one moment.
func (s *Store) read(ctx context.Context, doing string, f func(context.Context, pgx.Tx, head) error) error {
	inner, cancel := s.patiently(ctx)
	defer cancel()
	c, err := s.begin(inner, snapshot, answerTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	return s.translate(ctx, doing, c.end(f(inner, c.tx, c.head)))
}

// recall is read for people who look at the history, of whom there may be any number.
func (s *Store) recall(ctx context.Context, doing string, f func(context.Context, pgx.Tx, head) error) error {
	if store.HasPrecedence(ctx) {
		return s.read(ctx, doing, f)
	}
	waiting, cancel := s.within(ctx, readTimeout)
	defer cancel()
	if err := s.take(waiting, s.recalls); err != nil {
		return s.translate(ctx, doing, err)
	}
	defer func() { <-s.recalls }()
	return s.read(ctx, doing, f)
}

// Load implements [store.Store].
func (s *Store) Load(ctx context.Context) (store.Snapshot, error) {
	var snap store.Snapshot
	err := s.read(ctx, "loading the fleet", func(ctx context.Context, tx pgx.Tx, h head) error {
		if err := inLog(ctx, tx, h.Head); err != nil {
			return err
		}
		rows, err := tx.Query(ctx,
			`SELECT kind, id, revision, commit_id, created_at, updated_at, body FROM documents ORDER BY kind, id`)
		if err != nil {
			return err
		}
		found := store.Snapshot{Head: h.Head}
		if hold := store.DecodeHold(h.hold); hold.Binds(h.Head) {
			found.Hold = hold
		}
		if found.Records, err = collect(rows, func(rows pgx.Rows, r *fleet.Record) error {
			store.Advance(ctx)
			return scanRecord(rows, r)
		}); err != nil {
			return err
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

func scanRecord(rows pgx.Rows, r *fleet.Record) error {
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
	err := q.QueryRow(ctx, `SELECT revision, id FROM commits ORDER BY revision DESC LIMIT 1`).Scan(&last.Revision, &last.ID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
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
	err := s.read(ctx, "reading the log", func(ctx context.Context, tx pgx.Tx, h head) error {
		if after == h.Head {
			return nil
		}
		if err := known(ctx, tx, after, h); err != nil {
			return err
		}
		found, err := commitRows(ctx, tx,
			`SELECT revision, id, at, actor, author, reason, request_id, operations FROM commits WHERE revision > $1 ORDER BY revision LIMIT $2`,
			int64(after.Revision), limit)
		if err == nil {
			err = backend.CheckLog(found, after, h.Head, limit)
		}
		if err == nil {
			found, err = page(ctx, tx, found)
		}
		if err == nil {
			err = readChanges(ctx, tx, found)
		}
		if err == nil {
			commits = found
		}
		return err
	})
	return commits, err
}

// Latest implements [store.Store].
func (s *Store) Latest(ctx context.Context, kind fleet.Kind, after fleet.Head) (now fleet.Head, docs map[string]json.RawMessage, err error) {
	err = s.read(ctx, "reading what has changed", func(ctx context.Context, tx pgx.Tx, h head) error {
		if after != h.Head {
			if err := known(ctx, tx, after, h); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, backend.SelectLatest, string(kind), int64(after.Revision))
		if err != nil {
			return err
		}
		found, err := collect(rows, func(rows pgx.Rows, r *backend.Latest) error {
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
func known(ctx context.Context, q querier, after fleet.Head, h head) error {
	if after.Revision > h.Revision && h.standby {
		// One standby may be behind another, and every standby behind its primary. That is no other history, and
		// taking it for one would turn this process's State back.
		return fmt.Errorf("%w: this standby has reached revision %d and not yet %d", store.ErrUnavailable, h.Revision, after.Revision)
	}
	if after.Revision >= h.Revision {
		return fmt.Errorf("%w: revision %d is not a past of the head, revision %d", store.ErrDiverged, after.Revision, h.Revision)
	}
	var first sql.NullInt64
	if err := q.QueryRow(ctx, `SELECT min(revision) FROM commits`).Scan(&first); err != nil {
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
	err := q.QueryRow(ctx, `SELECT id FROM commits WHERE revision = $1`, int64(after.Revision)).Scan(&id)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && int64(after.Revision) < first.Int64 && after.Revision > 0:
		return fmt.Errorf("%w: it starts at revision %d", store.ErrCompacted, first.Int64)
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: it has no revision %d", store.ErrDiverged, after.Revision)
	case err != nil:
		return err
	case id != after.ID:
		return fmt.Errorf("%w: revision %d is commit %s there and %s here", store.ErrDiverged, after.Revision, id, after.ID)
	}
	return nil
}

// page leaves of the commits those that Since may return at once.
func page(ctx context.Context, q querier, commits []fleet.Commit) ([]fleet.Commit, error) {
	if len(commits) < 2 {
		return commits, nil
	}
	rows, err := q.Query(ctx, `SELECT revision, sum(coalesce(bytes, coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0)))::bigint
		FROM changes WHERE revision = ANY ($1::bigint[]) GROUP BY revision`, revisions(commits))
	if err != nil {
		return nil, err
	}
	type size struct {
		revision fleet.Revision
		bytes    int64
	}
	found, err := collect(rows, func(rows pgx.Rows, s *size) error { return rows.Scan(&s.revision, &s.bytes) })
	if err != nil {
		return nil, err
	}
	sizes := make(map[fleet.Revision]int64, len(found))
	for _, s := range found {
		sizes[s.revision] = s.bytes
	}
	return backend.FirstPage(commits, sizes), nil
}

func revisions(commits []fleet.Commit) []int64 {
	all := make([]int64, len(commits))
	for i, c := range commits {
		all[i] = int64(c.Revision)
	}
	return all
}

// queryCommits runs a query for rows of the table commits and adds their changes.
func queryCommits(ctx context.Context, q querier, query string, args ...any) ([]fleet.Commit, error) {
	commits, err := commitRows(ctx, q, query, args...)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	if err := readChanges(ctx, q, commits); err != nil {
		return nil, err
	}
	return commits, nil
}

// commitRows runs a query for rows of the table commits.
func commitRows(ctx context.Context, q querier, query string, args ...any) ([]fleet.Commit, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(rows pgx.Rows, c *fleet.Commit) error {
		var at int64
		var operations string
		err := rows.Scan(&c.Revision, &c.ID, &at, &c.Actor, &c.Author, &c.Reason, &c.RequestID, &operations)
		c.At, c.Operations = microtime(at), backend.Operations(operations)
		return err
	})
}

func readChanges(ctx context.Context, q querier, commits []fleet.Commit) error {
	to := make(map[fleet.Revision]*fleet.Commit, len(commits))
	for i := range commits {
		to[commits[i].Revision] = &commits[i]
	}
	rows, err := queryRows(ctx, q, `SELECT `+backend.RowColumns+` FROM `+backend.RowTables+`
		WHERE c.revision = ANY ($1::bigint[]) ORDER BY c.revision, c.seq`, revisions(commits))
	if err != nil {
		return err
	}
	changes, err := bodies(ctx, q, rows)
	if err != nil {
		return err
	}
	for i, ch := range changes {
		c := to[rows[i].Revision]
		c.Changes = append(c.Changes, ch)
	}
	return nil
}

// inBinary makes the answer to a question half as large where it holds bytes. A question that is put so comes in several
// messages: not in a transaction that has locked something.
func inBinary(args ...any) []any { return append([]any{pgx.QueryExecModeExec}, args...) }

// queryRows runs a query for backend.RowColumns.
func queryRows(ctx context.Context, q querier, query string, args ...any) ([]backend.Row, error) {
	rows, err := q.Query(ctx, query, inBinary(args...)...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(rows pgx.Rows, r *backend.Row) error {
		store.Advance(ctx)
		return rows.Scan(r.Fields()...)
	})
}

// laterChanges are backend.LaterChanges of many changes at once. OFFSET keeps them separate questions, each answered by an
// index: nothing else is quick in a log of millions.
var laterChanges = `SELECT l.* FROM unnest($1::text[], $2::text[], $3::bigint[]) AS n(kind, id, revision)
	CROSS JOIN LATERAL (` + strings.NewReplacer("$1", "n.kind", "$2", "n.id", "$3", "n.revision").Replace(backend.LaterChanges) + ` OFFSET 0) AS l`

// bodies are the changes that rows are.
func bodies(ctx context.Context, q querier, rows []backend.Row) ([]fleet.Change, error) {
	return backend.Bodies(rows, func(of []*backend.Row) ([]backend.Row, error) {
		kinds, ids, revisions := make([]string, len(of)), make([]string, len(of)), make([]int64, len(of))
		for i, r := range of {
			kinds[i], ids[i], revisions[i] = string(r.Kind), r.ID, int64(r.Revision)
		}
		return queryRows(ctx, q, laterChanges, kinds, ids, revisions)
	})
}
