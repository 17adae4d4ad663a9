package cli_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestContextTokensStayWithServer: the tokens of a context are not sent to another address, whichever setting selects it.
func TestContextTokensStayWithServer(t *testing.T) {
	t.Parallel()
	listener := func() (url string, sent *[]string) {
		sent = &[]string{}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*sent = append(*sent, r.Header.Get("Authorization"))
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("[]"))
		}))
		t.Cleanup(srv.Close)
		return srv.URL, sent
	}
	own, sentHome := listener()
	other, sentAway := listener()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "flux-resourceset"), 0o700); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(dir, "ran")
	config := "contexts:\n- name: home\n  api-url: " + own + "/\n  api-token: {value: of-home}\n  write-token: {command: 'touch " + marker + "; echo w'}\ncurrent-context: home\n"
	if err := os.WriteFile(filepath.Join(dir, "flux-resourceset", "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, args string
		variables  map[string]string
		home, away string // received tokens
		warned     bool
	}{
		{"the context's own", "get clusters", nil, "Bearer of-home", "", false},
		{"the same address by hand", "get clusters", map[string]string{"FLUX_API_URL": own}, "Bearer of-home", "", false},
		{"FLUX_API_URL alone", "get clusters", map[string]string{"FLUX_API_URL": other}, "", "", true},
		{"--api-url alone", "get clusters --api-url " + other, nil, "", "", true},
		{"--api-url beside the context", "get clusters --context home --api-url " + other, nil, "", "", true},
		{"with a token of its own", "get clusters", map[string]string{"FLUX_API_URL": other, "FLUX_API_TOKEN": "given"}, "", "Bearer given", false},
		{"with the other token of its own", "get clusters", map[string]string{"FLUX_API_URL": other, "FLUX_API_WRITE_TOKEN": "given"}, "", "Bearer given", false},
	} {
		*sentHome, *sentAway = nil, nil
		variables := map[string]string{"XDG_CONFIG_HOME": dir}
		maps.Copy(variables, test.variables)
		got := run(t, cli.Env{}, variables, strings.Fields(test.args)...)
		if home, away := strings.Join(*sentHome, "|"), strings.Join(*sentAway, "|"); home != test.home || away != test.away {
			t.Errorf("%s: sent %q home and %q away\n%s", test.name, home, away, got.stderr)
		}
		if warned := strings.Contains(got.stderr, `the tokens of context "home" are for `); warned != test.warned {
			t.Errorf("%s: %s", test.name, got.stderr)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command for a token of the context was run for another server")
	}
}
