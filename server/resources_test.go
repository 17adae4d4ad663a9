package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const netpolType = `{"id":"network-policies","overridable":["port"],"schema":{"type":"object","additionalProperties":false,"required":["namespace"],
	"properties":{"namespace":{"type":"string"},"port":{"type":"integer","default":80}}}}`

const netpolPoll = "/api/v2/flux/clusters/" + demoDNS + "/network-policies"

// withNetpols is a world with a type, two definitions of it, and a cluster that has one.
func withNetpols(t *testing.T, o options) *world {
	t.Helper()
	w := setupWith(t, o)
	w.create("/resource_types", netpolType)
	w.create("/resources/network-policies", `{"id":"deny","spec":{"namespace":"a"}}`)
	w.create("/resources/network-policies", `{"id":"allow","type":"network-policies","spec":{"namespace":"b","port":443}}`)
	w.do("PUT", "/clusters/demo-cluster-01/resources/network-policies/deny", "").want(200)
	return w
}

func TestResourceTypeRoutes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Empty(t, w.get("/resource_types").want(200).list())
	w.do("POST", "/resource_types?dry_run=true", netpolType).want(200)
	require.Empty(t, w.get("/resource_types").list())
	made := w.do("POST", "/resource_types", netpolType).want(201)
	require.Equal(t, "/resource_types/network-policies", made.header.Get("Location"))
	require.Equal(t, "delete", made.json()["removal"])
	w.do("POST", "/resource_types", netpolType).problem(409, "conflict")
	got := w.get("/resource_types/network-policies").want(200)
	require.Equal(t, made.etag(), got.etag())
	w.get("/resource_types/network-policies", "If-None-Match", got.etag()).want(304)
	w.put("/resource_types/network-policies", `{"description":"x"}`, "If-Match", `"1-00000000"`).problem(412, "stale")
	w.put("/resource_types/network-policies", `{"description":"one"}`, "If-Match", got.etag()).want(200)
	w.patch("/resource_types/network-policies", `{"description":"two"}`).want(200)
	require.Equal(t, "one", w.get(fmt.Sprintf("/resource_types/network-policies?revision=%d", w.revision()-1)).want(200).json()["description"])
	require.Len(t, w.get("/resource_types/network-policies/history").want(200).list(), 3)
	require.Equal(t, []string{"/removal", "/schema"}, slices.Sorted(slices.Values(w.do("POST", "/resource_types", `{"id":"x","removal":"never"}`).problem(400, "validation_error").pointers())))
	require.Equal(t, []string{"/schema/properties/a"}, w.do("POST", "/resource_types", `{"id":"x","schema":{"type":"object","additionalProperties":false,"properties":{"a":{}}}}`).problem(400, "validation_error").pointers())
	w.delete("/resource_types/network-policies").want(200)
	w.get("/resource_types/network-policies").problem(404, "not_found")
}

func TestResourceRoutes(t *testing.T) {
	t.Parallel()
	w := withNetpols(t, options{})
	require.Equal(t, []string{"allow", "deny"}, w.get("/resources/network-policies").want(200).ids())
	require.Equal(t, "2", w.get("/resources/network-policies?limit=1").header.Get("X-Total-Count"))
	for _, path := range []string{"/resources/nothing", "/resources/nothing/x"} {
		require.Contains(t, string(w.get(path).problem(404, "not_found").body), `no resource type \"nothing\"`)
	}
	w.do("POST", "/resources/nothing", `{"id":"x","spec":{}}`).problem(404, "not_found")
	w.do("PUT", "/clusters/demo-cluster-01/resources/nothing/x", "").problem(404, "not_found")
	w.do("PUT", "/clusters/demo-cluster-01/resources/network-policies/x", "").problem(404, "not_found")
	w.do("DELETE", "/clusters/demo-cluster-01/resources/nothing/x", "").problem(404, "not_found")

	made := w.do("POST", "/resources/network-policies", `{"id":"third","spec":{"namespace":"c"}}`).want(201)
	require.Equal(t, "/resources/network-policies/third", made.header.Get("Location"))
	require.Equal(t, map[string]any{"namespace": "c", "port": 80.0}, made.json()["spec"])
	require.Equal(t, []string{"/spec/port"}, w.do("POST", "/resources/network-policies", `{"id":"x","spec":{"namespace":"c","port":"80"}}`).problem(400, "validation_error").pointers())
	require.Equal(t, []string{"/type"}, w.do("POST", "/resources/network-policies", `{"id":"x","type":"other","spec":{"namespace":"c"}}`).problem(400, "validation_error").pointers())
	require.Equal(t, []string{"/spec"}, w.do("POST", "/resources/network-policies", `{"id":"x","spec":[]}`).problem(400, "validation_error").pointers())
	w.unchanged(func() { w.patch("/resources/network-policies/third?dry_run=true", `{"spec":{"port":1}}`).want(200) })
	w.put("/resources/network-policies/third", `{"spec":{"namespace":"d"}}`, "If-Match", made.etag()).want(200)
	w.put("/resources/network-policies/third", `{"spec":{"namespace":"e"}}`, "If-Match", made.etag()).problem(412, "stale")
	w.patch("/resources/network-policies/third", `{"spec":{"port":7}}`).want(200)
	require.Equal(t, map[string]any{"namespace": "d", "port": 7.0}, w.get("/resources/network-policies/third").json()["spec"])
	require.Equal(t, map[string]any{"namespace": "d", "port": 80.0}, w.get(fmt.Sprintf("/resources/network-policies/third?revision=%d", w.revision()-1)).want(200).json()["spec"])
	require.Len(t, w.get("/resources/network-policies/third/history").want(200).list(), 3)
	require.Len(t, w.get("/revisions?kind=resource/network-policies&id=third").want(200).list(), 3)
	w.do("GET", "/revisions?kind=resource", "").problem(400, "validation_error")

	back := w.revision() - 2
	w.do("POST", fmt.Sprintf("/revisions/%d/restore", back), `{"kind":"resource","type":"network-policies","id":"third"}`).want(200)
	require.Equal(t, map[string]any{"namespace": "c", "port": 80.0}, w.get("/resources/network-policies/third").json()["spec"])
	w.delete("/resources/network-policies/deny").problem(409, "in_use")
	w.delete("/resources/network-policies/deny?cascade=true").want(200)
	require.NotContains(t, w.get("/clusters/demo-cluster-01").json(), "resources")
	require.Equal(t, map[string]any{"namespace": "a", "port": 80.0}, w.get(fmt.Sprintf("/resources/network-policies/deny?revision=%d", back)).want(200).json()["spec"], "what is gone can be looked at")
	w.delete("/resource_types/network-policies?cascade=true").want(200)
	require.Equal(t, "network-policies", w.get(fmt.Sprintf("/resources/network-policies/deny?revision=%d", back)).want(200).json()["type"])
}

func TestResourcesOnClusters(t *testing.T) {
	t.Parallel()
	w := withNetpols(t, options{})
	path := "/clusters/demo-cluster-01/resources/network-policies/allow"
	w.do("PUT", path, `{"overrides":{"namespace":"x"}}`).problem(400, "validation_error")
	w.do("PUT", path, `{"override":{}}`).problem(400, "validation_error")
	w.do("PUT", path, `{"overrides":{"port":8}}`).want(200)
	require.Equal(t, []any{map[string]any{"id": "deny"}, map[string]any{"id": "allow", "overrides": map[string]any{"port": 8.0}}},
		at(w.get("/clusters/demo-cluster-01").json(), "resources", "network-policies"))
	require.JSONEq(t, `{"inputs":[{"id":"deny","namespace":"a","port":80,"cluster":{"name":"demo-cluster-01","dns":"`+demoDNS+`","environment":"dev"},"receipt":"ba18a8a6b3451677"},
		{"id":"allow","namespace":"b","port":8,"cluster":{"name":"demo-cluster-01","dns":"`+demoDNS+`","environment":"dev"},"receipt":"5109e1068afdc26a"}]}`, string(w.poll(netpolPoll).body))
	w.do("DELETE", path, "").want(200)
	w.do("POST", "/batch", `{"operations":[{"op":"assign_resource","type":"network-policies","resource_id":"allow","all":true,"overrides":{"port":9}},
		{"op":"patch","kind":"resource","type":"network-policies","id":"allow","patch":{"spec":{"namespace":"z"}}}]}`).want(200)
	require.Contains(t, string(w.poll(netpolPoll).body), `"namespace":"z","port":9`)
	p := w.do("POST", "/batch", `{"operations":[{"op":"create","kind":"resource","type":"network-policies","document":{"id":"q","spec":{"port":"x"}}}]}`).problem(400, "validation_error")
	require.Equal(t, []string{"/operations/0/document/spec/namespace", "/operations/0/document/spec/port"}, slices.Sorted(slices.Values(p.pointers())))
	w.do("POST", "/batch", `{"operations":[{"op":"create","kind":"resource","document":{"id":"q"}}]}`).problem(400, "validation_error")
}

// A poll of a type is 404 as long as the type does not exist, and an empty list only if it does.
func TestPollsOfTypeRecreated(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("GET", netpolPoll, "").problem(404, "not_found")
	w.create("/resource_types", netpolType)
	require.Equal(t, `{"inputs":[]}`+"\n", string(w.poll(netpolPoll).body))
	w.create("/clusters", `{"id":"gone","cluster_dns":"gone.example.com","environment":"dev"}`)
	w.delete("/clusters/gone").want(200)
	require.Equal(t, `{"inputs":[]}`+"\n", string(w.poll("/api/v2/flux/clusters/gone.example.com/network-policies").body))
	w.do("GET", "/api/v2/flux/clusters/nobody.example.com/network-policies", "").problem(404, "not_found")
	w.delete("/resource_types/network-policies").want(200)
	w.do("GET", netpolPoll, "").problem(404, "not_found")
	w.do("GET", "/api/v2/flux/clusters/gone.example.com/network-policies", "").problem(404, "not_found")
}

// TestResourcesOnFastpath: with and without the router a poll is answered with the same, and without it takes two
// allocations.
func TestResourcesOnFastpath(t *testing.T) {
	t.Parallel()
	w := withNetpols(t, options{})
	direct := w.poll(netpolPoll)
	routed := w.do("GET", netpolPoll, "", "If-None-Match", `"none"`).want(200)
	require.Equal(t, string(routed.body), string(direct.body))
	for _, h := range []string{"ETag", "X-Fleet-Revision", "Content-Type", "Cache-Control"} {
		require.Equal(t, routed.header.Get(h), direct.header.Get(h), h)
	}
	w.do("GET", netpolPoll, "", "If-None-Match", direct.etag()).want(304)
	w.do("GET", netpolPoll, "", "X-Fleet-Min-Revision", fmt.Sprint(w.revision())).want(200)

	token := w.issue(`{"name":"own","role":"poll","cluster_id":"demo-cluster-01"}`)
	w.do("GET", netpolPoll, "", "Authorization", "Bearer "+token.secret).want(200)
	w.create("/clusters", `{"id":"other","cluster_dns":"other.example.com","environment":"dev"}`)
	w.do("GET", strings.Replace(netpolPoll, demoDNS, "other.example.com", 1), "", "Authorization", "Bearer "+token.secret).problem(403, "forbidden")
}

// BenchmarkPollOfType: polls of a type's list against polls of namespaces with the same content, and allocations of one.
func BenchmarkPollOfType(b *testing.B) {
	handler, replica := fleetOf(b, 1, 3)
	namespacePoll := strings.Replace(pollPath(0), "platform-components", "namespaces", 1)
	resourcePoll := strings.Replace(pollPath(0), "platform-components", "spaces", 1)
	likeNamespaces(b, replica)
	b.Run("throughput", func(b *testing.B) {
		compare(b, 4000, true, serving(b, handler, false, pollRequest(namespacePoll, false)), serving(b, handler, false, pollRequest(resourcePoll, false)))
	})
	for name, path := range map[string]string{"namespaces": namespacePoll, "type": resourcePoll} {
		b.Run("handler/"+name, func(b *testing.B) {
			req := httptest.NewRequest(http.MethodGet, path, nil)
			req.Header.Set("Authorization", "Bearer "+benchToken)
			req.Header.Set("Accept-Encoding", "gzip")
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				handler.ServeHTTP(w, req)
			}
		})
	}
}

// likeNamespaces assigns to every cluster the equivalents of its namespaces, of a type with their fields.
func likeNamespaces(b *testing.B, replica *store.Replica) {
	b.Helper()
	_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindResourceType, []byte(`{"id":"spaces","schema":{"type":"object","additionalProperties":false,"properties":{
			"labels":{"type":"object","default":{}},"annotations":{"type":"object","default":{}},"deletion_policy":{"default":"delete"}}}}`))
		if err != nil {
			return err
		}
		for i := range 3 {
			id := fmt.Sprint("space-", i)
			body := `{"id":"` + id + `"`
			if _, err := tx.Create(fleet.KindNamespace, []byte(body+`}`)); err != nil {
				return err
			}
			if _, err := tx.Create(fleet.ResourceKind("spaces"), []byte(body+`}`)); err != nil {
				return err
			}
			for _, cluster := range tx.Base().All(fleet.KindCluster) {
				for _, kind := range []fleet.Kind{fleet.KindNamespace, fleet.ResourceKind("spaces")} {
					if _, err := tx.Assign(cluster.ID, kind, id, nil); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	require.NoError(b, err)
}

// makeTypes makes so many types, each with one definition.
func makeTypes(b *testing.B, replica *store.Replica, types int) {
	b.Helper()
	_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
		for i := range types {
			id := fmt.Sprint("type-", i)
			if _, err := tx.Create(fleet.KindResourceType, []byte(`{"id":"`+id+`","identity":[],"schema":{"type":"object","additionalProperties":false,"required":["text"],"properties":{"text":{"type":"string"}}}}`)); err != nil {
				return err
			}
			if _, err := tx.Create(fleet.ResourceKind(id), []byte(`{"id":"one","spec":{"text":"0"}}`)); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(b, err)
}

// assignTypes assigns to every cluster a resource of each of several types, in one commit.
func assignTypes(b *testing.B, replica *store.Replica, types int) {
	b.Helper()
	resources := map[string]any{}
	for i := range types {
		resources[fmt.Sprint("type-", i)] = []any{map[string]string{"id": "one"}}
	}
	body, err := json.Marshal(map[string]any{"resources": resources})
	require.NoError(b, err)
	_, err = replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
		for _, cluster := range tx.Base().All(fleet.KindCluster) {
			if _, err := tx.Put(fleet.KindCluster, cluster.ID, body); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(b, err)
}

// BenchmarkTypesInMemory: memory of 20 types with 10,000 clusters, all of their lists polled: when no cluster has a resource
// of them, and when every cluster has one of each, without the stored documents.
func BenchmarkTypesInMemory(b *testing.B) {
	const types = 20
	for b.Loop() {
		_, replica := fleetOf(b, 10_000, 3)
		stored := func() (bytes float64) {
			for r := range replica.State().Records() {
				bytes += float64(len(r.Body))
			}
			return bytes / (1 << 20)
		}
		poll := func() {
			st := replica.State()
			for _, d := range st.All(fleet.KindCluster) {
				for i := range types {
					_, err := st.Answer(d, fleet.ResourceKind(fmt.Sprint("type-", i)))
					require.NoError(b, err)
				}
			}
		}
		heap, text := heapMiB(), stored()
		makeTypes(b, replica, types)
		poll()
		b.ReportMetric(heapMiB()-heap, "unused-MiB")
		assignTypes(b, replica, types)
		b.ReportMetric(stored()-text, "stored-MiB")
		b.ReportMetric(heapMiB()-heap, "loaded-MiB")
		poll()
		b.ReportMetric(heapMiB()-heap, "polled-MiB")
		runtime.KeepAlive(replica)
	}
}

// BenchmarkDefinitionChange: a change of a definition that every one of 10,000 clusters has.
func BenchmarkDefinitionChange(b *testing.B) {
	_, replica := fleetOf(b, 10_000, 30)
	makeTypes(b, replica, 1)
	assignTypes(b, replica, 1)
	defer cpu(b)()
	n := 0
	for b.Loop() {
		n++
		_, err := replica.Update(b.Context(), store.Meta{Actor: "bench"}, func(tx *fleet.Tx) error {
			_, err := tx.Patch(fleet.ResourceKind("type-0"), "one", fmt.Appendf(nil, `{"spec":{"text":"%d"}}`, n))
			return err
		})
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "commit-ms")
}
