package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestListsOfOlderServer: an older server has no resource types and no layers, and one that only serves polls does not serve them.
// A 404 of a proxy is no such case and fails the command.
func TestListsOfOlderServer(t *testing.T) {
	t.Parallel()
	const ours, polls = `{"error":"not_found","detail":"there is nothing here"}`, `{"error":"method_not_allowed","detail":"read-only"}`
	for name, test := range map[string]struct {
		status         int
		body           string
		versioned      bool
		exports, notes bool
	}{
		"an older one of ours": {http.StatusNotFound, ours, true, true, true},
		"one for polls":        {http.StatusMethodNotAllowed, polls, true, true, true},
		"the reference":        {http.StatusNotFound, "", false, true, true},
		"a proxy":              {http.StatusNotFound, "no such page", true, false, false},
		"out of order":         {http.StatusServiceUnavailable, `{"error":"store_unavailable"}`, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.URL.Path == "/health":
					_, _ = w.Write([]byte(`{"status":"ok"}`))
				case r.URL.Path == "/version" && test.versioned:
					_, _ = w.Write([]byte(`{"version":"v0.0.1"}`))
				case r.URL.Path == "/whoami" || r.URL.Path == "/resource_types" || r.URL.Path == "/layers" || r.URL.Path == "/version":
					w.WriteHeader(test.status)
					_, _ = w.Write([]byte(test.body))
				case r.URL.Path == "/clusters/c":
					_, _ = w.Write([]byte(`{"id":"c","cluster_name":"c","cluster_dns":"c.example.com","environment":"dev"}`))
				default:
					_, _ = w.Write([]byte(`[]`))
				}
			}))
			t.Cleanup(srv.Close)
			settings := map[string]string{"FLUX_API_URL": srv.URL, "FLUX_API_TOKEN": "t"}
			if got := run(t, cli.Env{}, settings, "export", "--timeout", "5s"); (got.code == 0) != test.exports {
				t.Errorf("export: %d %s", got.code, got.stderr)
			}
			got := run(t, cli.Env{}, settings, "bootstrap", "c", "--values", "--create-token=false", "--timeout", "5s")
			if (got.code == 0) != test.exports || strings.Contains(got.stderr, "no manifests for resource types") != test.notes {
				t.Errorf("bootstrap: %d %s", got.code, got.stderr)
			}
		})
	}
}
