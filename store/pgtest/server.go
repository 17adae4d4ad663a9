package pgtest

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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL server of a test's own, to be killed and started again.
type Server struct {
	dir      string // holds the data and the socket
	bin      string
	settings []string

	postgres *exec.Cmd
	ended    chan struct{} // closed when postgres has ended
	keeper   *exec.Cmd     // the shell that ends the server when this process ends
	pipe     io.WriteCloser
}

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

// NewServer starts a server with these settings (name=value) and ends it with the test.
func NewServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Launch("", settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.End)
	return s
}

// Launch is NewServer for programs: the caller must call End. The server's directory is created inside in, which the server's
// user must be allowed to write, or else in the system's directory for temporary files.
func Launch(in string, settings ...string) (*Server, error) {
	s, err := prepare(in, settings)
	if err != nil {
		return nil, err
	}
	initdb := s.command("initdb", "--pgdata="+s.data(), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		s.End()
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.tryStart(); err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

// Standby starts a server that follows this one, and ends it with the test.
func (s *Server) Standby(t testing.TB, settings ...string) *Server {
	t.Helper()
	standby, err := s.LaunchStandby(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.End)
	return standby
}

// LaunchStandby is Standby for programs: the caller must call End. A setting primary_conninfo makes it follow over another
// connection than this server's socket.
func (s *Server) LaunchStandby(settings ...string) (*Server, error) {
	standby, err := prepare("", settings)
	if err != nil {
		return nil, err
	}
	copying := standby.command("pg_basebackup", "--host="+s.dir, "--username=postgres", "--pgdata="+standby.data(),
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	if out, err := copying.CombinedOutput(); err != nil {
		standby.End()
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if err := standby.tryStart(); err != nil {
		standby.End()
		return nil, err
	}
	return standby, nil
}

// URL names a database of the server.
func (s *Server) URL(database string) string {
	q := url.Values{"host": {s.dir}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database, RawQuery: q.Encode()}).String()
}

// Database makes a new, empty database on the server. It is not dropped: it goes with the server. Options of CREATE
// DATABASE may follow the name.
func (s *Server) Database(t testing.TB, name string, options ...string) string {
	t.Helper()
	Exec(t, s.URL("postgres"), "CREATE DATABASE "+name+" "+strings.Join(options, " "))
	return s.URL(name)
}

// Socket is where the server listens.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// Kill ends the server's first process with SIGKILL, as a crash would. The others notice by themselves.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.Stop(syscall.SIGKILL)
}

// Stop ends the server's first process by a signal, if it runs: SIGINT cuts every connection and shuts down in order,
// SIGKILL is a crash.
func (s *Server) Stop(by syscall.Signal) {
	if s.postgres == nil {
		return
	}
	_ = s.postgres.Process.Signal(by) // it may have ended by itself
	<-s.ended
	s.postgres = nil
	s.keep(0)
}

// Start starts a server again that was killed, and returns when it has recovered. The old server's processes may take a
// moment to end, and until then a new one refuses to start: it is tried again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

// Restart is Start for programs. It tries until ctx ends.
func (s *Server) Restart(ctx context.Context) error {
	s.Stop(syscall.SIGQUIT)
	for {
		err := s.tryStart()
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// End stops the server for good and removes its directory.
func (s *Server) End() {
	s.Stop(syscall.SIGQUIT)
	_ = s.pipe.Close()
	_ = s.keeper.Wait() // it has removed the directory
}

// keep sends the process id to end to the keeper. If the keeper is gone, the directory is gone as well.
func (s *Server) keep(pid int) { _, _ = fmt.Fprintln(s.pipe, pid) }

// tryStart starts the server and waits until it answers.
func (s *Server) tryStart() error {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	args := []string{"-D", s.data(), "-k", s.dir}
	for _, setting := range slices.Concat([]string{"listen_addresses=", "max_connections=200", "shared_buffers=32MB"}, s.settings) {
		args = append(args, "-c", setting)
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own
	postgres := s.command("postgres", args...)
	postgres.Stdout, postgres.Stderr = log, log
	if err := postgres.Start(); err != nil {
		return err
	}
	s.postgres, s.ended = postgres, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = postgres.Wait() // how it ended is in its log
	}(s.ended)
	s.keep(postgres.Process.Pid)
	return s.answers(ctx)
}

// answers waits until the server answers.
func (s *Server) answers(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
		case <-ctx.Done():
		default:
			pause(ctx)
			continue
		}
		s.Stop(syscall.SIGQUIT)
		log, _ := os.ReadFile(filepath.Join(s.dir, "log")) // without it the first error has to do
		return fmt.Errorf("the server did not start: %w: %s", err, log)
	}
}

func pause(ctx context.Context) {
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// prepare finds the server's programs and makes a directory for one.
func prepare(in string, settings []string) (*Server, error) {
	s := &Server{settings: settings}
	if s.bin = programs(); s.bin == "" {
		return nil, errors.New("these tests need PostgreSQL: install its server programs (apt-get install postgresql, " +
			"brew install postgresql, or any package with initdb), or set TEST_DATABASE_URL to a server on which databases can be created")
	}
	var err error
	if s.dir, err = os.MkdirTemp(in, "pgtest"); err != nil {
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

func (s *Server) command(program string, args ...string) *exec.Cmd {
	return s.as(exec.CommandContext(context.Background(), filepath.Join(s.bin, program), args...)) //nolint:gosec // programs of the machine, started by tests
}

// as runs a command as the server's user, in a group of its own, so that an interrupt from the terminal ends the tests
// and they end the server.
func (s *Server) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Setpgid: true}
	return cmd
}
