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

// htmlPayload would run a script if a page did not escape it.
const htmlPayload = `<script>alert("x")</script><img src=x onerror=alert(1)>`

// testEnv is a fleet with its page and an HTTP client that keeps cookies.
type testEnv struct {
	t             *testing.T
	replica       *store.Replica
	tracker       *clusterstatus.Tracker
	endedSessions ui.EndedSessions
	api           *server.Server
	issuers       ui.Issuers
	wrapAPI       func(http.Handler) http.Handler // changes the API that pages use; nil: no change
	http          *httptest.Server
	client        *http.Client
	logs          *lockedBuffer
	text          string
	broken        string // the component at which failing clusters fail
	committed     func() time.Time
	artifacts     *artifacts

	mu      sync.Mutex
	forward time.Duration
}

func (env *testEnv) now() time.Time {
	env.mu.Lock()
	defer env.mu.Unlock()
	return time.Now().Add(env.forward)
}

func (env *testEnv) advance(d time.Duration) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.forward += d
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

// setup returns a fleet with the given number of clusters, in all states.
func setup(t testing.TB, clusters int) *testEnv {
	t.Helper()
	return setupWith(t, clusters, htmlPayload)
}

// setupWith is setup with another text in descriptions and messages.
func setupWith(t testing.TB, clusters int, text string) *testEnv {
	t.Helper()
	return setupFleet(t, text, []step{
		{"the catalog", createCatalog},
		{"the first clusters " + text, func(tx *fleet.Tx) error { return createClusters(tx, clusters) }},
		{"CHG-7: grafana 9 on trial", func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.KindCluster, "cluster-0001", []byte(`{"platform_components":[{"id":"podinfo"},{"id":"grafana","component_version":"9.0.0"}],"patches":{"grafana":{"adminPassword":"hunter2","replicas":3}}}`))
			return err
		}},
	})
}

// step is an initial revision of the fleet.
type step struct {
	reason string
	edit   func(*fleet.Tx) error
}

func setupFleet(t testing.TB, text string, steps []step) *testEnv {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Memory: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	env := &testEnv{logs: &lockedBuffer{}, text: text, endedSessions: st, broken: "grafana", committed: fleetCreatedAt, artifacts: &artifacts{}}
	env.t, _ = t.(*testing.T)
	logger := slog.New(slog.NewJSONHandler(env.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	env.replica = store.NewReplica(store.Config{Store: st, Rules: fleet.Rules{Environments: []string{"dev", "qa", "uat", "prod"}, MaxRemovals: 50, Protected: []string{"prod"}}, Logger: logger, Now: func() time.Time { return env.committed() }})
	require.NoError(t, env.replica.Load(t.Context()))
	for _, step := range steps {
		reason := step.reason
		if len(reason) > 1000 {
			reason = reason[:1000]
		}
		_, err = env.replica.Update(t.Context(), store.Meta{Actor: "ci", Author: "ada", Reason: reason}, step.edit)
		require.NoError(t, err)
	}
	env.tracker = clusterstatus.NewTracker(clusterstatus.Config{})
	env.api, err = server.New(server.Config{
		Mode: server.ModeCRUD, Replica: env.replica, History: st, Tokens: server.Tokens{Read: readToken, Write: writeToken}, ClusterStatus: env.tracker, ArtifactReader: env.artifacts,
		Version: "v2.0.0-test", StoreName: "memory", Logger: logger, Now: env.now,
	})
	require.NoError(t, err)
	env.reportAll()
	env.http = httptest.NewServer(env.page(""))
	t.Cleanup(env.http.Close)
	env.client = env.newClient(t)
	return env
}

// setupEmpty returns a service with an empty fleet.
func setupEmpty(t testing.TB) *testEnv {
	t.Helper()
	return setupFleet(t, "", nil)
}

// page returns the page of another process in front of the same API.
func (env *testEnv) page(key string, changes ...bool) http.Handler {
	var api http.Handler = env.api
	if env.wrapAPI != nil {
		api = env.wrapAPI(api)
	}
	page, err := ui.New(ui.Config{API: api, Issuers: env.issuers, EndedSessions: env.endedSessions, SessionKey: key, Changes: len(changes) > 0, Version: "v2.0.0-test", Logger: slog.New(slog.NewJSONHandler(env.logs, nil)), Now: env.now})
	if err != nil {
		panic(err)
	}
	return page
}

func (env *testEnv) newClient(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func createCatalog(tx *fleet.Tx) error {
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

func createClusters(tx *fleet.Tx, clusters int) error {
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

// fleetCreatedAt is before all reports: reports from before a cluster was created do not count.
func fleetCreatedAt() time.Time { return time.Now().Add(-2 * time.Hour) }

// reportAll sends the reports of every cluster; most confirm their desired state.
func (env *testEnv) reportAll() {
	now := env.now()
	st := env.replica.State()
	for i, doc := range st.All(fleet.KindCluster) {
		env.report(i, doc, now)
	}
}

// confirmAll makes every cluster poll and confirm its desired state.
func (env *testEnv) confirmAll() {
	now := env.now()
	for _, doc := range env.replica.State().All(fleet.KindCluster) {
		env.report(0, doc, now)
	}
}

// edit commits an edit of the fleet.
func (env *testEnv) edit(edit func(*fleet.Tx) error) {
	env.t.Helper()
	_, err := env.replica.Update(env.t.Context(), store.Meta{Actor: "ci", Author: "ada"}, edit)
	require.NoError(env.t, err)
}

// updatePodinfo changes a component that every cluster has.
func updatePodinfo(tx *fleet.Tx) error {
	_, err := tx.Patch(fleet.KindComponent, "podinfo", []byte(`{"component_version":"6.9.1"}`))
	return err
}

// The index of a cluster determines its state.
func failing(i int) bool   { return i%40 == 3 }
func silent(i int) bool    { return i%50 == 7 }
func behind(i int) bool    { return i%60 == 9 }
func neverSeen(i int) bool { return i%97 == 11 }

// failures are the messages of failing clusters, in turn.
var failures = []struct{ reason, message string }{
	{"UpgradeFailed", "Helm upgrade failed: timed out waiting for the condition "},
	{"InstallFailed", "Helm install failed for release grafana/grafana with chart grafana@8.1.0: 1 error occurred: serviceaccounts \"grafana\" already exists "},
	{"ArtifactFailed", "chart pull error: failed to fetch https://charts.example.com/index.yaml: 401 Unauthorized "},
}

// report sends the polls, receipts and events of a cluster, according to its index.
func (env *testEnv) report(i int, doc *fleet.Document, now time.Time) {
	st := env.replica.State()
	asked, err := st.DesiredInputs(doc)
	if err != nil {
		panic(err)
	}
	at := now.Add(-time.Duration(i%50) * time.Second)
	switch {
	case neverSeen(i):
		return
	case silent(i):
		at = now.Add(-40 * time.Minute)
	}
	interval := time.Minute
	if behind(i) { // its next poll is overdue, and it has missed fewer than three
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
			if env.tracker.RecordPoll(clusterstatus.Poll{Cluster: doc.ID, List: list.List, ETag: list.ETag, Revision: int64(st.Revision()), Agent: "flux-operator/v0.58.1"}, at.Add(-back)) {
				env.tracker.RecordServed(doc.ID, list, at.Add(-back))
			}
		}
		n := 0
		for id := range list.Inputs {
			receipt := list.Receipts[n]
			n++
			switch {
			case failing(i) && id == env.broken:
				env.tracker.RecordEvent(doc.ID, list.List, id, clusterstatus.Event{
					Input: receipt.String(), Severity: "error", Reason: failures[i/40%3].reason, Object: "HelmRelease/flux-system/platform-" + id, At: at,
					Message: failures[i/40%3].message + env.text,
				}, at)
			default:
				env.tracker.RecordReceipt(doc.ID, list, id, receipt, at)
			}
		}
	}
}

// fail sends an event of a cluster that it failed at a component.
func (env *testEnv) fail(doc *fleet.Document, component string, kind int, at time.Time) {
	env.t.Helper()
	asked, err := env.replica.State().DesiredInputs(doc)
	require.NoError(env.t, err)
	for _, list := range asked {
		n := 0
		for id := range list.Inputs {
			if id == component {
				env.tracker.RecordEvent(doc.ID, list.List, id, clusterstatus.Event{
					Input: list.Receipts[n].String(), Severity: "error", Reason: failures[kind].reason, Object: "HelmRelease/flux-system/platform-" + id, At: at,
					Message: failures[kind].message + env.text,
				}, at)
			}
			n++
		}
	}
}

// response is the response of the page.
type response struct {
	status int
	header http.Header
	body   string
}

func (env *testEnv) send(client *http.Client, method, path string, form url.Values, header ...string) response {
	env.t.Helper()
	req, err := http.NewRequestWithContext(env.t.Context(), method, env.http.URL+path, strings.NewReader(form.Encode()))
	require.NoError(env.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rsp, err := client.Do(req)
	require.NoError(env.t, err)
	defer rsp.Body.Close()
	body, err := io.ReadAll(rsp.Body)
	require.NoError(env.t, err)
	return response{rsp.StatusCode, rsp.Header, string(body)}
}

func (env *testEnv) get(path string, header ...string) response {
	env.t.Helper()
	return env.send(env.client, http.MethodGet, path, nil, header...)
}

func (env *testEnv) signIn(token string) response {
	env.t.Helper()
	return env.send(env.client, http.MethodPost, "/ui/sign-in", url.Values{"token": {token}, "to": {"/ui/"}})
}

// issueToken creates a managed token.
func (env *testEnv) issueToken(name, role string) (secret string) {
	env.t.Helper()
	return env.createToken(fmt.Sprintf(`{"name":%q,"role":%q}`, name, role))
}

func (env *testEnv) call(method, path, body string) *httptest.ResponseRecorder {
	env.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+writeToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	env.api.ServeHTTP(rec, req)
	require.Less(env.t, rec.Code, 300, rec.Body)
	return rec
}

func (env *testEnv) createToken(body string) (secret string) {
	env.t.Helper()
	var out struct{ Token string }
	require.NoError(env.t, json.Unmarshal(env.call(http.MethodPost, "/tokens", body).Body.Bytes(), &out))
	return out.Token
}

// revoke revokes the token with a name.
func (env *testEnv) revoke(name string) {
	env.t.Helper()
	var tokens []struct{ ID, Name string }
	require.NoError(env.t, json.Unmarshal(env.call(http.MethodGet, "/tokens?name="+name, "").Body.Bytes(), &tokens))
	env.call(http.MethodDelete, "/tokens/"+tokens[0].ID, "")
}

// pollToken creates a poll token of one cluster.
func (env *testEnv) pollToken(cluster string) (secret string) {
	return env.createToken(fmt.Sprintf(`{"name":"poll","role":"poll","cluster_id":%q}`, cluster))
}
