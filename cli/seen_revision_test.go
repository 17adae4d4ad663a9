package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestSeenRevisionWithoutHome: without a home directory, as in many CI jobs, a run still requires the revision of the run before
// it, and warns when it cannot store it.
func TestSeenRevisionWithoutHome(t *testing.T) {
	t.Parallel()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("X-Fleet-Min-Revision"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Fleet-Revision", "7")
		_, _ = w.Write([]byte(`{"id":"c"}`))
	}))
	t.Cleanup(srv.Close)
	get := func(temporary string) string {
		t.Helper()
		got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": srv.URL, "XDG_STATE_HOME": "", "TMPDIR": temporary}, "cluster", "get", "c")
		if got.code != 0 {
			t.Fatalf("exit %d\n%s", got.code, got.stderr)
		}
		return got.stderr
	}
	temporary := t.TempDir()
	own := filepath.Join(temporary, "flux-resourceset-"+strconv.Itoa(os.Getuid()))
	if said := get(temporary) + get(temporary); said != "" || strings.Join(asked, ",") != ",7" {
		t.Errorf("asked for %q:\n%s", asked, said)
	}
	if info, err := os.Lstat(own); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v %v", info, err)
	}
	// A home directory that does not exist, as services and containers have it, counts as none.
	for _, home := range []string{os.DevNull, filepath.Join(t.TempDir(), "missing")} {
		asked = nil
		temporary := t.TempDir()
		for range 2 {
			got := run(t, cli.Env{}, map[string]string{"FLUX_API_URL": srv.URL, "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "HOME": home, "TMPDIR": temporary}, "cluster", "get", "c")
			if got.code != 0 || got.stderr != "" {
				t.Errorf("HOME=%s: exit %d\n%s", home, got.code, got.stderr)
			}
		}
		if strings.Join(asked, ",") != ",7" {
			t.Errorf("HOME=%s: asked for %q", home, asked)
		}
	}
	for name, spoil := range map[string]func(path string) error{
		"readable to others": func(path string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.Chmod(path, 0o755)
		},
		"a link": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		temporary := t.TempDir()
		if err := spoil(filepath.Join(temporary, filepath.Base(own))); err != nil {
			t.Fatal(err)
		}
		asked = nil
		get(temporary)
		if said := get(temporary); strings.Count(said, "XDG_STATE_HOME") != 1 || strings.Join(asked, ",") != "," {
			t.Errorf("%s: asked for %q:\n%s", name, asked, said)
		}
	}
	if said := get(filepath.Join(temporary, "missing")); strings.Count(said, "XDG_STATE_HOME") != 1 {
		t.Errorf("no directory for it:\n%s", said)
	}
}
