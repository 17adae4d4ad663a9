package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
)

// databaseOf is the store to migrate. Nothing but the database needs to be configured for that.
func databaseOf(c *cli.Context) (database, error) {
	if c.NArg() > 0 {
		return nil, unknownCommand(c, "no further arguments")
	}
	db, problems := readDatabase(c)
	problems = append(problems, lookalikes(c, os.Environ())...)
	if len(problems) > 0 {
		return nil, &configError{problems}
	}
	return db, nil
}

func migrateUp(c *cli.Context) error {
	db, err := databaseOf(c)
	if err != nil {
		return err
	}
	if err := db.migrate(c.Context); err != nil {
		return err
	}
	return migrateStatus(c)
}

func migrateDown(c *cli.Context) error {
	db, err := databaseOf(c)
	if err != nil {
		return err
	}
	if !c.Bool("yes") {
		return &configError{[]string{"migrate down drops tables with everything in them: say --yes if that is meant"}}
	}
	if err := db.migrateDown(c.Context, c.Int("steps")); err != nil {
		return err
	}
	return migrateStatus(c)
}

func migrateStatus(c *cli.Context) error {
	db, err := databaseOf(c)
	if err != nil {
		return err
	}
	status, err := db.status(c.Context)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: schema version %d of %d%s\n", db.where(), status.current, status.newest, map[bool]string{true: ", DIRTY"}[status.dirty])
	return err
}
