package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// A kind that exists only in these tests: every rule for all kinds must hold for a kind that is only a descriptor.
const kindQuota Kind = "quota"

type (
	quota struct {
		ID        string    `json:"id"`
		Text      string    `json:"text"`
		Revision  int64     `json:"revision"`
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
	}
	quotaRef struct {
		ID string `json:"id"`
	}
	fluxQuota struct {
		ID      string          `json:"id"`
		Text    string          `json:"text"`
		Cluster api.FluxCluster `json:"cluster"`
	}
	clusterWithQuotas struct {
		api.Cluster
		Quotas   []quotaRef        `json:"quotas"`
		Excludes *excludesOfQuotas `json:"excludes,omitempty"` // in place of the embedded one
	}
	excludesOfQuotas struct {
		api.Excludes
		Quotas []string `json:"quotas,omitempty"`
	}
)

var quotaKind = definition[quota, quotaRef, fluxQuota]{
	descriptor: descriptor{
		kind: kindQuota, field: "quotas", endpoint: "the-quotas", idField: "quota_id", addedLater: true,
		rules: kindRules{
			noun:      "quota",
			normalize: func(obj map[string]any) { unstructured.SetDefault(obj, "text", "") },
			check:     func(c *checker, d *Document) { c.dnsLabel("/id", d.ID) },
		},
		idFrom:   func(op *api.Operation) string { return op.ID },
		excluded: func(own *Effective) []string { return own.value.(*clusterWithQuotas).Excludes.Quotas },
	},
	list:    func(c *Effective) []quotaRef { return c.value.(*clusterWithQuotas).Quotas },
	setList: func(c *Effective, entries []quotaRef) { c.value.(*clusterWithQuotas).Quotas = entries },
	entryID: func(e *quotaRef) string { return e.ID },
	setMetadata: func(q *quota, revision int64, created, updated time.Time) {
		q.Revision, q.CreatedAt, q.UpdatedAt = revision, created, updated
	},
	input: func(_ *inputContext, q *quota, _ *quotaRef) (fluxQuota, error) {
		return fluxQuota{ID: q.ID, Text: q.Text}, nil
	},
	cluster: func(in *fluxQuota) *api.FluxCluster { return &in.Cluster },
}

func modelWithQuotas(c *clusterWithQuotas) *api.Cluster {
	if c.Excludes != nil && c.Cluster.Excludes != &c.Excludes.Excludes {
		c.Cluster.Excludes = &c.Excludes.Excludes
	}
	return &c.Cluster
}

var withQuotas = newKindSet(modelWithQuotas, componentKind.describe(), namespaceKind.describe(), roleBindingKind.describe(), quotaKind.describe())

const quotaDNS = "k0.example.com"

// quotaWorld is three clusters with two quotas each.
func quotaWorld(t *testing.T) *world {
	t.Helper()
	empty, err := withQuotas.state(testRules, Head{}, time.Time{}, nil)
	require.NoError(t, err)
	w := &world{t: t, state: empty, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	seed, err := withQuotas.parseSeed([]byte(`{"quotas":[{"id":"a"},{"id":"b","text":"hello"},{"id":"spare"}],"clusters":[
		{"id":"k0","cluster_dns":"k0.example.com","environment":"dev","quotas":[{"id":"b"},{"id":"a"}]},
		{"id":"k1","cluster_dns":"k1.example.com","environment":"dev","quotas":[{"id":"b"},{"id":"a"}]},
		{"id":"k2","cluster_dns":"k2.example.com","environment":"dev","quotas":[{"id":"b"},{"id":"a"}]}]}`))
	require.NoError(t, err)
	w.must(seed.Create)
	return w
}

func textOf(size int) string { return fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", size)) }

func TestAnyKindIsPolled(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	require.Equal(t, `{"inputs":[{"id":"b","text":"hello","cluster":{"name":"k0","dns":"k0.example.com","environment":"dev"}},`+
		`{"id":"a","text":"","cluster":{"name":"k0","dns":"k0.example.com","environment":"dev"}}]}`+"\n", poll(t, w.state, quotaDNS, kindQuota))
	w.must(patch(kindQuota, "a", `{"text":"new"}`))
	require.Contains(t, poll(t, w.state, quotaDNS, kindQuota), `"text":"new"`, "the encoded answer is made anew")
	doc, _ := w.state.Get(kindQuota, "a")
	require.EqualValues(t, 2, doc.View().(*quota).Revision)
	cluster, _ := w.state.Get(KindCluster, "k0")
	require.Equal(t, 2, w.state.InstallCount(cluster))
	shown, err := json.Marshal(cluster.View())
	require.NoError(t, err)
	require.Contains(t, string(shown), `"quotas":[{"id":"b"},{"id":"a"}]`)

	w.must(remove(KindCluster, "k2", DeleteOptions{}))
	require.Equal(t, `{"inputs":[]}`+"\n", poll(t, w.state, "k2.example.com", kindQuota), "decommissioned")
}

// TestAnyKindIsExcluded: a cluster excludes entries of its layers, of any kind.
func TestAnyKindIsExcluded(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	w.must(create(KindLayer, `{"id":"base","priority":1,"all":true,"quotas":[{"id":"spare"}]}`))
	polled := func() []string { return ids(inputsOf(t, w.state, quotaDNS, kindQuota)) }
	require.Contains(t, polled(), "spare")
	res := w.must(patch(KindCluster, "k0", `{"excludes":{"quotas":["spare"]}}`))
	require.Equal(t, []string{"Flux uninstalls 1 thing on 1 cluster: quota spare on k0"}, res.Warnings)
	require.Equal(t, []string{"b", "a"}, polled())
	cluster, _ := w.state.Get(KindCluster, "k0")
	shown, err := json.Marshal(cluster.View())
	require.NoError(t, err)
	require.Contains(t, string(shown), `"excludes":{"quotas":["spare"]}`)

	res = w.must(patch(KindCluster, "k1", `{"excludes":{"quotas":["nobody"]}}`))
	require.Contains(t, strings.Join(res.Warnings, "\n"), `cluster "k1" excludes the quota "nobody", which no layer assigns to it`)
	for body, at := range map[string]string{
		`{"excludes":{"quotas":["spare","spare"]}}`: "/excludes/quotas/1",
		`{"excludes":{"quotas":["a"]}}`:             "/excludes/quotas/0",
	} {
		require.Equal(t, at, w.refused(CodeInvalid, patch(KindCluster, "k2", body)).Problems[0].Pointer, body)
	}

	w.must(patch(KindCluster, "k0", `{"excludes":{"quotas":[]}}`))
	require.Contains(t, polled(), "spare")
	cluster, _ = w.state.Get(KindCluster, "k0")
	require.NotContains(t, string(cluster.Body), "excludes", "a cluster that excludes nothing is stored as one that never did")

	w.must(patch(KindCluster, "k0", `{"excludes":{"quotas":["spare"]}}`))
	w.must(assign("k0", kindQuota, "spare", ""))
	require.Contains(t, polled(), "spare", "assigning it ends the exclusion")
}

// TestEveryListCanBeExcluded: the kind of the same name reads each list of the API's excludes. Components are disabled
// instead.
func TestEveryListCanBeExcluded(t *testing.T) {
	t.Parallel()
	for _, a := range compiledIn.lists {
		if a.kind == KindComponent {
			continue
		}
		var c api.Cluster
		require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"excludes":{%q:["x"]}}`, a.field), &c))
		require.Equal(t, []string{"x"}, a.excludedIDs(&Effective{value: &c, cluster: &c}), a.field)
	}
}

// TestClustersStoredBeforeAKind have an empty list of it, not null; a missing list of another kind is a broken document.
func TestClustersStoredBeforeAKind(t *testing.T) {
	t.Parallel()
	before := Record{Kind: KindCluster, ID: "k0", Revision: 1, Body: json.RawMessage(
		`{"cluster_dns":"k0.example.com","cluster_name":"k0","environment":"dev","id":"k0","namespaces":[],"platform_components":[],"rolebindings":[]}`)}
	state, err := withQuotas.state(testRules, Head{Revision: 1}, time.Time{}, []Record{before, {Kind: kindQuota, ID: "a", Body: json.RawMessage(`{"id":"a","text":""}`)}})
	require.NoError(t, err)
	require.Equal(t, `{"inputs":[]}`+"\n", poll(t, state, quotaDNS, kindQuota))
	cluster, _ := state.Get(KindCluster, "k0")
	shown, err := json.Marshal(cluster.View())
	require.NoError(t, err)
	require.Contains(t, string(shown), `"quotas":[]`)

	w := &world{t: t, state: state, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.must(assign("k0", kindQuota, "a", ""))
	require.Equal(t, []string{"a"}, ids(inputsOf(t, w.state, quotaDNS, kindQuota)))

	asOld := quotaKind
	asOld.addedLater = false
	_, err = newKindSet(modelWithQuotas, asOld.describe()).state(testRules, Head{}, time.Time{}, []Record{before})
	require.ErrorContains(t, err, "one of its lists is missing")
}

// TestNoAnswerOfAnyKindGrowsTooLarge, through a change of the cluster or of its definitions.
func TestNoAnswerOfAnyKindGrowsTooLarge(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	w.must(patch(kindQuota, "a", textOf(400<<10)))
	refused := w.refused(CodeLimitExceeded, patch(kindQuota, "b", textOf(520<<10)))
	require.Contains(t, refused.Detail, "the the-quotas of cluster")
	res := w.must(patch(kindQuota, "b", textOf(300<<10)))
	require.Contains(t, strings.Join(res.Warnings, "\n"), "above 70 %")
	w.must(patch(kindQuota, "spare", textOf(300<<10)))
	require.Equal(t, "/quotas", w.refused(CodeLimitExceeded, assign("k1", kindQuota, "spare", "")).Problems[0].Pointer)
}

func TestEntriesOfAnyKindAreCheckedOnClusters(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	for body, at := range map[string]string{
		`{"quotas":[{"id":"a"},{"id":"a"}]}`:      "/quotas/1/id",
		`{"quotas":[{"id":"a"},{"id":"nobody"}]}`: "/quotas/1/id",
		`{"quotas":3}`: "/quotas",
	} {
		require.Equal(t, at, w.refused(CodeInvalid, put(KindCluster, "k0", body)).Problems[0].Pointer, body)
	}
	many := make([]string, MaxInputs+1)
	for i := range many {
		many[i] = `{"id":"a"}`
	}
	require.Contains(t, w.refused(CodeInvalid, put(KindCluster, "k0", `{"quotas":[`+strings.Join(many, ",")+`]}`)).Error(), "problems")
}

func TestDefinitionsOfAnyKindInUse(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	require.Contains(t, w.refused(CodeInUse, remove(kindQuota, "a", DeleteOptions{})).Detail, `the quota "a" is used by 3 clusters: k0, k1, k2`)
	w.must(remove(kindQuota, "spare", DeleteOptions{}))
	w.must(remove(kindQuota, "a", DeleteOptions{Cascade: true}))
	require.Equal(t, []string{"b"}, ids(inputsOf(t, w.state, quotaDNS, kindQuota)))
}

// TestRemovalsOfAnyKindCount against the budget, and a protected cluster loses none.
func TestRemovalsOfAnyKindCount(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	w.state.rules.MaxRemovals = 2
	all := func(tx *Tx) error {
		for _, id := range []string{"k0", "k1", "k2"} {
			if _, err := tx.Unassign(id, kindQuota, "b"); err != nil {
				return err
			}
		}
		return nil
	}
	require.Contains(t, w.refused(CodeConfirm, all).Detail, "3 installed things would be removed from 3 clusters")
	plan := w.plan(all)
	require.Equal(t, 3, plan.Totals.Removals)
	require.True(t, plan.ConfirmationRequired)
	require.Equal(t, []string{"b"}, plan.Groups[0].Effect["the-quotas"].Removed)
	w.must(confirmed(plan.PlanHash, all))

	w.must(patch(KindCluster, "k0", `{"deletion_protection":true}`))
	require.Contains(t, w.refused(CodeProtected, put(KindCluster, "k0", `{"quotas":[]}`)).Detail, "would remove from it: a")

	// The installations of an orphaned cluster are recorded until its name is registered again.
	w.must(remove(KindCluster, "k1", DeleteOptions{Orphan: true}))
	back := create(KindCluster, `{"id":"k9","cluster_dns":"k1.example.com","environment":"dev"}`)
	require.Equal(t, 1, w.plan(back).Totals.Removals)
}

func TestPlansShowChangesOfAnyKind(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	plan := w.plan(patch(kindQuota, "b", `{"text":"other"}`))
	require.Len(t, plan.Groups, 1)
	require.Equal(t, []string{"k0", "k1", "k2"}, plan.Groups[0].Clusters)
	change := plan.Groups[0].Effect["the-quotas"].Changed[0]
	require.Equal(t, "b", change.ID)
	require.Equal(t, "/text", change.Fields[0].Pointer)
	require.False(t, change.Removal)

	require.JSONEq(t, `{"id":"spare","text":""}`, string(w.plan(assign("k0", kindQuota, "spare", "")).Groups[0].Effect["the-quotas"].Added[0]))
	require.True(t, w.plan(put(KindCluster, "k0", `{"quotas":[{"id":"a"},{"id":"b"}]}`)).Groups[0].Effect["the-quotas"].Reordered)
	require.Len(t, w.plan(patch(KindCluster, "k0", `{"cluster_name":"renamed"}`)).Groups[0].Effect["the-quotas"].Changed, 2, "every input has the cluster's block")
	require.Empty(t, w.plan(patch(KindCluster, "k0", `{"labels":{"a":"b"}}`)).Groups)
}

func TestBatchesKnowAnyKind(t *testing.T) {
	t.Parallel()
	w := quotaWorld(t)
	run := func(ops ...api.Operation) func(*Tx) error {
		return func(tx *Tx) error { _, err := NewBatch(tx, nil).Run(ops); return err }
	}
	w.must(run(api.Operation{Op: "assign_quota", ID: "spare", All: true}, api.Operation{Op: "unassign_quota", ID: "b", ClusterIds: []string{"k1"}}))
	require.Equal(t, []string{"b", "a", "spare"}, ids(inputsOf(t, w.state, quotaDNS, kindQuota)))
	require.Equal(t, []string{"a", "spare"}, ids(inputsOf(t, w.state, "k1.example.com", kindQuota)))
	require.Contains(t, w.refused(CodeInvalid, run(api.Operation{Op: "assign_quota", All: true})).Detail, "quota_id: is required")
	w.refused(CodeNotFound, run(api.Operation{Op: "assign_quota", ID: "nobody", All: true}))
	require.Contains(t, w.refused(CodeInvalid, run(api.Operation{Op: "set_quota", ID: "a", All: true})).Detail, `"set_quota" is not an operation`)

	w.must(run(api.Operation{Op: "create", Kind: "quota", Document: json.RawMessage(`{"id":"c"}`)}, api.Operation{Op: "patch", Kind: "quota", ID: "c", Patch: json.RawMessage(`{"text":"1"}`)}))
	past := &log{past: Documents{kindQuota: {"c": nil}}}
	w.must(func(tx *Tx) error {
		_, err := NewBatch(tx, past).Run([]api.Operation{{Op: "restore", Revision: 1, Kind: "quota", ID: "c"}})
		return err
	})
	require.False(t, w.state.Has(kindQuota, "c"))
}

func TestSeedsKnowAnyKind(t *testing.T) {
	t.Parallel()
	_, err := withQuotas.parseSeed([]byte(`{"quotes":[]}`))
	require.ErrorContains(t, err, "clusters, platform_components, namespaces, rolebindings, quotas, resource_types, resources and layers")
	_, err = ParseSeed([]byte(`{"quotas":[]}`))
	require.ErrorContains(t, err, "it has clusters, "+compiledIn.collections())
}

// TestKindNamesAreUnique: each external name identifies one kind.
func TestKindNamesAreUnique(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*descriptor) string{
		"kind": func(a *descriptor) string { return string(a.kind) }, "noun": func(a *descriptor) string { return a.rules.noun },
		"field": func(a *descriptor) string { return a.field }, "endpoint": func(a *descriptor) string { return a.endpoint },
		"operand": func(a *descriptor) string { return a.idField },
	} {
		seen := map[string]bool{}
		for _, a := range compiledIn.lists {
			require.NotEmpty(t, of(a), name)
			require.False(t, seen[of(a)], "%s %q is there twice", name, of(a))
			seen[of(a)] = true
		}
	}
}

// TestLayersStoredBeforeTheKind: a missing list of a kind that was added later is empty, in the merge and in the API. For
// all other kinds it is an error: an empty list would remove the entries of the layer.
func TestLayersStoredBeforeTheKind(t *testing.T) {
	t.Parallel()
	late := roleBindingKind
	late.addedLater = true
	ks := newKindSet(func(c *api.Cluster) *api.Cluster { return c }, componentKind.describe(), namespaceKind.describe(), late.describe())
	layer := func(lists string) (*Document, error) {
		body := `{"id":"l","description":"","priority":1,"all":true,"overrides":{},"patches":{},` + lists + `}`
		return ks.document(Record{Kind: KindLayer, ID: "l", Body: json.RawMessage(body)})
	}
	doc, err := layer(`"platform_components":[],"namespaces":[{"id":"n"}]`)
	require.NoError(t, err)
	require.Empty(t, doc.layer().assignedIDs(ks.byKind[KindRoleBinding]))
	require.Equal(t, []string{"n"}, doc.layer().assignedIDs(ks.byKind[KindNamespace]))
	shown, err := json.Marshal(doc.View())
	require.NoError(t, err)
	require.Contains(t, string(shown), `"rolebindings":[]`)
	for _, lists := range []string{`"platform_components":[]`, `"namespaces":[]`, `"platform_components":null,"namespaces":[]`} {
		_, err := layer(lists)
		require.ErrorContains(t, err, "one of its lists is missing", lists)
	}
}

// TestTypeWithTheNameOfAKind: clusters that poll a resource type never get the list of a kind that was added later.
func TestTypeWithTheNameOfAKind(t *testing.T) {
	t.Parallel()
	ks := newKindSet(modelWithQuotas, componentKind.describe(), namespaceKind.describe(), roleBindingKind.describe(), quotaKind.describe())
	of := json.RawMessage(`{"id":"` + quotaKind.endpoint + `","description":"","overridable":[],"removal":"delete"}`)
	_, err := ks.state(Rules{}, Head{}, time.Time{}, []Record{{Kind: KindResourceType, ID: quotaKind.endpoint, Body: of}})
	require.ErrorContains(t, err, `the list of each quota in its place`)
	empty, err := ks.state(Rules{}, Head{}, time.Time{}, nil)
	require.NoError(t, err)
	_, err = empty.Apply(Commit{Revision: 1, Changes: []Change{{Kind: KindResourceType, ID: quotaKind.endpoint, After: of}}})
	require.ErrorContains(t, err, `the list of each quota in its place`)
}
