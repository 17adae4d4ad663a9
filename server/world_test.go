package server_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The tokens of every world. They are distinctive so that they can be searched for in logs and answers.
const (
	readToken      = "read-4f1d77c2a0"
	readPrevious   = "read-before-9b3e51"
	writeToken     = "write-c81f20d6e4"
	writePrevious  = "write-before-77aa02"
	demoCluster    = "/clusters/demo-cluster-01"
	demoDNS        = "demo-cluster-01.k8s.example.com"
	demoPolls      = "/api/v2/flux/clusters/" + demoDNS
	mergePatchType = "application/merge-patch+json"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// clock is the time of a world, which stands still until a test moves it.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	until int           // calls of Now until it advances by itself; 0: it does not
	by    time.Duration // by which it does
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now
	if c.until > 0 {
		if c.until--; c.until == 0 {
			c.now = c.now.Add(c.by)
		}
	}
	return now
}

// advanceAfter lets the clock advance after some calls of Now, in the middle of a request.
func (c *clock) advanceAfter(calls int, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.by = calls, d
}

func (c *clock) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// buffer collects log records.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }

func (b *buffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// lines are the log records whose message is msg.
func (b *buffer) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(b.String()) {
		var rec map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &rec))
		if rec["msg"] == msg {
			out = append(out, rec)
		}
	}
	return out
}

// world is a server on a real store, with a client that holds every answer against the contract.
type world struct {
	t       *testing.T
	store   *sqlite.Store
	faults  *faultyStore
	replica *store.Replica
	http    *httptest.Server
	client  *http.Client
	clock   *clock
	logs    *buffer
	audit   *auditTrail
}

// options of a world; the zero value is a crud server with the demo fleet.
type options struct {
	mode      string
	empty     bool           // no demo fleet
	records   []fleet.Record // the content of the store, without validation
	level     slog.Level
	unloaded  bool // the Replica has not loaded yet
	staleness time.Duration
	rules     *fleet.Rules // in place of those of every world
	configure func(*server.Config)
	serve     func(http.Handler) *httptest.Server
}

// rules are those of every world.
var rules = fleet.Rules{Environments: []string{"dev", "qa", "uat", "prod"}, MaxRemovals: 50, Protected: []string{"prod"}}

func setup(t *testing.T) *world { t.Helper(); return setupWith(t, options{}) }

func setupWith(t *testing.T, o options) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{now: start}, logs: &buffer{}}
	var err error
	w.store, err = sqlite.Open(t.Context(), sqlite.Config{Memory: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.store.Close() })
	w.faults = &faultyStore{Store: w.store}
	logger := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: o.level}))
	w.replica = store.NewReplica(store.Config{
		Store: w.faults, Rules: *cmp.Or(o.rules, &rules), Logger: logger, Now: w.clock.Now,
		Elapsed: func() time.Duration { return w.clock.Now().Sub(start) }, MaxStaleness: o.staleness,
	})
	if o.records != nil {
		commitRecords(t, w.store, o.records)
	}
	if !o.unloaded {
		require.NoError(t, w.replica.Load(t.Context()))
	}
	if !o.empty && o.records == nil && !o.unloaded {
		w.seedDemo()
	}
	w.audit = newAuditTrail(t)
	cfg := server.Config{
		AuditLog: w.audit.log,
		Mode:     server.ModeCRUD, Replica: w.replica, History: w.faults,
		Tokens:  server.Tokens{Read: readToken, ReadPrevious: readPrevious, Write: writeToken, WritePrevious: writePrevious},
		Version: "v2.0.0-test", StoreName: "memory", Logger: logger, Now: w.clock.Now,
		Backup: func(context.Context) (*server.Backup, error) { return backupOf([]byte("SQLite format 3")), nil },
	}
	if o.mode != "" {
		cfg.Mode = o.mode
	}
	if o.configure != nil {
		o.configure(&cfg)
	}
	srv, err := server.New(cfg)
	require.NoError(t, err)
	if o.serve == nil {
		o.serve = httptest.NewServer
	}
	w.http = o.serve(srv)
	t.Cleanup(func() {
		w.http.Close()
		w.audit.check()
	})
	w.client = &http.Client{
		Transport:     &contractTransport{t: t, next: w.http.Client().Transport, audit: w.audit},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

func (w *world) seedDemo() {
	w.t.Helper()
	body, err := os.ReadFile("../examples/demo/seed.json")
	require.NoError(w.t, err)
	seed, err := fleet.ParseSeed(body)
	require.NoError(w.t, err)
	loaded, err := server.SeedEmptyStore(w.t.Context(), w.replica, seed, store.Meta{Actor: "system", Reason: "demo"})
	require.NoError(w.t, err)
	require.True(w.t, loaded)
}

// answer is a response that was read to its end.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// json is the body as an object.
func (a *answer) json() map[string]any {
	a.t.Helper()
	var v map[string]any
	require.NoError(a.t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

// list is the body as an array of objects.
func (a *answer) list() []map[string]any {
	a.t.Helper()
	var v []map[string]any
	require.NoError(a.t, json.Unmarshal(a.body, &v), "%s", a.body)
	require.NotNil(a.t, v)
	return v
}

// ids are the ids of a list, or of a poll's inputs.
func (a *answer) ids() []string {
	a.t.Helper()
	items := []map[string]any{}
	if bytes.HasPrefix(a.body, []byte("[")) {
		items = a.list()
	} else {
		inputs, ok := a.json()["inputs"].([]any)
		require.True(a.t, ok, "%s", a.body)
		for _, in := range inputs {
			items = append(items, in.(map[string]any))
		}
	}
	ids := []string{}
	for _, item := range items {
		ids = append(ids, item["id"].(string))
	}
	return ids
}

func (a *answer) etag() string { return a.header.Get("ETag") }

func (a *answer) want(status int) *answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	return a
}

// problem requires an error with a status and code.
func (a *answer) problem(status int, code string) *answer {
	a.t.Helper()
	a.want(status)
	require.Equal(a.t, code, a.json()["error"], "%s", a.body)
	return a
}

// pointers are where the problems of an error are.
func (a *answer) pointers() []string {
	a.t.Helper()
	problems, _ := a.json()["errors"].([]any)
	out := []string{}
	for _, p := range problems {
		out = append(out, p.(map[string]any)["pointer"].(string))
	}
	return out
}

// at follows keys (and list indices) into a JSON value.
func at(v any, keys ...any) any {
	for _, k := range keys {
		switch key := k.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

func (w *world) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, r)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+writeToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// do sends a request with the write token; headers come in pairs, and an empty value removes one.
func (w *world) do(method, path, body string, headers ...string) *answer {
	w.t.Helper()
	return w.send(w.request(method, path, body, headers...))
}

func (w *world) send(req *http.Request) *answer {
	w.t.Helper()
	res, err := w.client.Do(req)
	require.NoError(w.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return &answer{t: w.t, status: res.StatusCode, header: res.Header, body: body}
}

func (w *world) get(path string, headers ...string) *answer {
	w.t.Helper()
	return w.do(http.MethodGet, path, "", headers...)
}

// poll asks as a Flux Operator does.
func (w *world) poll(path string, headers ...string) *answer {
	w.t.Helper()
	return w.get(path, append([]string{"Authorization", "Bearer " + readToken, "Accept", "application/json", "User-Agent", "flux-operator/v0.58.0"}, headers...)...)
}

func (w *world) create(path, body string) *answer {
	w.t.Helper()
	return w.do(http.MethodPost, path, body).want(http.StatusCreated)
}

func (w *world) put(path, body string, headers ...string) *answer {
	w.t.Helper()
	return w.do(http.MethodPut, path, body, headers...)
}

func (w *world) patch(path, body string, headers ...string) *answer {
	w.t.Helper()
	return w.do(http.MethodPatch, path, body, append([]string{"Content-Type", mergePatchType}, headers...)...)
}

func (w *world) delete(path string, headers ...string) *answer {
	w.t.Helper()
	return w.do(http.MethodDelete, path, "", headers...)
}

// plan is the plan of some operations.
func (w *world) plan(operations ...string) map[string]any {
	w.t.Helper()
	return w.do(http.MethodPost, "/plan", `{"operations":[`+strings.Join(operations, ",")+`]}`, "Authorization", "Bearer "+readToken).want(200).json()
}

func (w *world) revision() int { return int(w.replica.State().Revision()) }

// unchanged requires that f changes neither the fleet nor the log.
func (w *world) unchanged(f func()) {
	w.t.Helper()
	before, head := w.revision(), w.head()
	f()
	require.Equal(w.t, before, w.revision(), "the revision moved")
	require.Equal(w.t, head, w.head(), "the store's head moved")
}

func (w *world) head() fleet.Head {
	w.t.Helper()
	head, err := w.store.Head(w.t.Context())
	require.NoError(w.t, err)
	return head
}

func revisionOf(a *answer) int {
	n, err := strconv.Atoi(a.header.Get("X-Fleet-Revision"))
	require.NoError(a.t, err)
	return n
}

// commitRecords writes documents as revision 1, with no validation at all.
func commitRecords(t *testing.T, st store.Store, records []fleet.Record) {
	t.Helper()
	c := fleet.Commit{Revision: 1, ID: newID(1), At: start, Actor: "test"}
	for _, r := range records {
		c.Changes = append(c.Changes, fleet.Change{Kind: r.Kind, ID: r.ID, After: r.Body})
	}
	require.NoError(t, st.Commit(t.Context(), fleet.Head{}, c))
}

// newID is a commit id for tests.
func newID(n byte) (id [16]byte) { id[0] = n; return id }

// golden compares with a file, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, bytes.TrimSpace(got), "", "  "))
	indented.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, indented.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), indented.String(), "run the test with -update if this is meant")
}

// containsUnquoted reports whether a Warning header contains a text.
func containsUnquoted(header, text string) bool {
	return strings.Contains(strings.ReplaceAll(header, `\"`, `"`), text)
}
