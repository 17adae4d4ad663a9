package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (w *world) post(path, body string, headers ...string) *answer {
	w.t.Helper()
	return w.do(http.MethodPost, path, body, headers...)
}

func (w *world) batch(operations ...string) *answer {
	w.t.Helper()
	return w.post("/batch", `{"operations":[`+strings.Join(operations, ",")+`]}`)
}

// clusters adds so many clusters of an environment to the demo, each with podinfo.
func (w *world) clusters(n int, environment string) {
	w.t.Helper()
	var ops []string
	for i := range n {
		ops = append(ops, fmt.Sprintf(`{"op":"create","kind":"cluster","document":{"id":"%s-%02d","cluster_dns":"%s-%02d.example.com","environment":%q,
			"platform_components":[{"id":"podinfo"}],"namespaces":[{"id":"podinfo"}]}}`, environment, i, environment, i, environment))
	}
	w.batch(ops...).want(200)
}

func TestBatchIsOneRevision(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.revision()
	res := w.post("/batch", `{"operations":[
		{"op":"create","kind":"namespace","document":{"id":"sandbox"}},
		{"op":"assign_namespace","all":true,"namespace_id":"sandbox"},
		{"op":"set_component","selector":"environment=dev","component_id":"podinfo","component_version":"6.9.0"}
	],"reason":"CHG-7"}`).want(200).json()
	require.EqualValues(t, before+1, res["revision"])
	require.Len(t, res["changes"], 2)
	require.Equal(t, []any{
		map[string]any{"op": "create", "clusters": 0.0, "documents": 1.0},
		map[string]any{"op": "assign_namespace", "clusters": 1.0, "documents": 1.0},
		map[string]any{"op": "set_component", "clusters": 1.0, "documents": 1.0},
	}, res["results"])
	require.Contains(t, w.poll(demoPolls+"/namespaces").ids(), "sandbox")
	rev := w.get(fmt.Sprintf("/revisions/%d", before+1)).want(200).json()
	require.Equal(t, "CHG-7", rev["reason"])
}

func TestBatchIsAtomic(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		p := w.batch(
			`{"op":"create","kind":"namespace","document":{"id":"sandbox"}}`,
			`{"op":"set_component","selector":"environment=nowhere","component_id":"podinfo","enabled":false}`,
			`{"op":"update","kind":"namespace","id":"podinfo","document":{"labels":{"x":"not ok!"}}}`,
		).problem(400, "validation_error")
		require.Contains(t, string(p.body), `"pointer":"/operations/1"`)
		p = w.batch(`{"op":"update","kind":"namespace","id":"podinfo","document":{"labels":{"x":"not ok!"}}}`).problem(400, "validation_error")
		require.Contains(t, string(p.body), `"pointer":"/operations/0/document/labels/x"`)
		w.batch(`{"op":"swim"}`).problem(400, "validation_error")
		w.batch(`{"op":"patch","kind":"namespace","id":"gone","patch":{}}`).problem(404, "not_found")
		w.batch(`{"op":"unassign_namespace","selector":"","namespace_id":"podinfo"}`).problem(400, "validation_error")
		w.post("/batch", `{"operations":[]}`).problem(400, "validation_error")
		w.post("/batch?dry_run=true", `{"operations":[{"op":"create","kind":"namespace","document":{"id":"sandbox"}}]}`).want(200)
		for _, path := range []string{"/batch", "/plan"} {
			var ops []string
			for i := range 50 {
				ops = append(ops, fmt.Sprintf(`{"op":"create","kind":"namespace","document":{"id":"ns-%d","annotations":{"a":"%s"}}}`, i, strings.Repeat("x", 100<<10)))
			}
			body := `{"operations":[` + strings.Join(ops, ",") + `]}`
			require.Greater(t, len(body), 5_000_000)
			p := w.post(path, body).problem(413, "too_large")
			require.Contains(t, p.json()["detail"], fmt.Sprintf("the body of %d bytes is larger than 4 MiB", len(body)))
		}
	})
}

// TestProblemsLimited: an answer has a limited number of problems, and the number of omitted ones; 4 MiB may have 100,000.
func TestProblemsLimited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		p := w.batch(slices.Repeat([]string{`{"op":"swim"}`}, 1000)...).problem(400, "validation_error")
		require.Len(t, p.pointers(), 1000)
		p = w.batch(slices.Repeat([]string{`{"op":"swim"}`}, 1234)...).problem(400, "validation_error")
		require.Len(t, p.pointers(), 1001)
		require.Contains(t, string(p.body), `{"pointer":"","detail":"further problems are omitted"}`)
	})
}

// TestBatchValidatesDocuments: a misspelt field is no change.
func TestBatchValidatesDocuments(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, test := range []struct{ operation, pointer string }{
		{`{"op":"create","kind":"namespace","document":{"id":"sandbox","colour":"red"}}`, "document/colour"},
		{`{"op":"create","kind":"rolebinding","document":{"id":"x","role":"view"}}`, "document/subjects"},
		{`{"op":"update","kind":"cluster","id":"demo-cluster-01","document":{"platform_components":[{"id":"podinfo","oci_tga":"v1"}]}}`, "document/platform_components/0/oci_tga"},
		{`{"op":"patch","kind":"namespace","id":"podinfo","patch":{"colour":null}}`, "patch/colour"},
	} {
		w.unchanged(func() {
			for _, path := range []string{"/batch", "/plan", "/batch?dry_run=true"} {
				p := w.post(path, `{"operations":[`+test.operation+`,{"op":"update","kind":"namespace","id":"podinfo","document":{"labels":{}}}]}`).problem(400, "validation_error")
				require.Contains(t, string(p.body), `"pointer":"/operations/0/`+test.pointer+`"`, path)
			}
		})
	}
	p := w.batch(`{"op":"update","kind":"platform_component","id":"podinfo","document":{"component_version":6}}`).problem(400, "validation_error")
	require.Contains(t, string(p.body), `"pointer":"/operations/0/document/component_version"`)
	// The answer of a GET can be sent back, and a patch may clear fields.
	doc := string(w.get(demoCluster).want(200).body)
	w.unchanged(func() {
		w.batch(`{"op":"update","kind":"cluster","id":"demo-cluster-01","document":` + doc + `}`).want(200)
	})
	w.batch(`{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"labels":{"a":null},"node_count":null,"patches":{"podinfo":{"replicaCount":null}}}}`).want(200)
}

func TestPlanThenBatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(60, "qa")
	off := `{"op":"set_component","selector":"environment=qa","component_id":"podinfo","enabled":false}`
	w.unchanged(func() { w.batch(off).problem(409, "confirmation_required") })
	plan := w.plan(off)
	require.Equal(t, true, plan["confirmation_required"])
	require.Equal(t, map[string]any{"clusters": 60.0, "added": 0.0, "changed": 60.0, "removed": 0.0, "removals": 60.0}, plan["totals"])
	require.Len(t, plan["groups"], 1)
	apply := func(hash string) *answer {
		return w.post("/batch", fmt.Sprintf(`{"operations":[%s],"plan_hash":%q}`, off, hash))
	}
	w.unchanged(func() { apply("0000").problem(412, "stale") })
	hash := plan["plan_hash"].(string)
	require.Equal(t, hash, w.plan(off)["plan_hash"], "the same plan has the same hash")
	apply(hash).want(200)
	require.Contains(t, string(w.poll("/api/v2/flux/clusters/qa-00.example.com/platform-components").body), `"enabled":false`)
	apply(hash).problem(412, "stale")
}

func TestCascadeDeletePlannedAndReverted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(1000, "qa")
	polls := func() string {
		var all strings.Builder
		for i := range 1000 {
			all.Write(w.poll(fmt.Sprintf("/api/v2/flux/clusters/qa-%02d.example.com/platform-components", i)).body)
		}
		all.Write(w.poll(demoPolls + "/platform-components").body)
		return all.String()
	}
	before, revision := polls(), w.revision()
	w.delete("/platform_components/podinfo?cascade=true").problem(409, "confirmation_required")
	hash := w.plan(`{"op":"delete","kind":"platform_component","id":"podinfo","cascade":true}`)["plan_hash"].(string)
	w.delete("/platform_components/podinfo?cascade=true&plan_hash=" + hash).want(200)
	require.NotEqual(t, before, polls())
	restored := w.post(fmt.Sprintf("/revisions/%d/restore", revision), "").want(200).json()
	require.EqualValues(t, revision+2, restored["revision"])
	require.Equal(t, before, polls(), "byte for byte")
	require.Equal(t, "restored to revision "+fmt.Sprint(revision), w.get("/revisions?limit=1").list()[0]["reason"])
}

// During a long batch, polls and reads are answered from the previous State, then from the new one.
func TestPollsDuringBatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(50, "qa")
	const poll = "/api/v2/flux/clusters/qa-07.example.com/platform-components"
	before, revision := w.poll(poll), w.revision()
	held := &slowCommit{make(chan struct{}), make(chan struct{})}
	w.faults.set(func(f *faultyStore) { f.slow = held })
	req := w.request(http.MethodPost, "/batch", `{"operations":[{"op":"set_component","all":true,"component_id":"podinfo","oci_tag":"v9"}]}`)
	req.Header.Set("Content-Type", "application/json")
	status := make(chan int, 1)
	go func() {
		resp, err := w.client.Do(req)
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-held.begun
	for range 3 {
		during := w.poll(poll).want(200)
		require.Equal(t, string(before.body), string(during.body))
		require.Equal(t, before.etag(), during.etag())
		require.Equal(t, revision, revisionOf(w.get(demoCluster).want(200)))
		w.get("/ready").want(200)
	}
	require.Empty(t, status, "it is still under way")
	w.faults.set(func(f *faultyStore) { f.slow = nil })
	close(held.proceed)
	require.Equal(t, 200, <-status)
	require.Contains(t, string(w.poll(poll).want(200).body), `"oci_tag":"v9"`)
}

func TestRestoreOfOneDocument(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.revision()
	w.patch(demoCluster, `{"patches":{"podinfo":{"replicaCount":"9"}}}`).want(200)
	w.create("/namespaces", `{"id":"later"}`)
	w.put(demoCluster+"/namespaces/later", "").want(200)
	one := `{"kind":"cluster","id":"demo-cluster-01"}`
	w.unchanged(func() {
		w.post(fmt.Sprintf("/revisions/%d/restore?dry_run=true", first), one).want(200)
		w.post("/revisions/999/restore", one).problem(404, "not_found")
		w.post(fmt.Sprintf("/revisions/%d/restore", first), `{"kind":"cluster"}`).problem(400, "validation_error")
		w.post(fmt.Sprintf("/revisions/%d/restore", first), `{"kind":"cluster","id":"nobody"}`).problem(404, "not_found")
	})
	w.post(fmt.Sprintf("/revisions/%d/restore", first), one).want(200)
	require.Equal(t, "2", w.get(demoCluster).json()["patches"].(map[string]any)["podinfo"].(map[string]any)["replicaCount"])
	w.get("/namespaces/later").want(200)

	w.delete("/namespaces/later").want(200)
	withLater := w.revision() - 2 // when the cluster still had it
	w.unchanged(func() {
		w.post(fmt.Sprintf("/revisions/%d/restore", withLater), one).problem(400, "validation_error")
	})
}

func TestDocumentHistory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.revision()
	w.patch(demoCluster, `{"labels":{"a":"1"}}`).want(200)
	w.create("/namespaces", `{"id":"other"}`)
	w.patch(demoCluster, `{"labels":{"a":"2"}}`).want(200)
	w.delete("/clusters/demo-cluster-01").want(200)

	history := w.get(demoCluster + "/history?limit=2").want(200)
	require.Len(t, history.list(), 2)
	require.EqualValues(t, first+4, history.list()[0]["revision"])
	require.EqualValues(t, first+3, history.list()[1]["revision"])
	next := strings.TrimSuffix(strings.TrimPrefix(strings.Split(history.header.Get("Link"), ">")[0], "<"), ">")
	require.Len(t, w.get(next).want(200).list(), 2)

	for rev, label := range map[int]string{first + 1: "1", first + 2: "1", first + 3: "2"} {
		doc := w.get(fmt.Sprintf("%s?revision=%d", demoCluster, rev)).want(200).json()
		require.Equal(t, map[string]any{"a": label}, doc["labels"], rev)
	}
	w.get(fmt.Sprintf("%s?revision=%d", demoCluster, first+4)).problem(404, "not_found")
	w.get(demoCluster+"?revision=999").problem(404, "not_found")
	w.get("/namespaces/other?revision="+fmt.Sprint(first)).problem(404, "not_found")
	require.Len(t, w.get("/namespaces/other/history").want(200).list(), 1)
	require.Empty(t, w.get("/rolebindings/nobody/history").want(200).list())
	w.get("/platform_components/podinfo/history").want(200)
}

// TestRemovalOfMissingValue: null at a path without a value changes nothing, which a typing error in the path looks like. The request
// succeeds with a warning, unless another cluster or layer of the change has the value.
func TestRemovalOfMissingValue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.clusters(2, "qa")
	w.create("/layers", `{"id":"all","priority":1,"all":true,"platform_components":[{"id":"podinfo"}],"patches":{"podinfo":{"b":"1"}}}`)
	const path = "/clusters/qa-00/patches/podinfo"
	w.patch(path, `{"a":"1"}`).want(200)
	values := func(target, values string) string {
		return `{"operations":[{"op":"patch_values","component_id":"podinfo",` + target + `,"values":` + values + `}]}`
	}
	for name, warned := range map[string]func(path string) []string{
		"route": func(at string) []string { return w.patch(path+"?dry_run=true", at).want(200).header["Warning"] },
		"cluster": func(at string) []string {
			return w.post("/batch?dry_run=true", values(`"cluster_ids":["qa-00"]`, at)).want(200).header["Warning"]
		},
		"plan": func(at string) []string {
			return []string{fmt.Sprint(w.post("/plan", values(`"cluster_ids":["qa-00"]`, at)).want(200).json()["warnings"])}
		},
		"clusters": func(at string) []string {
			return w.post("/batch?dry_run=true", values(`"selector":"environment=qa"`, at)).want(200).header["Warning"]
		},
		"layer": func(at string) []string {
			return w.post("/batch?dry_run=true", values(`"layers":["all"]`, at)).want(200).header["Warning"]
		},
	} {
		set, other := "a", "b"
		if name == "layer" {
			set, other = "b", "a"
		}
		got := strings.ReplaceAll(fmt.Sprint(warned(`{"`+set+`":null,"`+other+`":null,"c":"1"}`)), `\"`, `"`)
		require.Contains(t, got, `nothing to remove at "`+other+`": no cluster or layer of this change sets a value there for component`, name)
	}
	w.unchanged(func() { w.patch(path, `{"x":null}`).want(200) })
}

func TestPatchesWithManagers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := demoCluster + "/patches/podinfo"
	got := w.get(path).want(200)
	require.NotEmpty(t, got.etag())
	w.get(path, "If-None-Match", got.etag()).want(304)
	require.Equal(t, map[string]any{"": []any{"replicaCount", "ui.color", "ui.message"}}, got.json()["managers"])

	manager := func(name string) string { return path + "?field_manager=" + url.QueryEscape(name) }
	res := w.patch(manager("ci"), `{"replicaCount":"4","image.tag":"1"}`).want(200).json()
	require.Equal(t, []any{"image.tag", "replicaCount"}, res["managers"].(map[string]any)["ci"])
	conflict := w.patch(manager("scaler"), `{"replicaCount":"5"}`).problem(409, "field_conflict")
	require.Contains(t, string(conflict.body), `"pointer":"/replicaCount"`)
	w.patch(path, `{"replicaCount":"5"}`).problem(409, "field_conflict")
	w.patch(demoCluster, `{"patches":{"podinfo":{"replicaCount":"5"}}}`).problem(409, "field_conflict")
	w.patch(manager("scaler")+"&force=true", `{"replicaCount":"5"}`).want(200)
	require.Contains(t, string(w.poll(demoPolls+"/platform-components").body), `"replicaCount":"5"`)

	w.put(manager("ci"), `{"image.pullPolicy":"Always"}`).want(200)
	values := w.get(path).json()["values"].(map[string]any)
	require.NotContains(t, values, "image.tag")
	require.Contains(t, values, "image.pullPolicy")
	w.delete(manager("scaler") + "&retain=true").want(200)
	require.Equal(t, "5", w.get(path).json()["values"].(map[string]any)["replicaCount"])
	w.delete(manager("ci")).want(200)
	require.NotContains(t, w.get(path).json()["values"], "image.pullPolicy")

	w.unchanged(func() {
		w.patch(manager("ci"), `{"ui":"x"}`).problem(400, "validation_error")
		w.patch(manager("a b"), `{"x":"x"}`).problem(400, "validation_error")
		w.patch(demoCluster+"/patches/nobody", `{"x":"1"}`).problem(404, "not_found")
		w.get(demoCluster+"/patches/nobody").problem(404, "not_found")
		w.get("/clusters/nobody/patches/podinfo").problem(404, "not_found")
		w.patch(manager("ci")+"&dry_run=true", `{"x":"1"}`).want(200)
		w.patch(manager("ci"), `{"x":"1"}`, "If-Match", `"1-00000000"`).problem(412, "stale")
	})
}

func TestIfMatchNeverIgnored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.unchanged(func() {
		for _, empty := range []string{"", " "} {
			raw(t, w, fmt.Sprintf("PATCH %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nIf-Match:%s\r\n"+
				"Content-Length: 20\r\nConnection: close\r\n\r\n{\"environment\":\"qa\"}", demoCluster, writeToken, empty)).problem(400, "validation_error")
		}
		op := `{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"environment":"qa"}}]}`
		w.post("/batch", op, "If-Match", `"1-00000000"`).problem(400, "validation_error")
		w.post("/revisions/1/restore", "", "If-Match", "*").problem(400, "validation_error")
	})
	w.post("/batch", `{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"environment":"qa"}}]}`).want(200)
}

// TestPut: a put creates a document, or changes the given fields of an existing one, under conditions.
func TestPut(t *testing.T) {
	t.Parallel()
	w := setup(t)
	put := func(more string) string { return `{"op":"put","kind":"namespace","id":"sandbox",` + more + `}` }
	documents := func(op string) []any {
		return w.post("/batch?return=documents", `{"operations":[`+op+`]}`).want(200).json()["results"].([]any)
	}
	w.unchanged(func() {
		w.batch(put(`"if_match":"*","document":{}`)).problem(404, "not_found")
		w.batch(put(`"document":{"id":"other"}`)).problem(400, "validation_error")
		w.batch(put(`"document":{},"patch":{}`)).problem(400, "validation_error")
		w.batch(`{"op":"put","kind":"namespace","id":"sandbox"}`).problem(400, "validation_error")
		w.batch(`{"op":"put","kind":"namespace","document":{"id":"sandbox"}}`).problem(400, "validation_error")
		p := w.batch(`{"op":"put","kind":"rolebinding","id":"x","document":{"role":"view"}}`).problem(400, "validation_error")
		require.Contains(t, string(p.body), `"pointer":"/operations/0/document/subjects"`)
		p = w.batch(`{"op":"put","kind":"rolebinding","id":"x","patch":{"role":"view"}}`).problem(400, "validation_error")
		require.Contains(t, string(p.body), `"pointer":"/operations/0/patch/subjects"`)
		w.batch(`{"op":"update","kind":"namespace","id":"podinfo","if_absent":true,"document":{}}`).problem(400, "validation_error")
		w.batch(`{"op":"set_labels","all":true,"if_match":"*","labels":{"a":"b"}}`).problem(400, "validation_error")
		w.batch(`{"op":"set_labels","cluster_ids":["demo-cluster-01"],"if_match":"\"1-00000000\"","labels":{"a":"b"}}`).problem(412, "stale")
	})
	created := documents(put(`"if_absent":true,"document":{"labels":{"a":"b"}}`))[0].(map[string]any)["document"].(map[string]any)
	require.Equal(t, map[string]any{"a": "b"}, created["labels"])
	etag := w.get("/namespaces/sandbox").want(200).etag()
	w.unchanged(func() {
		w.batch(put(`"if_absent":true,"document":{"labels":{"a":"b"}}`)).want(200)
		w.batch(put(`"if_absent":true,"document":{"labels":{"a":"c"}}`)).problem(409, "conflict")
		w.batch(put(`"document":{"annotations":null}`)).want(200)
	})
	w.batch(put(fmt.Sprintf(`"if_match":%q,"document":{"annotations":{"x":"y"}}`, etag))).want(200)
	w.unchanged(func() {
		w.batch(put(fmt.Sprintf(`"if_match":%q,"document":{"annotations":{"x":"z"}}`, etag))).problem(412, "stale")
	})
	require.Equal(t, map[string]any{"a": "b"}, w.get("/namespaces/sandbox").json()["labels"], "fields that are not given stay")
	w.batch(put(`"patch":{"labels":{"c":"d"},"annotations":null}`)).want(200)
	require.Equal(t, map[string]any{"a": "b", "c": "d"}, w.get("/namespaces/sandbox").json()["labels"])
	w.batch(`{"op":"put","kind":"namespace","id":"other","patch":{"labels":{"a":null,"c":"d"}}}`).want(200)
	require.Equal(t, map[string]any{"c": "d"}, w.get("/namespaces/other").json()["labels"])

	before := w.get(demoCluster).want(200)
	result := documents(`{"op":"assign_namespace","cluster_ids":["demo-cluster-01"],"namespace_id":"other"},` +
		`{"op":"delete","kind":"namespace","id":"sandbox"},{"op":"set_labels","all":true,"labels":{"a":"b"}}`)
	require.Equal(t, before.json(), result[0].(map[string]any)["before"])
	require.Equal(t, w.get(demoCluster).json(), result[0].(map[string]any)["document"], "the document after the whole batch")
	require.Equal(t, "sandbox", result[1].(map[string]any)["document"].(map[string]any)["id"])
	require.NotContains(t, result[2], "document")
	dry := w.post("/batch?return=documents&dry_run=true", `{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"cluster_name":"dry"}}]}`).want(200).json()
	require.Equal(t, "dry", dry["results"].([]any)[0].(map[string]any)["document"].(map[string]any)["cluster_name"])
	planned := w.post("/plan?return=documents", `{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{"cluster_name":"dry"}}]}`).want(200).json()
	require.Equal(t, dry["results"], planned["results"])
	require.NotContains(t, w.post("/batch", `{"operations":[{"op":"patch","kind":"cluster","id":"demo-cluster-01","patch":{}}]}`).json()["results"].([]any)[0], "document")
}
