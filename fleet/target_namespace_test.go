package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const tree = `"id":"tree","component_path":"p","oci_url":"oci://registry.example.com/x","oci_tag":"v1"`

// TestTargetNamespaceOfKustomize: a namespace that a request sets is in the document and the input, whichever it is; without one, the
// manifests determine the namespaces, and the input is the one of versions that rendered none.
func TestTargetNamespaceOfKustomize(t *testing.T) {
	t.Parallel()
	const oci = `"oci_url":"oci://registry.example.com/y"`
	for name, tc := range map[string]struct {
		create  string
		edits   []func(*Tx) error
		shown   string // by the API
		served  string // in the input
		renders bool
	}{
		"none":                     {``, nil, "", "tree", false},
		"empty":                    {`,"target_namespace":""`, nil, "", "tree", false},
		"null":                     {`,"target_namespace":null`, nil, "", "tree", false},
		"created with it":          {`,"target_namespace":"team-a"`, nil, "team-a", "team-a", true},
		"created with the id":      {`,"target_namespace":"tree"`, nil, "tree", "tree", true},
		"set later":                {``, []func(*Tx) error{patch(KindComponent, "tree", `{"target_namespace":"tree"}`)}, "tree", "tree", true},
		"replaced later":           {``, []func(*Tx) error{put(KindComponent, "tree", `{"target_namespace":"team-a"}`)}, "team-a", "team-a", true},
		"another field later":      {`,"target_namespace":"team-a"`, []func(*Tx) error{patch(KindComponent, "tree", `{"oci_tag":"v2"}`)}, "team-a", "team-a", true},
		"another field, none":      {``, []func(*Tx) error{put(KindComponent, "tree", `{"oci_tag":"v2"}`)}, "", "tree", false},
		"removed":                  {`,"target_namespace":"team-a"`, []func(*Tx) error{patch(KindComponent, "tree", `{"target_namespace":null}`)}, "", "tree", false},
		"emptied":                  {`,"target_namespace":"team-a"`, []func(*Tx) error{put(KindComponent, "tree", `{"target_namespace":""}`)}, "", "tree", false},
		"null in a put":            {`,"target_namespace":"team-a"`, []func(*Tx) error{put(KindComponent, "tree", `{"target_namespace":null}`)}, "team-a", "team-a", true},
		"none, null in a put":      {``, []func(*Tx) error{put(KindComponent, "tree", `{"target_namespace":null}`)}, "", "tree", false},
		"a field of the store":     {`,"target_namespace_set":true`, nil, "", "tree", false},
		"a patch of that name":     {`,"patches":{"target_namespace_set":"true"}`, nil, "", "tree", false},
		"of helm":                  {`,"type":"helm"`, nil, "tree", "tree", false},
		"of helm, set":             {`,"type":"helm","target_namespace":"team-a"`, nil, "team-a", "team-a", false},
		"of the release before":    {`,"type":"helm","target_namespace":"team-a"`, []func(*Tx) error{patch(KindComponent, "tree", `{"type":"kustomize"}`)}, "", "tree", false},
		"with the other type":      {`,"type":"helm"`, []func(*Tx) error{patch(KindComponent, "tree", `{"type":"kustomize","target_namespace":"tree"}`)}, "tree", "tree", true},
		"helm again":               {`,"target_namespace":"team-a"`, []func(*Tx) error{patch(KindComponent, "tree", `{"type":"helm"}`)}, "team-a", "team-a", false},
		"helm and kustomize again": {`,"target_namespace":"team-a"`, []func(*Tx) error{patch(KindComponent, "tree", `{"type":"helm"}`), patch(KindComponent, "tree", `{"type":"kustomize",`+oci+`}`)}, "", "tree", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t,
				string(KindComponent), `{`+tree+tc.create+`}`,
				string(KindCluster), `{"id":"dev","cluster_dns":"dev.example.com","environment":"dev","platform_components":[{"id":"tree"}]}`)
			for _, edit := range tc.edits {
				w.must(confirmed(w.plan(edit).PlanHash, edit))
			}
			doc, ok := w.state.Get(KindComponent, "tree")
			require.True(t, ok)
			require.Equal(t, tc.shown, doc.View().(*api.PlatformComponent).TargetNamespace)
			in := component(t, w.state, "dev.example.com", "tree")
			require.Equal(t, tc.served, in["target_namespace"])
			if tc.renders {
				require.Equal(t, true, in["override_namespace"])
			} else {
				require.NotContains(t, in, "override_namespace")
			}
			// A document that is sent back changes nothing.
			sent := patch(KindComponent, "tree", fmt.Sprintf(`{"target_namespace":%q}`, tc.shown))
			require.Empty(t, w.plan(sent).Groups)
		})
	}
}

// TestStoredNamespaceOfKustomize: an entry of a version that rendered no namespace keeps its answer, until a request sets one.
func TestStoredNamespaceOfKustomize(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		string(KindComponent), `{`+tree+`}`,
		string(KindCluster), `{"id":"dev","cluster_dns":"dev.example.com","environment":"dev","platform_components":[{"id":"tree"}]}`)
	var records []Record
	for _, kind := range []Kind{KindComponent, KindCluster} {
		for _, doc := range w.state.docs[kind] {
			records = append(records, doc.Record)
		}
	}
	require.Contains(t, string(records[0].Body), `"target_namespace":"tree"`, "what earlier versions stored")
	require.NotContains(t, string(records[0].Body), "target_namespace_set")
	before := answersTo(t, w.state, "dev.example.com")
	stored := func(namespace string) *world {
		old := append([]Record{}, records...)
		old[0].Body = []byte(strings.Replace(string(old[0].Body), `"target_namespace":"tree"`, `"target_namespace":"`+namespace+`"`, 1))
		st, err := NewState(testRules, w.state.Head(), time.Time{}, old)
		require.NoError(t, err)
		return &world{t: t, state: st, now: w.now}
	}
	for _, namespace := range []string{"tree", "team-a"} { // the second was stored with a warning that it has no effect
		w := stored(namespace)
		require.Equal(t, before, answersTo(t, w.state, "dev.example.com"))
		w.must(patch(KindComponent, "tree", `{"secret_ref":"pull"}`))
		require.NotContains(t, component(t, w.state, "dev.example.com", "tree"), "override_namespace")

		w = stored(namespace)
		plan := w.plan(patch(KindComponent, "tree", `{"target_namespace":"`+namespace+`"}`))
		require.Equal(t, 1, plan.Totals.Removals, "objects move to another namespace")
	}
}

// TestNamespaceChangesAreRemovals: kustomize-controller deletes the objects in the previous namespace, so each such change counts and is
// told; a namespace that is rendered neither before nor after does not.
func TestNamespaceChangesAreRemovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindComponent), `{`+tree+`}`)
	w.state.rules.MaxRemovals = 1
	for i := range 3 {
		w.must(create(KindCluster, fmt.Sprintf(`{"id":"c%d","cluster_dns":"c%d.example.com","environment":"dev","platform_components":[{"id":"tree"}]}`, i, i)))
	}
	const warning = `component "tree": on every cluster that has it, Flux deletes its objects in the previous namespaces and creates them`
	for _, step := range []struct{ body, warning string }{
		{`{"target_namespace":"tree"}`, warning + ` in "tree", which must exist`},
		{`{"target_namespace":"team-a"}`, warning + ` in "team-a", which must exist`},
		{`{"target_namespace":null}`, warning + ` where the manifests say`},
	} {
		edit := patch(KindComponent, "tree", step.body)
		w.refused(CodeConfirm, edit)
		plan := w.plan(edit)
		require.Equal(t, 3, plan.Totals.Removals, step.body)
		require.True(t, plan.Groups[0].Effect["platform-components"].Changed[0].Removal)
		require.Contains(t, strings.Join(plan.Warnings, "\n"), step.warning)
		w.must(confirmed(plan.PlanHash, edit))
	}
	edit := patch(KindComponent, "tree", `{"target_namespace":""}`)
	require.Empty(t, w.plan(edit).Groups)
	require.NotContains(t, strings.Join(w.plan(patch(KindComponent, "tree", `{"oci_tag":"v2"}`)).Warnings, "\n"), "namespace")
}

// TestRevertOfNamespace: the revert of a change that sets the namespace takes back no later one without a conflict.
func TestRevertOfNamespace(t *testing.T) {
	t.Parallel()
	const ns = `{"target_namespace":"tree"}`
	for name, tc := range map[string]struct {
		reverted, then, prefer, shown string
		conflict                      bool
	}{
		"undone":                  {ns, `{"secret_ref":"pull"}`, "", "", false},
		"replaced since":          {ns, `{"target_namespace":"team-a"}`, "", "", true},
		"replaced since, kept":    {ns, `{"target_namespace":"team-a"}`, "ours", "team-a", false},
		"replaced since, undone":  {ns, `{"target_namespace":"team-a"}`, "theirs", "", false},
		"another, replaced, kept": {`{"target_namespace":"team-b"}`, `{"target_namespace":"team-a"}`, "ours", "team-a", false},
		"removed since":           {ns, `{"target_namespace":""}`, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, string(KindComponent), `{`+tree+`}`)
			w.must(patch(KindComponent, "tree", tc.reverted))
			at := w.last()
			w.must(patch(KindComponent, "tree", tc.then))
			op := revert(w, api.Operation{Revision: at, Prefer: tc.prefer})
			if tc.conflict {
				e := w.refused(CodeRevertConflict, op)
				require.Len(t, e.Problems, 1)
				require.Equal(t, "/operations/0/target_namespace", e.Problems[0].Pointer)
				return
			}
			w.must(op)
			doc, _ := w.state.Get(KindComponent, "tree")
			require.Equal(t, tc.shown, doc.View().(*api.PlatformComponent).TargetNamespace)
		})
	}
}
