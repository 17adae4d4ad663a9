package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// access is the purpose of a connection; it determines the open mode and the pragmas.
type access int

const (
	accessRead    access = iota // reads only; the file exists and is ours
	accessWrite                 // reads and writes; the file exists
	accessMigrate               // as accessWrite, and creates the file
	accessForeign               // reads only, with no requirement on the file
	accessRecover               // as accessForeign, and lets SQLite roll back the transaction of a killed writer
	accessMemory                // the database in memory named by the path
)

// How long SQLite itself waits for a lock. Short for writers, because SQLite does not see a context end while it
// waits: Store.begin repeats the attempt until its own limit.
const (
	readerBusy = time.Second
	writerBusy = 100 * time.Millisecond
)

// pragma is a setting and the value SQLite must report for it afterwards.
type pragma struct{ name, set, want string }

func (a access) pragmas() []pragma {
	busy := func(d time.Duration) pragma {
		ms := fmt.Sprint(d.Milliseconds())
		return pragma{"busy_timeout", ms, ms}
	}
	full := pragma{"synchronous", "FULL", "2"}
	foreign := pragma{"foreign_keys", "1", "1"}
	queryOnly := pragma{"query_only", "1", "1"}
	switch a {
	case accessRead:
		// journal_mode is only checked: a reader must not change the file, and refuses modes other than WAL, in which it would
		// block the writer.
		return []pragma{busy(readerBusy), full, foreign, {"journal_mode", "", "wal"}, queryOnly}
	case accessWrite, accessMigrate:
		return []pragma{busy(writerBusy), {"journal_mode", "WAL", "wal"}, full, foreign}
	case accessMemory:
		return []pragma{busy(readerBusy), foreign}
	default:
		return []pragma{busy(readerBusy), queryOnly}
	}
}

func (a access) dsn(path string) (string, error) {
	q := url.Values{"_txlock": {"deferred"}}
	switch a {
	case accessRead, accessForeign:
		q.Set("mode", "ro")
	case accessRecover:
		q.Set("mode", "rw")
	case accessWrite:
		q.Set("mode", "rw")
		q.Set("_txlock", "immediate")
	case accessMigrate:
		q.Set("mode", "rwc")
		q.Set("_txlock", "immediate")
	case accessMemory:
		q.Set("vfs", "memdb")
		q.Set("_txlock", "immediate")
	}
	for _, p := range a.pragmas() {
		if p.set != "" {
			q.Add("_pragma", p.name+"("+p.set+")")
		}
	}
	abs := path
	if a != accessMemory {
		var err error
		if abs, err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	return (&url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}).String(), nil
}

// connect returns a pool of at most conns connections to the database, each checked when it is opened. It opens none
// itself.
func connect(path string, a access, conns int) (*sql.DB, error) {
	dsn, err := a.dsn(path)
	if err != nil {
		return nil, err
	}
	inner, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(checkedConnector{Connector: inner, want: a.pragmas()})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// checkedConnector reads the pragmas back on every new connection: SQLite ignores a pragma it does not know or cannot
// apply, and a database without synchronous=FULL loses acknowledged commits when the power fails.
type checkedConnector struct {
	driver.Connector
	want []pragma
}

func (c checkedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range c.want {
		got, err := readPragma(ctx, conn, p.name)
		if err == nil && got != p.want {
			err = fmt.Errorf("SQLite runs with %s=%s here, and %s is needed", p.name, got, p.want)
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

func readPragma(ctx context.Context, conn driver.Conn, name string) (_ string, err error) {
	q, ok := conn.(driver.QueryerContext)
	if !ok {
		return "", errors.New("the SQLite driver cannot be queried")
	}
	rows, err := q.QueryContext(ctx, "PRAGMA "+name, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(row); err != nil {
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("SQLite does not know the pragma %s", name)
		}
		return "", err
	}
	return fmt.Sprint(row[0]), nil
}
