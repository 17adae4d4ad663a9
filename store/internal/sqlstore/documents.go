package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// The kinds of changes to documents; each has its statement and its count.
const (
	created = iota
	updated
	deleted
)

// sort returns the kind of a change.
func sort(ch fleet.Change) int {
	switch {
	case ch.Before == nil:
		return created
	case ch.After == nil:
		return deleted
	}
	return updated
}

// counts are how many documents are created, updated and deleted.
type counts [3]int64

func countsOf(c fleet.Commit) (n counts) {
	for _, ch := range c.Changes {
		n[sort(ch)]++
	}
	return n
}

// check compares the number of affected rows with the expected number. The base was checked, so a document that differs from
// the one in its change is not a race: the store or the State it was computed from is wrong, and the commit must fail.
func (n counts) check(want counts) error {
	for what, name := range []string{created: "created", updated: "changed", deleted: "removed"} {
		if n[what] != want[what] {
			return fmt.Errorf("%w: %d of the %d documents to be %s are not there as the commit expects",
				store.ErrCorrupt, want[what]-n[what], want[what], name)
		}
	}
	return nil
}

// The fixed parameters of the first two are revision, commit and time.
var (
	createDocuments = RowStatement{
		Each: `INSERT INTO documents (revision, commit_id, created_at, updated_at, kind, id, body) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
		All: `INSERT INTO documents (revision, commit_id, created_at, updated_at, kind, id, body)
			SELECT $1::bigint, $2::uuid, $3::bigint, $4::bigint, c.kind, c.id, c.body
			FROM unnest($5::text[], $6::text[], string_to_array($7::text, chr(31))) AS c(kind, id, body) ON CONFLICT DO NOTHING`,
	}
	updateDocuments = RowStatement{
		Each: `UPDATE documents SET revision = $1, commit_id = $2, updated_at = $3, created_at = coalesce($4, created_at), body = $5 WHERE kind = $6 AND id = $7`,
		All: `UPDATE documents d SET revision = $1::bigint, commit_id = $2::uuid, updated_at = $3::bigint,
				created_at = coalesce(c.created, d.created_at), body = c.body
			FROM unnest($4::bigint[], string_to_array($5::text, chr(31)), $6::text[], $7::text[]) AS c(created, body, kind, id)
			WHERE d.kind = c.kind AND d.id = c.id`,
	}
	deleteDocuments = RowStatement{
		Each: `DELETE FROM documents WHERE kind = $1 AND id = $2`,
		All:  `DELETE FROM documents d USING unnest($1::text[], $2::text[]) AS c(kind, id) WHERE d.kind = c.kind AND d.id = c.id`,
	}
	importDocuments = RowStatement{
		Each: `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		All: `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
			SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[], string_to_array($7::text, chr(31)))`,
	}
)

// applyChanges queues the changes of a commit to its documents. done counts the affected rows.
func applyChanges(ctx context.Context, tx WriteTx, c fleet.Commit, changes []change, done *counts) error {
	of := func(what int, row func(change) []any) iter.Seq[[]any] {
		return func(yield func([]any) bool) {
			for _, ch := range changes {
				if sort(ch.Change) == what && !yield(row(ch)) {
					return
				}
			}
		}
	}
	at := c.At.UnixMicro()
	fixed := []any{int64(c.Revision), c.ID.String(), at, at}
	err := tx.QueueRows(ctx, &done[created], createDocuments, fixed, of(created, func(ch change) []any {
		return []any{string(ch.Kind), ch.ID, Body(ch.After)}
	}))
	if err != nil {
		return err
	}
	err = tx.QueueRows(ctx, &done[updated], updateDocuments, fixed[:3], of(updated, func(ch change) []any {
		var created any // unless it replaces a document of the same name that had been deleted
		if ch.action == "create" {
			created = at
		}
		return []any{created, Body(ch.After), string(ch.Kind), ch.ID}
	}))
	if err != nil {
		return err
	}
	return tx.QueueRows(ctx, &done[deleted], deleteDocuments, nil, of(deleted, func(ch change) []any {
		return []any{string(ch.Kind), ch.ID}
	}))
}

// load reads every document at one head.
func load(ctx context.Context, tx Tx, h HeadRow) (store.Snapshot, error) {
	var last fleet.Head
	if err := QueryOne(ctx, tx, []any{&last.Revision, &last.ID}, `SELECT revision, id FROM commits ORDER BY revision DESC LIMIT 1`); err != nil && !errors.Is(err, errNoRow) {
		return store.Snapshot{}, err
	}
	if last != h.Head {
		return store.Snapshot{}, fmt.Errorf("%w: the head is revision %d, the log ends with %d", store.ErrCorrupt, h.Revision, last.Revision)
	}
	scan := func(rows Rows, r *fleet.Record) error {
		store.Touch(ctx)
		var created, updated int64
		err := rows.Scan(&r.Kind, &r.ID, &r.Revision, &r.CommitID, &created, &updated, (*[]byte)(&r.Body))
		r.CreatedAt, r.UpdatedAt = microtime(created), microtime(updated)
		return err
	}
	found := store.Snapshot{Head: h.Head, Checkpoint: h.Checkpoint}
	var err error
	found.Records, err = Query(ctx, tx, scan, `SELECT kind, id, revision, commit_id, created_at, updated_at, body FROM documents ORDER BY kind, id`)
	if err == nil {
		err = checkSnapshot(found, h.Documents)
	}
	if err != nil {
		return store.Snapshot{}, err
	}
	if quarantine := store.DecodeQuarantine(h.Quarantine); quarantine.AppliesTo(h.Head) {
		found.Quarantine = quarantine
	}
	if h.Revision > 0 {
		found.At = microtime(h.At)
	}
	if h.Oldest > 1 {
		found.Oldest = h.Oldest
	}
	return found, nil
}

// latest returns the documents of a kind that changed after a head.
func latest(ctx context.Context, tx Tx, h HeadRow, kind fleet.Kind, after fleet.Head) (map[string]json.RawMessage, error) {
	if err := h.reached(after); err != nil {
		return nil, err
	}
	if after != h.Head {
		if err := checkHeadInLog(ctx, tx, after, h); err != nil {
			return nil, err
		}
	}
	rows, err := tx.Query(ctx, `SELECT c.id, d.body FROM (SELECT DISTINCT id FROM changes WHERE kind = $1 AND revision > $2) AS c
		LEFT JOIN documents d ON d.kind = $1 AND d.id = c.id`, string(kind), int64(after.Revision))
	if err != nil {
		return nil, err
	}
	docs := map[string]json.RawMessage{}
	err = Each(rows, func(rows Rows) error {
		var id string
		var body []byte // nil: it was removed
		store.Touch(ctx)
		err := rows.Scan(&id, &body)
		docs[id] = body
		return err
	})
	return docs, err
}
