package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// on describes a write of patches of podinfo on the demo cluster.
type on struct {
	w *world
}

func (o on) set(manager, body string, force bool) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.PatchValues("demo-cluster-01", "podinfo", []byte(body), PatchOptions{Manager: manager, Force: force})
		return err
	}
}

func (o on) apply(manager, body string, force bool) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.ApplyValues("demo-cluster-01", "podinfo", []byte(body), PatchOptions{Manager: manager, Force: force})
		return err
	}
}

func (o on) relinquish(manager string, retain bool) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Relinquish("demo-cluster-01", "podinfo", PatchOptions{Manager: manager, Retain: retain})
		return err
	}
}

func (o on) values() map[string]string {
	doc, err := o.w.state.Find(KindCluster, "demo-cluster-01")
	require.NoError(o.w.t, err)
	out := map[string]string{}
	for path, v := range doc.OwnedPatches("podinfo").Values {
		out[path] = string(v)
	}
	return out
}

func (o on) managers() map[string][]string {
	doc, err := o.w.state.Find(KindCluster, "demo-cluster-01")
	require.NoError(o.w.t, err)
	return doc.OwnedPatches("podinfo").Managers
}

// TestSharedOwnership has the cases of shared ownership in server-side apply.
func TestSharedOwnership(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) on {
		w := demo(t)
		w.must(patch(KindCluster, "demo-cluster-01", `{"patches":{"podinfo":null}}`))
		return on{w}
	}
	t.Run("two managers on different paths", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("ci", `{"image.tag":"1"}`, false))
		o.w.must(o.set("scaler", `{"replicaCount":"3"}`, false))
		require.Equal(t, map[string][]string{"ci": {"image.tag"}, "scaler": {"replicaCount"}}, o.managers())
		o.w.must(o.set("ci", `{"image.tag":"2"}`, false))
		require.Equal(t, map[string]string{"image.tag": `"2"`, "replicaCount": `"3"`}, o.values())
	})
	t.Run("same path, same value: both own it", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("a", `{"x":"1"}`, false))
		o.w.must(o.set("b", `{"x":"1"}`, false))
		require.Equal(t, map[string][]string{"a": {"x"}, "b": {"x"}}, o.managers())
		o.w.refused(CodeFieldConflict, o.set("a", `{"x":"2"}`, false))
	})
	t.Run("same path, different value: a conflict, unless forced", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("a", `{"x":"1","y":"1"}`, false))
		e := o.w.refused(CodeFieldConflict, o.set("b", `{"x":"2","y":"2","z":"2"}`, false))
		require.Equal(t, []Problem{{Pointer: "/x", Detail: `"x" is owned by "a" with the value "1"`}, {Pointer: "/y", Detail: `"y" is owned by "a" with the value "1"`}}, e.Problems)
		require.NotContains(t, o.values(), "z", "nothing is done by halves")
		o.w.must(o.set("b", `{"x":"2"}`, true))
		require.Equal(t, map[string][]string{"a": {"y"}, "b": {"x"}}, o.managers())
		o.w.refused(CodeFieldConflict, o.set("b", `{"y":null}`, false))
	})
	t.Run("destroy relinquishes", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("a", `{"x":"1","shared":"1"}`, false))
		o.w.must(o.set("b", `{"shared":"1"}`, false))
		o.w.must(o.relinquish("a", false))
		require.Equal(t, map[string]string{"shared": `"1"`}, o.values())
		require.Equal(t, map[string][]string{"b": {"shared"}}, o.managers())
	})
	t.Run("retain leaves the values", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("a", `{"x":"1"}`, false))
		o.w.must(o.relinquish("a", true))
		require.Equal(t, map[string]string{"x": `"1"`}, o.values())
		require.Equal(t, map[string][]string{"": {"x"}}, o.managers())
	})
	t.Run("transfer between managers", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("old", `{"x":"1"}`, false))
		o.w.must(o.set("new", `{"x":"1"}`, false)) // same value: both own it
		o.w.must(o.relinquish("old", false))
		require.Equal(t, map[string]string{"x": `"1"`}, o.values())
		require.Equal(t, map[string][]string{"new": {"x"}}, o.managers())
	})
	t.Run("upsert: apply is the full set", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.apply("a", `{"x":"1","y":"1"}`, false))
		o.w.must(o.set("b", `{"y":"1"}`, false))
		o.w.must(o.apply("a", `{"z":"1"}`, false))
		require.Equal(t, map[string]string{"y": `"1"`, "z": `"1"`}, o.values(), "x was nobody else's, y is")
		require.Equal(t, map[string][]string{"a": {"z"}, "b": {"y"}}, o.managers())
	})
	t.Run("anonymous writers", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("", `{"x":"1","y":"1"}`, false))
		o.w.must(o.set("a", `{"x":"2"}`, false)) // the anonymous manager has no conflicts
		require.Equal(t, map[string][]string{"": {"y"}, "a": {"x"}}, o.managers())
		o.w.refused(CodeFieldConflict, o.set("", `{"x":"3"}`, false))
		o.w.must(o.set("", `{"x":"3"}`, true))
		require.Equal(t, map[string][]string{"": {"x", "y"}}, o.managers())
	})
	t.Run("what the anonymous manager owns as well stays when a named one leaves", func(t *testing.T) {
		t.Parallel()
		o := fresh(t)
		o.w.must(o.set("", `{"x":"1"}`, false))
		o.w.must(o.set("a", `{"x":"1"}`, false))
		require.Equal(t, map[string][]string{"": {"x"}, "a": {"x"}}, o.managers())
		o.w.must(o.relinquish("a", false))
		require.Equal(t, map[string]string{"x": `"1"`}, o.values())
	})
}

func TestOwnershipAndWritesOfTheWholeDocument(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) on {
		o := on{demo(t)}
		o.w.must(o.set("ci", `{"replicaCount":"4"}`, false))
		return o
	}
	t.Run("a write that leaves the patch alone keeps the owner", func(t *testing.T) {
		t.Parallel()
		o := setup(t)
		doc, err := o.w.state.Find(KindCluster, "demo-cluster-01")
		require.NoError(t, err)
		body, err := jsontext.Canonical(doc.View())
		require.NoError(t, err)
		res, err := o.w.try(put(KindCluster, "demo-cluster-01", string(body)))
		require.NoError(t, err)
		require.Empty(t, res.Commit.Changes)
		o.w.must(put(KindCluster, "demo-cluster-01", `{"labels":{"a":"b"}}`))
		o.w.must(assign("demo-cluster-01", KindComponent, "podinfo", `{"enabled":false}`))
		require.Equal(t, []string{"replicaCount"}, o.managers()["ci"])
	})
	t.Run("changing or dropping it is a conflict, unless forced", func(t *testing.T) {
		t.Parallel()
		o := setup(t)
		for _, body := range []string{`{"patches":{"podinfo":{"replicaCount":"9"}}}`, `{"patches":{"podinfo":null}}`, `{"patches":null}`} {
			e := o.w.refused(CodeFieldConflict, patch(KindCluster, "demo-cluster-01", body))
			require.Equal(t, "/patches/podinfo/replicaCount", e.Problems[0].Pointer)
		}
		o.w.refused(CodeFieldConflict, put(KindCluster, "demo-cluster-01", `{"patches":{}}`))
		o.w.must(both(func(tx *Tx) error { tx.Force(true); return nil }, patch(KindCluster, "demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"9"}}}`)))
		require.NotContains(t, o.managers(), "ci")
		require.Equal(t, `"9"`, o.values()["replicaCount"])
	})
	t.Run("unassigning drops patches and owners together", func(t *testing.T) {
		t.Parallel()
		o := setup(t)
		o.w.must(func(tx *Tx) error { _, err := tx.Unassign("demo-cluster-01", KindComponent, "podinfo"); return err })
		o.w.must(assign("demo-cluster-01", KindComponent, "podinfo", ""))
		require.Empty(t, o.values())
		require.Empty(t, o.managers())
	})
	t.Run("owners cannot be written", func(t *testing.T) {
		t.Parallel()
		o := setup(t)
		res, err := o.w.try(patch(KindCluster, "demo-cluster-01", `{"patch_owners":null}`))
		require.NoError(t, err)
		require.Empty(t, res.Commit.Changes)
	})
}
