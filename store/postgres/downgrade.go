package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/internal/backend"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// unpackFor rewrites the log in the format of older versions, before a migration down to a version that needs it. Only the
// newest schema can be read here, so a database that has left it is first migrated up again. It works in small transactions and
// continues an interrupted earlier call.
func unpackFor(ctx context.Context, url string, to int) (err error) {
	found, err := Status(ctx, url)
	newest := newestVersion()
	if err != nil || found.Dirty || to < 1 || found.Current > newest || !backend.MustUnpack(found.Current, to) {
		return err
	}
	if found.Current < newest {
		if err := Migrate(ctx, url); err != nil {
			return err
		}
	}
	s, err := Open(ctx, Config{URL: url})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	h, err := s.Head(ctx)
	for at := h.Revision; err == nil && at > 0; {
		err = s.transact(ctx, "unpacking the log", func(ctx context.Context, tx pgx.Tx) error {
			var err error
			at, err = s.unpackSome(ctx, tx, at)
			return err
		})
	}
	return err
}

// unpackSome goes on from a revision downwards, and returns where to go on; 0 at the end.
func (s *Store) unpackSome(ctx context.Context, tx pgx.Tx, from fleet.Revision) (fleet.Revision, error) {
	h, err := s.readHead(ctx, reading{tx})
	if err != nil {
		return from, err
	}
	found, err := reading{tx}.QueryRows(ctx, backend.SelectPacked, int64(from))
	rows, err := sqlstore.CollectRows(ctx, found, err)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	out := &pipeline{tx: tx}
	for _, r := range rows {
		ch, err := backend.Unpack(r, h.Oldest, func(rows []backend.Row) ([]fleet.Change, error) { return sqlstore.Bodies(ctx, reading{tx}, rows) })
		if err != nil {
			return from, err
		}
		if err := out.reserve(ctx, len(ch.Before)+len(ch.After)); err != nil {
			return from, err
		}
		out.add(nil, backend.Unpacked, backend.Text(ch.Before), backend.Text(ch.After), int64(r.Revision), string(r.Kind), r.ID)
	}
	return rows[len(rows)-1].Revision, out.send(ctx)
}
