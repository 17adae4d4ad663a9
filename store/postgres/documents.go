package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// What happens to documents; each has its statement and its count.
const (
	created = iota
	updated
	deleted
)

// sort says what a change does to its document.
func sort(ch fleet.Change) int {
	switch {
	case ch.Before == nil:
		return created
	case ch.After == nil:
		return deleted
	}
	return updated
}

// The documents that a commit changes come as arrays, or with COPY through a table of the transaction's own when they are
// many or large: that is several times faster then, for two round trips more.
const (
	fromArrays   = `unnest($4::integer[], $5::text[], $6::text[], $7::text[], $8::boolean[]) AS c(what, kind, id, body, fresh)`
	fromIncoming = `incoming AS c`

	// Nothing is compressed on the way through it.
	createIncoming = `CREATE TEMP TABLE incoming (what integer, kind text COLLATE "C", id text COLLATE "C", body text COLLATE "C", fresh boolean) ON COMMIT DROP;
		ALTER TABLE incoming ALTER body SET STORAGE EXTERNAL`
)

// documentStatements change documents: $1, $2 and $3 are revision, commit and time.
func documentStatements(from string) [3]string {
	return [3]string{
		created: `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
			SELECT c.kind, c.id, $1::bigint, $2::uuid, $3::bigint, $3::bigint, c.body FROM ` + from + ` WHERE what = 0 ON CONFLICT DO NOTHING`,
		updated: `UPDATE documents d SET revision = $1::bigint, commit_id = $2::uuid, updated_at = $3::bigint, body = c.body,
			created_at = CASE WHEN c.fresh THEN $3::bigint ELSE d.created_at END
			FROM ` + from + ` WHERE what = 1 AND d.kind = c.kind AND d.id = c.id`,
		deleted: `DELETE FROM documents d USING ` + from + ` WHERE what = 2 AND d.kind = c.kind AND d.id = c.id
			AND ($1::bigint, $2::uuid, $3::bigint) IS NOT NULL`,
	}
}

// few and small are how many documents, and how many bytes of them, go into arrays.
const few, small = 100, 256 << 10

// asArrays tells whether a commit's documents go into arrays.
func asArrays(c fleet.Commit) bool {
	size := 0
	for _, ch := range c.Changes {
		size += len(ch.After)
	}
	return len(c.Changes) <= few && size <= small
}

// applyChanges ends batch b with the documents and the head, and sends it. The base is checked, so a document that is
// not as its change says is not a race: either the store or the State it was computed from is wrong, and nothing may
// be built on that.
func applyChanges(ctx context.Context, tx pgx.Tx, b *pgx.Batch, base fleet.Head, c fleet.Commit, hold held) error {
	args := []any{int64(c.Revision), c.ID.String(), c.At.UnixMicro()}
	statements := documentStatements(fromIncoming)
	if asArrays(c) {
		statements, args = documentStatements(fromArrays), append(args, arrays(c)...)
	} else if err := copyIncoming(ctx, tx, b, c); err != nil {
		return err
	} else {
		b = &pgx.Batch{}
		b.Queue(fmt.Sprintf(`SET LOCAL statement_timeout = %d`, (writeTimeout + store.CommitPatience(c)).Milliseconds()))
	}
	var want, got [3]int64
	for _, ch := range c.Changes {
		want[sort(ch)]++
	}
	before := b.Len()
	var queued []int
	for what, statement := range statements {
		if want[what] > 0 {
			b.Queue(statement, args...)
			queued = append(queued, what)
		}
	}
	b.Queue(moveHead, int64(c.Revision), c.ID.String(), c.At.UnixMicro(), want[created]-want[deleted],
		int64(base.Revision), base.ID.String(), newestVersion(), hold.before, hold.after)
	affected, err := send(ctx, tx, b)
	if err != nil {
		return err
	}
	for i, what := range queued {
		got[what] = affected[before+i]
	}
	if affected[len(affected)-1] != 1 {
		return fmt.Errorf("%w while this commit was written", store.ErrStale)
	}
	for what, name := range []string{created: "created", updated: "changed", deleted: "removed"} {
		if got[what] != want[what] {
			return fmt.Errorf("%w: %d of the %d documents to be %s are not there as the commit expects",
				store.ErrCorrupt, want[what]-got[what], want[what], name)
		}
	}
	return nil
}

func arrays(c fleet.Commit) []any {
	n := len(c.Changes)
	what, fresh := make([]int32, n), make([]bool, n)
	kinds, ids, bodies := make([]string, n), make([]string, n), make([]string, n)
	for i, ch := range c.Changes {
		what[i], kinds[i], ids[i], bodies[i], fresh[i] = int32(sort(ch)), string(ch.Kind), ch.ID, string(ch.After), ch.Action() == "create"
	}
	return []any{what, kinds, ids, bodies, fresh}
}

// copyIncoming sends b, and then the documents.
func copyIncoming(ctx context.Context, tx pgx.Tx, b *pgx.Batch, c fleet.Commit) error {
	if _, err := send(ctx, tx, b); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, createIncoming); err != nil {
		return err
	}
	return copyRows(ctx, tx, "incoming", []string{"what", "kind", "id", "body", "fresh"}, func(yield func([]any) bool) {
		for _, ch := range c.Changes {
			if !yield([]any{int32(sort(ch)), string(ch.Kind), ch.ID, string(ch.After), ch.Action() == "create"}) {
				return
			}
		}
	})
}

// send runs a batch, and returns how many rows each of its statements affected.
func send(ctx context.Context, tx pgx.Tx, b *pgx.Batch) ([]int64, error) {
	var affected []int64
	results := tx.SendBatch(ctx, b)
	for range b.Len() {
		tag, err := results.Exec()
		if err != nil {
			return nil, errors.Join(err, results.Close())
		}
		affected = append(affected, tag.RowsAffected())
	}
	return affected, results.Close()
}
