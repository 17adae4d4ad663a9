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

func migrateDown(c *cli.Context) error {
	db, err := databaseFromFlags(c)
	if err != nil {
		return err
	}
	var problems []string
	if !c.Bool("yes") {
		problems = append(problems, "migrate down drops tables and columns with their data: use --yes to confirm")
	}
	if c.IsSet("to") && c.IsSet("steps") {
		problems = append(problems, "--to and --steps exclude each other: --to names the version, and may be repeated")
	}
	if c.Int("to") < 0 || c.Int("steps") < 1 {
		problems = append(problems, "--to is a schema version, and --steps is 1 or more")
	}
	if len(problems) > 0 {
		return &configError{problems}
	}
	to := c.Int("to")
	if !c.IsSet("to") {
		if to, err = stepsDown(c, db); err != nil {
			return err
		}
	}
	if err := db.migrateDown(c.Context, to); err != nil {
		return err
	}
	return migrateStatus(c)
}

// stepsDown returns the schema version that is --steps below the current one. Steps count from the current version, so a
// repeated command goes further, down to the loss of every document. On a store in use, the version must therefore be
// named with --to.
func stepsDown(c *cli.Context, db database) (to int, err error) {
	status, err := db.status(c.Context)
	if err != nil {
		return 0, err
	}
	steps := c.Int("steps")
	to = status.current - steps
	switch {
	case status.revision > 0:
		return 0, fmt.Errorf("%s is in use, at revision %d, and --steps would go further each time it is repeated: name the version to go to "+
			"with --to (%s)", db.where(), status.revision, map[bool]string{true: fmt.Sprintf("%d steps down is --to %d", steps, to), false: "1 or higher"}[to > 0])
	case to < 0:
		return 0, fmt.Errorf("cannot revert %d migrations: %s has version %d", steps, db.where(), status.current)
	}
	return to, nil
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
	_, err = fmt.Fprintf(c.App.Writer, "%s: schema version %d of %d%s\n", db.where(), status.current, status.newest, map[bool]string{true: ", DIRTY"}[status.dirty])
	return err
}
