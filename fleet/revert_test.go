package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func revertWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t,
		string(KindComponent), `{"id":"app","component_path":"p","oci_url":"https://charts.example.com"}`,
		string(KindNamespace), `{"id":"ns"}`,
		string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev","platform_components":[{"id":"app","oci_tag":"v1"}]}`,
		string(KindCluster), `{"id":"k1","cluster_dns":"k1.example.com","environment":"dev","platform_components":[{"id":"app"}]}`)
}

func (w *world) last() int64 { return int64(w.state.Revision()) }

func patchOwned(component, body, manager string, force bool) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.PatchValues("k0", component, []byte(body), PatchOptions{Manager: manager, Force: force})
		return err
	}
}

// TestRevertConflicts: all conflicts are reported at once, each with document and field; none is applied, and all or some
// documents can be decided either way.
func TestRevertConflicts(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (w *world, at int64) {
		w = revertWorld(t)
		w.must(both(
			assign("k0", KindComponent, "app", `{"oci_tag":"v2","enabled":false}`), patchOwned("app", `{"a":"2","b":"2"}`, "", false),
			assign("k1", KindComponent, "app", `{"oci_tag":"v2"}`), create(KindNamespace, `{"id":"new"}`), remove(KindNamespace, "ns", DeleteOptions{}),
		))
		at = w.last()
		w.must(both(
			assign("k0", KindComponent, "app", `{"oci_tag":"v3"}`), patchOwned("app", `{"a":"3"}`, "", false),
			patch(KindNamespace, "new", `{"labels":{"x":"y"}}`), create(KindNamespace, `{"id":"ns","labels":{"x":"y"}}`),
		))
		return w, at
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		w, at := setup(t)
		e := w.refused(CodeRevertConflict, revert(w, api.Operation{Revision: at}))
		var found []string
		for _, p := range e.Problems {
			found = append(found, string(p.Kind)+"/"+p.ID+" "+p.Pointer+": "+p.Detail)
		}
		require.Equal(t, []string{
			`namespace/new /operations/0: namespace "new": was changed since`,
			`namespace/ns /operations/0: namespace "ns": was created again since`,
			`cluster/k0 /operations/0/patches/app/a: cluster "k0": is "3" now, which the revision had changed from absent to "2"`,
			`cluster/k0 /operations/0/platform_components/app/oci_tag: cluster "k0": is "v3" now, which the revision had changed from "v1" to "v2"`,
		}, found)
	})
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		w, at := setup(t)
		w.must(revert(w, api.Operation{Revision: at, Prefer: "ours"}))
		b := bodies(w.state)
		require.JSONEq(t, `{"id":"k0","cluster_name":"k0","cluster_dns":"k0.example.com","environment":"dev","labels":{},"namespaces":[],"rolebindings":[],"deletion_protection":false,
			"platform_components":[{"id":"app","oci_tag":"v3","enabled":true}],"patches":{"app":{"a":"3"}}}`, b[docKey{KindCluster, "k0"}])
		require.NotContains(t, b[docKey{KindCluster, "k1"}], "v2", "nobody has changed this one since")
		require.Contains(t, b[docKey{KindNamespace, "new"}], `"x":"y"`)
		require.Contains(t, b[docKey{KindNamespace, "ns"}], `"x":"y"`)
	})
	t.Run("theirs", func(t *testing.T) {
		t.Parallel()
		w, at := setup(t)
		w.must(revert(w, api.Operation{Revision: at, Prefer: "theirs"}))
		b := bodies(w.state)
		require.Equal(t, b, bodies(revertWorld(t).state))
	})
	t.Run("one document", func(t *testing.T) {
		t.Parallel()
		w, at := setup(t)
		before := bodies(w.state)
		w.must(revert(w, api.Operation{Revision: at, Kind: "cluster", ID: "k1"}))
		after := bodies(w.state)
		require.NotContains(t, after[docKey{KindCluster, "k1"}], "v2")
		delete(before, docKey{KindCluster, "k1"})
		delete(after, docKey{KindCluster, "k1"})
		require.Equal(t, before, after)
		w.refused(CodeNotFound, revert(w, api.Operation{Revision: at, Kind: "rolebinding", ID: "k1"}))
	})
}

// TestRevertOfInvalidRevisions: a revision that cannot be reverted is an error, without any change.
func TestRevertOfInvalidRevisions(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	w.refused(CodeInvalid, revert(w, api.Operation{}))
	w.refused(CodeInvalid, revert(w, api.Operation{Revision: -1}))
	w.refused(CodeNotFound, revert(w, api.Operation{Revision: 7}))
	w.refused(CodeInvalid, revert(w, api.Operation{Revision: 1, Prefer: "mine"}))
	w.refused(CodeInvalid, revert(w, api.Operation{Revision: 1, Kind: "cluster"}))
	w.refused(CodeInvalid, revert(w, api.Operation{Revision: 1, All: true}))
	w.must(patch(KindCluster, "k0", `{"deletion_protection":true}`))
	w.refused(CodeProtected, revert(w, api.Operation{Revision: 1, Prefer: "theirs"}))
	w.must(create(KindComponent, `{"id":"later","component_path":"p","oci_url":"https://charts.example.com","depends_on":["app"]}`))
	w.refused(CodeInUse, revert(w, api.Operation{Revision: 1, Kind: "platform_component", ID: "app"}))
}

// TestRevertLeavesTokensAlone: a revoked secret must not work again because another change is reverted.
func TestRevertLeavesTokensAlone(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	w.must(func(tx *Tx) error {
		_, err := tx.CreateToken(NewToken{ID: "t1", Secret: Digest{1}, Name: "poll-k0", Role: RolePoll, ClusterID: "k0"}, w.now)
		return err
	})
	w.refused(CodeInvalid, revert(w, api.Operation{Revision: w.last()}))
	require.NotNil(t, w.state.Holder(Digest{1}), "nor does the revert of its creation revoke it")
	w.must(remove(KindCluster, "k0", DeleteOptions{Orphan: true}))
	require.Nil(t, w.state.Holder(Digest{1}), "revoked with the cluster")
	res := w.must(revert(w, api.Operation{Revision: w.last()}))
	require.True(t, w.state.Has(KindCluster, "k0"))
	require.Nil(t, w.state.Holder(Digest{1}))
	require.Contains(t, res.Warnings, "revision 3 changed 1 token as well: tokens are never reverted, and stay as they are")
	w.refused(CodeInvalid, revert(w, api.Operation{Revision: 3, Kind: "token", ID: "t1"}))
}

// TestRevertOfOwnedValues: a value and its managers are one unit.
func TestRevertOfOwnedValues(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	w.must(patchOwned("app", `{"a":"1"}`, "ci", false))
	first := w.last()
	w.must(patchOwned("app", `{"b":"1","c":"1"}`, "ci", false))
	w.must(revert(w, api.Operation{Revision: first}))
	require.Contains(t, bodies(w.state)[docKey{KindCluster, "k0"}], `"patch_owners":{"app":{"ci":["b","c"]}},"patches":{"app":{"b":"1","c":"1"}}`)
	w.must(patchOwned("app", `{"a":"1"}`, "ci", false))
	again := w.last()
	w.must(patchOwned("app", `{"a":"1"}`, "ann", false))
	e := w.refused(CodeRevertConflict, revert(w, api.Operation{Revision: again}))
	require.Equal(t, "/operations/0/patches/app/a", e.Problems[0].Pointer, "ann wants it as well")
}

// TestRevertOfAnAssignmentWithLaterPatches: a value was set later that the revert would remove.
func TestRevertOfAnAssignmentWithLaterPatches(t *testing.T) {
	t.Parallel()
	for prefer, want := range map[string]string{
		"ours":   `"patches":{"extra":{"a":"1"}},"platform_components":[{"enabled":true,"id":"app","oci_tag":"v1"},{"enabled":true,"id":"extra"}]`,
		"theirs": `"patches":{},"platform_components":[{"enabled":true,"id":"app","oci_tag":"v1"}]`,
	} {
		w := revertWorld(t)
		w.must(create(KindComponent, `{"id":"extra","component_path":"p","oci_url":"https://charts.example.com"}`))
		w.must(assign("k0", KindComponent, "extra", ""))
		at := w.last()
		w.must(patchOwned("extra", `{"a":"1"}`, "", false))
		e := w.refused(CodeRevertConflict, revert(w, api.Operation{Revision: at}))
		require.Equal(t, "/operations/0/patches/extra", e.Problems[0].Pointer)
		w.must(revert(w, api.Operation{Revision: at, Prefer: prefer}))
		require.Contains(t, bodies(w.state)[docKey{KindCluster, "k0"}], want, prefer)
	}
}

// TestRevertOfResourceTypes: a type, its resources, and their entries on clusters return together.
func TestRevertOfResourceTypes(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	w.must(create(KindResourceType, `{"id":"quotas","schema":{"type":"object","additionalProperties":false,"required":["cpu"],"properties":{"cpu":{"type":"string"}}}}`))
	kind := ResourceKind("quotas")
	w.must(both(create(kind, `{"id":"small","spec":{"cpu":"1"}}`), assign("k0", kind, "small", "")))
	before := w.state
	w.must(remove(KindResourceType, "quotas", DeleteOptions{Cascade: true}))
	at := w.last()
	w.must(func(tx *Tx) error { _, err := tx.SetLabels("k0", []byte(`{"later":"1"}`)); return err })
	w.must(revert(w, api.Operation{Revision: at}))
	require.Equal(t, polls(t, before), polls(t, w.state))
	require.Contains(t, bodies(w.state)[docKey{KindCluster, "k0"}], `"later":"1"`)
	w.must(revert(w, api.Operation{Revision: w.last()}))
	require.NotContains(t, w.state.docs, kind, "the revert of the revert deletes it again")
	w.must(revert(w, api.Operation{Revision: at, Kind: "resource_type", ID: "quotas"}))
	w.must(revert(w, api.Operation{Revision: at, Kind: "resource", Type: "quotas", ID: "small"}))
	require.True(t, w.state.Has(kind, "small"))
}

// TestRevertOfSeveral: the newest first, each starting from the result of the one before.
func TestRevertOfSeveral(t *testing.T) {
	t.Parallel()
	w := revertWorld(t)
	before := bodies(w.state)
	w.must(assign("k0", KindComponent, "app", `{"oci_tag":"v2"}`))
	w.must(assign("k0", KindComponent, "app", `{"oci_tag":"v3"}`))
	run := func(ops ...api.Operation) func(*Tx) error {
		return func(tx *Tx) error { _, err := NewBatch(tx, &w.log).Run(ops); return err }
	}
	one, two := api.Operation{Op: "revert", Revision: 2}, api.Operation{Op: "revert", Revision: 3}
	w.refused(CodeRevertConflict, run(one, two))
	w.must(run(two, one))
	require.Equal(t, before, bodies(w.state))
}

// TestRevertOfComponentsFromLayers: later patches do not prevent the removal of an assignment, and are no conflict, if a
// layer assigns the component or has the patches.
func TestRevertOfComponentsFromLayers(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	w.must(both(assign("c2", KindComponent, "loki", `{"component_version":"1.0.0"}`), patch(KindLayer, "base", `{"platform_components":[{"id":"grafana"},{"id":"loki"}]}`)))
	at := w.last()
	w.must(both(
		func(tx *Tx) error {
			_, err := tx.PatchValues("c2", "loki", []byte(`{"a":"1"}`), PatchOptions{})
			return err
		},
		patch(KindLayer, "base", `{"patches":{"loki":{"b":2}}}`),
	))
	w.must(revert(w, api.Operation{Revision: at}))
	loki := component(t, w.state, "c2.example.com", "loki")
	require.Equal(t, map[string]any{"a": 1.0, "b": 2.0}, loki["values"])
	require.Equal(t, "latest", loki["component_version"])
	require.Nil(t, component(t, w.state, "c0.example.com", "loki"))
}
