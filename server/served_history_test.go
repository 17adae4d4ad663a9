package server_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The history of a cluster's inputs has the changes of its layers and of the catalog, in pages.
func TestServedHistory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	catalog := w.revision()
	w.create("/layers", `{"id":"all","priority":100,"all":true,"patches":{"podinfo":{"ui.message":"from the layer"}}}`)
	w.patch("/layers/all", `{"patches":{"podinfo":{"extra":"1"}}}`, "X-Change-Reason", "CHG-7").want(200)
	layer := w.revision()
	w.create("/namespaces", `{"id":"unrelated"}`)
	w.patch(demoCluster, `{"labels":{"a":"1"}}`).want(200)
	own := w.revision()

	path := demoCluster + "/history?view=effective"
	all := w.get(path).want(200).list()
	revisions := func(list []map[string]any) (out []int) {
		for _, rev := range list {
			out = append(out, int(rev["revision"].(float64)))
		}
		return out
	}
	require.Equal(t, []int{own, layer, catalog, 1}, revisions(all), "the demo cluster has a message of its own")
	require.Empty(t, at(all[0], "effect"))
	require.Equal(t, "CHG-7", all[1]["reason"])
	changed := at(all[1], "effect", "platform-components", "changed").([]any)[0]
	require.Equal(t, "podinfo", at(changed, "id"))
	require.NotEmpty(t, at(changed, "fields"))
	require.Len(t, w.get(demoCluster+"/history").want(200).list(), 2, "that of the document is as it was")

	var paged []map[string]any
	for next := path + "&limit=1"; next != ""; {
		page := w.get(next).want(200)
		paged = append(paged, page.list()...)
		next = ""
		if link := page.header.Get("Link"); link != "" {
			require.Contains(t, link, "view=effective")
			next = strings.TrimPrefix(strings.Split(link, ">")[0], "<")
		}
	}
	require.Equal(t, all, paged)
	require.Empty(t, w.get("/clusters/nobody/history?view=effective").want(200).list())
	w.get(path+"&cursor=x").problem(400, "validation_error")
	w.get(demoCluster+"/history?view=other").problem(400, "validation_error")
}

// The histories of clusters and components take times like the list of revisions, also page by page.
func TestHistoryBetweenTimes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/layers", `{"id":"all","priority":100,"all":true}`) // revision 2
	for i := range 4 {                                            // revisions 3 to 6, a minute apart, of which the cluster's document has one
		w.clock.advance(time.Minute)
		path, body := "/layers/all", fmt.Sprintf(`{"patches":{"podinfo":{"n":"%d"}}}`, i)
		if i == 1 {
			path, body = demoCluster, `{"patches":{"podinfo":{"own":true}}}`
		}
		w.patch(path, body).want(200)
	}
	for _, path := range []string{demoCluster, "/platform_components/podinfo"} {
		for query, want := range map[string][]int{
			"":                                  {6, 5, 4, 3, 1},
			"since=2026-01-02T03:07:05.678901Z": {6, 5},
			"until=2026-01-02T03:07:05.678901Z": {4, 3, 1},
			"since=2026-01-02T03:06:05Z&until=2026-01-02T03:07:05.678901Z": {4},
			"since=2027-01-01T00:00:00Z":                                   {},
			"until=2025-01-01T00:00:00Z":                                   {},
		} {
			for _, limit := range []string{"", "&limit=1"} {
				got := []int{}
				for next := path + "/history?view=effective&" + query + limit; next != ""; {
					page := w.get(next).want(200)
					got = append(got, revisions(page)...)
					next, _, _ = strings.Cut(strings.TrimPrefix(page.header.Get("Link"), "<"), ">")
				}
				require.Equal(t, want, got, "%s %s %s", path, query, limit)
			}
		}
	}
	require.Equal(t, []int{4}, revisions(w.get(demoCluster+"/history?since=2026-01-02T03:05:00Z").want(200)), "the document alone")
	w.get(demoCluster+"/history?since=yesterday").problem(400, "validation_error")

	_, _, err := w.store.Compact(t.Context(), start.Add(150*time.Second))
	require.NoError(t, err)
	for _, view := range []string{"", "&view=effective"} {
		require.Empty(t, w.get(demoCluster+"/history?until=2026-01-02T03:05:30Z"+view).want(200).list(), "before a compacted log begins")
	}
}

// The history of a component has the revisions that changed its input on clusters, with how many these are.
func TestServedHistoryOfComponent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("/layers", `{"id":"all","priority":100,"all":true,"patches":{"podinfo":{"extra":"1"}}}`)
	layer := w.revision()
	w.create("/namespaces", `{"id":"unrelated"}`)
	w.patch(demoCluster, `{"labels":{"a":"1"}}`).want(200)
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	catalog := w.revision()

	all := w.get("/platform_components/podinfo/history?view=effective").want(200).list()
	require.Len(t, all, 3)
	require.EqualValues(t, catalog, all[0]["revision"])
	require.EqualValues(t, layer, all[1]["revision"])
	require.EqualValues(t, 1, all[2]["revision"])
	require.EqualValues(t, 1, all[0]["clusters"])
	changed := at(all[1], "effect", "platform-components", "changed").([]any)[0]
	require.Equal(t, "podinfo", at(changed, "id"))
	require.NotEmpty(t, at(changed, "fields"))
	page := w.get("/platform_components/podinfo/history?view=effective&limit=1").want(200)
	require.Equal(t, all[:1], page.list())
	require.Contains(t, page.header.Get("Link"), "view=effective")
	require.Len(t, w.get("/platform_components/podinfo/history").want(200).list(), 2, "that of the document is as it was")
}

// An explanation at a revision has the inputs as they were served, whichever document changed since.
func TestExplanationAtRevision(t *testing.T) {
	t.Parallel()
	w := setup(t)
	version := func(query string) any {
		values := at(w.get(explainOne+"?pointer=/component_version"+query).want(200).json(), "inputs").([]any)[0].(map[string]any)["values"].([]any)
		return at(values[0].(map[string]any), "value")
	}
	before, was := w.revision(), version("")
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	catalog := w.revision()
	w.create("/layers", `{"id":"all","priority":100,"all":true,"overrides":{"podinfo":{"component_version":"7.0.0"}}}`)
	require.Equal(t, "7.0.0", version(""))
	require.Equal(t, "7.0.0", version(fmt.Sprintf("&revision=%d", w.revision())))
	require.Equal(t, "6.9.9", version(fmt.Sprintf("&revision=%d", catalog)))
	require.Equal(t, was, version(fmt.Sprintf("&revision=%d", before)))
	w.get(fmt.Sprintf("%s?revision=%d", explainAll, w.revision()+1)).problem(404, "not_found")
	w.create("/clusters", `{"id":"later","cluster_dns":"later.example.com","environment":"dev"}`)
	w.get(fmt.Sprintf("/clusters/later/explain?revision=%d", catalog)).problem(404, "not_found")
}

// The history of a component is computed once for each revision and page, also for requests at the same time.
func TestServedHistoryOfComponentComputedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var reads atomic.Int32
	w.faults.set(func(f *faultyStore) { f.log = func() { reads.Add(1) } })
	const path = "/platform_components/podinfo/history?view=effective"
	first := w.get(path).want(200).list()
	once := reads.Load()
	require.Positive(t, once)
	var asking sync.WaitGroup
	for range 5 {
		asking.Go(func() { w.get(path) })
	}
	asking.Wait()
	require.Equal(t, first, w.get(path).want(200).list())
	require.Equal(t, once, reads.Load())
	require.Len(t, w.get(path+"&limit=1").want(200).list(), 1, "another page")
	require.Greater(t, reads.Load(), once)
	w.patch("/platform_components/podinfo", `{"component_version":"6.9.9"}`).want(200)
	require.Len(t, w.get(path).want(200).list(), len(first)+1, "another revision")
}
