package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

const importReason = "imported from the reference's database"

func importCommand() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "fill an empty store from a database of the Rust reference", OnUsageError: usageError,
		Description: "Everything is checked first, and nothing is written unless all of it can be; the problems are listed by document. Edit the documents with problems as files: " +
			"--export-to. The store is the one of DATABASE_URL, and must never have held a commit; it may be the same file. ENVIRONMENTS counts. The file given is not changed otherwise.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`FILE` (or sqlite:// URL) of the reference"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only report"},
			&cli.StringFlag{Name: "export-to", Usage: "write the documents as files for apply below this `DIR`, which must be empty or not exist, with every problem as a comment beside its line; no store is needed"},
		},
		Action: importReference,
	}
}

func importReference(c *cli.Context) error {
	db, err := databaseFromFlags(c)
	if err != nil {
		return err
	}
	from, rules, err := importSettings(c, db)
	if err != nil {
		return err
	}
	defer relaxGC()()
	a, err := readReference(c.Context, from)
	if err != nil {
		return err
	}
	if a == nil {
		return fmt.Errorf("%s is not a database of the reference, or it has been imported already", from)
	}
	var files *referenceFiles
	if c.IsSet("export-to") {
		if files, err = newReferenceFiles(a); err != nil {
			return err
		}
	}
	seed, err := a.check(rules)
	if err != nil {
		return err
	}
	for _, note := range a.notes {
		fmt.Fprintln(c.App.Writer, note)
	}
	if files != nil {
		return files.write(c.App.Writer, c.String("export-to"), a)
	}
	if err := a.err(from); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		fmt.Fprint(c.App.Writer, "nothing was written; it would import ")
		return summarize(c.App.Writer, seed, from, db)
	}
	if err := fill(c.Context, db, rules, seed); err != nil {
		return err
	}
	fmt.Fprint(c.App.Writer, "imported ")
	return summarize(c.App.Writer, seed, from, db)
}

// importSettings reads the flags and returns all problems together.
func importSettings(c *cli.Context, db database) (from string, rules fleet.Rules, err error) {
	var problems []string
	from = c.String("from")
	if strings.HasPrefix(strings.ToLower(from), "sqlite:") {
		cfg, err := sqlite.ParseURL(from)
		if err != nil {
			problems = append(problems, fmt.Sprintf("--from: %v", err))
		}
		from = cfg.Path
	}
	if _, err := os.Stat(from); from == "" {
		problems = append(problems, "--from is required: the file of the reference")
	} else if err != nil {
		problems = append(problems, fmt.Sprintf("--from: %v", err))
	}
	if db.name() == backendMemory && !c.IsSet("export-to") {
		problems = append(problems, "a store in memory would be gone when this is done: name another one with DATABASE_URL")
	}
	environments, ok := parseEnvironments(c.String("environments"))
	if !ok {
		problems = append(problems, fmt.Sprintf("ENVIRONMENTS is %q: it must be a comma-separated list of different names", c.String("environments")))
	}
	refuseSecrets, err := readSecretValues(c)
	if err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		err = &configError{problems}
	}
	return from, fleet.Rules{Environments: environments, RefuseSecrets: refuseSecrets}, err
}

// fill writes a seed as the first revision of a store without commits. It creates the schema if necessary.
func fill(ctx context.Context, db database, rules fleet.Rules, seed fleet.Seed) (err error) {
	status, err := db.status(ctx)
	if err != nil {
		return err
	}
	if status.Current == 0 {
		if err := db.migrate(ctx); err != nil {
			return err
		}
	}
	st, err := db.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	replica := store.NewReplica(store.Config{Store: st, Rules: rules})
	if err := replica.Load(ctx); err != nil {
		return err
	}
	loaded, err := server.SeedEmptyStore(ctx, replica, seed, store.Meta{Actor: actorSystem, Reason: importReason})
	if err == nil && !loaded {
		err = fmt.Errorf("%s is not empty: it is at revision %d", db.where(), replica.State().Revision())
	}
	return err
}

func summarize(w io.Writer, seed fleet.Seed, from string, to database) error {
	count := map[fleet.Kind]int{}
	for _, doc := range seed {
		count[doc.Kind]++
	}
	fmt.Fprintf(w, "%d documents from %s into %s", len(seed), from, to.where())
	for _, kind := range fleet.Kinds() {
		fmt.Fprintf(w, ", %s: %d", kind, count[kind])
	}
	_, err := fmt.Fprintln(w)
	return err
}
