package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
)

var resources = []string{"platform-components", "namespaces", "rolebindings"}

// fluxReads checks a body as Flux Operator does: small enough, inputs present and not null, every id a string and unique, no
// reserved field.
func fluxReads(t *testing.T, body []byte) {
	t.Helper()
	require.LessOrEqual(t, len(body), 900<<10)
	var answer struct {
		Inputs []map[string]any `json:"inputs"`
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	require.NotNil(t, answer.Inputs)
	seen := map[string]bool{}
	for _, in := range answer.Inputs {
		id, ok := in["id"].(string)
		require.True(t, ok)
		require.False(t, seen[id], id)
		seen[id] = true
		require.NotContains(t, in, "provider")
	}
}

func TestPollsReadableByFlux(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/clusters", `{"id":"bare","cluster_dns":"bare.example.com","environment":"dev"}`)
	w.create("/clusters", `{"id":"gone","cluster_dns":"gone.example.com","environment":"dev","namespaces":[{"id":"podinfo"}]}`)
	w.delete("/clusters/gone").want(200)
	for _, dns := range []string{demoDNS, "bare.example.com", "gone.example.com"} {
		for _, resource := range resources {
			fluxReads(t, w.poll("/api/v2/flux/clusters/"+dns+"/"+resource).want(200).body)
		}
	}
	fluxReads(t, w.poll("/api/v2/flux/clusters").want(200).body)
	w.requirePolls("bare.example.com", 200, emptyInputs)
}

// The same revision is the same bytes: at any time, compressed or not, from any process.
func TestPollsByteIdentical(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setupWith(t, options{mode: server.ModeReadOnly})
	for _, w := range []*world{a, b} {
		w.client.Transport.(*contractTransport).next = &http.Transport{DisableCompression: true}
	}
	for _, resource := range resources {
		path := demoPolls + "/" + resource
		plain := a.poll(path).want(200)
		require.Empty(t, plain.header.Get("Content-Encoding"))
		require.Equal(t, "no-store", plain.header.Get("Cache-Control"), "without it, Vary would be required")
		require.Equal(t, fmt.Sprint(len(plain.body)), plain.header.Get("Content-Length"))
		for _, other := range []*answer{a.poll(path), b.poll(path)} {
			require.Equal(t, string(plain.body), string(other.body))
			require.Equal(t, plain.etag(), other.etag())
		}
		for accept, zipped := range map[string]bool{
			"gzip": true, "gzip, deflate, br": true, "deflate, gzip;q=0.5": true, "GZIP": true, "br;q=1.0, gzip;q=0.8, *;q=0.1": true,
			"identity": false, "gzip;q=0": false, "gzip; q=0.0": false, "deflate": false, "x-gzip-not": false,
		} {
			raw := rawGet(t, a, path, accept)
			if !zipped {
				require.Empty(t, raw.header.Get("Content-Encoding"), accept)
				require.Equal(t, plain.body, raw.body)
				continue
			}
			require.Equal(t, "gzip", raw.header.Get("Content-Encoding"), accept)
			require.Equal(t, fmt.Sprint(len(raw.body)), raw.header.Get("Content-Length"))
			zr, err := gzip.NewReader(bytes.NewReader(raw.body))
			require.NoError(t, err)
			body, err := io.ReadAll(zr)
			require.NoError(t, err)
			require.Equal(t, plain.body, body)
		}
	}
	// A change and its reversal give the old bytes again, although the revision is another.
	before := a.poll(demoPolls + "/namespaces")
	a.put("/namespaces/podinfo", `{"labels":{}}`).want(200)
	require.NotEqual(t, before.etag(), a.poll(demoPolls+"/namespaces").etag())
	a.put("/namespaces/podinfo", `{"labels":{"app":"podinfo","team":"platform"}}`).want(200)
	after := a.poll(demoPolls + "/namespaces")
	require.Equal(t, before.body, after.body)
	require.Equal(t, before.etag(), after.etag())
	require.Equal(t, 3, revisionOf(after))
}

// rawGet polls past the client that would decompress and check.
func rawGet(t *testing.T, w *world, path, accept string) *answer {
	t.Helper()
	req := w.request("GET", path, "", "Accept-Encoding", accept)
	res, err := (&http.Transport{DisableCompression: true}).RoundTrip(req)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return &answer{t: t, status: res.StatusCode, header: res.Header, body: body}
}

func TestPollETag(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{demoPolls + "/platform-components", demoPolls + "/namespaces", demoPolls + "/rolebindings", "/api/v2/flux/clusters"} {
		tag := w.poll(path).want(200).etag()
		require.Regexp(t, `^"[0-9a-f]+"$`, tag)
		for _, same := range []string{tag, "W/" + tag, "*", `"a", ` + tag} {
			got := w.get(path, "If-None-Match", same).want(304)
			require.Empty(t, got.body)
			require.Equal(t, tag, got.etag())
			require.Equal(t, 1, revisionOf(got))
		}
		w.get(path, "If-None-Match", `"other"`).want(200)
	}
	tag := w.poll(demoPolls + "/namespaces").etag()
	w.patch("/namespaces/podinfo", `{"labels":{"x":"y"}}`).want(200)
	w.get(demoPolls+"/namespaces", "If-None-Match", tag).want(200)
}

func TestPollParameters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	detail := w.get(demoPolls+"/namespaces", "X-Fleet-Min-Revision", "soon").problem(400, "validation_error").json()["detail"]
	require.Contains(t, detail, "X-Fleet-Min-Revision")
	for _, path := range []string{demoPolls + "/namespaces", "/api/v2/flux/clusters"} {
		w.get(path, "X-Fleet-Min-Revision", "-1").problem(400, "validation_error")
		w.get(path, "X-Fleet-Min-Revision", "9223372036854775808").problem(400, "validation_error")
	}
}

// The DNS name in the path is data: any text selects that cluster or none.
func TestPollDNS(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, dns := range []string{demoDNS, "DEMO-cluster-01.K8S.example.com", demoDNS + ".", "%64emo-cluster-01.k8s.example.com"} {
		require.Len(t, w.poll("/api/v2/flux/clusters/"+dns+"/namespaces").want(200).ids(), 3, dns)
	}
	for _, dns := range []string{
		demoDNS + "..", "." + demoDNS, "%2F", "%00", demoDNS + "%00", "..%2f" + demoDNS, "%2e%2e%2f" + demoDNS, demoDNS + "%2fnamespaces",
		"%ff%fe", "%c3%28", "xn--bcher-kva.example", "b%C3%BCcher.example", "*", "%25", "%20" + demoDNS, demoDNS + "%20", "'%20OR%201=1--",
		"%E2%84%AAs.example.com", "..", ".", "%", "%zz", "demo-cluster-01", strings.Repeat("a", 5000), "%0d%0aX-Evil:%20yes", "%7Bcluster_dns%7D", ":cluster_dns",
	} {
		got := rawPath(t, w, "/api/v2/flux/clusters/"+dns+"/namespaces")
		require.Contains(t, []int{400, 404}, got.status, "%s: %s", dns, got.body)
		require.Empty(t, got.header.Get("X-Evil"))
		require.NotContains(t, string(got.body), "inputs")
	}
	require.Equal(t, 400, rawPath(t, w, "/api/v2/flux/clusters//namespaces").status)
	for _, path := range []string{
		"/api/v2/flux/clusters/a//b/namespaces", "//api/v2/flux/clusters/" + demoDNS + "/namespaces",
		"/api/v2/flux/clusters/" + demoDNS, "/api/v2/flux/clusters/" + demoDNS + "/namespaces/", "/api/v2/flux/clusters/" + demoDNS + "/Namespaces",
		"/api/v1/flux/clusters", "/api/v2/flux/../flux/clusters/" + demoDNS + "/namespaces",
	} {
		require.Equal(t, 404, rawPath(t, w, path).status, path)
	}
}

// rawPath sends a path as it is, which a Go client would clean or refuse, and requires that errors are problems.
func rawPath(t *testing.T, w *world, path string) *answer {
	t.Helper()
	return raw(t, w, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, readToken))
}

// A reference that dangles in stored data, which the API never writes, is an error and never a shorter list.
func TestPollUnresolved(t *testing.T) {
	t.Parallel()
	records := []fleet.Record{
		{Kind: fleet.KindNamespace, ID: "there", Body: json.RawMessage(`{"id":"there","labels":{},"annotations":{},"deletion_policy":"delete"}`)},
		{Kind: fleet.KindCluster, ID: "sick", Body: json.RawMessage(`{"id":"sick","cluster_name":"sick","cluster_dns":"sick.example.com","environment":"dev","labels":{},"platform_components":[{"id":"gone","enabled":true}],"namespaces":[{"id":"there"},{"id":"gone"}],"rolebindings":[],"patches":{},"deletion_protection":false}`)},
		{Kind: fleet.KindCluster, ID: "well", Body: json.RawMessage(`{"id":"well","cluster_name":"well","cluster_dns":"well.example.com","environment":"dev","labels":{},"platform_components":[],"namespaces":[{"id":"there"}],"rolebindings":[],"patches":{},"deletion_protection":false}`)},
	}
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode, records: records})
		for _, resource := range []string{"platform-components", "namespaces"} {
			detail := w.poll("/api/v2/flux/clusters/sick.example.com/"+resource).problem(500, "unresolved_reference").json()["detail"]
			require.Contains(t, detail, "gone")
		}
		require.Empty(t, w.poll("/api/v2/flux/clusters/sick.example.com/rolebindings").want(200).ids(), "only that endpoint of that cluster")
		require.Equal(t, []string{"there"}, w.poll("/api/v2/flux/clusters/well.example.com/namespaces").want(200).ids())
		require.Equal(t, 2.0, w.metric("flux_resourceset_unresolved_references_total"))
		require.Len(t, w.logs.lines(t, "request failed"), 2)
	}
	// The ratchet: existing problems do not prevent an unrelated change, and a repair is accepted.
	w := setupWith(t, options{records: records})
	warned := w.patch("/clusters/sick", `{"environment":"qa"}`).want(200)
	require.NotEmpty(t, warned.header.Values("Warning"))
	require.Equal(t, 2.0, w.metric("flux_resourceset_stored_violations_total"), "the component and the namespace that are gone")
	w.create("/namespaces", `{"id":"gone"}`)
	require.Equal(t, []string{"there", "gone"}, w.poll("/api/v2/flux/clusters/sick.example.com/namespaces").want(200).ids())
}

// TestPollOfRecreatedCluster: the first poll of a cluster removes what is known of a deleted one with its id.
func TestPollOfRecreatedCluster(t *testing.T) {
	t.Parallel()
	tracker := clusterstatus.NewTracker(clusterstatus.Config{})
	w := setupWith(t, options{configure: func(c *server.Config) { c.ClusterStatus = tracker }})
	const id = "demo-cluster-01"
	events := func() []clusterstatus.ObjectEvent {
		return tracker.Evaluate(clusterstatus.Query{Cluster: id, Now: w.clock.Now(), OfflineAfter: clusterstatus.OfflineAfter, Details: true}).Events
	}
	w.poll(demoPolls + "/namespaces").want(200)
	tracker.RecordEvent(clusterstatus.WithSharedToken(id), "", "HelmRelease/a/b", clusterstatus.Event{Severity: "error", Message: "failed", At: w.clock.Now()}, w.clock.Now())
	require.Len(t, events(), 1)
	w.clock.advance(time.Hour)
	w.do("DELETE", "/clusters/"+id+"?mode=orphan", "").want(200)
	w.do("POST", "/clusters", `{"id":"demo-cluster-01","cluster_name":"demo-cluster-01","cluster_dns":"other.k8s.example.com","environment":"dev"}`).want(201)
	w.poll("/api/v2/flux/clusters/other.k8s.example.com/namespaces").want(200)
	require.Empty(t, events())
}
