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

// DevelopmentTable was golang-migrate's table in databases of builds before the first release, which counted their own schema
// versions 1 to 10.
const DevelopmentTable = "schema_migrations"

// ErrDevelopment refuses the named database of a build before the first release.
func ErrDevelopment(name string) error {
	return fmt.Errorf("%w: %s was made by a development build, and databases of development builds are not supported: export with the old "+
		"program and apply to a new database (docs/upgrading.md); nothing was changed", store.ErrSchema, name)
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
