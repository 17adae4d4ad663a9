package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/newfile"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func backupCommand() *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "write the whole store with its history into a file", ArgsUsage: "FILE|-", OnUsageError: usageError,
		Description: "The file is a SQLite database, whatever the store is, and is compared with the store before it gets its name. Servers may run " +
			"meanwhile: it holds what was there when it began. Reading is enough: on Postgres the role of read-only servers will do. With --dir, for " +
			"jobs, the file is called after its revision and the time.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "write a file of a new name into this `DIRECTORY`"},
			&cli.IntFlag{Name: "keep", Usage: "with --dir: remove all but the newest `N` such files, after the new one is there (0: keep all)"},
		},
		Action: backup,
	}
}

func restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "fill an empty store from a file that backup wrote", ArgsUsage: "FILE|-", OnUsageError: usageError,
		Description: "The store must never have held a commit; its schema is created. Documents, history, revisions and ETags are those of the file, and " +
			"both are compared. Servers that still serve something newer go on with it until somebody accepts the restored history: see accept.",
		Action: restore,
	}
}

const fileMode = 0o600 // it holds tokens' digests

func backup(c *cli.Context) (err error) {
	db, target, err := backupSettings(c)
	if err != nil {
		return err
	}
	source, err := db.open(c.Context, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	dir := filepath.Dir(target)
	if target == "-" {
		dir = os.TempDir()
	}
	if dir, err = os.MkdirTemp(dir, ".backup-*"); err != nil { // beside its place: renamed, it is there whole or not at all
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	made, err := writeBackup(c, source, filepath.Join(dir, "fleet.db"))
	if err != nil {
		return err
	}
	if target == "-" {
		return made.send(c.App.Writer)
	}
	if c.String("dir") != "" {
		target = filepath.Join(c.String("dir"), nameOfBackup(made.state.Revision()))
	}
	if err := newfile.Name(made.path, target); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists by now; a backup takes no file's place", target)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s has revision %s of %s: %d clusters, %d documents; answers sha256:%x\n",
		target, store.FormatHead(made.state.Head()), db.where(), made.state.Clusters(), made.documents, made.digest)
	if keep := c.Int("keep"); keep > 0 {
		return removeOld(c.App.Writer, c.String("dir"), keep)
	}
	return nil
}

// backupSettings are the store and the file; of a new name in a directory, only that.
func backupSettings(c *cli.Context) (db database, target string, err error) {
	dir := c.String("dir")
	var problems []string
	switch target = c.Args().First(); {
	case c.NArg() > 1:
		problems = append(problems, "backup writes one FILE")
	case dir == "" && target == "":
		problems = append(problems, "backup needs a FILE to write, - for standard output, or --dir")
	case dir != "" && target != "":
		problems = append(problems, "--dir names the file itself: leave FILE out")
	case dir == "" && c.IsSet("keep"), c.Int("keep") < 0:
		problems = append(problems, "--keep is how many files stay in --dir: 1 or more")
	case dir != "":
		target = filepath.Join(dir, "new")
	case target != "-":
		if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, fmt.Sprintf("%s exists; a backup takes no file's place", target))
		}
	}
	db, more := readDatabase(c)
	problems = append(problems, more...)
	if db != nil && db.name() == backendMemory {
		problems = append(problems, "what a memory store holds is in its process alone; export it with flux-resourceset-cli")
	}
	if len(problems) > 0 {
		return nil, "", &configError{problems}
	}
	return db, target, nil
}

// backupFile is a backup that was written and compared.
type backupFile struct {
	path      string
	state     *fleet.State
	documents int
	digest    []byte
}

// writeBackup writes a store into a new file and reads that as a server would.
func writeBackup(c *cli.Context, source store.Store, path string) (*backupFile, error) {
	if _, err := copyToFile(c.Context, source, path, newProgress(c)); err != nil {
		return nil, err
	}
	made := &backupFile{path: path}
	var err error
	made.state, made.documents, made.digest, err = examine(c.Context, sqliteDatabase{sqlite.Config{Path: path}})
	return made, err
}

// copyToFile writes a store into a new file, which is the backup once both were compared.
func copyToFile(ctx context.Context, source store.Store, path string, progress func(store.Progress)) (last store.Progress, err error) {
	file := sqliteDatabase{sqlite.Config{Path: path}}
	if err := file.migrate(ctx); err != nil {
		return last, err
	}
	if last, err = copyInto(ctx, source, file, progress); err != nil {
		return last, err
	}
	return last, os.Chmod(path, fileMode)
}

// takeBackup is how a server takes backups: of the store that it has open, whose lock or connections another one would need again.
func takeBackup(source store.Store, logger *slog.Logger) func(context.Context) (*server.Backup, error) {
	return func(ctx context.Context) (made *server.Backup, err error) {
		if err := removeAbandoned(os.TempDir()); err != nil {
			logger.WarnContext(ctx, "what a process that died left of a backup cannot be removed", "error", err)
		}
		dir, err := os.MkdirTemp("", backupDirectory)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // what is open stays until it is closed, whatever becomes of the process
		path := filepath.Join(dir, "fleet.db")
		last, err := copyToFile(ctx, source, path, func(store.Progress) {})
		if err != nil {
			return nil, err
		}
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return &server.Backup{File: file, Name: nameOfBackup(last.Of), Revision: last.Of}, nil
	}
}

// backupDirectory is how directories are called in which servers make backups.
const backupDirectory = "flux-resourceset-backup-*"

// removeAbandoned removes what processes that died while they made a backup have left: nobody works on one that is so old.
func removeAbandoned(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ours, _ := filepath.Match(backupDirectory, e.Name()); !ours || !e.IsDir() {
			continue
		}
		info, gone := e.Info()
		if gone == nil && time.Since(info.ModTime()) > server.BackupTime {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// examine reads a store as a server does, and works out every answer to every cluster.
func examine(ctx context.Context, db database) (st *fleet.State, documents int, digest []byte, err error) {
	s, err := db.open(ctx, true)
	if err != nil {
		return nil, 0, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	snap, err := s.Load(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	if st, err = fleet.NewState(fleet.Rules{}, snap.Head, snap.At, snap.Records); err != nil {
		return nil, 0, nil, err
	}
	digest, err = digestOfAnswers(st)
	return st, len(snap.Records), digest, err
}

// digestOfAnswers is a SHA-256 over what all clusters are answered. The same clusters with the same answers have the same.
func digestOfAnswers(st *fleet.State) ([]byte, error) {
	lists := fleet.Definitions()
	for _, t := range st.All(fleet.KindResourceType) {
		lists = append(lists, fleet.ResourceKind(t.ID))
	}
	sum := sha256.New()
	for _, cluster := range st.All(fleet.KindCluster) {
		for _, list := range lists {
			answer, err := st.Answer(cluster, list)
			if err != nil {
				return nil, fmt.Errorf("cluster %q: %w", cluster.ID, err)
			}
			fmt.Fprintf(sum, "%q %q %s\n", cluster.Cluster().ClusterDNS, list, answer.ETag)
		}
	}
	return sum.Sum(nil), nil
}

// backupName is how files are called that backup names itself. They sort by time.
var backupName = regexp.MustCompile(`^fleet-\d{8}T\d{6}Z-r\d+\.db$`)

func nameOfBackup(of fleet.Revision) string {
	return fmt.Sprintf("fleet-%s-r%d.db", time.Now().UTC().Format("20060102T150405Z"), of)
}

func (f *backupFile) send(to io.Writer) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, in)
	return errors.Join(err, in.Close())
}

// removeOld removes all but the newest files that backup has named.
func removeOld(w io.Writer, dir string, keep int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && backupName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s removed\n", filepath.Join(dir, name))
	}
	return nil
}

func restore(c *cli.Context) (err error) {
	path := c.Args().First()
	db, problems := readDatabase(c)
	if c.NArg() != 1 {
		problems = append(problems, "restore needs one FILE that backup wrote, or - for standard input")
	}
	if db != nil && db.name() == backendMemory {
		problems = append(problems, "a memory store is empty again when its process ends; name another one with DATABASE_URL")
	}
	if len(problems) > 0 {
		return &configError{problems}
	}
	dir, err := os.MkdirTemp("", "restore-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// A copy: SQLite writes beside a database that it reads, and a backup may be where nothing can be written.
	copied := filepath.Join(dir, "fleet.db")
	sum, err := takeFile(c, path, copied)
	if err != nil {
		return err
	}
	file := sqliteDatabase{sqlite.Config{Path: copied}}
	if err := file.migrate(c.Context); err != nil { // an older version may have written it
		return fmt.Errorf("%s is no backup: %w", path, err)
	}
	was, documents, digest, err := examine(c.Context, file)
	if err != nil {
		return fmt.Errorf("%s cannot be restored: %w", path, err)
	}
	if was.Revision() == 0 {
		return fmt.Errorf("%s has no revision: there is nothing to restore", path)
	}
	if err := copyFrom(c, file, db); err != nil {
		return err
	}
	_, _, now, err := examine(c.Context, db)
	if err != nil {
		return err
	}
	if !slices.Equal(now, digest) {
		return fmt.Errorf("%w: the restored store answers sha256:%x, and the backup sha256:%x", store.ErrCorrupt, now, digest)
	}
	fmt.Fprintf(c.App.Writer, "%s has revision %s: %d clusters, %d documents; answers sha256:%x; file sha256:%x\n",
		db.where(), store.FormatHead(was.Head()), was.Clusters(), documents, digest, sum)
	return nil
}

// copyFrom copies one store into another one, which is empty.
func copyFrom(c *cli.Context, from, to database) (err error) {
	source, err := from.open(c.Context, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if err := to.migrate(c.Context); err != nil {
		return err
	}
	_, err = copyInto(c.Context, source, to, newProgress(c))
	return err
}

// takeFile copies a file, or standard input, and answers its SHA-256: that is what the API's clients were told of it.
func takeFile(c *cli.Context, path, to string) (sum []byte, err error) {
	in := io.NopCloser(c.App.Reader)
	if path != "-" {
		if in, err = os.Open(path); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err
	}
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, digest), in)
	return digest.Sum(nil), errors.Join(err, out.Close())
}
