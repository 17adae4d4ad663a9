package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// fail makes a cluster poll its components, and fail at one with a message.
func (w *world) fail(id, dns, component, message string) {
	w.t.Helper()
	w.poll("/api/v2/flux/clusters/" + dns + "/platform-components").want(200)
	receipt := w.input(id, "platform-components", component)["receipt"].(string)
	w.tell(readToken, "/api/v2/flux/clusters/"+dns+"/events", event(`{"component":"`+component+`","input":"`+receipt+`"}`, message)).want(202)
}

// TestCauses: clusters that fail for one reason are one group, which names the revision before it and leads to exactly its clusters.
func TestCauses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(3, "qa")
	require.Equal(t, []any{}, w.get("/status?group=cause").want(200).json()["causes"])
	w.clock.advance(2 * time.Hour)
	w.put("/platform_components/podinfo", `{"component_version":"6.9.0"}`).want(200)
	revision := w.revision()
	w.clock.advance(40 * time.Second)
	notReady := func(id string) string {
		return "Helm upgrade failed for release podinfo/podinfo with chart podinfo@6.9.0: pod podinfo-" + id + " of " + id + " is not ready after 5m0s"
	}
	w.fail("qa-00", "qa-00.example.com", "podinfo", notReady("qa-00"))
	w.clock.advance(time.Minute)
	w.fail("qa-01", "qa-01.example.com", "podinfo", notReady("qa-01"))
	w.fail("qa-00", "qa-00.example.com", "podinfo", notReady("qa-00"))
	w.fail("demo-cluster-01", demoDNS, "podinfo", `no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"`)
	w.fail("demo-cluster-01", demoDNS, "traefik", `no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"`)

	got := w.get("/status?group=cause").want(200)
	require.Equal(t, "3", got.header.Get("X-Total-Count"))
	require.EqualValues(t, 4, got.json()["total"])
	require.Empty(t, got.json()["clusters"])
	require.EqualValues(t, 3, got.json()["selected"])
	causes := got.json()["causes"].([]any)
	first := causes[0].(map[string]any)
	require.Equal(t, "pod <input>-<cluster> of <cluster> is not ready after <n>", first["cause"])
	require.Equal(t, []any{"failed", "platform-components", "podinfo", "6.9.0", "latest"}, []any{first["state"], first["list"], first["input"], first["component_version"], first["oci_tag"]})
	require.EqualValues(t, 2, first["clusters"])
	require.Equal(t, map[string]any{"qa": 2.0}, first["environments"])
	require.Equal(t, []any{"qa-00", "qa-01"}, first["cluster_ids"])
	require.Equal(t, "qa-00", first["example_cluster"])
	require.Equal(t, notReady("qa-00"), at(first["example"], "message"))
	require.EqualValues(t, revision, first["revision"])
	since := func(name string) time.Time {
		out, err := time.Parse(time.RFC3339Nano, first[name].(string))
		require.NoError(t, err)
		return out
	}
	require.Equal(t, 10*time.Second, since("since").Sub(since("revision_at")).Round(time.Second), "a failure that is reported again began with its first report")
	require.Equal(t, 70*time.Second, since("latest").Sub(since("revision_at")).Round(time.Second))
	require.Equal(t, "podinfo", at(causes[1], "input"), "other inputs are other groups")
	require.Equal(t, "traefik", at(causes[2], "input"))
	require.NotContains(t, causes[2], "revision", "nothing changed traefik shortly before")

	id := first["id"].(string)
	listed := w.get("/status?state=failed&cause=" + id).want(200)
	require.Equal(t, "2", listed.header.Get("X-Total-Count"))
	require.Equal(t, "qa-00", at(listed.json(), "clusters", 0, "id"))
	require.Equal(t, "qa-01", at(listed.json(), "clusters", 1, "id"))
	traefik := w.get("/status?cause=" + at(causes[2], "id").(string)).want(200).json()
	require.Equal(t, "traefik", at(traefik, "clusters", 0, "failure", "id"), "the failure of this cause, not the first of the cluster")
	require.Len(t, traefik["clusters"], 1)
	require.Empty(t, w.get("/status?cause=0123456789ab").want(200).json()["clusters"])
	require.Empty(t, w.get("/status?environment=dev&cause=" + id).want(200).json()["clusters"])
	require.Equal(t, got.json()["counts"], listed.json()["counts"])

	require.Len(t, w.get("/status?group=cause&component=traefik").want(200).json()["causes"], 1)
	require.Len(t, w.get("/status?group=cause&cause=" + id).want(200).json()["causes"], 1)
	page := w.get("/status?group=cause&limit=1&offset=1").want(200)
	require.Equal(t, causes[1], at(page.json(), "causes", 0))
	require.Contains(t, page.header.Get("Link"), "offset=2")
	states := w.get("/status?group=cause&state=failed,never").want(200).json()["causes"].([]any)
	require.Equal(t, []any{"never", 1.0, []any{"qa-02"}}, []any{at(states[3], "state"), at(states[3], "clusters"), at(states[3], "cluster_ids")})
	require.NotContains(t, states[3], "id")
	w.get("/status?group=reason").problem(400, "validation_error")
	w.get("/status?cause=x").problem(400, "validation_error")

	w.clock.advance(time.Minute)
	w.confirm("qa-01.example.com")
	require.EqualValues(t, 1, at(w.get("/status?group=cause&cause="+id).json(), "causes", 0, "clusters"))
}

// TestManyCauses: thousands of different messages are a list that people can read, and all clusters are in it.
func TestManyCauses(t *testing.T) {
	t.Parallel()
	tracker := clusterstatus.NewTracker(clusterstatus.Config{})
	w := setupWith(t, options{configure: func(c *server.Config) { c.ClusterStatus = tracker }})
	const clusters = 400
	for from := 0; from < clusters; from += 100 {
		var ops []string
		for i := from; i < from+100; i++ {
			ops = append(ops, fmt.Sprintf(`{"op":"create","kind":"cluster","document":{"id":"qa-%03d","cluster_dns":"qa-%03d.example.com","environment":"qa","platform_components":[{"id":"podinfo"},{"id":"traefik"}]}}`, i, i))
		}
		w.batch(ops...).want(200)
	}
	word := func(i int) string { return strings.Repeat("a", i%20+1) + strings.Repeat("b", i/20) }
	for i, doc := range w.replica.State().All(fleet.KindCluster) {
		asked, err := w.replica.State().DesiredInputs(doc)
		require.NoError(t, err)
		for _, list := range asked {
			tracker.RecordPoll(clusterstatus.Poll{Cluster: doc.ID, List: list.List, ETag: list.ETag, Agent: "flux-operator/v0.58.0"}, w.clock.Now())
			n := 0
			for id := range list.Inputs {
				if list.List == "platform-components" && (id == "podinfo" || id == "traefik") {
					message := "it is " + word(max(0, i-80))
					tracker.RecordEvent(doc.ID, list.List, id, clusterstatus.Event{Input: list.Receipts[n].String(), Severity: "error", Message: message, At: w.clock.Now()}, w.clock.Now())
				}
				n++
			}
		}
	}
	got := w.get("/status?group=cause").want(200).json()
	causes := got["causes"].([]any)
	require.Len(t, causes, 101)
	require.Equal(t, []any{81.0, "it is a"}, []any{at(causes[0], "clusters"), at(causes[0], "cause")})
	last := causes[100].(map[string]any)
	require.Equal(t, "other", last["id"])
	different := len(w.replica.State().All(fleet.KindCluster)) - 80 // words, each at two inputs
	require.EqualValues(t, 2*different-100, last["other_causes"])
	require.EqualValues(t, different-1, last["clusters"], "a cluster counts once, though two of its inputs failed")
	require.NotContains(t, last, "cause")
	listed := w.get("/status?state=failed&cause=other").want(200)
	require.Equal(t, fmt.Sprint(different-1), listed.header.Get("X-Total-Count"))

	rare := last["cluster_ids"].([]any)[0].(string)
	own := w.get("/status?group=cause&selector=id=" + rare).want(200).json()["causes"].([]any)[1]
	require.Equal(t, "1", w.get("/status?state=failed&cause="+at(own, "id").(string)).want(200).header.Get("X-Total-Count"), "known from a shorter list")
}
