package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

const (
	insertCommits = `INSERT INTO commits (revision, id, at, actor, author, reason, request_id, operations, previous, hash, checkpoint)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::bytea[])`
	insertChanges = `INSERT INTO changes (revision, seq, kind, id, action, before, after, packed_before, packed_after, sum, bytes)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
			$8::bytea[], $9::bytea[], $10::bigint[], $11::bigint[])`
)

// addCommits adds rows of the table commits.
func addCommits(ctx context.Context, out *pipeline, commits ...store.Entry) error {
	size := func(c store.Entry) int {
		return len(c.Actor) + len(c.Author) + len(c.Reason) + len(c.RequestID) + len(c.Operations)
	}
	return addInBatches(ctx, out, slices.Values(commits), size, func(rows []store.Entry) {
		out.add(nil, insertCommits,
			column(rows, func(c store.Entry) int64 { return int64(c.Revision) }),
			column(rows, func(c store.Entry) string { return c.ID.String() }),
			column(rows, func(c store.Entry) int64 { return c.At.UnixMicro() }),
			column(rows, func(c store.Entry) string { return c.Actor }),
			column(rows, func(c store.Entry) string { return c.Author }),
			column(rows, func(c store.Entry) string { return c.Reason }),
			column(rows, func(c store.Entry) string { return c.RequestID }),
			column(rows, func(c store.Entry) string { return string(c.Operations) }),
			column(rows, func(c store.Entry) []byte { return c.Link.Previous }),
			column(rows, func(c store.Entry) []byte { return c.Link.Hash }),
			column(rows, func(c store.Entry) []byte { return c.Link.Checkpoint }))
	})
}

// change is one change of a commit. Its kind is computed once, because that parses the documents.
type change struct {
	fleet.Change
	revision fleet.Revision
	commit   uuid.UUID
	seq      int
	action   string
}

func changesOf(commits ...fleet.Commit) (all []change) {
	for _, c := range commits {
		for seq, ch := range c.Changes {
			all = append(all, change{ch, c.Revision, c.ID, seq, ch.Action()})
		}
	}
	return all
}

// logged is a row of the table changes.
type logged struct {
	change
	packed backend.Packed
}

// addChanges adds rows of the table changes.
func addChanges(ctx context.Context, out *pipeline, changes []change) error {
	all := func(yield func(logged) bool) {
		for _, ch := range changes {
			if !yield(logged{ch, backend.Pack(ch.commit, ch.seq, ch.Change)}) {
				return
			}
		}
	}
	size := func(r logged) int { return 2*len(r.packed.Before) + 2*len(r.packed.After) } // hexadecimal digits
	return addInBatches(ctx, out, all, size, func(rows []logged) {
		out.add(nil, insertChanges,
			column(rows, func(r logged) int64 { return int64(r.revision) }),
			column(rows, func(r logged) int32 { return int32(r.seq) }),
			column(rows, func(r logged) string { return string(r.Kind) }),
			column(rows, func(r logged) string { return r.ID }),
			column(rows, func(r logged) string { return r.action }),
			column(rows, func(r logged) *string { return backend.Marker(r.Before) }),
			column(rows, func(r logged) *string { return backend.Marker(r.After) }),
			column(rows, func(r logged) []byte { return r.packed.Before }),
			column(rows, func(r logged) []byte { return r.packed.After }),
			column(rows, func(r logged) int64 { return r.packed.Sum }),
			column(rows, func(r logged) int64 { return r.packed.Bytes }))
	})
}
