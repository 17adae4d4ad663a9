package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestIncompleteBackup: a truncated or altered backup is not stored under its name, and is an error.
func TestIncompleteBackup(t *testing.T) {
	t.Parallel()
	server := serve(t, "DATABASE_URL=sqlite::memory:", "SEED_FILE=../examples/demo/seed.json", "SEED_ACCEPT=true")
	var spoil func(*http.Response) error
	lossy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(server) },
		ModifyResponse: func(r *http.Response) error { return spoil(r) },
	})
	t.Cleanup(lossy.Close)
	variables := map[string]string{"FLUX_API_URL": lossy.URL, "FLUX_API_TOKEN": "read-token", "FLUX_API_WRITE_TOKEN": "write-token"}
	backup := func(env cli.Env, to string) result {
		t.Helper()
		return run(t, env, variables, "backup", to)
	}
	for says, how := range map[string]func(*http.Response) error{
		"the backup is incomplete": func(r *http.Response) error { r.Body = &shortened{r.Body, 20_000}; return nil },
		"digest": func(r *http.Response) error {
			r.Header.Set("Content-Digest", "sha-256=:"+strings.Repeat("A", 43)+"=:")
			return nil
		},
	} {
		spoil = how
		dir := t.TempDir()
		for _, to := range []string{filepath.Join(dir, "fleet.db"), "-"} {
			got := backup(cli.Env{}, to)
			if got.code != 1 || !strings.Contains(got.stderr, says) {
				t.Errorf("backup %s: exit %d\n%s", to, got.code, got.stderr)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			t.Errorf("%v %v", entries, err)
		}
	}
	spoil = func(*http.Response) error { return nil }
	if got := backup(cli.Env{StdoutTerminal: true}, "-"); got.code != 2 || !strings.Contains(got.stderr, "terminal") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	got := backup(cli.Env{StderrTerminal: true}, filepath.Join(t.TempDir(), "fleet.db"))
	if got.code != 0 || !strings.Contains(got.stderr, "makes the backup") || !strings.Contains(got.stderr, " KiB of ") || !strings.HasSuffix(got.stderr, "\r\033[K") {
		t.Errorf("exit %d\n%q", got.code, got.stderr)
	}
	spoil = func(r *http.Response) error { r.ContentLength = -1; r.Header.Del("Content-Length"); return nil }
	got = backup(cli.Env{StderrTerminal: true}, filepath.Join(t.TempDir(), "fleet.db"))
	if got.code != 0 || !strings.Contains(got.stderr, " KiB") || strings.Contains(got.stderr, " of ") {
		t.Errorf("exit %d\n%q", got.code, got.stderr)
	}
}

// shortened is a body that ends early.
type shortened struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (s *shortened) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.ReadCloser.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}
