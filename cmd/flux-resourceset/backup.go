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
	"github.com/flux-resourceset/flux-resourceset/internal/atomicfile"
	"github.com/flux-resourceset/flux-resourceset/internal/objectstore"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func backupCommand() *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "write the whole store with its history into a file, or an object of a bucket", ArgsUsage: "FILE|s3://BUCKET/KEY|-", OnUsageError: usageError,
		Description: "The file is a SQLite database, whatever the store is, and is compared with the store before it gets its name. Servers may run " +
			"meanwhile: it holds what was there when it began. Reading is enough: on Postgres the role of read-only servers will do. With --dir, for " +
			"jobs, the file is called after its revision and the time. Nothing that is there is replaced. For s3:// the credentials are those of AWS's own " +
			"tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of a pod's service account.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "write a file of a new name into this `DIRECTORY`, or an object below s3://BUCKET/PREFIX"},
			&cli.IntFlag{Name: "keep", Usage: "with --dir: remove all but the newest `N` such files, after the new one is there (0: keep all)"},
		}, s3Flags()...),
		Action: backup,
	}
}

func restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "fill an empty store from what backup wrote", ArgsUsage: "FILE|s3://BUCKET/KEY|-", OnUsageError: usageError,
		Description: "The store must never have held a commit; its schema is created. Documents, history, revisions and ETags are those of the file, and " +
			"both are compared. Servers that still serve something newer go on with it until somebody accepts the restored history: see accept. What comes from s3:// is held against the digest that backup keeps with it first.",
		Flags:  s3Flags(),
		Action: restore,
	}
}

const fileMode = 0o600 // a backup holds digests of tokens

func backup(c *cli.Context) (err error) {
	db, target, bucket, err := backupSettings(c)
	if err != nil {
		return err
	}
	if bucket != nil {
		if err := bucket.checkVacant(c.Context); err != nil {
			return err
		}
	}
	source, err := db.open(c.Context, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if dir := c.String("dir"); dir != "" && bucket == nil {
		if err := removeAbandoned(dir, workDirPattern, 24*time.Hour); err != nil {
			return err
		}
	}
	dir, err := workDirectory(target, bucket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	made, err := writeBackup(c, source, filepath.Join(dir, "fleet.db"))
	if err != nil {
		return err
	}
	switch {
	case target == "-":
		return made.send(c.App.Writer)
	case bucket != nil:
		target, err = bucket.upload(c.Context, made)
	default:
		if dir := c.String("dir"); dir != "" {
			target = filepath.Join(dir, newBackupName(made.state.Revision()))
		}
		if err = atomicfile.Publish(made.path, target); errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%s exists now; a backup does not replace a file", target)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s has revision %s of %s: %d clusters, %d documents; answers sha256:%x\n",
		target, store.FormatHead(made.state.Head()), db.where(), made.state.Clusters(), made.documents, made.digest)
	if keep := c.Int("keep"); keep > 0 {
		return pruneBackups(c.App.Writer, c.String("dir"), keep)
	}
	return nil
}

// backupSettings returns the store and the target, and reports all problems together. The target is a file (or - for
// standard output) or, if bucket is not nil, an object. With --dir, target is only a file in that directory: the name of
// the backup is chosen later.
func backupSettings(c *cli.Context) (db database, target string, bucket *object, err error) {
	dir := c.String("dir")
	var problems, more []string
	switch target = c.Args().First(); {
	case c.NArg() > 1:
		problems = append(problems, "backup writes one FILE")
	case dir == "" && target == "":
		problems = append(problems, "backup needs a FILE to write, - for standard output, or --dir")
	case dir != "" && target != "":
		problems = append(problems, "--dir names the file itself: leave FILE out")
	case dir == "" && c.IsSet("keep"), c.Int("keep") < 0:
		problems = append(problems, "--keep is how many files stay in --dir: 1 or more")
	case objectstore.IsName(dir):
		if c.IsSet("keep") {
			problems = append(problems, "--keep is for directories: in a bucket, lifecycle rules remove what is old")
		}
		bucket, more = openObject(c, dir, objectstore.ParsePrefix)
	case objectstore.IsName(target):
		bucket, more = openObject(c, target, objectstore.ParseName)
	case dir != "":
		target = filepath.Join(dir, "new")
	case target != "-":
		if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, fmt.Sprintf("%s exists; a backup does not replace a file", target))
		}
	}
	problems = append(problems, more...)
	db, more = readDatabase(c)
	problems = append(problems, more...)
	if db != nil && db.name() == backendMemory {
		problems = append(problems, "a memory store exists only in its process; export it with flux-resourceset-cli")
	}
	if len(problems) > 0 {
		return nil, "", nil, &configError{problems}
	}
	return db, target, bucket, nil
}

// backupFile is a written and verified backup.
type backupFile struct {
	path      string
	state     *fleet.State
	documents int
	digest    []byte
}

// writeBackup copies a store to a new file and loads that file as a server would.
func writeBackup(c *cli.Context, source store.Store, path string) (*backupFile, error) {
	if _, err := copyToFile(c.Context, source, path, newProgress(c)); err != nil {
		return nil, err
	}
	made := &backupFile{path: path}
	var err error
	made.state, made.documents, made.digest, err = loadAndDigest(c.Context, sqliteDatabase{sqlite.Config{Path: path}})
	return made, err
}

// copyToFile copies a store to a new file and compares the two.
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

// newBackupFunc returns the function by which a server takes backups. It reads the store that the server has open,
// because a second one would need its own lock or connections.
func newBackupFunc(source store.Store, logger *slog.Logger) func(context.Context) (*server.Backup, error) {
	return func(ctx context.Context) (made *server.Backup, err error) {
		if err := removeAbandoned(os.TempDir(), serverDirPattern, server.BackupTime); err != nil {
			logger.WarnContext(ctx, "the unfinished backup of an ended process cannot be removed", "error", err)
		}
		dir, err := os.MkdirTemp("", serverDirPattern)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // the open file stays readable until it is closed, even if the process is killed
		path := filepath.Join(dir, "fleet.db")
		last, err := copyToFile(ctx, source, path, func(store.Progress) {})
		if err != nil {
			return nil, err
		}
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return &server.Backup{File: file, Name: newBackupName(last.Of), Revision: last.Of}, nil
	}
}

// serverDirPattern matches the temporary directories in which servers make backups.
const serverDirPattern = "flux-resourceset-backup-*"

// removeAbandoned removes the directories of processes that ended in the middle of a backup. A directory of that age is
// no longer in use.
func removeAbandoned(dir, pattern string, age time.Duration) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ours, _ := filepath.Match(pattern, e.Name()); !ours || !e.IsDir() {
			continue
		}
		info, gone := e.Info()
		if gone == nil && time.Since(info.ModTime()) > age {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// loadAndDigest loads a store as a server does, and computes every answer to every cluster.
func loadAndDigest(ctx context.Context, db database) (st *fleet.State, documents int, digest []byte, err error) {
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
	digest, err = answersDigest(st)
	return st, len(snap.Records), digest, err
}

// answersDigest returns a SHA-256 over the answers to all clusters. Equal clusters with equal answers have equal
// digests.
func answersDigest(st *fleet.State) ([]byte, error) {
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

// backupName matches the file names that backup --dir chooses. They sort by time.
var backupName = regexp.MustCompile(`^fleet-\d{8}T\d{6}Z-r\d+\.db$`)

func newBackupName(of fleet.Revision) string {
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

// pruneBackups removes all but the newest keep files that match backupName.
func pruneBackups(w io.Writer, dir string, keep int) error {
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
		problems = append(problems, "restore needs one FILE that backup wrote, s3://BUCKET/KEY, or - for standard input")
	}
	var bucket *object
	if objectstore.IsName(path) {
		var more []string
		bucket, more = openObject(c, path, objectstore.ParseName)
		problems = append(problems, more...)
	}
	if db != nil && db.name() == backendMemory {
		problems = append(problems, "a memory store is empty again when its process ends; name another one with DATABASE_URL")
	}
	if len(problems) > 0 {
		return &configError{problems}
	}
	file, sum, remove, err := unpackBackup(c, path, bucket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	was, documents, digest, err := loadAndDigest(c.Context, file)
	if err != nil {
		return fmt.Errorf("%s cannot be restored: %w", path, err)
	}
	if was.Revision() == 0 {
		return fmt.Errorf("%s has no revision: there is nothing to restore", path)
	}
	if err := copyFrom(c, file, db); err != nil {
		return err
	}
	_, _, now, err := loadAndDigest(c.Context, db)
	if err != nil {
		return err
	}
	if !slices.Equal(now, digest) {
		return fmt.Errorf("%w: the restored store answers sha256:%x, and the backup sha256:%x", store.ErrCorrupt, now, digest)
	}
	fmt.Fprintf(c.App.Writer, "%s has revision %s: %d clusters, %d documents; answers sha256:%x; file sha256:%x\n",
		db.where(), store.FormatHead(was.Head()), was.Clusters(), documents, digest, sum)
	return printPassive(c.App.Writer)
}

// printPassive prints that a copied store is passive, and how to end that.
func printPassive(w io.Writer) error {
	_, err := fmt.Fprintln(w, "the store is passive: it is served, but delivers no webhooks, runs no rollouts, moves and scans no versions and ends no freezes; "+
		"to let it replace the original, stop the original, then run `flux-resourceset accept --yes`")
	return err
}

// unpackBackup copies a backup to a temporary file and migrates that to the newest schema. SQLite writes next to a
// database that it reads, and a backup may be on a read-only medium. The caller must call remove.
func unpackBackup(c *cli.Context, path string, bucket *object) (file sqliteDatabase, sum []byte, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "restore-*")
	if err != nil {
		return file, nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	copied := filepath.Join(dir, "fleet.db")
	if sum, err = copyInput(c, path, bucket, copied); err != nil {
		return file, nil, nil, err
	}
	file = sqliteDatabase{sqlite.Config{Path: copied}}
	if err := file.migrate(c.Context); err != nil { // a backup of an older version may have an older schema
		return file, nil, nil, fmt.Errorf("%s is no backup: %w", path, err)
	}
	return file, sum, func() error { return os.RemoveAll(dir) }, nil
}

// copyFrom copies a store into an empty one and creates the schema there.
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

// copyInput copies a file, an object or standard input, and returns the SHA-256 of the copy: the digest that GET /backup
// sent to the client.
func copyInput(c *cli.Context, path string, bucket *object, to string) (sum []byte, err error) {
	in := io.NopCloser(c.App.Reader)
	if path != "-" && bucket == nil {
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
	both := io.MultiWriter(out, digest)
	if bucket != nil {
		err = bucket.download(c.Context, both)
	} else {
		_, err = io.Copy(both, in)
	}
	return digest.Sum(nil), errors.Join(err, out.Close())
}
