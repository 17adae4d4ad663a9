package postgres

import (
	"context"
	"errors"

	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// unpackFor rewrites the log in the format of older versions, before a migration down to a version that needs it. Only the
// newest schema can be read here, so a database that has left it is first migrated up again.
func unpackFor(ctx context.Context, url string, to int) (err error) {
	found, err := Status(ctx, url)
	newest := newestVersion()
	if err != nil || found.Dirty || to < 1 || found.Current > newest || !sqlstore.MustUnpack(found.Current, to) {
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
	return s.Unpack(ctx)
}
