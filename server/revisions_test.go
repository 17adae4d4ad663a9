package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
)

func revisions(a *answer) []int {
	a.t.Helper()
	out := []int{}
	for _, r := range a.want(200).list() {
		out = append(out, int(r["revision"].(float64)))
	}
	return out
}

func TestRevisionRecordsActorAndReason(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clock.advance(time.Minute)
	reply := w.patch(demoCluster, `{"environment":"qa"}`, "X-Change-Reason", `CHG-1: "grüße" & <more>`, "X-Request-Id", "req-7", "X-Change-Author", "Jörg <j@example.com>")
	require.Equal(t, "req-7", reply.want(200).header.Get("X-Request-Id"))
	list := w.get("/revisions").want(200)
	require.Equal(t, 2, revisionOf(list))
	entry := list.list()[0]
	require.EqualValues(t, 2, entry["revision"])
	require.Equal(t, "static-write", entry["actor"])
	require.Equal(t, `CHG-1: "grüße" & <more>`, entry["reason"])
	require.Equal(t, "Jörg <j@example.com>", entry["author"])
	require.Equal(t, "req-7", entry["request_id"])
	require.Equal(t, "2026-01-02T03:05:05.678901Z", entry["at"])
	require.EqualValues(t, 1, entry["change_count"])
	require.Equal(t, []any{map[string]any{"kind": "cluster", "id": "demo-cluster-01", "action": "update"}}, entry["changes"])
	require.Equal(t, "system", list.list()[1]["actor"])
	require.Equal(t, "demo", list.list()[1]["reason"])

	detail := w.get("/revisions/2").want(200).json()
	change := at(detail, "changes", 0)
	require.Equal(t, "dev", at(change, "before", "environment"))
	require.Equal(t, "qa", at(change, "after", "environment"))
	require.Equal(t, entry["commit_id"], detail["commit_id"])
	require.Equal(t, entry["author"], detail["author"])
	require.Contains(t, w.get(demoCluster).etag(), entry["commit_id"].(string)[:8])

	// A request without an id gets one, and it is the one that is recorded.
	reply = w.patch(demoCluster, `{"environment":"dev"}`).want(200)
	require.Equal(t, reply.header.Get("X-Request-Id"), w.get("/revisions/3").json()["request_id"])
	require.Len(t, reply.header.Get("X-Request-Id"), 36)
	w.unchanged(func() {
		w.patch(demoCluster, `{"environment":"uat"}`, "X-Change-Reason", strings.Repeat("x", 1025)).problem(400, "validation_error")
		w.patch(demoCluster, `{"environment":"uat"}`, "X-Change-Author", strings.Repeat("x", 257)).problem(400, "validation_error")
	})
}

func TestRevisionActions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/namespaces", `{"id":"extra"}`)
	w.delete("/namespaces/extra").want(200)
	w.delete(demoCluster).want(200)
	w.delete(demoCluster + "?mode=orphan").want(200)
	actions := map[int]string{}
	for n := 2; n <= 5; n++ {
		change := at(w.get(fmt.Sprintf("/revisions/%d", n)).want(200).json(), "changes", 0)
		actions[n] = at(change, "action").(string)
		require.Equal(t, actions[n] == "create", at(change, "before") == nil)
		// A decommissioned cluster is deleted, and the part of it that is kept for its polls is visible.
		require.Equal(t, actions[n] == "delete" && n != 4, at(change, "after") == nil)
	}
	require.Equal(t, map[int]string{2: "create", 3: "delete", 4: "delete", 5: "delete"}, actions)
}

func TestRevisionFilters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 4 { // revisions 2 to 5, a minute apart
		w.clock.advance(time.Minute)
		path, body := "/namespaces/podinfo", fmt.Sprintf(`{"labels":{"n":"%d"}}`, i)
		if i%2 == 1 {
			path, body = demoCluster, fmt.Sprintf(`{"labels":{"n":"%d"}}`, i)
		}
		w.put(path, body).want(200)
	}
	for query, want := range map[string][]int{
		"":                                  {5, 4, 3, 2, 1},
		"kind=namespace":                    {4, 2, 1},
		"kind=cluster&id=demo-cluster-01":   {5, 3, 1},
		"kind=namespace&id=traefik":         {1},
		"kind=namespace&id=nobody":          {},
		"kind=rolebinding":                  {1},
		"actor=system":                      {1},
		"actor=static-write&kind=cluster":   {5, 3},
		"actor=nobody":                      {},
		"since=2026-01-02T03:07:05.678901Z": {5, 4},
		"until=2026-01-02T03:07:05.678901Z": {3, 2, 1},
		"since=2026-01-02T05:06:05.678901%2B02:00&until=2026-01-02T03:08:00Z": {4, 3},
		"limit=2":  {5, 4},
		"cursor=3": {2, 1},
		"cursor=1": {},
	} {
		require.Equal(t, want, revisions(w.get("/revisions?"+query)), query)
	}
	for _, bad := range []string{"kind=secret", "id=demo-cluster-01", "since=yesterday", "limit=0", "limit=1001", "cursor=x", "cursor=0", "cursor=-1", "cursor=" + strings.Repeat("9", 65), "offset=1", "actor=a&actor=b"} {
		w.get("/revisions?"+bad).problem(400, "validation_error")
	}
}

func TestRevisionPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		w.put("/namespaces/podinfo", fmt.Sprintf(`{"labels":{"n":"%d"}}`, i)).want(200)
	}
	var seen []int
	pages := 0
	for next := "/revisions?limit=2&kind=namespace"; next != ""; pages++ {
		page := w.get(next).want(200)
		seen = append(seen, revisions(page)...)
		if next = nextLink(t, page); next != "" {
			require.Contains(t, next, "kind=namespace", "the filter stays on the next page")
		}
		if pages == 0 { // later commits do not shift pages
			w.put("/namespaces/podinfo", `{"labels":{"n":"meanwhile"}}`).want(200)
		}
	}
	require.Equal(t, []int{6, 5, 4, 3, 2, 1}, seen)
}

func TestRevisionDetailPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	whole := w.get("/revisions/1").want(200)
	require.Equal(t, "9", whole.header.Get("X-Total-Count"))
	changes := whole.json()["changes"].([]any)
	require.Len(t, changes, 9)
	var paged []any
	for next := "/revisions/1?limit=4"; next != ""; {
		page := w.get(next).want(200)
		require.EqualValues(t, 9, page.json()["change_count"])
		paged = append(paged, page.json()["changes"].([]any)...)
		next = nextLink(t, page)
	}
	require.Equal(t, changes, paged)
	require.Empty(t, w.get("/revisions/1?offset=9").want(200).json()["changes"])

	var ops []string
	for i := range 1001 {
		ops = append(ops, fmt.Sprintf(`{"op":"create","kind":"namespace","document":{"id":"n-%04d"}}`, i))
	}
	w.batch(ops...).want(200)
	large := w.get("/revisions/2").want(200)
	require.Equal(t, "1001", large.header.Get("X-Total-Count"))
	require.EqualValues(t, 1001, large.json()["change_count"])
	require.Len(t, large.json()["changes"], 1000, "a commit may have changed a whole fleet")
	rest := w.get(nextLink(t, large)).want(200)
	require.Len(t, rest.json()["changes"], 1)
	require.Empty(t, nextLink(t, rest))
	require.Len(t, w.get("/revisions/2?limit=1001").want(200).json()["changes"], 1001)

	w.get("/revisions/3").problem(404, "not_found")
	w.get("/revisions/9223372036854775807").want(404)
	for _, bad := range []string{"0", "-1", "x", "1.5", "9223372036854775808"} {
		w.get("/revisions/"+bad).problem(400, "validation_error")
	}
}

// TestRevisionClusters: a list counts the clusters on which each revision changed inputs, also where later ones changed them again. One
// answer counts at most ten more.
func TestRevisionClusters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	counts := func(query string) map[int]any {
		out := map[int]any{}
		for _, rev := range w.get("/revisions" + query).want(200).list() {
			out[int(rev["revision"].(float64))] = rev["clusters"]
		}
		return out
	}
	w.clusters(3, "qa")
	made := w.revision()
	w.put("/clusters/qa-00", `{"labels":{"a":"b"}}`).want(200)
	require.Equal(t, map[int]any{made: 3.0, made + 1: nil}, counts("?clusters=true&limit=2"))
	require.Equal(t, map[int]any{made: nil, made + 1: nil}, counts("?limit=2"), "they are not asked for")
	for n := range 12 {
		w.patch("/platform_components/podinfo", fmt.Sprintf(`{"component_version":"7.0.%d"}`, n)).want(200)
	}
	newest := w.revision()
	all := w.get(fmt.Sprintf("/status?changed_in=%d", newest)).want(200).json()["total"]
	require.Greater(t, all, 2.0)
	first := counts("?clusters=true&limit=14")
	require.Equal(t, []any{all, all, nil, nil, 3.0}, []any{first[newest], first[newest-9], first[newest-10], first[newest-11], first[made]})
	second := counts("?clusters=true&limit=14")
	require.Equal(t, []any{all, all, all, 3.0}, []any{second[newest], second[newest-10], second[newest-11], second[made]})
}

// TestRevisionClustersTakeTooLong: a list of revisions whose clusters cannot be counted in time has no counts, and does not fail. The
// first one is not tried again, so that the next answer goes on with the others.
func TestRevisionClustersTakeTooLong(t *testing.T) {
	t.Parallel()
	var cfg server.Config
	w := setupWith(t, options{configure: func(c *server.Config) { cfg = *c }})
	w.clusters(3, "qa")
	w.put("/clusters/qa-00", `{"platform_components":[{"id":"podinfo","oci_tag":"v2"}]}`).want(200)
	srv, err := server.New(cfg)
	require.NoError(t, err)
	list := func(limit time.Duration) []any {
		srv.SetCountingTime(limit)
		req := httptest.NewRequest(http.MethodGet, "/revisions?clusters=true&limit=2", nil)
		req.Header.Set("Authorization", "Bearer "+readToken)
		rec := httptest.NewRecorder()
		srv.ServeHTTP(rec, req)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		var out []map[string]any
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &out))
		require.Len(t, out, 2)
		return []any{out[0]["clusters"], out[1]["clusters"]}
	}
	require.Equal(t, []any{nil, nil}, list(time.Nanosecond))
	require.Equal(t, []any{nil, 3.0}, list(time.Hour))
}
