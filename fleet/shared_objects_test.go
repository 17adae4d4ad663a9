package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

var kindPatch = ResourceKind("object-patches")

func patchOf(id, kind, name string) string {
	return fmt.Sprintf(`{"id":%q,"spec":{"manifest":{"apiVersion":"v1","kind":%q,"metadata":{"name":%q%s}}}}`, id, kind, name,
		map[string]string{"ConfigMap": `,"namespace":"shared"`}[kind])
}

// patchedWorld has patches a and b of one ConfigMap, c of another, one of the namespace "team" and one of the role binding
// "readers", and a cluster without anything.
func patchedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.must(create(KindResourceType, string(exampleTypes(t)["object-patches"])))
	for _, body := range []string{patchOf("a", "ConfigMap", "settings"), patchOf("b", "ConfigMap", "settings"), patchOf("c", "ConfigMap", "other"), patchOf("of-team", "Namespace", "team")} {
		w.must(create(kindPatch, body))
	}
	w.must(create(KindNamespace, `{"id":"team"}`))
	w.must(create(KindCluster, `{"id":"k","cluster_dns":"k.example.com","environment":"dev","labels":{"tier":"one"}}`))
	return w
}

const bothMake = `both make ConfigMap shared/settings`

// TestOneObjectOneDefinition: no operation assigns two definitions that render the same object to one cluster.
func TestOneObjectOneDefinition(t *testing.T) {
	t.Parallel()
	layer := func(list string) string {
		return `{"id":"l","priority":1,"selector":"tier=two","resources":{"object-patches":` + list + `}}`
	}
	for name, c := range map[string]struct {
		before []func(*Tx) error
		edit   func(*Tx) error
		want   string
	}{
		"assigned":                  {[]func(*Tx) error{assign("k", kindPatch, "a", "")}, assign("k", kindPatch, "b", ""), bothMake},
		"both at once":              {nil, put(KindCluster, "k", `{"resources":{"object-patches":[{"id":"a"},{"id":"b"}]}}`), bothMake},
		"with overrides":            {[]func(*Tx) error{assign("k", kindPatch, "a", "")}, assign("k", kindPatch, "b", `{"overrides":{"force":true}}`), bothMake},
		"given up, and still there": {[]func(*Tx) error{assign("k", kindPatch, "a", `{"overrides":{"state":"absent"}}`)}, assign("k", kindPatch, "b", ""), bothMake},
		"a namespace of the list":   {[]func(*Tx) error{assign("k", KindNamespace, "team", "")}, assign("k", kindPatch, "of-team", ""), `namespace "team" and the object-patches resource "of-team" both make Namespace team`},
		"a namespace that comes":    {[]func(*Tx) error{assign("k", kindPatch, "of-team", "")}, assign("k", KindNamespace, "team", ""), `namespace "team" and the object-patches resource "of-team" both make Namespace team`},
		"by a changed manifest": {
			[]func(*Tx) error{assign("k", kindPatch, "a", ""), assign("k", kindPatch, "c", "")},
			patch(kindPatch, "c", `{"spec":{"manifest":{"metadata":{"name":"settings"}}}}`), bothMake,
		},
		"by a layer": {[]func(*Tx) error{assign("k", kindPatch, "a", ""), patch(KindCluster, "k", `{"labels":{"tier":"two"}}`)}, create(KindLayer, layer(`[{"id":"b"}]`)), bothMake},
		"by a label": {[]func(*Tx) error{assign("k", kindPatch, "a", ""), create(KindLayer, layer(`[{"id":"b"}]`))}, patch(KindCluster, "k", `{"labels":{"tier":"two"}}`), bothMake},
		"by a layer alone": {
			[]func(*Tx) error{patch(KindCluster, "k", `{"labels":{"tier":"two"}}`)}, create(KindLayer, layer(`[{"id":"a"},{"id":"b"}]`)), bothMake,
		},
		"by a batch": {nil, func(tx *Tx) error {
			_, err := NewBatch(tx, nil).Run([]api.Operation{
				{Op: "assign_resource", Type: "object-patches", ResourceID: "a", ClusterIds: []string{"k"}},
				{Op: "assign_resource", Type: "object-patches", ResourceID: "b", ClusterIds: []string{"k"}},
			})
			return err
		}, bothMake},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := patchedWorld(t)
			for _, edit := range c.before {
				w.must(edit)
			}
			e := w.refused(CodeObjectConflict, c.edit)
			require.Contains(t, e.Detail, c.want)
			require.Contains(t, e.Detail, `cluster "k"`)
		})
	}
}

// TestOneDefinitionAfterTheOther: definitions of one object may be on different clusters, and one may replace the other.
func TestOneDefinitionAfterTheOther(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	w.must(create(KindCluster, `{"id":"k2","cluster_dns":"k2.example.com","environment":"dev"}`))
	w.must(assign("k", kindPatch, "a", ""))
	w.must(assign("k2", kindPatch, "b", ""))
	w.must(put(KindCluster, "k", `{"resources":{"object-patches":[{"id":"b"},{"id":"c"}]}}`))
	w.must(assign("k2", KindNamespace, "team", ""))
}

// TestStoredObjectConflicts: a stored conflict does not refuse an unrelated change.
func TestStoredObjectConflicts(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	w.must(patch(KindResourceType, "object-patches", `{"template":""}`)) // as if the template had not been checked
	w.must(put(KindCluster, "k", `{"resources":{"object-patches":[{"id":"a"},{"id":"b"}]}}`))
	typ, _ := w.state.Record(KindResourceType, "object-patches")
	typ.Body = exampleTypes(t)["object-patches"]
	var records []Record
	for r := range w.state.Records() {
		if r.Kind == KindResourceType {
			r.Body = typ.Body
		}
		records = append(records, r)
	}
	var err error
	w.state, err = NewState(testRules, w.state.Head(), w.state.At(), records)
	require.NoError(t, err)

	res := w.must(patch(KindCluster, "k", `{"labels":{"x":"y"}}`))
	require.Contains(t, strings.Join(res.Warnings, "\n"), "stored before and still wrong: cluster \"k\"")
	w.must(assign("k", kindPatch, "a", `{"overrides":{"force":true}}`))
}

// TestTheSetOfATypeIsItsOwn: neither a definition nor another type renders the ResourceSet of a list.
func TestTheSetOfATypeIsItsOwn(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	e := w.refused(CodeInvalid, create(kindPatch, patchOf("patches", "ConfigMap", "x")))
	require.Contains(t, e.Detail, `ResourceSet flux-system/object-patches, which is that of the list "object-patches" itself`)
	e = w.refused(CodeInvalid, create(KindResourceType, typeOf("object-a", "")))
	require.Equal(t, "/id", e.Problems[0].Pointer)
	for _, id := range []string{"adopt-things", "binding-0123456789abcdef", "gate-podinfo", "receipt-x"} {
		e = w.refused(CodeInvalid, create(KindResourceType, typeOf(id, "")))
		require.Equal(t, "/id", e.Problems[0].Pointer)
	}
}

// TestObjectsByEnvironment: an object that a template renders in one environment only conflicts with none in another.
func TestObjectsByEnvironment(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	w.must(create(KindResourceType, typeOf("things", `<< if ne inputs.cluster.environment "dev" >>`+"\n"+
		`apiVersion: v1`+"\nkind: ConfigMap\nmetadata: {name: settings, namespace: shared}\n"+`<< end >>`)))
	w.must(create(ResourceKind("things"), `{"id":"t"}`))
	w.must(assign("k", kindPatch, "a", ""))
	w.must(assign("k", ResourceKind("things"), "t", ""))
	require.Contains(t, w.refused(CodeObjectConflict, patch(KindCluster, "k", `{"environment":"qa"}`)).Detail, bothMake)
}

// TestObjectsNamedAfterTheCluster are not compared: docs/resource-types.md has this limit.
func TestObjectsNamedAfterTheCluster(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	for _, id := range []string{"one", "two"} {
		w.must(create(KindResourceType, typeOf(id, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: << inputs.cluster.name >>, namespace: app}\n")))
		w.must(create(ResourceKind(id), `{"id":"a"}`))
		w.must(assign("k", ResourceKind(id), "a", ""))
	}
}

// TestSharedObjectsEndWithTheWork: the first commit of a process executes all templates, and a client that hangs up ends that.
func TestSharedObjectsEndWithTheWork(t *testing.T) {
	t.Parallel()
	w := patchedWorld(t)
	started, err := NewState(testRules, w.state.Head(), w.state.At(), slices.Collect(w.state.Records()))
	require.NoError(t, err)
	made := func() (n int) {
		for doc := range w.state.docs[kindPatch] {
			n += len(started.docs[kindPatch][doc].value.(*resource).renderings.made)
		}
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, started.sharedByDefinitions(newWork(ctx)))
	require.Zero(t, made())
	require.NotNil(t, started.sharedByDefinitions(newWork(t.Context())))
	require.NotZero(t, made())
}

// TestObjectConflictOfBatchNamesClusterOnce: a batch prefixes a problem with its document unless the problem names it already.
func TestObjectConflictOfBatchNamesClusterOnce(t *testing.T) {
	t.Parallel()
	ops := []api.Operation{
		{Op: "assign_resource", Type: "object-patches", ResourceID: "a", ClusterIds: []string{"k"}},
		{Op: "assign_resource", Type: "object-patches", ResourceID: "b", ClusterIds: []string{"k"}},
	}
	tx := patchedWorld(t).state.Begin()
	b := NewBatch(tx, nil)
	_, err := b.Run(ops)
	require.NoError(t, err)
	_, err = tx.Finish(Commit{})
	require.ErrorContains(t, b.Locate(ops, err), `/operations/1: cluster "k": the object-patches resource "a" and`)
}

// endsAfter is a context that has ended when it was asked some times.
type endsAfter struct {
	context.Context
	asked int
}

func (c *endsAfter) Err() error {
	if c.asked--; c.asked < 0 {
		return context.Canceled
	}
	return nil
}

// TestSharedObjectsOfEndedWork: the shared objects of a State are never kept without those of a definition whose template was not
// executed because the work had ended.
func TestSharedObjectsOfEndedWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(create(KindResourceType, typeOf("things", configMap)))
	w.must(both(create(ResourceKind("things"), `{"id":"a"}`), create(ResourceKind("things"), `{"id":"b"}`)))
	for asked := range 12 {
		s, err := NewState(testRules, w.state.Head(), w.state.at, slices.Collect(w.state.Records()))
		require.NoError(t, err)
		if by := s.sharedByDefinitions(newWork(&endsAfter{t.Context(), asked})); by != nil {
			require.Len(t, by, 2, "asked %d times", asked)
		}
		require.Len(t, s.sharedByDefinitions(newWork(t.Context())), 2, "asked %d times", asked)
	}
}
