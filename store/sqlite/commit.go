package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// settleTimeout limits the lookup of a commit with an unknown outcome.
const settleTimeout = 2 * time.Second

// write is [sqlstore.Dialect.Write].
func (s *Store) write(ctx context.Context, job sqlstore.Job, f func(context.Context, sqlstore.WriteTx, sqlstore.HeadRow) error) error {
	if s.cfg.ReadOnly {
		return store.ErrReadOnly
	}
	h, err := s.handles(ctx)
	if err != nil {
		return err
	}
	tx, err := begin(ctx, h.writer)
	if err != nil {
		return translate(ctx, job.Doing, err)
	}
	defer tx.end()
	inner := ctx
	if job.Mode == sqlstore.Locked {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(context.WithValue(ctx, insideKey{}, true), lockedTimeout)
		defer cancel()
	}
	now, err := readHead(inner, tx)
	if err == nil {
		err = f(inner, tx, now)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = h.intact()
	}
	if err != nil {
		return translate(ctx, job.Doing, err)
	}
	// From here on the outcome counts, not the caller's patience: SQLite cannot be stopped half-way, and a context
	// that ends now must not make a commit look undone.
	if err := s.commit(context.WithoutCancel(ctx), tx.conn); err != nil {
		tx.end()
		return s.resolveOutcome(h, job.Commit, translate(context.WithoutCancel(ctx), job.Doing, err))
	}
	tx.ended = true
	if err := h.intact(); err != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrUnknown, job.Doing, err)
	}
	return nil
}

func commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `COMMIT`)
	return err
}

// resolveOutcome finds out whether a commit that answered with failed is in the log all the same.
func (s *Store) resolveOutcome(h *handles, id uuid.UUID, failed error) error {
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
