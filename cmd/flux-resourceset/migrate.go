package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
)

// databaseFromFlags returns the store to migrate. No other setting is required.
func databaseFromFlags(c *cli.Context) (database, error) {
	if c.NArg() > 0 {
		return nil, unknownCommand(c, "no further arguments")
	}
	db, problems := readDatabase(c)
	problems = append(problems, envTypos(c, os.Environ())...)
	if len(problems) > 0 {
		return nil, &configError{problems}
	}
	return db, nil
}

func migrateUp(c *cli.Context) error {
	db, err := databaseFromFlags(c)
	if err != nil {
		return err
	}
	if err := db.migrate(c.Context); err != nil {
		return err
	}
	return migrateStatus(c)
}

func migrateStatus(c *cli.Context) error {
	db, err := databaseFromFlags(c)
	if err != nil {
		return err
	}
	status, err := db.status(c.Context)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: schema version %d of %d%s\n", db.where(), status.Current, status.Newest, map[bool]string{true: ", DIRTY"}[status.Dirty])
	return err
}
