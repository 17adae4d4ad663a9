package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// damage ends the store's history for all followers, or makes the store unservable. The processes must continue to serve
// the fleet that they have.
type damage struct {
	name string
	// Statements in the dialect of each store, each in its own transaction.
	postgres, sqlite []string
	file             func(path, backup string) error // in place of sql, for SQLite
	failover         bool                            // in place of sql, for Postgres
	// logged: the log is complete and continues, so processes may follow it. Otherwise it has ended for all of them.
	logged bool
	// noWritesAfter: no writers run after the damage.
	noWritesAfter bool
	// restarts: a process that is restarted after the damage must serve nothing.
	restarts bool
}

// restore resets the tables to the backup, one statement at a time.
var restore = []string{
	`DELETE FROM documents`, `DELETE FROM changes`, `DELETE FROM commits`,
	`INSERT INTO commits SELECT * FROM backup.commits`,
	`INSERT INTO changes SELECT * FROM backup.changes`,
	`INSERT INTO documents SELECT * FROM backup.documents`,
	`UPDATE head SET revision = b.revision, commit_id = b.commit_id, at = b.at, documents = b.documents FROM backup.head b`,
}

var empty = []string{
	`DELETE FROM documents`, `DELETE FROM changes`, `DELETE FROM commits`,
	`UPDATE head SET revision = 0, commit_id = '00000000-0000-0000-0000-000000000000', at = 0, documents = 0`,
}

// dangling deletes a namespace that every cluster refers to, which the API would refuse. packed is an expression of SQL for
// it: the log packs the document as its checksum, which the last change c has, three zeros, and the body.
func dangling(packed string) []string {
	return []string{strings.Join([]string{
		`BEGIN`,
		`INSERT INTO commits (revision, id, at, actor, reason, request_id)
		SELECT revision + 1, '00000000-0000-4000-8000-00000000dead', at + 1, 'somebody', 'by hand', '' FROM head`,
		`INSERT INTO changes (revision, seq, kind, id, action, before, packed_before, bytes)
		SELECT head.revision + 1, 0, d.kind, d.id, 'delete', '', ` + packed + `, length(d.body)
		FROM head, documents d JOIN changes c ON c.kind = d.kind AND c.id = d.id AND c.revision = d.revision WHERE d.kind = 'namespace' AND d.id = 'base'`,
		`DELETE FROM documents WHERE kind = 'namespace' AND id = 'base'`,
		`UPDATE head SET revision = revision + 1, commit_id = '00000000-0000-4000-8000-00000000dead', at = at + 1, documents = documents - 1`,
		`COMMIT`,
	}, ";\n")}
}

func damages() []damage {
	return []damage{
		{name: "emptied-documents", postgres: []string{`TRUNCATE documents`}, sqlite: []string{`DELETE FROM documents`}, logged: true, restarts: true},
		{name: "emptied", postgres: empty, sqlite: empty},
		{name: "dropped", postgres: []string{`DROP SCHEMA public CASCADE`}, sqlite: []string{`DROP TABLE documents`, `DROP TABLE head`}, restarts: true},
		{name: "restored", postgres: restore, sqlite: restore},
		{name: "failover", failover: true},
		{
			name: "dangling", logged: true, noWritesAfter: true,
			postgres: dangling(`decode(lpad(to_hex(c.sum), 16, '0') || '000000' || encode(convert_to(d.body, 'UTF8'), 'hex'), 'hex')`),
			sqlite:   dangling(`unhex(printf('%016x000000', c.sum) || hex(d.body))`),
		},
		{name: "file-deleted", file: func(path, _ string) error { return os.Remove(path) }, restarts: true},
		{name: "file-truncated", file: func(path, _ string) error { return os.Truncate(path, 0) }, restarts: true},
		{name: "file-restored", file: func(path, backup string) error { return os.Rename(backup, path) }},
	}
}

// Damages returns the names of the ways to damage a store.
func Damages(storeName string) []string {
	var names []string
	for _, d := range damages() {
		if storeName == rig.StoreSQLite && !d.failover || storeName == rig.StorePostgres && d.file == nil {
			names = append(names, d.name)
		}
	}
	return names
}

// aftermath is the time of observation after the damage.
const aftermath = 4 * time.Second

// runDamage puts load on the store, damages it, and records how the processes react.
func (d *Drill) runDamage(ctx context.Context) error {
	var what *damage
	for _, is := range damages() {
		if is.name == d.cfg.Damage {
			what = &is
		}
	}
	if what == nil {
		return fmt.Errorf("there is no damage %q", d.cfg.Damage)
	}
	pg, _ := d.db.(*rig.Postgres)
	if what.failover {
		if err := pg.Follow(ctx); err != nil {
			return fmt.Errorf("a standby: %w", err)
		}
	}
	stopPolling := d.startPollers(ctx)
	defer stopPolling()
	stopWriting := d.startWriters(ctx, "before")
	_ = rig.Rest(ctx, d.cfg.Duration/2)
	err := d.takeBackup(ctx)
	if what.failover {
		pg.Part() // the standby lacks all later commits
	}
	_ = rig.Rest(ctx, d.cfg.Duration/2)
	stopWriting()
	if err != nil {
		return fmt.Errorf("making a backup: %w", err)
	}
	newest, err := d.settledRevision(ctx)
	if err != nil {
		return err
	}
	d.rec.Newest(newest)
	if err := d.heal(ctx, newest); err != nil {
		return err
	}
	if !what.logged {
		if err := d.readStore(ctx); err != nil {
			return err
		}
	}
	d.rec.Damaged()
	from := d.rec.Now()
	if err := d.inflict(ctx, what); err != nil {
		return fmt.Errorf("damage %s: %w", what.name, err)
	}
	d.rec.Fault(history.Fault{Kind: what.name, Target: "store", From: from, To: d.rec.Now()})
	if !what.noWritesAfter {
		stopWriting = d.startWriters(ctx, "after")
		defer func() { stopWriting() }()
	}
	_ = rig.Rest(ctx, aftermath/2)
	after, cancel := context.WithTimeout(ctx, aftermath/2)
	defer cancel()
	if what.restarts {
		last := d.processes[len(d.processes)-1]
		last.Kill()
		_ = last.Start(after) // it may refuse to start; its answers while it runs count
	}
	<-after.Done()
	stopWriting()
	if what.logged {
		return d.readStore(ctx)
	}
	return ctx.Err()
}

func (d *Drill) backupFile() string { return filepath.Join(d.cfg.Dir, "backup.db") }

func (d *Drill) takeBackup(ctx context.Context) error {
	switch db := d.db.(type) {
	case *rig.Postgres:
		statements := []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `CREATE SCHEMA backup`}
		for _, table := range []string{"head", "commits", "changes", "documents"} {
			statements = append(statements, `CREATE TABLE backup.`+table+` AS TABLE public.`+table)
		}
		return db.Exec(ctx, db.Database(), strings.Join(append(statements, `COMMIT`), ";"))
	case *rig.SQLite:
		return db.With(ctx, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, `VACUUM INTO ?`, d.backupFile())
			return err
		})
	}
	return errors.New("this store has no backups")
}

func (d *Drill) inflict(ctx context.Context, what *damage) error {
	switch db := d.db.(type) {
	case *rig.Postgres:
		if what.failover {
			return db.FailOver(ctx)
		}
		for _, s := range what.postgres {
			if err := db.Exec(ctx, db.Database(), s); err != nil {
				return err
			}
			_ = rig.Rest(ctx, 150*time.Millisecond) // processes see the intermediate state
		}
		return nil
	case *rig.SQLite:
		if what.file != nil {
			return what.file(db.Path, d.backupFile())
		}
		return db.With(ctx, func(conn *sql.Conn) error {
			if _, err := conn.ExecContext(ctx, `ATTACH ? AS backup`, d.backupFile()); err != nil {
				return err
			}
			for _, s := range what.sqlite {
				if _, err := conn.ExecContext(ctx, s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
				_ = rig.Rest(ctx, 150*time.Millisecond) // everybody sees it by halves
			}
			return nil
		})
	}
	return errors.New("this store cannot be damaged")
}
