package ui_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
	"github.com/flux-resourceset/flux-resourceset/ui"
)

const (
	readToken  = "a-token-that-may-read"
	writeToken = "a-token-that-may-write"
	sessionKey = "a-key-for-sessions-that-nobody-guesses"
)

// hostile is a text that would do something if a page took it for HTML.
const hostile = `<script>alert("x")</script><img src=x onerror=alert(1)>`

// world is a fleet with its page, and somebody with a browser that has no script.
type world struct {
	t       *testing.T
	replica *store.Replica
	tracker *clusterstatus.Tracker
	ended   ui.EndedSessions
	api     *server.Server
	http    *httptest.Server
	client  *http.Client
	logs    *lockedBuffer
	text    string

	mu      sync.Mutex
	forward time.Duration
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.forward)
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forward += d
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// setup makes a fleet of so many clusters, in all states.
func setup(t testing.TB, clusters int) *world {
	t.Helper()
	return setupWith(t, clusters, hostile)
}

// setupWith is setup with another text in what people and clusters wrote.
func setupWith(t testing.TB, clusters int, text string) *world {
	t.Helper()
	return setupFleet(t, text, []step{
		{"the catalog", fillCatalog},
		{"the first clusters " + text, func(tx *fleet.Tx) error { return fillClusters(tx, clusters) }},
		{"CHG-7: grafana 9 on trial", func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.KindCluster, "cluster-0001", []byte(`{"platform_components":[{"id":"podinfo"},{"id":"grafana","component_version":"9.0.0"}],"patches":{"grafana":{"adminPassword":"hunter2","replicas":3}}}`))
			return err
		}},
	})
}

// step is a revision of the fleet that a test begins with.
type step struct {
	reason string
	edit   func(*fleet.Tx) error
}

func setupFleet(t testing.TB, text string, steps []step) *world {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Memory: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	w := &world{logs: &lockedBuffer{}, text: text, ended: st}
	w.t, _ = t.(*testing.T)
	logger := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.replica = store.NewReplica(store.Config{Store: st, Rules: fleet.Rules{Environments: []string{"dev", "qa", "uat", "prod"}, MaxRemovals: 50, Protected: []string{"prod"}}, Logger: logger, Now: longAgo})
	require.NoError(t, w.replica.Load(t.Context()))
	for _, step := range steps {
		reason := step.reason
		if len(reason) > 1000 {
			reason = reason[:1000]
		}
		_, err = w.replica.Update(t.Context(), store.Meta{Actor: "ci", Author: "ada", Reason: reason}, step.edit)
		require.NoError(t, err)
	}
	w.tracker = clusterstatus.NewTracker(clusterstatus.Config{})
	w.api, err = server.New(server.Config{
		Mode: server.ModeCRUD, Replica: w.replica, History: st, Tokens: server.Tokens{Read: readToken, Write: writeToken}, ClusterStatus: w.tracker,
		Version: "v2.0.0-test", StoreName: "memory", Logger: logger, Now: w.now,
	})
	require.NoError(t, err)
	w.hearAll()
	w.http = httptest.NewServer(w.page(""))
	t.Cleanup(w.http.Close)
	w.client = w.visitor(t)
	return w
}

// setupEmpty is a service in front of which nobody has made anything.
func setupEmpty(t testing.TB) *world {
	t.Helper()
	return setupFleet(t, "", nil)
}

// page is another process's page in front of the same API.
func (w *world) page(key string, changes ...bool) http.Handler {
	page, err := ui.New(ui.Config{API: w.api, Ended: w.ended, SessionKey: key, Changes: len(changes) > 0, Version: "v2.0.0-test", Logger: slog.New(slog.NewJSONHandler(w.logs, nil)), Now: w.now})
	if err != nil {
		panic(err)
	}
	return page
}

func (w *world) visitor(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func fillCatalog(tx *fleet.Tx) error {
	for id, version := range map[string]string{"podinfo": "6.9.0", "grafana": "8.1.0"} {
		if _, err := tx.Create(fleet.KindComponent, fmt.Appendf(nil, `{"id":%q,"component_path":"charts/%s","oci_url":"https://charts.example.com","component_version":%q}`, id, id, version)); err != nil {
			return err
		}
	}
	if _, err := tx.Create(fleet.KindNamespace, []byte(`{"id":"team-red"}`)); err != nil {
		return err
	}
	_, err := tx.Create(fleet.KindLayer, []byte(`{"id":"gold","description":"What our best customers have","priority":10,"selector":"tier=gold","namespaces":[{"id":"team-red"}]}`))
	return err
}

func clusterID(n int) string { return fmt.Sprintf("cluster-%04d", n) }

func fillClusters(tx *fleet.Tx, clusters int) error {
	environments, tiers := []string{"dev", "qa", "uat", "prod"}, []string{"gold", "silver", "bronze"}
	for i := range clusters {
		body := fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.k8s.example.com","environment":%q,"labels":{"tier":%q,"region":"eu-%d"},"platform_components":[{"id":"podinfo"},{"id":"grafana"}]}`,
			clusterID(i), clusterID(i), environments[i%4], tiers[i%3], i%5)
		if _, err := tx.Create(fleet.KindCluster, []byte(body)); err != nil {
			return err
		}
	}
	return nil
}

// longAgo is when the fleet is made: what clusters said before they were is not theirs.
func longAgo() time.Time { return time.Now().Add(-2 * time.Hour) }

// hearAll has every cluster say something: most of them that all is well.
func (w *world) hearAll() {
	now := time.Now()
	st := w.replica.State()
	for i, doc := range st.All(fleet.KindCluster) {
		w.hear(i, doc, now)
	}
}

// recover has every cluster poll, and confirm its desired state.
func (w *world) recover() {
	now := w.now()
	for _, doc := range w.replica.State().All(fleet.KindCluster) {
		w.hear(0, doc, now)
	}
}

// change commits an edit of the fleet.
func (w *world) change(edit func(*fleet.Tx) error) {
	w.t.Helper()
	_, err := w.replica.Update(w.t.Context(), store.Meta{Actor: "ci", Author: "ada"}, edit)
	require.NoError(w.t, err)
}

// updatePodinfo changes a component that every cluster has.
func updatePodinfo(tx *fleet.Tx) error {
	_, err := tx.Patch(fleet.KindComponent, "podinfo", []byte(`{"component_version":"6.9.1"}`))
	return err
}

// Of the clusters in a row, which are in trouble.
func failing(i int) bool { return i%40 == 3 }
func silent(i int) bool  { return i%50 == 7 }
func behind(i int) bool  { return i%60 == 9 }
func unheard(i int) bool { return i%97 == 11 }

// failures are what clusters that fail say, in turn.
var failures = []struct{ reason, message string }{
	{"UpgradeFailed", "Helm upgrade failed: timed out waiting for the condition "},
	{"InstallFailed", "Helm install failed for release grafana/grafana with chart grafana@8.1.0: 1 error occurred: serviceaccounts \"grafana\" already exists "},
	{"ArtifactFailed", "chart pull error: failed to fetch https://charts.example.com/index.yaml: 401 Unauthorized "},
}

func (w *world) hear(i int, doc *fleet.Document, now time.Time) {
	asked, err := w.replica.State().DesiredInputs(doc)
	if err != nil {
		panic(err)
	}
	at := now.Add(-time.Duration(i%50) * time.Second)
	switch {
	case unheard(i):
		return
	case silent(i):
		at = now.Add(-40 * time.Minute)
	}
	interval := time.Minute
	if behind(i) { // its next poll is overdue, and it has not missed three
		at, interval = now.Add(-20*time.Minute), 10*time.Minute
	}
	for _, list := range asked {
		if behind(i) {
			list.ETag = `"older"`
			list.Receipts = slices.Clone(list.Receipts)
			for n := range list.Receipts {
				list.Receipts[n][0]++
			}
		}
		for _, back := range []time.Duration{interval, 0} {
			if w.tracker.RecordPoll(doc.ID, list.List, list.ETag, "flux-operator/v0.58.1", at.Add(-back)) {
				w.tracker.RecordServed(doc.ID, list, at.Add(-back))
			}
		}
		n := 0
		for id := range list.Inputs {
			receipt := list.Receipts[n]
			n++
			switch {
			case failing(i) && id == "grafana":
				w.tracker.RecordEvent(doc.ID, list.List, id, clusterstatus.Event{
					Input: receipt.String(), Severity: "error", Reason: failures[i/40%3].reason, Object: "HelmRelease/flux-system/platform-grafana", At: at,
					Message: failures[i/40%3].message + w.text,
				}, at)
			default:
				w.tracker.RecordReceipt(doc.ID, list, id, receipt, at)
			}
		}
	}
}

// answer is a page.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) send(client *http.Client, method, path string, form url.Values, header ...string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, strings.NewReader(form.Encode()))
	require.NoError(w.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rsp, err := client.Do(req)
	require.NoError(w.t, err)
	defer rsp.Body.Close()
	body, err := io.ReadAll(rsp.Body)
	require.NoError(w.t, err)
	return answer{rsp.StatusCode, rsp.Header, string(body)}
}

func (w *world) get(path string, header ...string) answer {
	w.t.Helper()
	return w.send(w.client, http.MethodGet, path, nil, header...)
}

func (w *world) signIn(token string) answer {
	w.t.Helper()
	return w.send(w.client, http.MethodPost, "/ui/sign-in", url.Values{"token": {token}, "to": {"/ui/"}})
}

// issue makes a token that is managed.
func (w *world) issue(name, role string) (secret string) {
	w.t.Helper()
	return w.token(fmt.Sprintf(`{"name":%q,"role":%q}`, name, role))
}

func (w *world) call(method, path, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+writeToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, req)
	require.Less(w.t, rec.Code, 300, rec.Body)
	return rec
}

func (w *world) token(body string) (secret string) {
	w.t.Helper()
	var out struct{ Token string }
	require.NoError(w.t, json.Unmarshal(w.call(http.MethodPost, "/tokens", body).Body.Bytes(), &out))
	return out.Token
}

// revoke revokes the token of that name.
func (w *world) revoke(name string) {
	w.t.Helper()
	var tokens []struct{ ID, Name string }
	require.NoError(w.t, json.Unmarshal(w.call(http.MethodGet, "/tokens?name="+name, "").Body.Bytes(), &tokens))
	w.call(http.MethodDelete, "/tokens/"+tokens[0].ID, "")
}

// poller is a token with which one cluster polls.
func (w *world) poller(cluster string) (secret string) {
	return w.token(fmt.Sprintf(`{"name":"poll","role":"poll","cluster_id":%q}`, cluster))
}
