package cli_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// serve starts the server and returns its URL.
func serve(t *testing.T, settings ...string) *url.URL {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	server, err := testrig.StartServer(testrig.Program{
		Path: filepath.Join(bin, "flux-resourceset"),
		Env:  append([]string{"API_MODE=crud", "AUTH_TOKEN=read-token", "CRUD_AUTH_TOKEN=write-token"}, settings...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() }) // some tests kill it
	if err := server.Ready(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.Base)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// balanced starts two processes on one store behind one address, which alternates between them. before sees each request first.
func balanced(t *testing.T, before func(r *http.Request)) (variables map[string]string) {
	t.Helper()
	settings := []string{"DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db")}
	backends := []*url.URL{serve(t, settings...), serve(t, settings...)}
	var turn atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(backends[turn.Add(1)%2]) }}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before(r)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return map[string]string{
		"FLUX_API_URL": srv.URL, "FLUX_API_TOKEN": "read-token", "FLUX_API_WRITE_TOKEN": "write-token", "XDG_STATE_HOME": t.TempDir(),
	}
}

// TestApplyThroughLoadBalancer: each run reverts the one before it. No process may find nothing to change because it lags behind.
func TestApplyThroughLoadBalancer(t *testing.T) {
	t.Parallel()
	variables := balanced(t, func(*http.Request) {})
	apply := func(policy string) {
		t.Helper()
		env := cli.Env{Stdin: strings.NewReader(fmt.Sprintf(`{"kind":"namespace","id":"n","deletion_policy":%q}`, policy))}
		if got := run(t, env, variables, "apply", "-f", "-"); got.code != 0 {
			t.Fatalf("apply: exit %d\n%s", got.code, got.stderr)
		}
	}
	for range 15 {
		for _, policy := range []string{"orphan", "delete"} {
			apply(policy)
			got := run(t, cli.Env{}, variables, "namespace", "get", "n", "-o", "json")
			if !strings.Contains(got.stdout, fmt.Sprintf(`"deletion_policy": %q`, policy)) {
				t.Fatalf("it was to be %s:\n%s%s", policy, got.stdout, got.stderr)
			}
		}
	}
}

// TestApplyOfLargeFleet: documents that look unchanged are left out of a large request, while another client changes one of them
// first.
func TestApplyOfLargeFleet(t *testing.T) {
	t.Parallel()
	var (
		variables map[string]string
		meddle    atomic.Pointer[string] // the command line of the other client before the next change or plan
		fleet     strings.Builder
	)
	variables = balanced(t, func(r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		if args := meddle.Swap(nil); args != nil {
			others := maps.Clone(variables)
			others["XDG_STATE_HOME"] = t.TempDir()
			if got := run(t, cli.Env{}, others, strings.Fields(*args)...); got.code != 0 {
				t.Errorf("%s: %s", *args, got.stderr)
			}
		}
	})
	const size = 2100
	for n := range size {
		_, _ = fmt.Fprintf(&fleet, `{"kind":"namespace","id":"n-%d","deletion_policy":"orphan"}`+"\n", n)
	}
	const another = `{"kind":"namespace","id":"one-more"}` + "\n"
	apply := func(documents, want string, args ...string) {
		t.Helper()
		got := run(t, cli.Env{Stdin: strings.NewReader(documents)}, variables, append([]string{"apply", "-f", "-"}, args...)...)
		if got.code != 0 || !strings.Contains(got.stderr, want) {
			t.Fatalf("exit %d, want %q:\n%s", got.code, want, got.stderr)
		}
	}
	apply(fleet.String(), "2100 created")
	for args, want := range map[string]string{
		"namespace set n-7 --deletion-policy delete": "1 changed, 0 deleted, 2099 unchanged",
		"delete namespace n-2099 --yes":              "1 created",
	} {
		meddle.Store(&args)
		apply(fleet.String(), want)
		got := run(t, cli.Env{}, variables, "namespace", "list")
		if n := strings.Count(got.stdout, `"deletion_policy": "orphan"`); n != size {
			t.Errorf("after %q %d namespaces are as they are to be, want %d", args, n, size)
		}
	}
	apply(fleet.String()+another, "1 created, 0 changed, 0 deleted, 2100 unchanged")
	apply(fleet.String()+another, "0 created, 0 changed, 0 deleted, 2101 unchanged")
}

// TestSeenByEarlierRun: a run requires the newest revision of earlier runs, until it is certain that it will not arrive.
func TestSeenByEarlierRun(t *testing.T) {
	t.Parallel()
	var asked []string
	revision := "7"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("X-Fleet-Min-Revision"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Fleet-Revision", revision)
		if revision == "3" && r.Header.Get("X-Fleet-Min-Revision") != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"store_unavailable","detail":"not here","status":503}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"c"}`))
	}))
	t.Cleanup(srv.Close)
	state, now := t.TempDir(), time.Now()
	variables := map[string]string{"FLUX_API_URL": srv.URL, "XDG_STATE_HOME": state}
	file := filepath.Join(state, "flux-resourceset", "revisions.jsonl")
	get := func(code int, want string) result {
		t.Helper()
		asked = nil
		got := run(t, cli.Env{Now: func() time.Time { return now }}, variables, "cluster", "get", "c", "--timeout", "1s")
		if got.code != code || len(asked) == 0 || asked[0] != want {
			t.Fatalf("exit %d, asked for %q; want %d, %q\n%s", got.code, asked, code, want, got.stderr)
		}
		return got
	}
	get(0, "")
	get(0, "7")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	elsewhere := httptest.NewServer(srv.Config.Handler)
	t.Cleanup(elsewhere.Close)
	variables["FLUX_API_URL"] = elsewhere.URL
	get(0, "") // another server
	variables["FLUX_API_URL"] = srv.URL

	revision = "3"
	if got := get(1, "7"); !strings.Contains(got.stderr, file) || !strings.Contains(got.stderr, "revision 3") {
		t.Errorf("it does not say what to do:\n%s", got.stderr)
	}
	now = now.Add(10 * time.Minute)
	get(0, "")

	// A damaged file is reported and ignored.
	if err := os.WriteFile(file, []byte("{\"server\":\n\x00\xff"+strings.Repeat("x", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get(0, ""); !strings.Contains(got.stderr, "damaged") {
		t.Errorf("nothing is said:\n%s", got.stderr)
	}
	if got := get(1, "3"); strings.Contains(got.stderr, "damaged") {
		t.Errorf("it is still damaged:\n%s", got.stderr)
	}
	// So is a directory that is not writable.
	variables["XDG_STATE_HOME"] = os.DevNull
	if got := get(0, ""); got.stderr != "" && !strings.Contains(got.stderr, "not known") {
		t.Errorf("%s", got.stderr)
	}
}

// TestReplacedHistory: a server whose database was deleted or restored is read at once, with a note, not refused for ten minutes. A
// change may be based on the earlier history: it fails once, except on a loopback address, where a person tries the service.
func TestReplacedHistory(t *testing.T) {
	t.Parallel()
	settings := []string{"DATABASE_URL=sqlite::memory:", "SEED_FILE=../examples/demo/seed.json", "SEED_ACCEPT=true"}
	fresh := serve(t, settings...)
	const other = "0.0.0.0" // not a loopback address, and reaches one
	for _, test := range []struct {
		host  string
		first string // the first command on the new history
		code  int
		want  string
	}{
		{other, "get clusters -o name", 0, "Note: the server's history was replaced"},
		{other, "cluster label demo-cluster-01 a=b --plan -o name", 1, "Note: the server's history was replaced"},
		{other, "namespace create another", 1, "Error: the store has no revision 4"},                                               // starts with a change
		{other, "cluster exclude demo-cluster-01 namespace/a", 1, "Error: nothing was changed: the server's history was replaced"}, // starts with a read
		{other, "apply -f testdata/one.yaml", 1, "Error: nothing was changed: the server's history was replaced"},
		{"127.0.0.1", "apply -f testdata/one.yaml", 0, "Note: the server's history was replaced"},
		{"127.0.0.1", "namespace create another", 0, "Note: the server's history was replaced"},
	} {
		t.Run(test.first, func(t *testing.T) {
			t.Parallel()
			upstream := fresh
			if test.host != other { // it may be changed
				upstream = serve(t, settings...)
			}
			srv := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }})
			t.Cleanup(srv.Close)
			address := strings.Replace(srv.URL, "127.0.0.1", test.host, 1)
			variables := map[string]string{"FLUX_API_URL": address, "FLUX_API_TOKEN": "read-token", "FLUX_API_WRITE_TOKEN": "write-token", "XDG_STATE_HOME": t.TempDir()}
			state := filepath.Join(variables["XDG_STATE_HOME"], "flux-resourceset")
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			seen := fmt.Sprintf(`{"server":%q,"revision":4,"at":%q}`+"\n"+`{"server":"https://other.example.com","revision":9,"at":%[2]q}`+"\n", address, time.Now().UTC().Format(time.RFC3339Nano))
			if err := os.WriteFile(filepath.Join(state, "revisions.jsonl"), []byte(seen), 0o600); err != nil {
				t.Fatal(err)
			}
			got := run(t, cli.Env{}, variables, strings.Fields(test.first)...)
			if got.code != test.code || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit %d, want %d and %q:\n%s", got.code, test.code, test.want, got.stderr)
			}
			if test.code != 0 && strings.Contains(got.stderr, "Error") && !strings.Contains(got.stderr, "repeat the command") {
				t.Errorf("it does not say what to do:\n%s", got.stderr)
			}
			if got := run(t, cli.Env{}, variables, "cluster", "list", "-o", "name"); got.code != 0 || got.stderr != "" {
				t.Errorf("the next command: exit %d\n%s", got.code, got.stderr)
			}
			if kept, err := os.ReadFile(filepath.Join(state, "revisions.jsonl")); err != nil || !strings.Contains(string(kept), "other.example.com") {
				t.Errorf("the stored revision of another server is gone: %v %s", err, kept)
			}
			want := "revision/1\n"
			if test.host != other {
				want = "revision/2\n" + want
			}
			if got := run(t, cli.Env{}, variables, "revision", "list", "-o", "name"); got.stdout != want {
				t.Errorf("the revisions: %s%s", got.stdout, got.stderr)
			}
		})
	}
}
