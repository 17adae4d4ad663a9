package server_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/webhooks"
)

// metric returns the value of one series for a reader, -1 when there is none.
func (w *world) metric(series string) float64 {
	w.t.Helper()
	body := string(w.get("/metrics", "Authorization", "Bearer "+readToken).want(200).body)
	for line := range strings.Lines(body) {
		name, value, ok := cutLast(strings.TrimSpace(line), " ")
		if ok && name == series {
			f, err := strconv.ParseFloat(value, 64)
			require.NoError(w.t, err)
			return f
		}
	}
	return -1
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const requests = "flux_resourceset_http_requests_total"
	poll := requests + `{method="GET",route="/api/v2/flux/clusters/:cluster_dns/namespaces",status="200"}`
	require.Zero(t, w.metric(poll), "there from the start, so that an increase is seen")
	w.poll(demoPolls + "/namespaces").want(200)
	w.poll(demoPolls + "/namespaces").want(200)
	w.poll("/api/v2/flux/clusters/nobody.example.com/namespaces").want(404)
	require.Equal(t, 2.0, w.metric(poll))
	require.Equal(t, 1.0, w.metric(requests+`{method="GET",route="/api/v2/flux/clusters/:cluster_dns/namespaces",status="404"}`))
	require.Equal(t, 3.0, w.metric(`flux_resourceset_http_request_duration_seconds_count{method="GET",route="/api/v2/flux/clusters/:cluster_dns/namespaces"}`))

	require.Equal(t, 1.0, w.metric("flux_resourceset_fleet_revision"))
	require.Equal(t, 1.0, w.metric(`flux_resourceset_clusters{state="live"}`))
	require.Equal(t, 0.0, w.metric(`flux_resourceset_clusters{state="decommissioned"}`))
	require.Equal(t, 3.0, w.metric(`flux_resourceset_documents{kind="platform_component"}`))
	require.Equal(t, 3.0, w.metric(`flux_resourceset_documents{kind="namespace"}`))
	require.Equal(t, 2.0, w.metric(`flux_resourceset_documents{kind="rolebinding"}`))
	require.Equal(t, 0.0, w.metric("flux_resourceset_unresolved_references_total"))
	require.Equal(t, 0.0, w.metric("flux_resourceset_panics_total"))
	require.Equal(t, 0.0, w.metric("flux_resourceset_store_content_refused"))
	require.Equal(t, 0.0, w.metric("flux_resourceset_store_reloads_total"))
	require.Equal(t, 0.0, w.metric("flux_resourceset_store_stale_commits_total"))

	const last = `flux_resourceset_cluster_last_poll_timestamp_seconds{cluster="demo-cluster-01"}`
	require.InDelta(t, float64(start.UnixMilli())/1000, w.metric(last), 0.001)
	w.clock.advance(time.Minute)
	w.poll(demoPolls + "/rolebindings").want(200)
	require.InDelta(t, float64(start.UnixMilli())/1000+60, w.metric(last), 0.001)

	w.put(demoCluster, `{"environment":"qa"}`).want(200)
	require.Equal(t, 1.0, w.metric(requests+`{method="PUT",route="/clusters/:id",status="200"}`))
	require.Equal(t, 2.0, w.metric("flux_resourceset_fleet_revision"))
	w.delete(demoCluster).want(200)
	require.Equal(t, 0.0, w.metric(`flux_resourceset_clusters{state="live"}`))
	require.Equal(t, 1.0, w.metric(`flux_resourceset_clusters{state="decommissioned"}`))
	require.NotEqual(t, -1.0, w.metric(last), "a decommissioned cluster still polls")
	w.delete(demoCluster + "?mode=orphan").want(200)
	require.Equal(t, -1.0, w.metric(last), "a cluster that is gone has no series")
}

// Without a token the metrics do not name clusters, and the counts are still sufficient for an alert.
func TestMetricsNameNoCluster(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode, records: []fleet.Record{
			{Kind: fleet.KindCluster, ID: "c-1", Body: []byte(`{"id":"c-1","cluster_name":"c-1","cluster_dns":"c-1.k","environment":"dev","labels":{},"platform_components":[],"namespaces":[],"rolebindings":[],"patches":{},"deletion_protection":false}`)},
			{Kind: fleet.KindCluster, ID: "c-2", Body: []byte(`{"id":"c-2","cluster_name":"c-2","cluster_dns":"c-2.k","environment":"dev","labels":{},"platform_components":[],"namespaces":[],"rolebindings":[],"patches":{},"deletion_protection":false}`)},
		}})
		within := func(age string) float64 { return w.metric(`flux_resourceset_clusters_polled{within="` + age + `"}`) }
		require.Zero(t, within("24h"), "there from the start")
		w.poll("/api/v2/flux/clusters/c-1.k/namespaces").want(200)
		w.clock.advance(10 * time.Minute)
		w.poll("/api/v2/flux/clusters/c-2.k/namespaces").want(200)
		w.poll("/api/v2/flux/clusters/c-2.k/rolebindings").want(200)
		require.Equal(t, 1.0, within("5m"))
		require.Equal(t, 2.0, within("15m"))
		require.Equal(t, 2.0, within("24h"))
		w.clock.advance(time.Hour)
		require.Equal(t, 0.0, within("1h"))

		public := string(w.get("/metrics", "Authorization", "").want(200).body)
		require.Contains(t, public, "flux_resourceset_clusters_polled")
		require.NotContains(t, public, "c-1")
		require.NotContains(t, public, "c-2")
		require.Contains(t, string(w.get("/metrics", "Authorization", "Bearer "+readToken).want(200).body), `{cluster="c-1"}`)
		w.get("/metrics", "Authorization", "Bearer wrong").problem(401, "unauthorized")
		w.get("/metrics", "Authorization", "Basic x").problem(401, "unauthorized")
	}
}

// Only polls by a cluster's own Flux count, not by people: alerts and decommissioning depend on it.
func TestOnlyFluxPolls(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const path, last = demoPolls + "/namespaces", `flux_resourceset_cluster_last_poll_timestamp_seconds{cluster="demo-cluster-01"}`
	token := w.issue(pollBody).secret
	ask := func(token string, headers ...string) {
		w.get(path, append([]string{"Authorization", "Bearer " + token}, headers...)...).want(200)
	}
	for _, ways := range [][]string{nil, {"X-Fleet-Min-Revision", "1"}, {"Accept-Encoding", "identity"}} { // straight, and the router's way
		w.clock.advance(time.Hour)
		before := w.metric(last)
		for _, agent := range []string{"flux-resourceset-cli/1.0", "Mozilla/5.0", "curl/8", "my-flux-operator/1", ""} {
			ask(readToken, append([]string{"User-Agent", agent}, ways...)...)
			ask(writeToken, append([]string{"User-Agent", agent}, ways...)...)
		}
		require.Equal(t, before, w.metric(last), "nobody's Flux has polled")
		ask(readToken, append([]string{"User-Agent", "flux-operator/v0.58.0"}, ways...)...)
		require.Greater(t, w.metric(last), before)
		w.clock.advance(time.Hour)
		before = w.metric(last)
		ask(token, ways...)
		require.Greater(t, w.metric(last), before, "a token of the cluster's own")
	}
}

// Client input does not create series.
func TestMetricsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/a", "/b", "/clusters/x/y/z/w"} {
		w.get(path).want(404)
	}
	for _, method := range []string{"FOO", "BAR", "PURGE"} {
		w.do(method, "/clusters", "").want(405)
	}
	for _, dns := range []string{"a", "b", "c"} {
		w.poll("/api/v2/flux/clusters/" + dns + "/namespaces").want(404)
	}
	require.Equal(t, 3.0, w.metric(`flux_resourceset_http_requests_total{method="GET",route="unmatched",status="404"}`))
	require.Equal(t, 3.0, w.metric(`flux_resourceset_http_requests_total{method="other",route="unmatched",status="405"}`))
	body := string(w.get("/metrics").body)
	for _, never := range []string{"FOO", "PURGE", `"/a"`, `cluster="a"`} {
		require.NotContains(t, body, never)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode, unloaded: true})
		w.get("/ready?for=polls", "Authorization", "").want(503)
		notReady := w.get("/ready", "Authorization", "").want(503).json()
		require.Equal(t, "unavailable", notReady["status"])
		require.Equal(t, "not loaded yet", at(notReady, "checks", "state"))
		w.get("/health", "Authorization", "").want(200)
		w.get("/metrics", "Authorization", "").want(200)
		w.get("/metrics", "Authorization", "Bearer "+readToken).want(200)
		w.poll(demoPolls+"/namespaces").problem(503, "store_unavailable")
		w.poll("/api/v2/flux/clusters").problem(503, "store_unavailable")
		require.NoError(t, w.replica.Load(t.Context()))
		w.get("/ready", "Authorization", "").want(200)
		w.poll(demoPolls+"/namespaces").problem(404, "not_found")
	}
}

// A commit counts once for each kind that it changed; one without a change does not count.
func TestCommitsByKind(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{configure: func(c *server.Config) {
		c.StorePool = func() (store.PoolStats, bool) {
			return store.PoolStats{InUse: 1, Idle: 2, Max: 4, Waits: 7, Waited: 3 * time.Second}, true
		}
	}})
	commits := func(kind string) float64 { return w.metric(`flux_resourceset_commits_total{kind="` + kind + `"}`) }
	for _, kind := range []string{"cluster", "platform_component", "namespace", "rolebinding", "resource_type", "resource", "layer", "token"} {
		require.Zero(t, commits(kind), kind)
	}
	w.create("/namespaces", `{"id":"a"}`)
	w.create("/resource_types", `{"id":"things","schema":{"type":"object","additionalProperties":false,"properties":{}}}`)
	w.create("/resources/things", `{"id":"one"}`)
	w.do("POST", "/batch", `{"operations":[{"op":"create","kind":"namespace","document":{"id":"b"}},{"op":"create","kind":"namespace","document":{"id":"c"}},
		{"op":"set_labels","all":true,"labels":{"a":"b"}}]}`).want(200)
	w.do("POST", "/namespaces?dry_run=true", `{"id":"d"}`).want(200)
	w.patch("/namespaces/a", `{}`).want(200)
	w.create("/namespaces", `{"id":"e"}`)
	w.do("POST", "/namespaces", `{"id":"e"}`).want(409)
	require.Equal(t, 3.0, commits("namespace"))
	require.Equal(t, 1.0, commits("cluster"))
	require.Equal(t, 1.0, commits("resource"))
	require.Equal(t, 1.0, commits("resource_type"))
	require.Equal(t, -1.0, commits("resource/things"), "what people call their types is no label")
	require.Zero(t, commits("token"))
	w.issue(pollBody)
	require.Equal(t, 1.0, commits("token"))

	w.plan(`{"op":"create","kind":"namespace","document":{"id":"d"}}`)
	require.Equal(t, 1.0, w.metric(`flux_resourceset_work_duration_seconds_count{work="plans"}`))
	require.Equal(t, 1.0, w.metric(`flux_resourceset_work_duration_seconds_count{work="batches"}`))
	require.Equal(t, 1.0, w.metric(`flux_resourceset_build_info{goversion="`+runtime.Version()+`",mode="crud",store="memory",version="v2.0.0-test"}`))
	require.Equal(t, 2.0, w.metric(`flux_resourceset_store_connections{state="idle"}`))
	require.Equal(t, 4.0, w.metric(`flux_resourceset_store_connections{state="max"}`))
	require.Equal(t, 7.0, w.metric("flux_resourceset_store_connection_waits_total"))
	require.Equal(t, 3.0, w.metric("flux_resourceset_store_connection_wait_seconds_total"))
}

// TestChartMetricsExist: alerts and the dashboard ask for metrics that exist, with labels that they have.
func TestChartMetricsExist(t *testing.T) {
	t.Parallel()
	w := setupWith(t, options{configure: func(c *server.Config) {
		c.StorePool = func() (store.PoolStats, bool) { return store.PoolStats{}, true }
		c.Audit = func() store.AuditStatus { return store.AuditStatus{Checked: true, OK: true} }
		c.Webhooks = webhooks.New(webhooks.Config{
			Replica: c.Replica, History: c.History.(webhooks.History), Key: strings.Repeat("k", 32), PublicURL: "https://fleet.example.com",
		})
	}})
	w.poll(demoPolls + "/namespaces").want(200)
	w.create("/sources", `{"id":"platform","url":"oci://registry.example.com/fleet","tag":"prod"}`)
	w.create("/webhooks", `{"id":"log","url":"https://hooks.example.com/"}`)
	w.create("/rollouts", `{"id":"paused","operations":[`+bump+`],"stages":[{"name":"all","all":true}]}`)
	w.do("POST", "/rollouts/paused/pause", "").want(200)
	w.pin("demo-cluster-01", `{"until":"2001-01-01T00:00:00Z","reason":"INC-7"}`)
	served := string(w.get("/metrics", "Authorization", "Bearer "+readToken).want(200).body)
	ours := regexp.MustCompile(`\bflux_resourceset_[a-z_]+`)
	// Series that exist only after an event, and those that Prometheus adds.
	absent := map[string]bool{"flux_resourceset_store_size_bytes": true, "flux_resourceset_version_scan_errors_total": true}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join("..", "charts", "flux-resourceset", "files", file))
		require.NoError(t, err)
		names := ours.FindAllString(string(text), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			if !absent[name] {
				require.Regexp(t, `(?m)^`+name+`[{ ]`, served, "%s asks for %s", file, name)
			}
		}
	}
}
