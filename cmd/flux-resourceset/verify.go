package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/objectstore"
	"github.com/flux-resourceset/flux-resourceset/store"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "verify the history of the store, or of a backup", ArgsUsage: "[FILE|s3://BUCKET/KEY|-]", OnUsageError: usageError,
		Description: "Reads the whole history and compares it with its hash chain, and the documents with the history. Without an argument it is " +
			"the store of DATABASE_URL, also while servers use it: on Postgres the role of read-only servers will do. Prints the newest revision and its " +
			"hash, which covers all history before it: the same revision has the same hash in every copy and at any time. Exit code 1 when anything was altered.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "expect", Usage: "fail unless the revision and hash are `REVISION=HASH`, as an earlier run has printed them; the history may go on after it"},
		}, s3Flags()...),
		Action: verify,
	}
}

func verify(c *cli.Context) (err error) {
	var problems []string
	var bucket *object
	var db database
	path := c.Args().First()
	switch {
	case c.NArg() > 1:
		problems = append(problems, "verify takes one FILE, s3://BUCKET/KEY, - for standard input, or nothing for the store")
	case objectstore.IsName(path):
		bucket, problems = openObject(c, path, objectstore.ParseName)
	case path == "":
		db, problems = readDatabase(c)
	}
	var expect fleet.Revision
	var want string
	if e := c.String("expect"); e != "" {
		if _, err := fmt.Sscanf(e, "%d=%s", &expect, &want); err != nil || expect < 1 {
			problems = append(problems, "--expect is REVISION=HASH, such as 12=sha256:0123…")
		}
	}
	if len(problems) > 0 {
		return &configError{problems}
	}
	where := path
	if path != "" {
		file, _, remove, err := unpackBackup(c, path, bucket)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
		db = file
	} else {
		where = db.where()
	}
	s, err := db.open(c.Context, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	progress := newProgress(c)
	found, err := store.Verify(c.Context, s, func(at, of fleet.Revision) { progress(store.Progress{Verifying: true, Revision: at, Of: of}) })
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if want != "" {
		if err := expected(c, s, found, expect, want); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	fmt.Fprintf(c.App.Writer, "%s: revision %d=%s, %d documents\n", where, found.Head.Revision, store.FormatHash(found.Hash), found.Documents)
	if found.Oldest > 1 && !found.Covered {
		fmt.Fprintf(c.App.Writer, "the documents from revisions before %d have no checkpoint yet\n", found.Oldest)
	}
	return nil
}

// expected returns ErrDiverged unless the verified history has the revision with the given hash.
func expected(c *cli.Context, s store.Store, found store.Verified, at fleet.Revision, want string) error {
	if at == found.Head.Revision && store.FormatHash(found.Hash) == want {
		return nil
	}
	links, err := s.Links(c.Context, at-1, 1)
	switch {
	case err != nil:
		return err
	case len(links) == 0 || links[0].Revision != at:
		return fmt.Errorf("%w: there is no revision %d", store.ErrDiverged, at)
	case store.FormatHash(links[0].Hash) != want:
		return fmt.Errorf("%w: revision %d has the hash %s, and not %s", store.ErrDiverged, at, store.FormatHash(links[0].Hash), want)
	}
	return nil
}
