package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// Stores of a run.
const (
	StoreSQLite   = "sqlite"
	StorePostgres = "postgres"
)

// Database is a real database for one run.
type Database interface {
	// URL returns the database's URL for a process.
	URL(process string) string
	// Open opens the database read-only for the harness, without a proxy.
	Open(ctx context.Context) (store.Store, error)
	// Version returns the version of the database program.
	Version(ctx context.Context) string
	// Volume returns its file system; nil if that cannot be filled on this machine.
	Volume() *Volume
	Close(ctx context.Context) error
}

// Postgres is a database server of the run. Each process reaches it through its own proxy.
type Postgres struct {
	Server  *testrig.Postgres
	Standby *testrig.Postgres // started by Follow; after FailOver, the killed server
	Proxies map[string]*testrig.Proxy
	line    *testrig.Proxy // between the two
	volume  *Volume
}

var _ Database = (*Postgres)(nil)

const database = "fleet"

// NewPostgres starts a server with a proxy for each process, on the volume if it is not nil.
func NewPostgres(ctx context.Context, volume *Volume, processes []string) (_ *Postgres, err error) {
	in := ""
	if volume != nil {
		in = volume.Dir
	}
	p := &Postgres{Proxies: map[string]*testrig.Proxy{}, volume: volume}
	// A small write-ahead log is recycled often, which reveals a full disk.
	if p.Server, err = testrig.StartPostgres(testrig.PostgresConfig{In: in, Settings: []string{"max_wal_size=64MB", "min_wal_size=32MB"}}); err != nil {
		return nil, err
	}
	if err := p.Exec(ctx, "postgres", "CREATE DATABASE "+database); err != nil {
		p.Server.End()
		return nil, err
	}
	for _, name := range processes {
		if p.Proxies[name], err = testrig.NewProxy(ctx, "unix", p.Server.Socket()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Exec runs statements, each in its own transaction.
func (p *Postgres) Exec(ctx context.Context, db string, statements ...string) error {
	return Exec(ctx, p.Server.URL(db), statements...)
}

// Exec runs statements on any database, each in its own transaction.
func Exec(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// Query reads one row.
func Query(ctx context.Context, url, statement string, into ...any) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return conn.QueryRow(ctx, statement).Scan(into...)
}

// Connect opens a connection for the harness.
func (p *Postgres) Connect(ctx context.Context, db string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, p.Server.URL(db))
}

// Database returns the name of the processes' database.
func (p *Postgres) Database() string { return database }

// URL implements Database.
func (p *Postgres) URL(process string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: p.Proxies[process].Address(), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Open implements Database.
func (p *Postgres) Open(ctx context.Context) (store.Store, error) {
	return postgres.Open(ctx, postgres.Config{URL: p.Server.URL(database), ReadOnly: true})
}

// Version implements Database.
func (p *Postgres) Version(ctx context.Context) string {
	conn, err := p.Connect(ctx, database)
	if err != nil {
		return "unknown"
	}
	defer func() { _ = conn.Close(ctx) }()
	return "PostgreSQL " + conn.PgConn().ParameterStatus("server_version")
}

// Volume implements Database.
func (p *Postgres) Volume() *Volume { return p.volume }

// Close implements Database.
func (p *Postgres) Close(context.Context) error {
	for _, proxy := range p.Proxies {
		proxy.Close()
	}
	if p.line != nil {
		p.line.Close()
	}
	if p.Standby != nil {
		p.Standby.End()
	}
	p.Server.End()
	return nil
}

// KillBackend kills one of the server's backend processes that serve ours by SIGKILL, and returns its process id; 0 if
// there is none. The server assumes damaged shared memory, disconnects all clients and recovers.
func (p *Postgres) KillBackend(ctx context.Context) (int, error) {
	conn, err := p.Connect(ctx, database)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var pid int
	err = conn.QueryRow(ctx, `SELECT coalesce((SELECT pid FROM pg_stat_activity
		WHERE application_name = 'flux-resourceset' ORDER BY random() LIMIT 1), 0)`).Scan(&pid)
	if err != nil || pid == 0 {
		return 0, err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		if errors.Is(err, syscall.ESRCH) { // it ended by itself
			return 0, nil
		}
		return 0, err
	}
	// Until the server disconnects this session too, it has not noticed, and would seem to have recovered.
	noticed, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := conn.Exec(noticed, "SELECT pg_sleep(60)"); noticed.Err() != nil {
		return pid, fmt.Errorf("the server has not noticed that a backend was killed: %w", err)
	}
	return pid, nil
}

// Revive restarts the server unless it is healthy.
func (p *Postgres) Revive(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for soon.Err() == nil {
		if conn, err := p.Connect(soon, "postgres"); err == nil {
			return conn.Close(ctx)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return p.Server.Restart(ctx)
}

// SQLite is a database file of the run.
type SQLite struct {
	Path   string
	dir    string
	volume *Volume
}

var _ Database = (*SQLite)(nil)

// NewSQLite chooses a file in a new directory, on the volume if it is not nil.
func NewSQLite(volume *Volume) (*SQLite, error) {
	in := ""
	if volume != nil {
		in = volume.Dir
	}
	dir, err := os.MkdirTemp(in, "faults")
	if err != nil {
		return nil, err
	}
	return &SQLite{Path: filepath.Join(dir, "fleet.db"), dir: dir, volume: volume}, nil
}

// URL implements Database.
func (s *SQLite) URL(string) string { return "sqlite://" + s.Path + "?mode=rwc" }

// Open implements Database.
func (s *SQLite) Open(ctx context.Context) (store.Store, error) {
	return sqlite.Open(ctx, sqlite.Config{Path: s.Path, ReadOnly: true})
}

// Version implements Database.
func (s *SQLite) Version(context.Context) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == "modernc.org/sqlite" {
			return m.Path + " " + m.Version
		}
	}
	return "unknown"
}

// Volume implements Database.
func (s *SQLite) Volume() *Volume { return s.volume }

// Close implements Database.
func (s *SQLite) Close(context.Context) error { return os.RemoveAll(s.dir) }

// With calls f with a connection to the file, as another program on the machine would have.
func (s *SQLite) With(ctx context.Context, f func(*sql.Conn) error) error {
	db, err := sql.Open("sqlite", "file:"+s.Path+"?_pragma=busy_timeout(30000)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return f(conn)
}
