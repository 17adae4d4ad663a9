package sqlite

import (
	"context"
	"errors"

	"github.com/golang-migrate/migrate/v4"

	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// unpackFor rewrites the log in the format of older versions, before a migration down to a version that needs it. Only the
// newest schema can be read here, so a database that has left it is first migrated up again.
func unpackFor(ctx context.Context, path string, to int) (err error) {
	found, err := inspect(ctx, path)
	newest := newestVersion()
	if err == nil && found.dirty { // the version that was noted may not be the one that there is
		err = withMigrator(ctx, path, func(_ *migrate.Migrate, repaired contents) error { found = repaired; return nil })
	}
	if err != nil || to < 1 || found.version > newest || !sqlstore.MustUnpack(found.version, to) {
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
	return s.Unpack(ctx)
}
