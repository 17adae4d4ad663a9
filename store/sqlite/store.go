// Package sqlite keeps a fleet in one SQLite file: the default store, for one replica that writes and any number of
// read-only processes on the same machine. In memory it is SQLite's own memory database, with the same SQL.
//
// The file is in WAL mode, which does not work on network file systems (https://www.sqlite.org/wal.html), and every
// acknowledged commit has been synced to disk.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/migrations"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Store is a [store.Store] on one SQLite database.
type Store struct {
	sqlstore.Store

	cfg    Config
	first  *store.FirstUse
	keeper *sql.DB // holds the database in memory alive; nil for a file

	reopening chan struct{} // holds a token while the file is opened again
	mu        sync.Mutex
	open      *handles // nil after the file was lost
	lost      *files   // the lost files, while they must be known
	closed    bool

	// commit ends the transaction of a connection. Tests replace it, to lose the answer.
	commit func(context.Context, *sql.Conn) error

	recalls chan struct{} // holds a token for each connection that people read the history with
}

// ownReaders is how many connections are left to following the log, looking after tokens, and commits.
const ownReaders = 3

var _ store.Store = (*Store)(nil)

// handles are the connections to one particular file, which may later be another one than the path leads to.
type handles struct {
	writer *sql.DB // one connection; nil when read-only
	reader *sql.DB
	keeper *sql.DB // never used, so that the file stays open when every other connection was thrown away; nil in memory
	files  *files  // nil in memory
}

// Open opens a database that [Migrate] has prepared; one in memory it prepares itself.
//
// ErrNotInitialised when the file or its schema does not exist, ErrSchema when the schema is another one than this
// binary's, ErrCorrupt when the file is not a database, ErrUnavailable when another process holds it locked or migrates it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := New(cfg)
	if err := s.first.Wait(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a store that is opened on first use, with the errors of [Open].
func New(cfg Config) *Store {
	s := &Store{cfg: cfg, reopening: make(chan struct{}, 1), commit: commit, recalls: make(chan struct{}, historyReaders())}
	s.Store = sqlstore.New(sqlstore.Dialect{
		ReadOnly: cfg.ReadOnly, ReadHead: readHead, Ask: s.ask, Read: s.read, Recall: s.recall, Barrier: s.barrier, Write: s.write,
	})
	if cfg.Memory && cfg.Path == "" {
		s.cfg.Path = MemoryName()
	}
	s.first = store.OnFirstUse(s.prepare, s.connect)
	return s
}

// MemoryName returns a new name of a database in memory.
func MemoryName() string { return "/" + uuid.NewString() } // with a slash in front it is shared inside the process

// prepare runs what the configuration asks for before the database is opened.
func (s *Store) prepare(ctx context.Context) (err error) {
	if s.cfg.Memory && s.keeper == nil {
		if s.keeper, err = connect(s.cfg.Path, accessMemory, 1); err != nil {
			return err
		}
		if err := s.keeper.PingContext(ctx); err != nil {
			return translate(ctx, "opening a database in memory", err)
		}
	}
	if s.cfg.Prepare == nil {
		return nil
	}
	return s.cfg.Prepare(ctx)
}

func (s *Store) connect(ctx context.Context) (err error) {
	var h *handles
	switch {
	case s.cfg.Memory && s.cfg.ReadOnly:
		return errors.New("a database in memory cannot be read-only: nothing could ever be in it")
	case s.cfg.Memory:
		h, err = openMemory(ctx, s.cfg.Path)
	case s.cfg.Path == "":
		return errors.New("no SQLite file is named")
	default:
		h, err = openFile(ctx, s.cfg)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = h
	return nil
}

// historyReaders is how many read the history at a time: they keep a processor busy each, and one is for the others.
func historyReaders() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// openMemory opens a database of SQLite's memdb VFS. All connections share it, and it lives as long as one of them. The keeper
// is never used for a query, so the pool has no reason to discard it.
func openMemory(ctx context.Context, name string) (*handles, error) {
	forMigrator, err := connect(name, accessMemory, 1)
	if err != nil {
		return nil, err
	}
	if err := runMigrations(ctx, forMigrator, migrations.SQLite, contents{}); err != nil {
		return nil, translate(ctx, "migrating a database in memory", err)
	}
	// memdb has no WAL: a reader and a writer would lock each other out. One connection serves both in turn.
	db, err := connect(name, accessMemory, 1)
	if err != nil {
		return nil, err
	}
	return &handles{writer: db, reader: db}, nil
}

func openFile(ctx context.Context, cfg Config) (_ *handles, err error) {
	doing := "opening " + cfg.Path
	found, err := inspect(ctx, cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if err = found.ours(cfg.Path); errors.Is(err, store.ErrSchema) {
		err = unlessMigrating(ctx, cfg.Path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	h := &handles{}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if h.files, err = openMain(cfg.Path); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if !cfg.ReadOnly {
		if h.writer, err = connect(cfg.Path, accessWrite, 1); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		if err := h.writer.PingContext(ctx); err != nil {
			return nil, translate(ctx, doing, err)
		}
	}
	if h.reader, err = connect(cfg.Path, accessRead, ownReaders+historyReaders()); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if h.keeper, err = connect(cfg.Path, accessRead, 1); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	for _, db := range []*sql.DB{h.reader, h.keeper} {
		if _, err := readHead(ctx, reading{db.QueryContext}); err != nil {
			return nil, translate(ctx, doing, err)
		}
	}
	if err = h.files.openRest(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return h, h.intact() // the files opened by name are the verified ones
}

// close closes the connections, and then the files.
func (h *handles) close() error {
	err := h.disconnect()
	if h.files != nil {
		err = errors.Join(err, h.files.close())
	}
	return err
}

// disconnect closes the readers first: the last connection to a database folds its log into it, which a reader cannot do.
func (h *handles) disconnect() error {
	var errs []error
	for _, db := range []*sql.DB{h.reader, h.keeper} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if h.writer != nil && h.writer != h.reader {
		errs = append(errs, h.writer.Close())
	}
	return errors.Join(errs...)
}

// intact returns ErrUnavailable when the files are no longer the ones that these handles have open.
func (h *handles) intact() error {
	if h.files == nil {
		return nil
	}
	return h.files.intact()
}

// rescue copies data that would be lost with the connections into the database file, as far as the files still allow it, and
// reports whether all of it was copied.
func (h *handles) rescue(ctx context.Context, d *damage) bool {
	switch {
	case d.data:
	case d.index:
		// A process that reads a shortened index through its memory map crashes. SQLite recreates an empty one.
		if info, err := h.files.shm.Stat(); err == nil && info.Size() < h.files.index {
			_ = h.files.shm.Truncate(h.files.index)
		}
	case h.writer != nil: // the WAL is still open, although other processes cannot find it
		var busy, frames, folded int
		err := h.writer.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &folded)
		return err == nil && busy == 0
	}
	return false
}

// insideKey marks operations inside a transaction, which has the writer's connection.
type insideKey struct{}

// rescueTimeout limits how long rescue waits for the writer's connection.
const rescueTimeout = 2 * lockedTimeout

// handles returns the connections to the file at the path, and opens them again if the file was replaced. The caller that
// detects damage rescues the data; concurrent callers receive the damage as an error meanwhile.
func (s *Store) handles(ctx context.Context) (*handles, error) {
	if err := s.first.Wait(ctx); err != nil {
		return nil, err
	}
	h, err := s.current()
	if h != nil && err != nil && ctx.Value(insideKey{}) == nil {
		select {
		case s.reopening <- struct{}{}:
			err = s.giveUp(h, err)
			<-s.reopening
		default:
		}
	}
	if h != nil || err != nil {
		return h, err
	}
	select {
	case s.reopening <- struct{}{}:
		defer func() { <-s.reopening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("opening %s again: %w", s.cfg.Path, ctx.Err())
	}
	if h, err := s.current(); h != nil || err != nil {
		return h, err
	}
	return s.reopen(ctx)
}

// current returns the open connections and the damage of their files; two nils if the file must be opened again.
func (s *Store) current() (*handles, error) {
	s.mu.Lock()
	h, closed := s.open, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("%w: it was closed", store.ErrUnavailable)
	case h == nil:
		return nil, nil
	}
	return h, h.intact()
}

// giveUp closes connections with damaged files: while we hold the old file's -shm, a process that opens the new file could take
// it for its own. Queries under way fail. Only the holder of the token of reopening calls it.
func (s *Store) giveUp(h *handles, err error) error {
	s.mu.Lock()
	mine := s.open == h && !s.closed
	s.mu.Unlock()
	if !mine {
		return err
	}
	var d *damage
	isDamage := errors.As(err, &d)
	ctx, cancel := context.WithTimeout(context.Background(), rescueTimeout)
	rescued := isDamage && h.rescue(ctx, d)
	cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != h {
		return err // it was closed meanwhile
	}
	s.open = nil
	s.forget()
	s.lost = h.files
	s.lost.cut = isDamage && d.cut
	err = errors.Join(err, h.disconnect(), s.lost.closeMain())
	if rescued {
		err = errors.Join(err, s.lost.closeIndex())
	}
	return err
}

// forget lets go of the files that were lost.
func (s *Store) forget() {
	if s.lost != nil {
		_ = s.lost.close() // they were only read
	}
	s.lost = nil
}

func (s *Store) reopen(ctx context.Context) (*handles, error) {
	// SQLite pairs a database with the -wal file beside it by name only, and would mix the old log into the new
	// database (https://www.sqlite.org/howtocorrupt.html, "Unlinking or renaming a database file while in use").
	if left := s.leftBehind(); left != "" {
		// It may as well be the old file come back: then its log is part of it, and removing that would lose commits.
		return nil, fmt.Errorf("%w: files of %[2]s were taken away or cut off while it was in use, and %[3]s was left behind: "+
			"if it is the same database, restart every process that uses it; if it is another one, such as a backup, "+
			"stop them first and remove %[2]s-wal and %[2]s-shm", store.ErrUnavailable, s.cfg.Path, left)
	}
	h, err := openFile(ctx, s.cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(fmt.Errorf("%w: it was closed", store.ErrUnavailable), h.close())
	}
	s.forget()
	s.open = h
	return h, nil
}

func (s *Store) leftBehind() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		return ""
	}
	return s.lost.leftBehind()
}

// Close closes every connection. Calls under way fail, calls after it return ErrUnavailable.
func (s *Store) Close() error {
	s.first.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.open != nil {
		errs = append(errs, s.open.close())
		s.open = nil
	}
	s.forget()
	if s.keeper != nil {
		errs = append(errs, s.keeper.Close())
	}
	return errors.Join(errs...)
}
