package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli"
)

// TestHistoryOfOlderServer: where the server does not know view=effective, the history is that of the document, with a note. Other
// errors are reported.
func TestHistoryOfOlderServer(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/wrong/history"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"validation_error","detail":"path parameter cluster_id: is wrong"}`))
		case r.URL.Query().Has("view"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"validation_error","detail":"query parameter view: is not a parameter of this operation"}`))
		default:
			_, _ = w.Write([]byte(`[{"revision":2,"changes":[]}]`))
		}
	}))
	t.Cleanup(srv.Close)
	settings := map[string]string{"FLUX_API_URL": srv.URL, "FLUX_API_TOKEN": "t"}
	const note = "too old to list changes by way of other documents"
	got := run(t, cli.Env{}, settings, "cluster", "history", "c", "-o", "name")
	if got.code != 0 || got.stdout != "revision/2\n" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, note) {
		t.Errorf("%+v", got)
	}
	if got := run(t, cli.Env{}, settings, "component", "history", "c", "-o", "name"); got.code != 0 || !strings.Contains(got.stderr, note) {
		t.Errorf("%+v", got)
	}
	if got := run(t, cli.Env{}, settings, "cluster", "history", "c", "-o", "table"); got.code != 0 || strings.Contains(got.stdout, "SERVED") {
		t.Errorf("%+v", got)
	}
	if got := run(t, cli.Env{}, settings, "cluster", "history", "wrong"); got.code != 1 || !strings.Contains(got.stderr, "cluster_id: is wrong") || strings.Contains(got.stderr, note) {
		t.Errorf("%+v", got)
	}
}
