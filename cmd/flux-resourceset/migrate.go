package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// databasePath is the file to migrate. Nothing but the database needs to be configured for that.
func databasePath(c *cli.Context) (string, error) {
	var cfg config
	if problems := cfg.readDatabase(c); len(problems) > 0 {
		return "", &configError{problems}
	}
	if cfg.sqlite.Memory {
		return "", &configError{[]string{"a memory store has nothing to migrate"}}
	}
	return cfg.sqlite.Path, nil
}

func migrateUp(c *cli.Context) error {
	path, err := databasePath(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := sqlite.Migrate(c.Context, path); err != nil {
		return err
	}
	return migrateStatus(c)
}

func migrateDown(c *cli.Context) error {
	path, err := databasePath(c)
	if err != nil {
		return err
	}
	if !c.Bool("yes") {
		return &configError{[]string{"migrate down drops tables with everything in them: say --yes if that is meant"}}
	}
	if err := sqlite.MigrateDown(c.Context, path, c.Int("steps")); err != nil {
		return err
	}
	return migrateStatus(c)
}

func migrateStatus(c *cli.Context) error {
	path, err := databasePath(c)
	if err != nil {
		return err
	}
	status, err := sqlite.Status(c.Context, path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: schema version %d of %d%s\n", path, status.Current, status.Newest, map[bool]string{true: ", DIRTY"}[status.Dirty])
	return err
}
