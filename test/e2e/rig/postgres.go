package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// postgres is a PostgreSQL server; for processes, with a database fleet and the two roles of docs/databases.md: one that
// owns the tables, and one that may only read them.
type postgres struct {
	dir, bin string
	proc     *process
}

const postgresDirs = "flux-resourceset-e2e-"

// startPostgres starts a server with a database and roles, in a folder of this process.
func startPostgres(ctx context.Context, logs string) (*postgres, error) {
	// Not beside the logs: PostgreSQL refuses to run as root, and another user may not get to the checkout.
	removeEnded(filepath.Join(os.TempDir(), postgresDirs))
	pg, err := startPostgresServer(ctx, logs, filepath.Join(os.TempDir(), postgresDirs+strconv.Itoa(os.Getpid())), "")
	if err != nil {
		return pg, err
	}
	return pg, errors.Join(
		pg.sql(ctx, "postgres", "CREATE ROLE fleet_owner LOGIN"),
		pg.sql(ctx, "postgres", "CREATE DATABASE fleet OWNER fleet_owner ENCODING 'UTF8' TEMPLATE template0"),
		pg.sql(ctx, "postgres", "CREATE ROLE fleet_reader LOGIN"),
	)
}

// startPostgresServer starts a server with the programs on this machine, in a new folder. It listens there, and at an
// address unless that is empty; connections to that address need a password.
func startPostgresServer(ctx context.Context, logs, dir, address string) (*postgres, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	pg := &postgres{bin: bin, dir: dir}
	if err := os.Mkdir(pg.dir, 0o700); err != nil {
		return nil, err
	}
	as := postgresUser()
	if as != nil {
		if err := os.Chown(pg.dir, int(as.Uid), int(as.Gid)); err != nil {
			return pg, err
		}
	}
	data := filepath.Join(pg.dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata="+data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.Dir = pg.dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return pg, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if address != "" {
		rules, err := os.OpenFile(filepath.Join(data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return pg, err
		}
		_, err = rules.WriteString("host all all all scram-sha-256\n")
		if err := errors.Join(err, rules.Close()); err != nil {
			return pg, err
		}
	}
	if pg.proc, err = start(logs, program{name: "postgres", path: filepath.Join(bin, "postgres"), as: as, args: []string{
		"-D", data, "-k", pg.dir, "-c", "listen_addresses=" + address, "-c", "fsync=off",
	}}); err != nil {
		return pg, err
	}
	return pg, pg.proc.until(ctx, func(ctx context.Context) error { return pg.sql(ctx, "postgres", "SELECT 1") })
}

// letReaderRead gives the reader its rights, once the tables are there.
func (pg *postgres) letReaderRead(ctx context.Context) error {
	return errors.Join(
		pg.sql(ctx, "fleet", "GRANT USAGE ON SCHEMA public TO fleet_reader"),
		pg.sql(ctx, "fleet", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO fleet_reader"),
		// Also SELECT: it may have been made just now, after the line above.
		pg.sql(ctx, "fleet", "GRANT SELECT, INSERT, UPDATE ON observations TO fleet_reader"),
	)
}

// sql runs a statement as the superuser.
func (pg *postgres) sql(ctx context.Context, database, statement string) error {
	return pg.run(ctx, "postgres", database, statement)
}

// run runs statements as a role, each in a transaction of its own.
func (pg *postgres) run(ctx context.Context, role, database, statements string) error {
	psql := exec.CommandContext(ctx, filepath.Join(pg.bin, "psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-", pg.url(role, database))
	psql.Stdin = strings.NewReader(statements)
	if out, err := psql.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, out)
	}
	return nil
}

// url is a database's, for a role.
func (pg *postgres) url(role, database string) string {
	query := url.Values{"host": {pg.dir}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: query.Encode()}).String()
}

// stop ends the server. Its data is not needed again.
func (pg *postgres) stop() {
	if pg.proc != nil {
		pg.proc.kill()
	}
	_ = os.RemoveAll(pg.dir) // the next run tries again
}

// postgresPrograms is the folder of the server's programs.
func postgresPrograms() (string, error) {
	if found, err := exec.LookPath("initdb"); err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil {
			return filepath.Dir(found), nil
		}
	}
	// Debian keeps each version in a folder of its own, outside of the path.
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL's server programs are not installed: install the package postgresql")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// postgresUser is whom to run the server as; nil where we are not root ourselves.
func postgresUser() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
			gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
			if errors.Join(uidErr, gidErr) == nil {
				return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
			}
		}
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}
