package server_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// confirm has a cluster poll its components and send the receipts of all of them.
func (w *world) confirm(dns string) {
	w.t.Helper()
	for _, in := range at(w.poll("/api/v2/flux/clusters/"+dns+"/platform-components").want(200).json(), "inputs").([]any) {
		w.poll(fmt.Sprintf("/api/v2/flux/clusters/%s/receipts/platform-components/%s?input=%s", dns, at(in, "id"), at(in, "receipt"))).want(200)
	}
}

func TestClusterStatus(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, "never", at(w.status("demo-cluster-01"), "state"))
	require.NotContains(t, w.status("demo-cluster-01"), "seen_at")
	w.get(demoPolls+"/platform-components", "User-Agent", "flux-resourceset-cli/1", "Authorization", "Bearer "+readToken).want(200)
	w.get(demoPolls+"/platform-components", "User-Agent", "Mozilla/5.0", "Authorization", "Bearer "+w.issue(pollBody).secret).want(200)
	require.Equal(t, "never", at(w.status("demo-cluster-01"), "state"), "people who look at it are not the cluster")

	w.poll(demoPolls + "/platform-components").want(200)
	require.Equal(t, "unknown", at(w.status("demo-cluster-01"), "state"), "it sends no receipts")
	w.confirm(demoDNS)
	require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
	require.Equal(t, "flux-operator/v0.58.0", at(w.status("demo-cluster-01"), "agent"))

	w.put("/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	require.Equal(t, "progressing", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
	require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "traefik")["state"])
	w.poll(demoPolls + "/platform-components").want(200)
	require.Equal(t, "delivered", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
	w.confirm(demoDNS)
	require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])

	// A change and its revert: an earlier confirmation does not count, and reading a receipt does not send it.
	w.put("/platform_components/podinfo", `{"component_version":"6.9.1"}`).want(200)
	w.poll(demoPolls + "/platform-components").want(200)
	w.put("/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	require.Equal(t, "progressing", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
	w.poll(demoPolls + "/platform-components").want(200)
	again := w.input("demo-cluster-01", "platform-components", "podinfo")
	require.Equal(t, "delivered", again["state"])
	w.clock.advance(time.Millisecond)
	w.do("HEAD", fmt.Sprintf("%s/receipts/platform-components/podinfo?input=%s", demoPolls, again["receipt"]), "", "User-Agent", "flux-operator/v0.58.0", "Authorization", "Bearer "+readToken)
	require.Equal(t, "delivered", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
	require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "traefik")["state"])

	w.clock.advance(2 * time.Hour)
	require.Equal(t, "unknown", at(w.status("demo-cluster-01"), "state"))
	w.get("/clusters/nobody/status").problem(404, "not_found")

	// Decommissioning is over when the empty lists have arrived.
	require.NotContains(t, w.status("demo-cluster-01"), "deleted_at")
	w.delete(demoCluster).want(200)
	require.Contains(t, w.status("demo-cluster-01"), "deleted_at")
	require.Equal(t, "behind", at(w.status("demo-cluster-01"), "lists", 0, "state"))
	w.poll(demoPolls + "/platform-components").want(200)
	require.Equal(t, "delivered", at(w.status("demo-cluster-01"), "lists", 0, "state"))
	require.Equal(t, "delivered", at(w.status("demo-cluster-01"), "state"))
}

func TestFleetStatus(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	w.batch(`{"op":"set_component","component_id":"podinfo","component_version":"6.9.0","cluster_ids":["qa-01","qa-02"]}`).want(200)
	dns := func(id string) string { return at(w.get("/clusters/"+id).json(), "cluster_dns").(string) }
	w.confirm(dns("qa-00"))
	w.confirm(dns("qa-01"))
	w.poll("/api/v2/flux/clusters/" + dns("qa-02") + "/platform-components").want(200)

	all := w.get("/status?component=podinfo").want(200)
	require.Equal(t, map[string]any{"confirmed": 2.0, "never": 1.0, "unknown": 1.0}, all.json()["counts"])
	require.EqualValues(t, 4, all.json()["total"])
	require.Equal(t, true, all.json()["complete"])
	some := w.get("/status?component=podinfo&state=unknown,never&limit=1").want(200)
	require.Equal(t, all.json()["counts"], some.json()["counts"], "whatever is left out is counted")
	require.Equal(t, "2", some.header.Get("X-Total-Count"))
	require.Contains(t, some.header.Get("Link"), "offset=1")
	require.Equal(t, "demo-cluster-01", at(some.json(), "clusters", 0, "id"))
	var ids []any
	for _, cluster := range w.get("/status?component=podinfo&sort=state").want(200).json()["clusters"].([]any) {
		ids = append(ids, at(cluster, "id"))
	}
	require.Equal(t, []any{"qa-02", "demo-cluster-01", "qa-00", "qa-01"}, ids, "what somebody has to look at first")
	require.EqualValues(t, 3, w.get("/status?selector=environment%3Dqa").want(200).json()["total"])
	w.get("/status?state=fine").problem(400, "validation_error")
	w.get("/status?component=nothing").problem(404, "not_found")

	component := w.get("/platform_components/podinfo/status").want(200).json()
	require.EqualValues(t, 4, component["clusters"])
	require.Equal(t, []any{
		map[string]any{"component_version": "6.9.0", "oci_tag": "latest", "clusters": 2.0, "counts": map[string]any{"confirmed": 1.0, "unknown": 1.0}},
		map[string]any{"component_version": "latest", "oci_tag": "latest", "clusters": 2.0, "counts": map[string]any{"confirmed": 1.0, "never": 1.0}},
	}, component["versions"])
	w.get("/platform_components/nothing/status").problem(404, "not_found")

	readOnly := setupWith(t, options{mode: server.ModeReadOnly})
	readOnly.get("/status").problem(404, "not_found")
}

// A cluster that failed and stopped polling is silent and failed. When no cluster polls any more, the status and the metrics report it.
func TestStatusOfSilentClusters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(1, "qa")
	const list = "/platform-components"
	qa := "/api/v2/flux/clusters/" + at(w.get("/clusters/qa-00").json(), "cluster_dns").(string)
	for range 2 {
		w.clock.advance(time.Minute)
		w.poll(demoPolls + list).want(200)
		w.poll(qa + list).want(200)
	}
	w.confirm(demoDNS)
	receipt := w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"].(string)
	w.clock.advance(time.Minute)
	w.tell(readToken, demoEvents, event(`{"component":"podinfo","input":"`+receipt+`"}`, strings.Repeat("x", 400)+": the cause")).want(202)
	w.clock.advance(4 * time.Minute)
	w.poll(qa + list).want(200)

	status := func(query string) any { return w.get("/status?sort=state" + query).want(200).json() }
	failed := status("&state=failed")
	require.Equal(t, []any{"silent", "failed"}, at(failed, "clusters", 0, "states"))
	require.Equal(t, "silent", at(failed, "clusters", 0, "state"))
	require.Equal(t, []any{"platform-components", "podinfo"}, []any{at(failed, "clusters", 0, "failure", "list"), at(failed, "clusters", 0, "failure", "id")})
	message := at(failed, "clusters", 0, "failure", "message").(string)
	require.True(t, strings.HasSuffix(message, "x: the cause") && len([]rune(message)) == 300, message)
	require.Equal(t, map[string]any{"silent": 1.0, "failed": 1.0, "unknown": 1.0}, at(failed, "counts"))
	require.EqualValues(t, 2, at(failed, "total"))
	require.Equal(t, "demo-cluster-01", at(status("&state=silent"), "clusters", 0, "id"))
	require.Equal(t, []any{"silent", "failed"}, at(w.status("demo-cluster-01"), "states"))
	require.NotContains(t, failed, "all_silent_since", "another cluster polls")
	require.Equal(t, []float64{1, 1}, []float64{w.metric(`flux_resourceset_clusters_by_state{state="silent"}`), w.metric(`flux_resourceset_clusters_by_state{state="failed"}`)})
	require.Zero(t, w.metric("flux_resourceset_clusters_all_silent"))

	last := w.clock.Now().Truncate(time.Millisecond)
	w.clock.advance(2 * time.Hour) // long enough for inputs to be unknown
	require.Equal(t, last.Format(time.RFC3339Nano), at(status(""), "all_silent_since"))
	require.Equal(t, "demo-cluster-01", at(status("&state=failed"), "clusters", 0, "id"))
	w.counted()
	require.Equal(t, 1.0, w.metric("flux_resourceset_clusters_all_silent"))
}

// Clusters are found by their desired version, set by the cluster, a layer, or the catalog.
func TestVersionStatus(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	w.batch(`{"op":"set_component","component_id":"podinfo","component_version":"6.9.0","cluster_ids":["qa-01","qa-02"]}`).want(200)
	w.confirm(at(w.get("/clusters/qa-01").json(), "cluster_dns").(string))
	w.create("/layers", `{"id":"pinned","priority":5,"selector":"id in (qa-00)","overrides":{"podinfo":{"component_version":"6.8.0","oci_tag":"v6"}}}`)
	for query, want := range map[string][]string{
		"component_version=6.9.0": {"qa-01", "qa-02"}, "component_version=latest": {"demo-cluster-01"}, "component_version=6.8.0": {"qa-00"}, "component_version=6": {},
		"oci_tag=latest": {"demo-cluster-01", "qa-01", "qa-02"}, "oci_tag=v6": {"qa-00"}, "component_version=6.9.0&oci_tag=v6": {}, "component_version=6.9.0&environment=dev": {},
		"component_version=6.9.0&state=confirmed": {"qa-01"},
	} {
		found, ids := w.get("/status?component=podinfo&"+query).want(200).json(), []string{}
		for _, cluster := range found["clusters"].([]any) {
			ids = append(ids, at(cluster, "id").(string))
		}
		require.Equal(t, want, ids, query)
		if !strings.Contains(query, "state") {
			require.EqualValues(t, len(want), found["total"], query)
			require.Equal(t, want, w.get("/clusters?component=podinfo&"+query).want(200).ids(), "clusters are found by the same: %s", query)
		}
	}
	for _, path := range []string{"/status", "/clusters"} {
		problem := w.get(path+"?component_version=6.9.0&oci_tag=x").problem(400, "validation_error")
		require.Contains(t, string(problem.body), "component_version: requires component")
		require.Contains(t, string(problem.body), "oci_tag: requires component")
	}
	w.get("/status?component=&component_version=6.9.0").problem(404, "not_found")
	in := w.input("qa-00", "platform-components", "podinfo")
	require.Equal(t, []any{"6.8.0", "v6"}, []any{in["component_version"], in["oci_tag"]})
	require.NotContains(t, w.input("qa-00", "namespaces", "podinfo"), "component_version")
}

// TestRevisionProgress: the progress of a revision counts the inputs that it changed, and no others of their clusters; all of
// these clusters are counted, also those that changed since.
func TestRevisionProgress(t *testing.T) {
	t.Parallel()
	w := setup(t)
	counts := func(revision int, query string) any {
		found := w.get(fmt.Sprintf("/status?changed_in=%d%s", revision, query)).want(200).json()
		total := 0.0
		for _, n := range found["counts"].(map[string]any) {
			total += n.(float64)
		}
		require.Equal(t, found["total"], total)
		return found["counts"]
	}
	reached := func(revision int, query string) any {
		return w.get(fmt.Sprintf("/status?changed_in=%d", revision) + query).want(200).json()["reached"]
	}
	w.clusters(3, "qa")
	made := w.revision()
	w.put("/clusters/qa-00", `{"labels":{"a":"b"}}`).want(200)
	require.Empty(t, counts(made+1, ""), "a label changes no input")
	require.Equal(t, map[string]any{"never": 3.0}, counts(made, ""))
	require.Nil(t, reached(made, ""), "no cluster has polled")
	for i := range 3 {
		w.confirm(fmt.Sprintf("qa-%02d.example.com", i))
	}
	require.Equal(t, map[string]any{"confirmed": 3.0}, counts(made, "&component=podinfo"))

	w.batch(`{"op":"assign_component","component_id":"cert-manager","selector":"environment=qa"}`).want(200)
	certs := w.revision()
	require.Equal(t, map[string]any{"progressing": 3.0}, counts(certs, ""))
	require.Nil(t, reached(certs, ""))
	require.Nil(t, reached(made, ""), "they have not polled the other lists")
	require.Equal(t, 3.0, reached(made, "&component=podinfo"), "the answers are older than the newest revision")
	for i := range 2 {
		w.confirm(fmt.Sprintf("qa-%02d.example.com", i))
	}
	require.Equal(t, 2.0, reached(certs, ""))
	w.confirm("qa-02.example.com")
	podinfo := w.input("qa-01", "platform-components", "podinfo")["receipt"].(string)
	w.clock.advance(time.Second)
	w.tell(readToken, "/api/v2/flux/clusters/qa-01.example.com/events", event(`{"component":"podinfo","input":"`+podinfo+`"}`, "crash")).want(202)
	require.Equal(t, "failed", at(w.status("qa-01"), "state"))
	require.Equal(t, map[string]any{"confirmed": 3.0}, counts(certs, ""), "podinfo is not what it changed")
	require.Equal(t, map[string]any{"confirmed": 2.0, "failed": 1.0}, counts(made, "&component=podinfo"))
	require.Empty(t, counts(certs, "&component=podinfo"))

	w.put("/clusters/qa-02", `{"platform_components":[{"id":"podinfo"},{"id":"cert-manager","oci_tag":"v9"}]}`).want(200)
	require.Equal(t, map[string]any{"confirmed": 2.0, "superseded": 1.0}, counts(certs, ""))
	require.Equal(t, []string{"qa-02"}, clusterIDs(w.get(fmt.Sprintf("/status?changed_in=%d&state=superseded", certs)).want(200)))
	w.get("/status?state=superseded").problem(400, "validation_error")

	w.patch("/platform_components/cert-manager", `{"component_version":"9.9.9"}`).want(200)
	require.Equal(t, 3.0, w.get(fmt.Sprintf("/status?changed_in=%d&environment=qa", w.revision())).want(200).json()["total"], "a definition is on all clusters that have it")
	require.Equal(t, map[string]any{"superseded": 3.0}, counts(certs, ""))
	require.Equal(t, 3.0, reached(certs, ""), "before later revisions changed these inputs again")
	require.Nil(t, reached(w.revision(), ""))
	w.poll("/api/v2/flux/clusters/qa-01.example.com/platform-components").want(200)
	require.Equal(t, []any{3.0, 1.0}, []any{reached(certs, ""), reached(w.revision(), "")})

	w.batch(`{"op":"unassign_component","component_id":"cert-manager","cluster_ids":["qa-00"]}`).want(200)
	removed := w.revision()
	require.Equal(t, map[string]any{"progressing": 1.0}, counts(removed, ""))
	w.poll("/api/v2/flux/clusters/qa-00.example.com/platform-components").want(200)
	require.Equal(t, map[string]any{"delivered": 1.0}, counts(removed, ""), "nothing confirms a removal")
	w.delete("/clusters/qa-01?mode=orphan").want(200)
	require.Equal(t, map[string]any{"superseded": 2.0}, counts(certs, ""), "a deleted cluster is not counted")
}

func clusterIDs(a *answer) (ids []string) {
	for _, c := range a.json()["clusters"].([]any) {
		ids = append(ids, c.(map[string]any)["id"].(string))
	}
	return ids
}

// TestStatusOfNewRevisions: a process answers about a revision that it has not read yet, and not about one that does not exist.
func TestStatusOfNewRevisions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	made := w.revision()
	w.put("/clusters/qa-00", `{"labels":{"a":"b"}}`).want(200)
	w.get("/status?changed_in=0").problem(400, "validation_error")
	for _, none := range []int{made + 2, math.MaxInt64} { // a mistyped one has not come far
		w.get(fmt.Sprintf("/status?changed_in=%d", none)).problem(404, "not_found")
	}
	// Nor does a process answer for one that it has not heard of, which its neighbour has just made.
	b := w.another()
	w.put("/clusters/qa-02", `{"platform_components":[{"id":"podinfo","oci_tag":"v2"}]}`).want(200)
	require.EqualValues(t, 1, b.get(fmt.Sprintf("/status?changed_in=%d", made+2)).want(200).json()["total"])
	require.EqualValues(t, made+2, b.replica.State().Revision())
	c := w.another()
	w.put("/clusters/qa-02", `{"labels":{"a":"d"}}`).want(200)
	require.Equal(t, "d", at(c.get(fmt.Sprintf("/clusters/qa-02?revision=%d", made+3)).want(200).json(), "labels", "a"))
	c.get(fmt.Sprintf("/clusters/qa-02?revision=%d", made+4)).problem(404, "not_found")
	// The revision that it reads for one request is known to the others as well.
	token := w.issue(`{"name":"viewer","role":"read"}`)
	d := w.another()
	d.get("/status", "Authorization", "Bearer "+token.secret).want(200)
	w.delete("/tokens/" + token.id).want(200)
	d.get("/status?changed_in="+fmt.Sprint(w.revision()), "Authorization", "Bearer "+token.secret).problem(401, "unauthorized")
	b.faults.set(func(f *faultyStore) { f.fail = store.ErrUnavailable })
	b.get(fmt.Sprintf("/status?changed_in=%d", w.revision())).problem(503, "store_unavailable")
}

// A cluster that is created under the id of a deleted one does not inherit its observations.
func TestRecreatedClusterStatus(t *testing.T) {
	t.Parallel()
	w := setup(t)
	document := w.get(demoCluster).want(200).body
	receipt := w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"].(string)
	w.confirm(demoDNS)
	w.clock.advance(time.Minute)
	w.tell(readToken, demoEvents, event(`{"component":"podinfo","input":"`+receipt+`"}`, "of the old one")).want(202)
	w.tell(readToken, demoEvents, event(`{}`, "of the old one")).want(202)
	require.Equal(t, "failed", at(w.status("demo-cluster-01"), "state"))
	w.clock.advance(time.Second)
	w.delete(demoCluster + "?mode=orphan").want(200)
	w.post("/clusters", string(document)).want(201)
	status := w.get(demoCluster + "/status").want(200)
	require.Equal(t, "never", at(status.json(), "state"))
	require.NotContains(t, string(status.body), "of the old one")
	require.NotContains(t, status.json(), "seen_at")
	require.Equal(t, -1.0, w.metric(`flux_resourceset_cluster_last_poll_timestamp_seconds{cluster="demo-cluster-01"}`))
	w.clock.advance(time.Second)
	w.poll(demoPolls + "/platform-components").want(200)
	require.Equal(t, "unknown", at(w.status("demo-cluster-01"), "state"))
	w.poll(demoPolls+"/receipts/platform-components/podinfo?input="+receipt).problem(409, "early_receipt") // it is the old one's
	require.NotEqual(t, receipt, w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"], "so that the cluster sends it at once")
	w.confirm(demoDNS)
	require.Equal(t, "confirmed", w.input("demo-cluster-01", "platform-components", "podinfo")["state"])
}

// A cluster that fails at a change goes on sending receipts of its previous inputs: after a revert of the change these confirm
// no input, and neither do receipts shortly after the change.
func TestLateReceiptDoesNotConfirmRollback(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const list = demoPolls + "/platform-components"
	w.confirm(demoDNS)
	before := w.input("demo-cluster-01", "platform-components", "podinfo")
	say := func() *answer {
		w.clock.advance(time.Second)
		return w.poll(fmt.Sprintf("%s/receipts/platform-components/podinfo?input=%s", demoPolls, before["receipt"]))
	}
	state := func() any { return w.input("demo-cluster-01", "platform-components", "podinfo")["state"] }
	w.put("/platform_components/podinfo", `{"component_version":"broken"}`).want(200)
	w.poll(list).want(200)
	early := say().problem(409, "early_receipt")
	require.Equal(t, "44", early.header.Get("Retry-After"))
	w.clock.advance(time.Minute)
	say().problem(409, "early_receipt") // not served any more
	w.put("/platform_components/podinfo", `{"component_version":"latest"}`).want(200)
	require.Equal(t, before["receipt"], w.input("demo-cluster-01", "platform-components", "podinfo")["receipt"])
	require.Equal(t, "progressing", state())
	say().problem(409, "early_receipt") // not served again yet
	require.Equal(t, "progressing", state())
	w.poll(list).want(200)
	require.Equal(t, "delivered", state())
	say().want(200)
	require.Equal(t, "confirmed", state(), "it had time for the change and was not heard to make it")

	w.put("/platform_components/podinfo", `{"component_version":"broken"}`).want(200)
	w.poll(list).want(200)
	w.put("/platform_components/podinfo", `{"component_version":"latest"}`).want(200)
	w.poll(list).want(200)
	say().problem(409, "early_receipt")
	require.Equal(t, "delivered", state(), "it may have begun with the change")
	require.Equal(t, 200, w.poll(fmt.Sprintf("%s/receipts/platform-components/traefik?input=%s", demoPolls,
		w.input("demo-cluster-01", "platform-components", "traefik")["receipt"])).status, "what was not changed is not held back")
	w.clock.advance(time.Minute)
	say().want(200)
	require.Equal(t, "confirmed", state())
}
