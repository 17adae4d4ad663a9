package postgres

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

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

// The statements that change documents. $1, $2 and $3 are revision, commit and time where they are needed. The documents are
// arrays, and their bodies one text: PostgreSQL parses that several times faster than an array of texts with escaped quotes.
const (
	bodySeparator = "\x1f" // which JSON does not have

	createDocuments = `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
		SELECT c.kind, c.id, $1::bigint, $2::uuid, $3::bigint, $3::bigint, c.body
		FROM unnest($4::text[], $5::text[], string_to_array($6::text, chr(31))) AS c(kind, id, body) ON CONFLICT DO NOTHING`
	updateDocuments = `UPDATE documents d SET revision = $1::bigint, commit_id = $2::uuid, updated_at = $3::bigint, body = c.body,
			created_at = CASE WHEN c.fresh THEN $3::bigint ELSE d.created_at END
		FROM unnest($4::text[], $5::text[], string_to_array($6::text, chr(31)), $7::boolean[]) AS c(kind, id, body, fresh) WHERE d.kind = c.kind AND d.id = c.id`
	deleteDocuments = `DELETE FROM documents d USING unnest($1::text[], $2::text[]) AS c(kind, id) WHERE d.kind = c.kind AND d.id = c.id`
	importDocuments = `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[], string_to_array($7::text, chr(31)))`
)

// applyChanges adds the changes of a commit to the pipeline, which counts the affected rows when it is sent.
func applyChanges(ctx context.Context, out *pipeline, c fleet.Commit, changes []change, done *counts) error {
	for _, ch := range changes {
		if err := checkBody(ch.Kind, ch.ID, ch.After); err != nil {
			return err
		}
	}
	of := func(what int) iter.Seq[change] {
		return func(yield func(change) bool) {
			for _, ch := range changes {
				if sort(ch.Change) == what && !yield(ch) {
					return
				}
			}
		}
	}
	size := func(ch change) int { return len(ch.After) }
	kind := func(ch change) string { return string(ch.Kind) }
	id := func(ch change) string { return ch.ID }
	body := func(ch change) []byte { return ch.After }
	fresh := func(ch change) bool { return ch.action == "create" }
	revision, commit, at := int64(c.Revision), c.ID.String(), c.At.UnixMicro()
	for what, add := range []func([]change){
		created: func(rows []change) {
			out.add(count(&done[created]), createDocuments, revision, commit, at, column(rows, kind), column(rows, id), texts(column(rows, body)))
		},
		updated: func(rows []change) {
			out.add(count(&done[updated]), updateDocuments, revision, commit, at, column(rows, kind), column(rows, id), texts(column(rows, body)), column(rows, fresh))
		},
		deleted: func(rows []change) {
			out.add(count(&done[deleted]), deleteDocuments, column(rows, kind), column(rows, id))
		},
	} {
		if err := addInBatches(ctx, out, of(what), size, add); err != nil {
			return err
		}
	}
	return nil
}

// checkBody refuses a document that would be taken for two.
func checkBody(kind fleet.Kind, id string, body []byte) error {
	if bytes.Contains(body, []byte(bodySeparator)) {
		return fmt.Errorf("%s %q is not JSON: it has the character %q", kind, id, bodySeparator)
	}
	return nil
}

// addDocuments adds documents as they are.
func addDocuments(ctx context.Context, out *pipeline, records []fleet.Record) error {
	for _, r := range records {
		if err := checkBody(r.Kind, r.ID, r.Body); err != nil {
			return err
		}
	}
	return addInBatches(ctx, out, slices.Values(records), func(r fleet.Record) int { return len(r.Body) }, func(rows []fleet.Record) {
		out.add(nil, importDocuments,
			column(rows, func(r fleet.Record) string { return string(r.Kind) }),
			column(rows, func(r fleet.Record) string { return r.ID }),
			column(rows, func(r fleet.Record) int64 { return int64(r.Revision) }),
			column(rows, func(r fleet.Record) string { return r.CommitID.String() }),
			column(rows, func(r fleet.Record) int64 { return r.CreatedAt.UnixMicro() }),
			column(rows, func(r fleet.Record) int64 { return r.UpdatedAt.UnixMicro() }),
			texts(column(rows, func(r fleet.Record) []byte { return r.Body })))
	})
}
