package sqlstore

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// Schema is the version of the schema that a database has; 0: none.
type Schema struct {
	Version int
	Dirty   bool // a migration was interrupted
}

// Fits returns nil if the schema is the one of this binary, else ErrNotInitialised, or ErrSchema with both versions. name is
// the database in messages.
func (s Schema) Fits(newest int, name string) error {
	switch {
	case s.Dirty:
		return fmt.Errorf("%w: a migration of %s was interrupted on its way to version %d, and this binary needs version %d: "+
			"run `flux-resourceset migrate up`", store.ErrSchema, name, s.Version, newest)
	case s.Version <= 0:
		return fmt.Errorf("%w: %s has no schema", store.ErrNotInitialised, name)
	case s.Version > newest:
		return fmt.Errorf("%w: %s has version %d, this binary knows only versions up to %d: use a newer binary",
			store.ErrSchema, name, s.Version, newest)
	case s.Version < newest:
		return fmt.Errorf("%w: %s has version %d, this binary needs version %d: run `flux-resourceset migrate up`",
			store.ErrSchema, name, s.Version, newest)
	}
	return nil
}

// CheckDown refuses a migration of the named database down to a version that is above the present one or is none. Version 0
// drops every document and the whole log, so it is refused, with ErrNotEmpty, once anything has been committed.
func CheckDown(name string, version, to int, revision int64) error {
	switch {
	case to < 0:
		return fmt.Errorf("there is no schema version %d", to)
	case version < to:
		return fmt.Errorf("%s has schema version %d, which is below %d: `migrate down` goes no higher, `migrate up` does", name, version, to)
	case to == 0 && revision > 0:
		return fmt.Errorf("%w: version 0 drops every document and the whole history of %s, which is at revision %d: "+
			"to start over, use a new database", store.ErrNotEmpty, name, revision)
	}
	return nil
}

// NewestVersion is the highest number among the migrations in a directory of embedded files. It panics when one has no
// number: only a broken build gets there.
func NewestVersion(files fs.ReadDirFS, dir string) int {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	newest := 0
	for _, f := range entries {
		number, _, _ := strings.Cut(f.Name(), "_")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Errorf("migration %s: %w", f.Name(), err))
		}
		newest = max(newest, n)
	}
	return newest
}
