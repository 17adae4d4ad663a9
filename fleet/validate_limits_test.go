package fleet

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// entries returns n entries of a list, made of their number.
func entries(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ",")
}

// TestNumberOfProblemsIsLimited: other changes wait while a change is checked, and a request may contain hundreds of
// thousands of mistakes.
func TestNumberOfProblemsIsLimited(t *testing.T) {
	t.Parallel()
	const many = 5_000
	const head = `{"id":"x","cluster_dns":"x.example.com","environment":"dev",`
	const component = `{"id":"x","component_path":"p","oci_url":"oci://r.example.com/x",`
	for name, c := range map[string]struct {
		edit func(*Tx) error
		most int
	}{
		"labels":           {create(KindCluster, head+`"labels":{`+entries(many, `"l%d":"!"`)+`}}`), 1},
		"namespace labels": {create(KindNamespace, `{"id":"x","labels":{`+entries(many, `"l%d":"!"`)+`}}`), 1},
		"annotations":      {create(KindNamespace, `{"id":"x","annotations":{`+entries(many, `"!%d":""`)+`}}`), maxProblems},
		"instructions":     {create(KindNamespace, `{"id":"x","annotations":{`+entries(many, `"fluxcd.controlplane.io/%d":""`)+`}}`), maxProblems},
		"namespaces":       {create(KindCluster, head+`"namespaces":[`+entries(many, `{"id":"n%d"}`)+`]}`), maxProblems},
		"one namespace":    {create(KindCluster, head+`"namespaces":[`+strings.Repeat(`{"id":"team"},`, many)+`{"id":"team"}]}`), maxProblems},
		"overrides":        {create(KindCluster, head+`"platform_components":[`+entries(many, `{"id":"k%d","oci_tag":" "}`)+`]}`), maxProblems},
		"patches":          {create(KindCluster, head+`"patches":{`+entries(many, `"k%d":{"a":"b"}`)+`}}`), maxProblems},
		"values":           {create(KindComponent, component+`"type":"helm","patches":{`+entries(many, `"a..%d":"b"`)+`}}`), maxProblems},
		"depends_on":       {create(KindComponent, component+`"depends_on":[`+entries(many, `"k%d"`)+`]}`), maxProblems},
		"subjects":         {create(KindRoleBinding, `{"id":"x","role":"view","subjects":[`+entries(many, `{"kind":"Group","name":"","x%d":1}`)+`]}`), maxProblems},
		"documents":        {batch(entries(200, `{"op":"create","kind":"namespace","document":{"id":"n%d","annotations":{`+entries(20, `"!%d":""`)+`}}}`)), maxAllProblems + maxProblems},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, 1)
			e := w.refused(CodeInvalid, c.edit)
			require.LessOrEqual(t, len(e.Problems), c.most+5)
		})
	}
}

// TestStoredProblemsDoNotHideOthers: they are only warnings, so any number of them may precede the one that counts.
func TestStoredProblemsDoNotHideOthers(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, 1)
	const head = `{"annotations":{},"deletion_policy":"delete","id":"old","labels":{`
	stored, err := w.state.Apply(Commit{Revision: w.state.Revision() + 1, Changes: []Change{{Kind: KindNamespace, ID: "old", After: []byte(head + entries(300, `"a%d":"!"`) + `}}`)}}})
	require.NoError(t, err)
	w.state = stored
	w.must(patch(KindNamespace, "old", `{"annotations":{"a":"b"}}`))
	w.must(patch(KindNamespace, "old", `{"labels":{"a0":null}}`))
	w.refused(CodeInvalid, patch(KindNamespace, "old", `{"annotations":{"!":"b"}}`))
	w.refused(CodeInvalid, patch(KindNamespace, "old", `{"labels":{"a1":null,"z":"!"}}`))
	e := w.refused(CodeInvalid, patch(KindNamespace, "old", `{"annotations":{`+entries(5_000, `"!%d":""`)+`}}`))
	require.LessOrEqual(t, len(e.Problems), 500)
}

// counting returns the compiled-in kinds, and a counter of the calls for a component's dependencies.
func counting() (*kindSet, *atomic.Int64) {
	var asked atomic.Int64
	kind := componentKind
	kind.dependsOn = func(d *Document) []string { asked.Add(1); return d.Component().DependsOn }
	return newKindSet(func(c *api.Cluster) *api.Cluster { return c }, kind.describe(), namespaceKind.describe(), roleBindingKind.describe()), &asked
}

// TestDependenciesAreFollowedOncePerCommit, for any number of changed components.
func TestDependenciesAreFollowedOncePerCommit(t *testing.T) {
	t.Parallel()
	const n = 400
	kinds, asked := counting()
	empty, err := kinds.state(testRules, Head{}, newWorld(t).now, nil)
	require.NoError(t, err)
	w := &world{t: t, state: empty, now: newWorld(t).now}
	op := func(i int, dep string) string {
		return fmt.Sprintf(`{"op":"create","kind":"platform_component","document":{"id":"k%d","component_path":"p","oci_url":"oci://x.example.com/y","depends_on":[%s]}}`, i, dep)
	}
	var ops []string
	for i := range n {
		var deps []string
		for j := max(0, i-20); j < i; j++ {
			deps = append(deps, fmt.Sprintf(`"k%d"`, j))
		}
		ops = append(ops, op(i, strings.Join(deps, ",")))
	}
	_, err = w.try(batch(ops...))
	require.NoError(t, err)
	require.LessOrEqual(t, asked.Load(), int64(2*n))

	ops[0] = op(0, fmt.Sprintf(`"k%d"`, n-1))
	e := w.refused(CodeInvalid, batch(ops...))
	require.LessOrEqual(t, asked.Load(), int64(6*n))
	require.Len(t, e.Problems, n)
	require.Contains(t, e.Problems[0].Detail, "399 other components depend on each other")
}

// TestReferrersAreFoundOncePerCommit, for any number of deleted definitions.
func TestReferrersAreFoundOncePerCommit(t *testing.T) {
	t.Parallel()
	const n = 300
	kinds, asked := counting()
	empty, err := kinds.state(testRules, Head{}, newWorld(t).now, nil)
	require.NoError(t, err)
	w := &world{t: t, state: empty, now: newWorld(t).now}
	w.must(batch(entries(n, `{"op":"create","kind":"platform_component","document":{"id":"k%d","component_path":"p","oci_url":"oci://x.example.com/y"}}`)))
	w.must(create(KindComponent, `{"id":"user","component_path":"p","oci_url":"oci://x.example.com/y","depends_on":["k1","k2"]}`))
	asked.Store(0)
	e := w.refused(CodeInUse, batch(entries(n/2, `{"op":"delete","kind":"platform_component","id":"k%d"}`)))
	require.Contains(t, e.Detail, `the platform component "k1" is used by 1 platform component: user; the platform component "k2" is used by`)
	require.LessOrEqual(t, asked.Load(), int64(2*n))
}

func TestCyclesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := func(id, deps string) string {
		return `{"op":"create","kind":"platform_component","document":{"id":"` + id + `","component_path":"p","oci_url":"oci://x.example.com/y","depends_on":[` + deps + `]}}`
	}
	e := w.refused(CodeInvalid, batch(op("a", `"b","d"`), op("b", `"c"`), op("c", `"a"`), op("d", `"d","e"`), op("e", ``)))
	var found []string
	for _, p := range e.Problems {
		found = append(found, p.ID+": "+p.Detail)
	}
	require.Equal(t, []string{
		"a: the dependencies form a cycle: a -> b -> c -> a",
		"b: the dependencies form a cycle: b -> c -> a -> b",
		"c: the dependencies form a cycle: c -> a -> b -> c",
		"d: a component cannot depend on itself",
	}, found)
}

// TestListsAreLimited: each list in a request has a maximum number of entries.
func TestListsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ops []string
	for i := range maxDependencies + 1 {
		ops = append(ops, fmt.Sprintf(`{"op":"create","kind":"platform_component","document":{"id":"k%d","component_path":"p","oci_url":"oci://x.example.com/y"}}`, i))
	}
	w.must(batch(ops...))
	component := func(n int) func(*Tx) error {
		return create(KindComponent, `{"id":"x","component_path":"p","oci_url":"oci://x.example.com/y","depends_on":[`+entries(n, `"k%d"`)+`]}`)
	}
	binding := func(n int) func(*Tx) error {
		return create(KindRoleBinding, `{"id":"x","role":"view","subjects":[`+entries(n, `{"kind":"Group","name":"g%d"}`)+`]}`)
	}
	w.refused(CodeInvalid, component(maxDependencies+1))
	w.refused(CodeInvalid, binding(maxSubjects+1))
	w.must(component(maxDependencies))
	w.must(binding(maxSubjects))
}

// TestProblemsOfManyDocumentsComeInOrder, on any number of processors.
func TestProblemsOfManyDocumentsComeInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindNamespace), `{"id":"n"}`)
	create := func(namespace string) func(*Tx) error {
		return func(tx *Tx) error {
			for i := range 500 {
				body := fmt.Sprintf(`{"id":"k%03d","cluster_dns":"k%03d.example.com","environment":"dev","namespaces":[{"id":"%s"}]}`, i, i, namespace)
				if _, err := tx.Create(KindCluster, []byte(body)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	_, err := w.try(create("gone"))
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Problems, 500)
	for i, p := range refused.Problems {
		require.Equal(t, fmt.Sprintf("k%03d", i), p.ID)
	}
	res, err := w.try(create("n"))
	require.NoError(t, err)
	followed, err := w.state.Apply(res.Commit)
	require.NoError(t, err)
	require.Equal(t, 500, followed.Clusters())
	loaded, err := NewState(Rules{}, followed.Head(), followed.At(), slices.Collect(followed.Records()))
	require.NoError(t, err)
	require.Equal(t, 500, loaded.Clusters())
}
