package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
)

// settleTimeout limits the lookup of a commit with an unknown outcome.
const settleTimeout = 2 * time.Second

// Commit implements [store.Store].
func (s *Store) Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	if err := backend.CheckCommit(base, c); err != nil {
		return err
	}
	return s.transact(ctx, fmt.Sprintf("committing revision %d", c.Revision), c.ID, func(tx *transaction) error {
		return write(ctx, tx, base, c)
	})
}

// transact runs do in a transaction that adds the commit id to the log, alone or as the last of several.
func (s *Store) transact(ctx context.Context, doing string, id uuid.UUID, do func(*transaction) error) error {
	h, err := s.handles(ctx)
	if err != nil {
		return err
	}
	tx, err := begin(ctx, h.writer)
	if err != nil {
		return translate(ctx, doing, err)
	}
	defer tx.end()
	err = do(tx)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = h.intact()
	}
	if err != nil {
		return translate(ctx, doing, err)
	}
	// From here on the outcome counts, not the caller's patience: SQLite cannot be stopped half-way, and a context
	// that ends now must not make a commit look undone.
	if err := s.commit(context.WithoutCancel(ctx), tx.conn); err != nil {
		tx.end()
		return s.settle(h, id, translate(context.WithoutCancel(ctx), doing, err))
	}
	tx.ended = true
	if err := h.intact(); err != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrUnknown, doing, err)
	}
	return nil
}

func commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `COMMIT`)
	return err
}

// settle finds out whether a commit that answered with failed is in the log all the same.
func (s *Store) settle(h *handles, id uuid.UUID, failed error) error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	var revision fleet.Revision
	err := h.reader.QueryRowContext(ctx, `SELECT revision FROM commits WHERE id = ?`, id.String()).Scan(&revision)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		if moved := h.intact(); moved != nil {
			err = moved
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return failed
	}
	return fmt.Errorf("%w: %w; looking it up: %w", store.ErrUnknown, failed, err)
}

// write does everything between BEGIN and COMMIT.
func write(ctx context.Context, tx *transaction, base fleet.Head, c fleet.Commit) error {
	now, err := readHead(ctx, reading{tx})
	if err != nil {
		return err
	}
	if now.Head != base {
		return fmt.Errorf("%w: it is revision %d, not %d", store.ErrStale, now.Revision, base.Revision)
	}
	quarantine, err := now.QuarantineAfter(c)
	if err != nil {
		return err
	}
	at := c.At.UnixMicro()
	documents := now.Documents
	for _, ch := range c.Changes {
		switch {
		case ch.Before == nil:
			documents++
		case ch.After == nil:
			documents--
		}
	}
	link := now.Link(c)
	err = affectOne(tx.ExecContext(ctx, `UPDATE head SET revision = ?, commit_id = ?, at = ?, documents = ?, hold = ?, hash = ? WHERE revision = ? AND commit_id = ?`,
		int64(c.Revision), c.ID.String(), at, documents, quarantine, blob(link.Hash), int64(base.Revision), base.ID.String()))
	if errors.Is(err, errNoRow) {
		return store.ErrStale
	}
	if err != nil {
		return err
	}
	if err := writeLog(ctx, tx, c, link); err != nil {
		return err
	}
	return applyChanges(ctx, tx, c)
}

// writeLog adds a commit to the log.
func writeLog(ctx context.Context, tx *transaction, c fleet.Commit, link store.Link) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO commits (revision, id, at, actor, author, reason, request_id, operations, previous, hash, checkpoint)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(c.Revision), c.ID.String(), c.At.UnixMicro(), c.Actor, c.Author, c.Reason, c.RequestID, string(c.Operations),
		blob(link.Previous), blob(link.Hash), blob(link.Checkpoint)); err != nil {
		return fmt.Errorf("adding commit %s to the log: %w", c.ID, err)
	}
	insert, err := tx.prepare(ctx, `INSERT INTO changes (revision, seq, kind, id, action, before, after,
		packed_before, packed_after, sum, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer insert.close()
	for seq, ch := range c.Changes {
		runtime.Gosched() // polls go first: there may be thousands
		p := backend.Pack(c.ID, seq, ch)
		if _, err := insert.exec(ctx, int64(c.Revision), seq, string(ch.Kind), ch.ID, ch.Action(),
			backend.Marker(ch.Before), backend.Marker(ch.After), blob(p.Before), blob(p.After), p.Sum, p.Bytes); err != nil {
			return fmt.Errorf("%s %q: %w", ch.Kind, ch.ID, err)
		}
	}
	return nil
}

// applyChanges changes the documents. The base was checked, so a document that differs from the one in its change is not a
// race: the store or the State it was computed from is wrong, and the commit must fail.
func applyChanges(ctx context.Context, tx *transaction, c fleet.Commit) error {
	update, err := tx.prepare(ctx, `UPDATE documents SET revision = ?, commit_id = ?, updated_at = ?, body = ?,
		created_at = iif(?, ?, created_at) WHERE kind = ? AND id = ?`)
	if err != nil {
		return err
	}
	defer update.close()
	insert, err := tx.prepare(ctx, `INSERT INTO documents (kind, id, revision, commit_id, created_at, updated_at, body)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	defer insert.close()
	at := c.At.UnixMicro()
	for _, ch := range c.Changes {
		var err error
		runtime.Gosched()
		switch {
		case ch.Before == nil:
			err = affectOne(insert.exec(ctx, string(ch.Kind), ch.ID, int64(c.Revision), c.ID.String(), at, at, string(ch.After)))
		case ch.After == nil:
			err = affectOne(tx.ExecContext(ctx, `DELETE FROM documents WHERE kind = ? AND id = ?`, string(ch.Kind), ch.ID))
		default:
			err = affectOne(update.exec(ctx, int64(c.Revision), c.ID.String(), at, string(ch.After),
				ch.Action() == "create", at, string(ch.Kind), ch.ID))
		}
		if errors.Is(err, errNoRow) {
			err = fmt.Errorf("%w: the stored document is not the one the commit changes", store.ErrCorrupt)
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", ch.Kind, ch.ID, err)
		}
	}
	return nil
}

var errNoRow = errors.New("no row was affected")

// affectOne takes the results of a statement that must change a row.
func affectOne(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return errNoRow
	}
	return nil
}

// blob is NULL for nil: the driver would take it for an empty one.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
