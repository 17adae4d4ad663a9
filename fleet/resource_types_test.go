package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// netpols is a type with a required field, a default, nested defaults, and properties that clusters may override.
const netpols = `{"id":"network-policies","overridable":["port","rules"],"schema":{"type":"object","additionalProperties":false,"required":["namespace"],
	"properties":{"namespace":{"type":"string","maxLength":63},"port":{"type":"integer","minimum":1,"default":80},
		"rules":{"type":"array","default":[],"items":{"type":"object","additionalProperties":false,"required":["from"],
			"properties":{"from":{"type":"string"},"proto":{"enum":["TCP","UDP"],"default":"TCP"}}}}}}}`

var kindNetpol = ResourceKind("network-policies")

// typedWorld has three clusters with two definitions of one type each.
func typedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	seed, err := ParseSeed([]byte(`{"resource_types":[` + netpols + `],"resources":[
		{"type":"network-policies","id":"a","spec":{"namespace":"n"}},
		{"type":"network-policies","id":"b","spec":{"namespace":"m","port":8080,"rules":[{"from":"x"}]}},
		{"type":"network-policies","id":"spare","spec":{"namespace":"n"}}],"clusters":[
		{"id":"k0","cluster_dns":"k0.example.com","environment":"dev","resources":{"network-policies":[{"id":"b"},{"id":"a"}]}},
		{"id":"k1","cluster_dns":"k1.example.com","environment":"dev","resources":{"network-policies":[{"id":"b"},{"id":"a"}]}},
		{"id":"k2","cluster_dns":"k2.example.com","environment":"dev","resources":{"network-policies":[{"id":"b","overrides":{"rules":[{"from":"y"}]}},{"id":"a"}]}}]}`))
	require.NoError(t, err)
	require.NoError(t, seed.Check(testRules, nil))
	w.must(seed.Create)
	return w
}

func TestResourcesArePolled(t *testing.T) {
	t.Parallel()
	w := typedWorld(t)
	require.Equal(t, `{"inputs":[{"id":"b","namespace":"m","port":8080,"rules":[{"from":"x","proto":"TCP"}],"cluster":{"name":"k0","dns":"k0.example.com","environment":"dev"}},`+
		`{"id":"a","namespace":"n","port":80,"rules":[],"cluster":{"name":"k0","dns":"k0.example.com","environment":"dev"}}]}`+"\n", poll(t, w.state, quotaDNS, kindNetpol))
	require.Contains(t, poll(t, w.state, "k2.example.com", kindNetpol), `"rules":[{"from":"y","proto":"TCP"}]`, "an override, with the defaults it lacks")

	w.must(patch(kindNetpol, "a", `{"spec":{"port":1}}`))
	require.Contains(t, poll(t, w.state, quotaDNS, kindNetpol), `"namespace":"n","port":1,`)
	doc, _ := w.state.Get(kindNetpol, "a")
	shown, err := json.Marshal(doc.View())
	require.NoError(t, err)
	require.Contains(t, string(shown), `{"type":"network-policies","id":"a","spec":{"namespace":"n","port":1,"rules":[]},"revision":2,`)
	require.JSONEq(t, `{"id":"a","type":"network-policies","spec":{"namespace":"n","port":1,"rules":[]}}`, string(doc.Body), "stored with its defaults")

	w.must(assign("k0", kindNetpol, "a", `{"overrides":{"port":9}}`))
	require.Contains(t, poll(t, w.state, quotaDNS, kindNetpol), `"namespace":"n","port":9,`)
	w.must(assign("k0", kindNetpol, "a", ""))
	require.Contains(t, poll(t, w.state, quotaDNS, kindNetpol), `"namespace":"n","port":9,`, "they stay")
	w.must(put(KindCluster, "k0", `{"resources":{"network-policies":[{"id":"a"}]}}`))
	require.Contains(t, poll(t, w.state, quotaDNS, kindNetpol), `"namespace":"n","port":9,`, "PUT keeps what an entry does not mention")
	w.must(assign("k0", kindNetpol, "a", `{"overrides":null}`))
	require.Contains(t, poll(t, w.state, quotaDNS, kindNetpol), `"namespace":"n","port":1,`)

	w.must(remove(KindCluster, "k1", DeleteOptions{}))
	require.Equal(t, `{"inputs":[]}`+"\n", poll(t, w.state, "k1.example.com", kindNetpol), "decommissioned")
	_, err = w.state.Answer(doc, ResourceKind("nothing"))
	require.Error(t, err)
	_, ok := w.state.PolledAt("nothing")
	require.False(t, ok)
}

// TestClustersWithoutResourcesAreUnchanged: empty values are not stored.
func TestClustersWithoutResourcesAreUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := `{"id":"k","cluster_dns":"k.example.com","environment":"dev"`
	w.must(create(KindCluster, plain+`}`))
	before, _ := w.state.Get(KindCluster, "k")
	for _, empty := range []string{`{}`, `{"gone":[]}`, `null`} {
		res := w.must(put(KindCluster, "k", `{"resources":`+empty+`}`))
		require.Empty(t, res.Commit.Changes, empty)
	}
	require.NotContains(t, string(before.Body), "resources")
	w.must(create(KindResourceType, netpols))
	w.must(create(kindNetpol, `{"id":"a","spec":{"namespace":"n"}}`))
	w.must(assign("k", kindNetpol, "a", ""))
	w.must(func(tx *Tx) error { _, err := tx.Unassign("k", kindNetpol, "a"); return err })
	after, _ := w.state.Get(KindCluster, "k")
	require.Equal(t, string(before.Body), string(after.Body))
}

func TestInvalidTypesAreRefused(t *testing.T) {
	t.Parallel()
	schema := func(text string) string { return `{"id":"things","schema":` + text + `}` }
	object := func(rest string) string { return schema(`{"type":"object","additionalProperties":false,` + rest + `}`) }
	fine := `"schema":{"type":"object","additionalProperties":false,"properties":{}}`
	for body, at := range map[string]string{
		schema(`{"type":"string"}`):                                                          "/schema/type",
		object(`"properties":{"a":{"type":"string"}}`):                                       "/schema/properties/a",
		object(`"properties":{"a":{"$ref":"https://example.com/x.json","default":1}}`):       "/schema/properties/a/$ref",
		object(`"properties":{"a":{"$ref":"#/properties/a","default":1}}`):                   "/schema/properties/a/$ref",
		object(`"properties":{"a":{"type":"string","default":"` + textOf(1 << 20)[9:] + `}`): "/schema",
		object(`"properties":{"id":{"default":1}}`):                                          "/schema/properties/id",
		object(`"properties":{"cluster":{"default":1}}`):                                     "/schema/properties/cluster",
		object(`"properties":{"a-b":{"default":1}}`):                                         "/schema/properties/a-b",
		object(`"properties":{"a":{"type":"string","default":1}}`):                           "/schema/properties/a/default",
		`{"id":"things"}`:                                                                 "/schema",
		`{"id":"namespaces",` + fine + `}`:                                                "/id",
		`{"id":"platform-components",` + fine + `}`:                                       "/id",
		`{"id":"clusters",` + fine + `}`:                                                  "/id",
		`{"id":"receipts",` + fine + `}`:                                                  "/id",
		`{"id":"events",` + fine + `}`:                                                    "/id",
		`{"id":"a/b",` + fine + `}`:                                                       "/id",
		`{"id":"a~1b",` + fine + `}`:                                                      "/id",
		`{"id":"` + strings.Repeat("x", 54) + `",` + fine + `}`:                           "/id",
		`{"id":"things","removal":"maybe",` + fine + `}`:                                  "/removal",
		`{"id":"things","overridable":["x"],` + fine + `}`:                                "/overridable/0",
		`{"id":"things","template":"` + strings.Repeat("x", 64<<10+1) + `",` + fine + `}`: "/template",
	} {
		w := newWorld(t)
		e := w.refused(CodeInvalid, create(KindResourceType, body))
		require.Equal(t, at, e.Problems[0].Pointer, "%.200s: %v", body, e.Problems)
	}
	w := newWorld(t)
	w.must(create(KindResourceType, `{"id":"namespaces-of-ours",`+fine+`}`))
	w.must(create(KindResourceType, `{"id":"namespace",`+fine+`}`))
	w.must(create(KindResourceType, `{"id":"`+strings.Repeat("x", 53)+`",`+fine+`}`))
	w.refused(CodeConflict, create(KindResourceType, `{"id":"namespace",`+fine+`}`))
}

// Patterns are RE2, which takes linear time: one that stalls other engines is refused or fast.
func TestPathologicalPatternsAreQuick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(create(KindResourceType, `{"id":"things","schema":{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}}`))
	w.refused(CodeInvalid, create(ResourceKind("things"), `{"id":"x","spec":{"a":"`+strings.Repeat("a", 100_000)+`!"}}`))
	w.refused(CodeInvalid, create(KindResourceType, `{"id":"others","schema":{"type":"object","additionalProperties":false,"required":["a"],"properties":{"a":{"type":"string","pattern":"(?=x)"}}}}`))
}

// A few bytes of a schema and of a spec must not expand to gigabytes.
func TestDefaultsDoNotExplode(t *testing.T) {
	t.Parallel()
	many := strings.TrimSuffix(strings.Repeat("{},", 1000), ",")
	inner := `{"type":"object","additionalProperties":false,"properties":{"q":{"type":"array","items":{"type":"object"},"default":[` + many + `]}}}`
	w := newWorld(t)
	w.refused(CodeInvalid, create(KindResourceType, `{"id":"things","schema":{"type":"object","additionalProperties":false,"properties":{"p":{"type":"array","items":`+inner+`,"default":[`+many+`]}}}}`))
	w.must(create(KindResourceType, `{"id":"things","overridable":["p"],"schema":{"type":"object","additionalProperties":false,"properties":{"p":{"type":"array","items":`+inner+`,"default":[]}}}}`))
	e := w.refused(CodeInvalid, create(ResourceKind("things"), `{"id":"x","spec":{"p":[`+many+`]}}`))
	require.Contains(t, e.Detail, "/spec: comes to more than")
	w.must(create(ResourceKind("things"), `{"id":"x","spec":{}}`))
	w.must(create(KindCluster, `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`))
	e = w.refused(CodeInvalid, assign("k", ResourceKind("things"), "x", `{"overrides":{"p":[`+many+`]}}`))
	require.Equal(t, "/resources/things/0/overrides", e.Problems[0].Pointer)
}

func TestResourcesAreCheckedAgainstTheirType(t *testing.T) {
	t.Parallel()
	w := typedWorld(t)
	e := w.refused(CodeInvalid, create(kindNetpol, `{"id":"x","spec":{"port":0,"rules":[{}],"more":1}}`))
	at := []string{}
	for _, p := range e.Problems {
		at = append(at, p.Pointer)
	}
	require.Equal(t, []string{"/spec/more", "/spec/namespace", "/spec/port", "/spec/rules/0/from"}, at)
	for body, at := range map[string]string{
		`{"id":"X","spec":{"namespace":"n"}}`:                "/id",
		`{"id":"x","type":"other","spec":{"namespace":"n"}}`: "/type",
		`{"id":"x","spec":3}`:                                "/spec",
		`{"id":"x"}`:                                         "/spec/namespace",
	} {
		require.Equal(t, at, w.refused(CodeInvalid, create(kindNetpol, body)).Problems[0].Pointer, body)
	}
	require.Contains(t, w.refused(CodeNotFound, create(ResourceKind("nothing"), `{"id":"x"}`)).Detail, `no resource type "nothing"`)
	require.Contains(t, w.refused(CodeNotFound, patch(ResourceKind("nothing"), "x", `{}`)).Detail, `no resource type "nothing"`)
	require.Contains(t, w.refused(CodeNotFound, patch(kindNetpol, "nothing", `{}`)).Detail, `no network-policies resource "nothing"`)
	w.refused(CodeInvalid, patch(kindNetpol, "a", `{"spec":{"port":0}}`))
	w.must(patch(kindNetpol, "b", `{"spec":{"port":null}}`))
	require.Contains(t, poll(t, w.state, quotaDNS, kindNetpol), `"namespace":"m","port":80,`, "null is the default")
}

func TestEntriesOfClustersAreChecked(t *testing.T) {
	t.Parallel()
	w := typedWorld(t)
	for body, at := range map[string]string{
		`{"nothing":[{"id":"a"}]}`:                                          "/resources/nothing",
		`{"network-policies":[{"id":"a"},{"id":"a"}]}`:                      "/resources/network-policies/1/id",
		`{"network-policies":[{"id":"x"}]}`:                                 "/resources/network-policies/0/id",
		`{"network-policies":[{"id":"a","overrides":{"namespace":"x"}}]}`:   "/resources/network-policies/0/overrides/namespace",
		`{"network-policies":[{"id":"a","overrides":{"port":0}}]}`:          "/resources/network-policies/0/overrides/port",
		`{"network-policies":[{"id":"a","overrides":{"port":null}}]}`:       "/resources/network-policies/0/overrides/port",
		`{"network-policies":[{"id":"a","overrides":{"rules":[{"x":1}]}}]}`: "/resources/network-policies/0/overrides/rules/0/from",
	} {
		e := w.refused(CodeInvalid, patch(KindCluster, "k0", `{"resources":`+body+`}`))
		require.Equal(t, at, e.Problems[0].Pointer, body)
	}
	w.must(patch(KindCluster, "k0", `{"resources":{"network-policies":null}}`))
	require.Equal(t, `{"inputs":[]}`+"\n", poll(t, w.state, quotaDNS, kindNetpol))
}

// A changed schema is checked against all existing definitions, and its new defaults reach every cluster.
func TestChangedSchema(t *testing.T) {
	t.Parallel()
	w := typedWorld(t)
	e := w.refused(CodeInvalid, patch(KindResourceType, "network-policies", `{"schema":{"properties":{"namespace":{"maxLength":0},"rules":{"maxItems":0}}}}`))
	require.Contains(t, fmt.Sprint(e.Problems), `network-policies resource \"a\": spec/namespace`[:26])
	for _, named := range []string{`network-policies resource "a"`, `network-policies resource "b"`, `network-policies resource "spare"`, `cluster "k2"`} {
		require.Contains(t, fmt.Sprint(e.Problems), named)
	}
	e = w.refused(CodeInvalid, patch(KindResourceType, "network-policies", `{"overridable":["port"]}`))
	require.Contains(t, e.Detail, `cluster "k2": resources/network-policies/0/overrides/rules`)
	w.refused(CodeInvalid, patch(KindResourceType, "network-policies", `{"schema":{"required":["namespace","more"],"properties":{"more":{"type":"string"}}}}`))

	more := patch(KindResourceType, "network-policies", `{"schema":{"properties":{"egress":{"type":"boolean","default":false},"rules":{"items":{"properties":{"end":{"default":0}}}}}}}`)
	plan := w.plan(more)
	require.Equal(t, 3, plan.Totals.Clusters)
	require.Equal(t, 6, plan.Totals.Changed)
	before := w.state
	w.must(confirmed(plan.PlanHash, more))
	requirePlanned(t, before, w.state, plan, "a default")
	require.Contains(t, poll(t, w.state, quotaDNS, kindNetpol), `{"id":"b","egress":false,"namespace":"m","port":8080,"rules":[{"end":0,"from":"x","proto":"TCP"}],`)
	require.Contains(t, poll(t, w.state, "k2.example.com", kindNetpol), `"rules":[{"end":0,"from":"y","proto":"TCP"}]`, "overrides get what is new too")

	same := w.plan(patch(KindResourceType, "network-policies", `{"description":"x"}`))
	require.Empty(t, same.Groups)

	// In one commit with a change that makes it valid.
	w.must(both(patch(KindResourceType, "network-policies", `{"schema":{"required":["namespace","more"],"properties":{"more":{"type":"string"}}}}`),
		patch(kindNetpol, "a", `{"spec":{"more":"1"}}`), patch(kindNetpol, "b", `{"spec":{"more":"1"}}`), patch(kindNetpol, "spare", `{"spec":{"more":"1"}}`)))
	// And the resulting definition is checked against the overrides of clusters.
	w.must(patch(KindResourceType, "network-policies", `{"schema":{"if":{"properties":{"namespace":{"const":"locked"}}},"then":{"properties":{"rules":{"maxItems":0}}}}}`))
	w.must(both(patch(kindNetpol, "b", `{"spec":{"rules":[]}}`)))
	e = w.refused(CodeInvalid, patch(kindNetpol, "b", `{"spec":{"namespace":"locked"}}`))
	require.Contains(t, e.Detail, `cluster "k2"`)
}

func TestATypeInUse(t *testing.T) {
	t.Parallel()
	w := typedWorld(t)
	e := w.refused(CodeInUse, remove(KindResourceType, "network-policies", DeleteOptions{}))
	require.Contains(t, e.Detail, `resource type "network-policies" is used by 3 resources: a, b, spare`)
	require.Contains(t, w.refused(CodeInUse, remove(kindNetpol, "a", DeleteOptions{})).Detail, "3 clusters: k0, k1, k2")
	w.refused(CodeInUse, both(remove(KindResourceType, "network-policies", DeleteOptions{}),
		remove(kindNetpol, "a", DeleteOptions{}), remove(kindNetpol, "b", DeleteOptions{}), remove(kindNetpol, "spare", DeleteOptions{})))
	w.refused(CodeInUse, both(create(KindResourceType, strings.Replace(netpols, "network-policies", "new", 1)),
		create(ResourceKind("new"), `{"id":"x","spec":{"namespace":"n"}}`), remove(KindResourceType, "new", DeleteOptions{})))

	gone := remove(KindResourceType, "network-policies", DeleteOptions{Cascade: true})
	w.refused(CodeInUse, both(gone, patch(KindCluster, "k0", `{"resources":{"network-policies":[{"id":"a"}]}}`)))
	w.refused(CodeNotFound, both(gone, assign("k0", kindNetpol, "a", "")))
	w.state.rules.MaxRemovals = 5
	require.Contains(t, w.refused(CodeConfirm, gone).Detail, "6 installed things would be removed from 3 clusters")
	w.must(patch(KindCluster, "k0", `{"deletion_protection":true}`))
	w.state.rules.MaxRemovals = 5
	require.Contains(t, w.refused(CodeProtected, gone).Detail, `would remove from it: a, b`)
	w.must(patch(KindCluster, "k0", `{"deletion_protection":false}`))
	w.state.rules.MaxRemovals = 5
	plan := w.plan(gone)
	require.Equal(t, 6, plan.Totals.Removals)
	require.Equal(t, []string{"b", "a"}, plan.Groups[0].Effect["network-policies"].Removed)
	w.must(confirmed(plan.PlanHash, gone))
	require.Empty(t, w.state.docs[kindNetpol])
	_, ok := w.state.PolledAt("network-policies")
	require.False(t, ok)
	cluster, _ := w.state.Get(KindCluster, "k0")
	require.NotContains(t, string(cluster.Body), "resources")
}

// TestTypeAndDefinitionsInOneCommit: a type, its definitions and their assignments.
func TestTypeAndDefinitionsInOneCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`)
	run := batch(`{"op":"create","kind":"resource_type","document":`+netpols+`}`,
		`{"op":"create","kind":"resource","type":"network-policies","document":{"id":"a","spec":{"namespace":"n"}}}`,
		`{"op":"assign_resource","type":"network-policies","resource_id":"a","all":true,"overrides":{"port":7}}`,
		`{"op":"patch","kind":"resource_type","id":"network-policies","patch":{"schema":{"properties":{"late":{"default":"yes"}}}}}`)
	plan := w.plan(run)
	require.Equal(t, 1, plan.Totals.Added)
	w.must(run)
	require.Contains(t, poll(t, w.state, "k.example.com", kindNetpol), `{"id":"a","late":"yes","namespace":"n","port":7,`)
	w.must(batch(`{"op":"assign_resource","type":"network-policies","resource_id":"a","all":true,"overrides":null}`))
	require.Contains(t, poll(t, w.state, "k.example.com", kindNetpol), `"port":80,`)
	for op, detail := range map[string]string{
		`{"op":"create","kind":"resource","document":{"id":"x"}}`:                     "type: is required",
		`{"op":"create","kind":"namespace","type":"x","document":{"id":"x"}}`:         "type: is for kind resource",
		`{"op":"assign_resource","resource_id":"a","all":true}`:                       "type: is required",
		`{"op":"assign_resource","type":"network-policies","all":true}`:               "resource_id: is required",
		`{"op":"assign_namespace","namespace_id":"a","all":true,"overrides":{"x":1}}`: "overrides: is for assign_resource",
	} {
		w.must(func(*Tx) error { return nil })
		if strings.Contains(op, "assign_namespace") {
			w.must(create(KindNamespace, `{"id":"a"}`))
		}
		require.Contains(t, w.refused(CodeInvalid, batch(op)).Detail, detail, op)
	}
	w.refused(CodeNotFound, batch(`{"op":"create","kind":"resource","type":"nothing","document":{"id":"x"}}`))
	w.refused(CodeNotFound, batch(`{"op":"assign_resource","type":"nothing","resource_id":"x","all":true}`))
	w.must(batch(`{"op":"unassign_resource","type":"network-policies","resource_id":"a","all":true}`))
	w.must(batch(`{"op":"delete","kind":"resource","type":"network-policies","id":"a"}`, `{"op":"delete","kind":"resource_type","id":"network-policies"}`))
	require.Len(t, w.state.kinds.lists, 3)
}

func TestTypesAreRestored(t *testing.T) {
	t.Parallel()
	w := typedWorld(t)
	were := Documents{}
	for kind, docs := range w.state.docs {
		for id, doc := range docs {
			were.Set(kind, id, doc.Body)
		}
	}
	w.must(remove(KindResourceType, "network-policies", DeleteOptions{Cascade: true}))
	restore := func(op api.Operation, past Documents) func(*Tx) error {
		return func(tx *Tx) error {
			op.Op, op.Revision = "restore", 1
			_, err := NewBatch(tx, &log{past: past}).Run([]api.Operation{op})
			return err
		}
	}
	e := w.refused(CodeInvalid, restore(api.Operation{Kind: "cluster", ID: "k0"}, Documents{KindCluster: {"k0": were[KindCluster]["k0"]}}))
	require.Contains(t, e.Problems[0].Detail, `there is no resource type "network-policies"`)
	w.refused(CodeNotFound, restore(api.Operation{Kind: "resource", Type: "network-policies", ID: "a"}, Documents{kindNetpol: {"a": were[kindNetpol]["a"]}}))
	w.must(restore(api.Operation{}, were))
	require.Equal(t, []string{"b", "a"}, ids(inputsOf(t, w.state, quotaDNS, kindNetpol)))

	// And back to the fleet without any.
	none := Documents{}
	for _, kind := range []Kind{KindResourceType, kindNetpol} {
		for id := range were[kind] {
			none.Set(kind, id, nil)
		}
	}
	for id, body := range were[KindCluster] {
		obj, err := unstructured.Decode(body)
		require.NoError(t, err)
		delete(obj, "resources")
		bare, err := jsontext.Canonical(obj)
		require.NoError(t, err)
		none.Set(KindCluster, id, bare)
	}
	w.must(restore(api.Operation{}, none))
	require.Equal(t, 0, w.state.Count(KindResourceType))
}

// Removals of a type whose objects Flux keeps do not count; a type that has changed to that policy recently still counts.
func TestRemovalKeep(t *testing.T) {
	t.Parallel()
	w := typedWorld(t)
	w.state.rules.MaxRemovals = 0
	off := patch(KindCluster, "k0", `{"resources":null}`)
	w.refused(CodeConfirm, off)
	w.now = w.now.Add(time.Minute)
	keep := patch(KindResourceType, "network-policies", `{"removal":"keep"}`)
	w.refused(CodeConfirm, both(keep, off))
	w.must(keep)
	w.refused(CodeConfirm, off)
	w.now = w.now.Add(settleTime + time.Minute)
	require.Equal(t, 0, w.plan(off).Totals.Removals)
	w.must(off)
}

// TestResourcesAreLikeNamespaces: a type with the fields of namespaces is polled, planned, guarded and bounded like them.
func TestResourcesAreLikeNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindResourceType), `{"id":"spaces","identity":[],"schema":{"type":"object","additionalProperties":false,"properties":{
		"labels":{"type":"object","additionalProperties":{"type":"string"},"default":{}},
		"annotations":{"type":"object","additionalProperties":{"type":"string"},"default":{}},
		"deletion_policy":{"enum":["delete","orphan"],"default":"delete"}}}}`,
		string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev"}`,
		string(KindCluster), `{"id":"k1","cluster_dns":"k1.example.com","environment":"qa"}`)
	kind := ResourceKind("spaces")
	own := func(rest string) (string, string) {
		return `{"id":"x",` + rest + `}`, `{"id":"x","spec":{` + rest + `}}`
	}
	same := func(what string, edit func(Kind) func(*Tx) error) {
		t.Helper()
		w.state.rules.MaxRemovals = 0
		before := w.state
		planned, plannedOurs := w.plan(edit(KindNamespace)), w.plan(edit(kind))
		require.Equal(t, planned.Totals, plannedOurs.Totals, what)
		require.Equal(t, planned.ConfirmationRequired, plannedOurs.ConfirmationRequired, what)
		require.Len(t, plannedOurs.Groups, len(planned.Groups), what)
		for i, g := range planned.Groups {
			require.Equal(t, g.Clusters, plannedOurs.Groups[i].Clusters)
			ours, err := json.Marshal(plannedOurs.Groups[i].Effect["spaces"])
			require.NoError(t, err)
			theirs, err := json.Marshal(g.Effect["namespaces"])
			require.NoError(t, err)
			require.JSONEq(t, string(theirs), strings.ReplaceAll(string(ours), "/spec", ""), what)
		}
		w.state = before
		w.must(confirmed(planned.PlanHash, edit(KindNamespace)))
		w.state.rules.MaxRemovals = 0
		w.must(confirmed(w.plan(edit(kind)).PlanHash, edit(kind)))
		for _, c := range []string{"k0", "k1"} {
			dns := c + ".example.com"
			require.JSONEq(t, poll(t, w.state, dns, KindNamespace), poll(t, w.state, dns, kind), what)
			doc, _ := w.state.Get(KindCluster, c)
			require.Equal(t, w.state.bound(w.state.Effective(doc), w.state.kinds.descriptor(KindNamespace)), w.state.bound(w.state.Effective(doc), w.state.kinds.descriptor(kind)), what)
		}
	}
	document := func(rest string, edit func(Kind, string) func(*Tx) error) func(Kind) func(*Tx) error {
		return func(k Kind) func(*Tx) error {
			plain, ours := own(rest)
			if k == KindNamespace {
				return edit(k, plain)
			}
			return edit(k, ours)
		}
	}
	unassign := func(cluster string) func(Kind) func(*Tx) error {
		return func(k Kind) func(*Tx) error {
			return func(tx *Tx) error { _, err := tx.Unassign(cluster, k, "x"); return err }
		}
	}
	same("created", document(`"labels":{"a":"b"}`, create))
	same("assigned", func(k Kind) func(*Tx) error { return assign("k0", k, "x", "") })
	same("assigned again", func(k Kind) func(*Tx) error { return assign("k1", k, "x", "") })
	same("changed", document(`"labels":{"a":"c"}`, func(k Kind, body string) func(*Tx) error { return patch(k, "x", body) }))
	same("renamed", func(Kind) func(*Tx) error { return patch(KindCluster, "k1", `{"cluster_name":"other"}`) })
	big := strings.Repeat("x", 250<<10)
	same("grown", document(`"annotations":{"a":"`+big+`"}`, func(k Kind, body string) func(*Tx) error { return patch(k, "x", body) }))
	same("unassigned", unassign("k0"))
	same("unassigned again", unassign("k1"))
	same("deleted", func(k Kind) func(*Tx) error { return remove(k, "x", DeleteOptions{}) })
}

// No answer exceeds the limit, through a definition, overrides, or a default of the type.
func TestNoAnswerOfAResourceTypeGrowsTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindResourceType), `{"id":"blobs","overridable":["more"],"schema":{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","default":""},"more":{"type":"array","default":[],"items":{"type":"object","additionalProperties":false,"properties":{"x":{"default":""}}}}}}}`,
		string(KindCluster), `{"id":"k","cluster_dns":"k.example.com","environment":"dev"}`)
	kind := ResourceKind("blobs")
	text := func(size int) string { return `{"spec":{"text":"` + strings.Repeat("x", size) + `"}}` }
	w.must(create(kind, `{"id":"a"}`))
	w.must(create(kind, `{"id":"b"}`))
	w.must(create(kind, `{"id":"huge","spec":{"text":"`+strings.Repeat("x", 900<<10)+`"}}`))
	require.Equal(t, "/resources/blobs", w.refused(CodeLimitExceeded, assign("k", kind, "huge", "")).Problems[0].Pointer)
	w.must(assign("k", kind, "a", ""))
	w.must(assign("k", kind, "b", ""))
	w.must(patch(kind, "a", text(500<<10)))
	w.refused(CodeLimitExceeded, patch(kind, "b", text(410<<10)))
	many := strings.TrimSuffix(strings.Repeat("{},", 10_000), ",")
	w.must(assign("k", kind, "b", `{"overrides":{"more":[`+many+`]}}`))
	doc, _ := w.state.Get(KindCluster, "k")
	require.GreaterOrEqual(t, w.state.bound(w.state.Effective(doc), w.state.kinds.descriptor(kind)), len(pollSealed(t, w.state, "k.example.com", kind)))
	w.refused(CodeLimitExceeded, patch(KindResourceType, "blobs", `{"schema":{"properties":{"more":{"items":{"properties":{"x":{"default":"`+strings.Repeat("y", 40)+`"}}}}}}}`))
	require.NotContains(t, poll(t, w.state, "k.example.com", kind), "y")
	w.must(patch(kind, "a", text(800<<10)))
	w.refused(CodeLimitExceeded, patch(KindResourceType, "blobs", `{"schema":{"properties":{"z":{"default":"`+strings.Repeat("y", 60_000)+`"},"z2":{"default":""}}}}`)) // on two definitions
}
