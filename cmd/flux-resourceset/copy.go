package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func copyCommand() *cli.Command {
	return &cli.Command{
		Name: "copy", Usage: "copy a whole store with its history into an empty one, and compare the two", OnUsageError: usageError,
		Description: "For moving between SQLite and Postgres (a backup: see backup). Stop the processes that write to the source first: " +
			"what they commit meanwhile is not copied. The target must never have held a commit; its schema is created.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`URL` of the store to copy"},
			&cli.StringFlag{Name: "to", Usage: "`URL` of the empty store"},
		},
		Action: copyStore,
	}
}

func copyStore(c *cli.Context) (err error) {
	var problems []string
	parse := func(flag string) database {
		db, err := parseDatabase(c.String(flag))
		switch {
		case c.String(flag) == "":
			problems = append(problems, "--"+flag+" is required: the URL of a store")
		case err != nil:
			problems = append(problems, fmt.Sprintf("--%s: %v", flag, err))
		}
		return db
	}
	from, to := parse("from"), parse("to")
	if len(problems) > 0 {
		return &configError{problems}
	}
	if lite, ok := from.(sqliteDatabase); ok && !lite.cfg.Memory {
		if ref, err := sqlite.ReadReference(c.Context, lite.cfg.Path); err != nil || ref != nil {
			return errors.Join(err, fmt.Errorf("--from: %s is a database of the Rust reference, which has no history to copy: flux-resourceset import --from %s --database-url URL fills the other store with it", lite.cfg.Path, lite.cfg.Path))
		}
	}
	source, err := from.open(c.Context, true)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if err := to.migrate(c.Context); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	last, err := copyInto(c.Context, source, to, newProgress(c))
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "copied %d revisions from %s to %s; both are the same\n", last.Of, from.where(), to.where())
	return printPassive(c.App.Writer)
}

// copyInto copies a store into an empty one and closes the target, so that a file is complete.
func copyInto(ctx context.Context, source store.Store, to database, progress func(store.Progress)) (last store.Progress, err error) {
	target, err := to.open(ctx, false)
	if err != nil {
		return last, fmt.Errorf("the store to copy into: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	err = store.Copy(ctx, source, target, func(p store.Progress) { last = p; progress(p) })
	return last, err
}

// newProgress returns a function that updates a progress line on a terminal, at most twice a second. Without a terminal
// it does nothing.
func newProgress(c *cli.Context) func(store.Progress) {
	if !isTerminal(c.App.ErrWriter) {
		return func(store.Progress) {}
	}
	var shown time.Time
	return func(p store.Progress) {
		now := time.Now()
		if now.Sub(shown) < 500*time.Millisecond && p.Revision != p.Of {
			return
		}
		shown = now
		doing, end := "copying", ""
		if p.Verifying {
			doing = "comparing"
		}
		if p.Revision == p.Of {
			end = "\n"
		}
		fmt.Fprintf(c.App.ErrWriter, "\r\033[K%s revision %d of %d%s", doing, p.Revision, p.Of, end)
	}
}
