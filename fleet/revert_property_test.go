package fleet

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func revert(w *world, op api.Operation) func(*Tx) error {
	return func(tx *Tx) error {
		op.Op = "revert"
		tx.Guard(Guard{Off: true})
		_, err := NewBatch(tx, &w.log).Run([]api.Operation{op})
		return err
	}
}

// drifted is a fleet after some accepted random changes.
func drifted(rt *rapid.T, t *testing.T, most int) *world {
	w := newWorld(t,
		string(KindComponent), `{"id":"c0","component_path":"p","oci_url":"https://charts.example.com"}`,
		string(KindComponent), `{"id":"c1","component_path":"p","oci_url":"oci://registry.example.com/x","depends_on":["c0"],"patches":{"A":"1"}}`,
		string(KindNamespace), `{"id":"n0"}`,
		string(KindRoleBinding), `{"id":"b0","role":"view","subjects":[{"kind":"User","name":"jo"}]}`,
		string(KindCluster), `{"id":"k0","cluster_dns":"k0.example.com","environment":"dev","platform_components":[{"id":"c0"},{"id":"c1"}],"namespaces":[{"id":"n0"}],"patches":{"c0":{"a":"1"}}}`,
		string(KindCluster), `{"id":"k1","cluster_dns":"k1.example.com","environment":"dev","platform_components":[{"id":"c0","oci_tag":"v3"}],"rolebindings":[{"id":"b0"}]}`)
	if most > 0 {
		w.drift(rt, most)
	}
	return w
}

func (w *world) drift(rt *rapid.T, most int) {
	for range rapid.IntRange(1, most).Draw(rt, "edits") {
		edit, what := randomEdit(rt)
		if res, err := w.try(edit); err == nil {
			if len(res.Commit.Changes) > 0 {
				rt.Logf("revision %d: %s", res.State.Revision(), what)
			}
			w.keep(res)
		}
	}
}

func bodies(s *State) map[docKey]string {
	out := map[docKey]string{}
	for rec := range s.Records() {
		if !isInternal(rec.Kind) {
			out[docKey{rec.Kind, rec.ID}] = string(rec.Body)
		}
	}
	return out
}

// TestImmediateRevertRestoresDocuments byte for byte, except that clusters which the revision created are decommissioned as
// by any other delete.
func TestImmediateRevertRestoresDocuments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := drifted(rt, t, 15)
		before := w.state
		w.drift(rt, 1)
		if w.state == before {
			return
		}
		res, err := w.try(revert(w, api.Operation{Revision: int64(w.state.Revision())}))
		require.NoError(rt, err)
		want, got := bodies(before), bodies(res.State)
		for key, body := range got {
			if was, ok := before.docs[key.kind][key.id]; key.kind == KindCluster && (!ok || was.Deleted()) {
				require.True(rt, res.State.docs[key.kind][key.id].Deleted(), body)
				delete(got, key)
				delete(want, key)
			}
		}
		require.Equal(rt, want, got)
		was, is := polls(rt, before), polls(rt, res.State)
		for name, body := range was {
			require.Equal(rt, body, is[name], name)
		}
		for name, body := range is {
			if _, there := was[name]; !there {
				require.JSONEq(rt, `{"inputs":[]}`, body, "decommissioned")
			}
		}
	})
}

// TestRevertKeepsLaterChanges: a document that only the revision changed returns to its former content, one that only later
// changes touched stays the same, and a refusal has a reason and names the documents.
func TestRevertKeepsLaterChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := drifted(rt, t, 10)
		before := w.state
		w.drift(rt, 1)
		if w.state == before {
			return
		}
		at := w.state.Revision()
		after := w.state
		w.drift(rt, 4)
		prefer := rapid.SampledFrom([]string{"", "ours", "theirs"}).Draw(rt, "prefer")
		res, err := w.try(revert(w, api.Operation{Revision: int64(at), Prefer: prefer}))
		if err != nil {
			var e *Error
			require.True(rt, errors.As(err, &e), "%v", err)
			require.False(rt, e.Code == CodeRevertConflict && prefer != "", "decided")
			for _, p := range e.Problems {
				if e.Code == CodeRevertConflict {
					changed := bodies(after)[docKey{p.Kind, p.ID}] != bodies(w.state)[docKey{p.Kind, p.ID}]
					require.True(rt, changed, "%s %s was not changed since: %s", p.Kind, p.ID, p.Detail)
				}
			}
			return
		}
		had, made, now, got := bodies(before), bodies(after), bodies(w.state), bodies(res.State)
		for key := range bodies(res.State) {
			if now[key] != made[key] && had[key] == made[key] {
				require.Equal(rt, now[key], got[key], "%v", key)
			}
			if now[key] == made[key] && had[key] != made[key] && had[key] != "" && !before.docs[key.kind][key.id].Deleted() {
				require.Equal(rt, had[key], got[key], "%v", key)
			}
		}
		followed, err := w.state.Apply(commitOf(res))
		require.NoError(rt, err)
		require.Equal(rt, polls(rt, res.State), polls(rt, followed))
		w.keep(res)
		again, err := w.try(revert(w, api.Operation{Revision: int64(at), Prefer: "theirs"}))
		if prefer == "theirs" && err == nil {
			require.Empty(rt, again.Commit.Changes, "a second time there is nothing left to revert")
		}
	})
}

// commitOf returns a commit that follows even without changes.
func commitOf(res Result) Commit {
	c := res.Commit
	if len(c.Changes) == 0 {
		c.Revision = res.State.Revision() + 1
	}
	return c
}

// TestRevertOfIndependentEdits: a revision and later edits of other fields of the same documents are always separable: the
// result is that of the later changes alone.
func TestRevertOfIndependentEdits(t *testing.T) {
	t.Parallel()
	first := []func(*Tx) error{
		func(tx *Tx) error { _, err := tx.SetLabels("k0", []byte(`{"mine":"1"}`)); return err },
		assign("k0", KindComponent, "c0", `{"oci_tag":"v9"}`),
		assign("k0", KindComponent, "c1", `{"enabled":false}`),
		func(tx *Tx) error { _, err := tx.Unassign("k0", KindComponent, "c1"); return err },
		func(tx *Tx) error { _, err := tx.Unassign("k0", KindNamespace, "n0"); return err },
		func(tx *Tx) error {
			_, err := tx.PatchValues("k0", "c0", []byte(`{"mine":"1"}`), PatchOptions{Manager: "ci"})
			return err
		},
		assign("k1", KindComponent, "c1", ``),
		patch(KindComponent, "c1", `{"depends_on":[]}`),
		remove(KindComponent, "c1", DeleteOptions{Cascade: true}),
		remove(KindNamespace, "n0", DeleteOptions{Cascade: true}),
		remove(KindCluster, "k0", DeleteOptions{}),
		remove(KindCluster, "k1", DeleteOptions{Orphan: true}),
	}
	later := []func(*Tx) error{
		func(tx *Tx) error { _, err := tx.SetLabels("k1", []byte(`{"theirs":"1"}`)); return err },
		create(KindNamespace, `{"id":"n3"}`),
		create(KindCluster, `{"id":"k3","cluster_dns":"k3.example.com","environment":"dev","platform_components":[{"id":"c0"}]}`),
		patch(KindComponent, "c0", `{"component_version":"7"}`),
		func(tx *Tx) error { _, err := tx.SetLabels("k0", []byte(`{"theirs":"1"}`)); return err },
		both(create(KindNamespace, `{"id":"n4"}`), assign("k0", KindNamespace, "n4", "")),
		func(tx *Tx) error {
			_, err := tx.PatchValues("k0", "c0", []byte(`{"theirs":"1"}`), PatchOptions{Manager: "ci"})
			return err
		},
	}
	met := 0
	for i, edit := range first {
		for j, other := range later {
			w := drifted(nil, t, 0)
			without, err := w.try(other)
			require.NoError(t, err)
			w.must(edit)
			at := int64(w.state.Revision())
			res, err := w.try(other)
			if err != nil {
				continue // the cluster does not exist any more
			}
			w.keep(res)
			w.must(revert(w, api.Operation{Revision: at}))
			require.Equal(t, polls(t, without.State), polls(t, w.state), "edit %d, later %d", i, j)
			require.Equal(t, bodies(without.State), bodies(w.state), "edit %d, later %d", i, j)
			met++
		}
	}
	require.Greater(t, met, 60)
}
