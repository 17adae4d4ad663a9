package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4"
	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// unpackFor rewrites the log in the format of older versions, before a migration down to a version that needs it. Only the
// newest schema can be read here, so a database that has left it is first migrated up again. It works in small transactions and
// continues an interrupted earlier call.
func unpackFor(ctx context.Context, path string, to int) (err error) {
	found, err := inspect(ctx, path)
	newest := newestVersion()
	if err == nil && found.dirty { // the version that was noted may not be the one that there is
		err = withMigrator(ctx, path, func(_ *migrate.Migrate, repaired contents) error { found = repaired; return nil })
	}
	if err != nil || to < 1 || found.version > newest || !backend.MustUnpack(found.version, to) {
		return err
	}
	if found.version < newest {
		if err := Migrate(ctx, path); err != nil {
			return err
		}
	}
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	h, err := s.Head(ctx)
	for at := h.Revision; err == nil && at > 0; {
		err = s.transact(ctx, "unpacking the log of "+path, uuid.Nil, func(tx *transaction) error {
			var err error
			at, err = unpackSome(ctx, tx, at)
			return err
		})
	}
	return err
}

// unpackSome goes on from a revision downwards, and returns where to go on; 0 at the end.
func unpackSome(ctx context.Context, tx *transaction, from fleet.Revision) (fleet.Revision, error) {
	h, err := readHead(ctx, reading{tx})
	if err != nil {
		return from, err
	}
	result, err := reading{tx}.QueryRows(ctx, backend.SelectPacked, int64(from))
	rows, err := sqlstore.CollectRows(ctx, result, err)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	for _, r := range rows {
		ch, err := backend.Unpack(r, h.Oldest, func(rows []backend.Row) ([]fleet.Change, error) { return sqlstore.Bodies(ctx, reading{tx}, rows) })
		if err != nil {
			return from, err
		}
		if err := affectOne(tx.ExecContext(ctx, backend.Unpacked, backend.Text(ch.Before), backend.Text(ch.After),
			int64(r.Revision), string(r.Kind), r.ID)); err != nil {
			return from, fmt.Errorf("revision %d, %s %q: %w", r.Revision, r.Kind, r.ID, err)
		}
	}
	return rows[len(rows)-1].Revision, nil
}
