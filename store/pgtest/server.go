package pgtest

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// Server is a PostgreSQL server of a test's own, to be killed and started again.
type Server struct{ *testrig.Postgres }

// NewServer starts a server with these settings (name=value) and ends it with the test.
func NewServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	return ending(t)(testrig.StartPostgres(testrig.PostgresConfig{Settings: settings}))
}

// Standby starts a server that follows this one, and ends it with the test.
func (s *Server) Standby(t testing.TB, settings ...string) *Server {
	t.Helper()
	return ending(t)(s.StartStandby(settings...))
}

// ending returns a server that ends with the test.
func ending(t testing.TB) func(*testrig.Postgres, error) *Server {
	return func(s *testrig.Postgres, err error) *Server {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.End)
		return &Server{s}
	}
}

// Database makes a new, empty database on the server. It is not dropped: it goes with the server. Options of CREATE
// DATABASE may follow the name.
func (s *Server) Database(t testing.TB, name string, options ...string) string {
	t.Helper()
	Exec(t, s.URL("postgres"), "CREATE DATABASE "+name+" "+strings.Join(options, " "))
	return s.URL(name)
}

// Kill ends the server's first process with SIGKILL, as a crash would. The others notice by themselves.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.Stop(syscall.SIGKILL)
}

// Start starts a server again that was killed, and returns when it has recovered.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}
