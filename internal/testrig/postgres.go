package testrig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// PostgresConfig configures a server. The zero value is valid.
type PostgresConfig struct {
	// In is where the server's directory is created, which the server's user must be allowed to write; empty: the system's
	// directory for temporary files.
	In string
	// Log is a file that the server's log is appended to; empty: one in the server's directory.
	Log string
	// Settings are name=value.
	Settings []string
	// Passwords admits connections over the network, with a password.
	Passwords bool
}

// Postgres is a PostgreSQL server in a directory of its own, run by an unprivileged user, to be killed and started again.
type Postgres struct {
	PostgresConfig
	dir    string // holds the data and the socket
	bin    string
	server *Process  // nil: it does not run
	keeper *exec.Cmd // the shell that ends the server when this process ends
	pipe   io.WriteCloser
}

// postgresTimeout ends a start that hangs.
const postgresTimeout = time.Minute

// keep reads the process id of the server (0: none) from its standard input until that is closed, which happens when this
// process closes it or ends, even by SIGKILL. Then it ends the server at once and removes its directory.
const keep = `pid=0
while read -r next; do pid=$next; done
if [ "$pid" != 0 ]; then
	kill -QUIT "$pid" 2>/dev/null
	while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
fi
cd /
until rm -rf "$1" 2>/dev/null; do sleep 0.1; done`

// StartPostgres starts a server. The caller must call End.
func StartPostgres(cfg PostgresConfig) (*Postgres, error) {
	return startPostgres(cfg, func(s *Postgres) error {
		if err := s.run("initdb", "--pgdata="+s.data(), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"); err != nil || !cfg.Passwords {
			return err
		}
		rules, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = rules.WriteString("host all all all scram-sha-256\n")
		return errors.Join(err, rules.Close())
	})
}

// StartStandby starts a server that follows this one. The caller must call End. A setting primary_conninfo makes it follow
// over another connection than this server's socket.
func (s *Postgres) StartStandby(settings ...string) (*Postgres, error) {
	return startPostgres(PostgresConfig{Settings: settings}, func(standby *Postgres) error {
		return standby.run("pg_basebackup", "--host="+s.dir, "--username=postgres", "--pgdata="+standby.data(),
			"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	})
}

func startPostgres(cfg PostgresConfig, fill func(*Postgres) error) (*Postgres, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err = fill(s); err == nil {
		err = s.tryStart()
	}
	if err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

// URL names a database of the server, for the superuser.
func (s *Postgres) URL(database string) string { return s.URLAs("postgres", database) }

// URLAs is URL for a role.
func (s *Postgres) URLAs(role, database string) string {
	q := url.Values{"host": {s.dir}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: q.Encode()}).String()
}

// Socket is where the server listens.
func (s *Postgres) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// Stop ends the server's first process by a signal, if it runs: SIGINT cuts every connection and shuts down in order,
// SIGKILL is a crash. The other processes notice by themselves.
func (s *Postgres) Stop(by syscall.Signal) {
	if s.server == nil {
		return
	}
	_ = s.server.Signal(by) // it may have ended by itself
	<-s.server.Ended
	s.server = nil
	s.keep(0)
}

// Restart starts the server again, which may have been killed, and returns when it has recovered. The old server's processes
// may take a moment to end, and until then a new one refuses to start: it tries until ctx ends.
func (s *Postgres) Restart(ctx context.Context) error {
	s.Stop(syscall.SIGQUIT)
	for {
		err := s.tryStart()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(untilEvery)
	}
}

// End stops the server for good and removes its directory.
func (s *Postgres) End() {
	s.Stop(syscall.SIGQUIT)
	_ = s.pipe.Close()
	_ = s.keeper.Wait() // it has removed the directory
}

// Command is a program of PostgreSQL, run by the server's user.
func (s *Postgres) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return s.as(exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)) //nolint:gosec // programs of the machine, started by tests
}

func (s *Postgres) run(program string, args ...string) error {
	if out, err := s.Command(context.Background(), program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

func (s *Postgres) data() string { return filepath.Join(s.dir, "data") }

// keep sends the process id to end to the keeper. If the keeper is gone, the directory is gone as well.
func (s *Postgres) keep(pid int) { _, _ = fmt.Fprintln(s.pipe, pid) }

// tryStart starts the server and waits until it takes connections.
func (s *Postgres) tryStart() error {
	ctx, cancel := context.WithTimeout(context.Background(), postgresTimeout)
	defer cancel()
	args := []string{"-D", s.data(), "-k", s.dir}
	for _, setting := range slices.Concat([]string{"listen_addresses=", "max_connections=200", "shared_buffers=32MB"}, s.Settings) {
		args = append(args, "-c", setting)
	}
	server, err := Run(Program{Path: filepath.Join(s.bin, "postgres"), Args: args, Dir: s.dir, As: credential(), Log: s.Log})
	if err != nil {
		return err
	}
	s.server = server
	pid := server.PID()
	s.keep(pid)
	err = server.Until(ctx, func(context.Context) error { return s.takesConnections(pid) })
	if err != nil {
		s.Stop(syscall.SIGQUIT)
	}
	return err
}

// takesConnections reads the server's state where pg_ctl does: the first line is the process id, the last one the state.
func (s *Postgres) takesConnections(pid int) error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if lines[0] != strconv.Itoa(pid) || strings.TrimSpace(lines[len(lines)-1]) != "ready" {
		return fmt.Errorf("process %s is %s", lines[0], lines[len(lines)-1])
	}
	return nil
}

// prepare finds the server's programs and makes a directory for one.
func prepare(cfg PostgresConfig) (*Postgres, error) {
	s := &Postgres{PostgresConfig: cfg}
	if s.bin = programs(); s.bin == "" {
		return nil, errors.New("these tests need PostgreSQL: install its server programs (apt-get install postgresql, " +
			"brew install postgresql, or any package with initdb), or set TEST_DATABASE_URL to a server on which databases can be created")
	}
	var err error
	if s.dir, err = os.MkdirTemp(cfg.In, "pgtest"); err != nil {
		return nil, err
	}
	if len(s.Socket()) > 100 { // the system's limit for the path of a socket is just above
		if err := os.Remove(s.dir); err != nil {
			return nil, err
		}
		if s.dir, err = os.MkdirTemp("/tmp", "pgtest"); err != nil {
			return nil, err
		}
	}
	if s.Log == "" {
		s.Log = filepath.Join(s.dir, "log")
	}
	if c := credential(); c != nil {
		err = os.Chown(s.dir, int(c.Uid), int(c.Gid))
	}
	if err != nil {
		return nil, err
	}
	s.keeper = s.as(exec.CommandContext(context.Background(), "/bin/sh", "-c", keep, "sh", s.dir)) //nolint:gosec // no text of others is in it
	if s.pipe, err = s.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	return s, s.keeper.Start()
}

// programs is the directory with the server's programs, the newest version's when there are several; empty when there
// is none.
func programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return ""
	}
	slices.SortFunc(found, func(a, b string) int { return major(a) - major(b) })
	return filepath.Dir(found[len(found)-1])
}

func major(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb)))) // 0 for a directory of another name
	return n
}

// credential is the user to run a server as: PostgreSQL refuses to run as root.
func credential() *syscall.Credential {
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

// as runs a command as the server's user, in a group of its own, so that an interrupt from the terminal ends the tests
// and they end the server.
func (s *Postgres) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Setpgid: true}
	return cmd
}
