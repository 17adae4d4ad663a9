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
	keeper   *exec.Cmd // the shell that ends the server with this process
	pipe     io.WriteCloser
}

// keep runs a server as long as its standard input is open, which is as long as this process lives, even when it is
// killed. Then it ends the server at once and removes its directory, unless it is told to leave that.
const keep = `dir=$1; shift
"$@" >"$dir/log" 2>&1 &
server=$!
read -r word
kill -QUIT $server 2>/dev/null
wait $server
if [ "$word" != leave ]; then cd / && rm -rf "$dir"; fi`

// NewServer starts a server with these settings (name=value) and ends it with the test.
func NewServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := newServer(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

func newServer(settings ...string) (*Server, error) {
	s, err := prepare(settings)
	if err != nil {
		return nil, err
	}
	initdb := s.command("initdb", "--pgdata="+s.data(), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(s.dir))
	}
	return s, s.start()
}

// Standby starts a server that follows this one, and ends it with the test.
func (s *Server) Standby(t testing.TB, settings ...string) *Server {
	t.Helper()
	standby, err := prepare(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.end)
	copying := standby.command("pg_basebackup", "--host="+s.dir, "--username=postgres", "--pgdata="+standby.data(),
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	if err := standby.start(); err != nil {
		t.Fatal(err)
	}
	return standby
}

// URL names a database of the server.
func (s *Server) URL(database string) string {
	q := url.Values{"host": {s.dir}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database, RawQuery: q.Encode()}).String()
}

// Database makes a new, empty database on the server. It is not dropped: it goes with the server.
func (s *Server) Database(t testing.TB, name string) string {
	t.Helper()
	Exec(t, s.URL("postgres"), "CREATE DATABASE "+name)
	return s.URL(name)
}

// Socket is where the server listens.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// Kill ends the server's first process with SIGKILL, as a crash would. The others notice by themselves.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	pid, err := s.pid()
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("killing the server: %v", err)
	}
	s.stop("leave")
}

// Start starts a server again that was killed, and returns when it has recovered.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// end stops the server for good. The shell removes the directory.
func (s *Server) end() { s.stop("") }

func (s *Server) stop(word string) {
	if s.keeper == nil {
		_ = os.RemoveAll(s.dir) // it was never started
		return
	}
	_, _ = io.WriteString(s.pipe, word) // when the shell is gone there is nobody to tell
	_ = s.pipe.Close()
	_ = s.keeper.Wait()
	s.keeper = nil
}

func (s *Server) pid() (int, error) {
	content, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	return strconv.Atoi(first)
}

// start starts the server and waits until it answers. After a kill the old server's processes may take a moment to end,
// and until then a new one refuses to start: it is tried again.
func (s *Server) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := s.tryStart(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx)
	}
}

func (s *Server) tryStart(ctx context.Context) error {
	args := []string{"-c", keep, "sh", s.dir, filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.dir}
	for _, setting := range slices.Concat([]string{"listen_addresses=", "max_connections=200", "shared_buffers=32MB"}, s.settings) {
		args = append(args, "-c", setting)
	}
	s.keeper = s.as(exec.CommandContext(context.Background(), "/bin/sh", args...)) // it outlives ctx
	var err error
	if s.pipe, err = s.keeper.StdinPipe(); err != nil {
		return err
	}
	if err := s.keeper.Start(); err != nil {
		return err
	}
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if _, pidErr := s.pid(); errors.Is(pidErr, os.ErrNotExist) || ctx.Err() != nil {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			if refused := strings.Contains(string(log), "FATAL"); refused || ctx.Err() != nil {
				s.stop("leave")
				return fmt.Errorf("the server did not start: %w: %s", err, log)
			}
		}
		pause(ctx)
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
func prepare(settings []string) (*Server, error) {
	s := &Server{settings: settings}
	if s.bin = programs(); s.bin == "" {
		return nil, errors.New("these tests need PostgreSQL: install its server programs (apt-get install postgresql, " +
			"brew install postgresql, or any package with initdb), or set TEST_DATABASE_URL to a server on which databases can be created")
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "pgtest"); err != nil {
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
	return s, err
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
	return s.as(exec.CommandContext(context.Background(), filepath.Join(s.bin, program), args...))
}

// as runs a command as the server's user, in a group of its own, so that an interrupt from the terminal ends the tests
// and they end the server.
func (s *Server) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Setpgid: true}
	return cmd
}
