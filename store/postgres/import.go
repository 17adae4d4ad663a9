package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

// Import implements [store.Importer].
func (s *Store) Import(ctx context.Context, snap store.Snapshot, log iter.Seq2[fleet.Commit, error]) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	doing := "importing into " + s.name
	inner, cancel := s.within(ctx, importTimeout)
	defer cancel()
	ses, err := s.begin(inner, writing, importTimeout)
	if err != nil {
		return s.translate(ctx, doing, err)
	}
	err = s.importAll(inner, ses, snap, log)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		err = ses.end(err)
		if violates(err, "commits_revision") {
			err = fmt.Errorf("%w: somebody else has written to it", store.ErrNotEmpty)
		}
		return s.translate(ctx, doing, err)
	}
	if err := s.finish(ses); err != nil {
		return s.settle(doing, fleet.Commit{ID: snap.Head.ID}, err)
	}
	return nil
}

// importAll does everything between BEGIN and COMMIT.
func (s *Store) importAll(ctx context.Context, ses *session, snap store.Snapshot, log iter.Seq2[fleet.Commit, error]) error {
	if h := ses.head; h.Head != (fleet.Head{}) || h.documents != 0 {
		return fmt.Errorf("%w: it is at revision %d and holds %d documents", store.ErrNotEmpty, h.Revision, h.documents)
	}
	b := &pgx.Batch{}
	b.Queue(s.durability)
	// Between two statements the other store is read, which may be slow.
	b.Queue(fmt.Sprintf(`SET LOCAL idle_in_transaction_session_timeout = %d`, readTimeout.Milliseconds()))
	if err := ses.tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if err := importLog(ctx, ses.tx, backend.WholeLog(log, snap.Head)); err != nil {
		return err
	}
	if err := importDocuments(ctx, ses.tx, snap.Records); err != nil {
		return err
	}
	if snap.Head == (fleet.Head{}) {
		return nil
	}
	tag, err := ses.tx.Exec(ctx, moveHead, int64(snap.Head.Revision), snap.Head.ID.String(), snap.At.UnixMicro(), len(snap.Records),
		int64(0), fleet.Head{}.ID.String(), newestVersion())
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%w: somebody else has written to it", store.ErrNotEmpty)
	}
	return err
}

func importLog(ctx context.Context, tx pgx.Tx, log iter.Seq2[fleet.Commit, error]) error {
	commits, changes := &commitRows{}, &changeRows{}
	flush := func() error {
		b := &pgx.Batch{}
		commits.queue(b)
		changes.queue(b)
		commits, changes = &commitRows{}, &changeRows{}
		return tx.SendBatch(ctx, b).Close()
	}
	for c, err := range log {
		if err != nil {
			return err
		}
		commits.add(c)
		for seq, ch := range c.Changes {
			changes.add(c.Revision, seq, ch)
			if changes.full() {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if commits.full() {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func importDocuments(ctx context.Context, tx pgx.Tx, records []fleet.Record) error {
	rows := &documentRows{}
	flush := func() error {
		_, err := tx.Exec(ctx, `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
			SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[], $7::text[])`,
			rows.kinds, rows.ids, rows.revisions, rows.commits, rows.created, rows.updated, rows.bodies)
		rows = &documentRows{}
		return err
	}
	for _, r := range records {
		if rows.add(r); rows.full() {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// commitRows are rows for the table commits, column by column, as unnest takes them.
type commitRows struct {
	revisions, at             []int64
	ids                       []string
	actors, reasons, requests []string
}

func (r *commitRows) add(c fleet.Commit) {
	r.revisions, r.ids, r.at = append(r.revisions, int64(c.Revision)), append(r.ids, c.ID.String()), append(r.at, c.At.UnixMicro())
	r.actors, r.reasons, r.requests = append(r.actors, c.Actor), append(r.reasons, c.Reason), append(r.requests, c.RequestID)
}

func (r *commitRows) full() bool { return len(r.ids) >= 1000 }

func (r *commitRows) queue(b *pgx.Batch) {
	if len(r.ids) > 0 {
		b.Queue(`INSERT INTO commits (revision, id, at, actor, reason, request_id)
			SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[])`,
			r.revisions, r.ids, r.at, r.actors, r.reasons, r.requests)
	}
}

// documentRows are the same for the table documents.
type documentRows struct {
	kinds, ids, commits, bodies []string
	revisions, created, updated []int64
	bytes                       int
}

func (d *documentRows) add(r fleet.Record) {
	d.kinds, d.ids, d.commits, d.bodies = append(d.kinds, string(r.Kind)), append(d.ids, r.ID), append(d.commits, r.CommitID.String()), append(d.bodies, string(r.Body))
	d.revisions, d.created, d.updated = append(d.revisions, int64(r.Revision)), append(d.created, r.CreatedAt.UnixMicro()), append(d.updated, r.UpdatedAt.UnixMicro())
	d.bytes += len(r.ID) + len(r.Body)
}

func (d *documentRows) full() bool { return len(d.ids) >= 1000 || d.bytes >= 4<<20 }
