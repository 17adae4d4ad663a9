package fleet

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/threeway"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

const (
	graphComponent = `{"id":"graph","component_path":"p","oci_url":"https://charts.example.com"}`
	graphLayer     = `{"id":"graphs","priority":100,"selector":"environment=dev","platform_components":[{"id":"graph"}]}`
	graphCluster   = `{"id":"clu-g","cluster_dns":"clu-g.example.com","environment":"dev","patches":{"graph":{"a":"1"}}}`
)

// createGraph creates a component, a layer that assigns it, and a cluster with a patch of it.
func createGraph() func(*Tx) error {
	return both(create(KindComponent, graphComponent), create(KindLayer, graphLayer), create(KindCluster, graphCluster))
}

func patchGraph(cluster, values string) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.PatchValues(cluster, "graph", []byte(values), PatchOptions{})
		return err
	}
}

// TestRevertOfPatchedComponent reverts the creation of a component that layers assign. Its deletion removes patches from
// clusters, and neither hides a later patch nor counts as a later change.
func TestRevertOfPatchedComponent(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*world, int64) {
		w := revertWorld(t)
		w.must(createGraph())
		return w, w.last()
	}
	at := func(e *Error) []string {
		var found []string
		for _, p := range e.Problems {
			found = append(found, string(p.Kind)+"/"+p.ID+" "+p.Pointer)
		}
		return found
	}
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		w, rev := setup(t)
		w.must(revert(w, api.Operation{Revision: rev}))
		_, exists := w.state.Get(KindCluster, "clu-g")
		require.False(t, exists)
		require.False(t, w.state.Has(KindComponent, "graph"))
	})
	t.Run("patched on the cluster that it created", func(t *testing.T) {
		t.Parallel()
		w := revertWorld(t)
		w.must(both(create(KindComponent, graphComponent), create(KindLayer, graphLayer), create(KindCluster, `{"id":"clu-g","cluster_dns":"clu-g.example.com","environment":"dev"}`)))
		rev := w.last()
		w.must(patchGraph("clu-g", `{"b":"2"}`))
		require.Equal(t, []string{"cluster/clu-g /operations/0"}, at(w.refused(CodeRevertConflict, revert(w, api.Operation{Revision: rev}))))
		w.must(revert(w, api.Operation{Revision: rev, Prefer: "theirs"}))
		_, exists := w.state.Get(KindCluster, "clu-g")
		require.False(t, exists)
	})
	t.Run("patched on another cluster", func(t *testing.T) {
		t.Parallel()
		for _, prefer := range []string{"", "ours", "theirs"} {
			w, rev := setup(t)
			w.must(patchGraph("k0", `{"b":"2"}`))
			if prefer == "" {
				e := w.refused(CodeRevertConflict, revert(w, api.Operation{Revision: rev}))
				require.Equal(t, []string{"cluster/k0 /operations/0/patches/graph"}, at(e))
				require.Equal(t, `cluster "k0": is {"b":"2"} now; the revert deletes component "graph"`, e.Problems[0].Detail)
				continue
			}
			w.must(revert(w, api.Operation{Revision: rev, Prefer: prefer}))
			require.Equal(t, prefer == "ours", w.state.Has(KindComponent, "graph"))
			if prefer == "ours" {
				require.Contains(t, bodies(w.state)[docKey{KindCluster, "k0"}], `"patches":{"graph":{"b":"2"}}`)
			} else {
				require.Contains(t, bodies(w.state)[docKey{KindCluster, "k0"}], `"patches":{}`)
			}
			require.False(t, w.state.Has(KindLayer, "graphs"))
		}
	})
	t.Run("patched on another cluster, with a changed layer and a protected cluster", func(t *testing.T) {
		t.Parallel()
		w := revertWorld(t)
		w.must(both(createGraph(), create(KindCluster, `{"id":"clu-p","cluster_dns":"clu-p.example.com","environment":"dev","deletion_protection":true}`)))
		rev := w.last()
		w.must(both(patchGraph("k0", `{"b":"2"}`), patch(KindLayer, "graphs", `{"priority":7}`)))
		require.Equal(t, []string{"layer/graphs /operations/0", "cluster/k0 /operations/0/patches/graph"}, at(w.refused(CodeRevertConflict, revert(w, api.Operation{Revision: rev}))))
	})
	t.Run("patched on a cluster that it changed", func(t *testing.T) {
		t.Parallel()
		w := revertWorld(t)
		w.must(both(createGraph(), patch(KindCluster, "k0", `{"labels":{"x":"1"}}`)))
		rev := w.last()
		w.must(patchGraph("k0", `{"b":"2"}`))
		require.Equal(t, []string{"cluster/k0 /operations/0/patches/graph"}, at(w.refused(CodeRevertConflict, revert(w, api.Operation{Revision: rev}))))
		w.must(revert(w, api.Operation{Revision: rev, Prefer: "theirs"}))
		require.NotContains(t, bodies(w.state)[docKey{KindCluster, "k0"}], "graph")
	})
}

// TestRevertIsAMergeOfEachDocument compares a revert of any commit, after any later commits, with a merge of each document
// by itself: the document as the revision left it, as it is now, and as it was before. No other document changes. Conflicts
// are the documents that the revision created or deleted and that have changed since, those that do not merge, and clusters
// with later patches of a removed component.
func TestRevertIsAMergeOfEachDocument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		for range rapid.IntRange(2, 12).Draw(rt, "commits") {
			w.commitRandomly(rt)
		}
		if len(w.log.commits) < 2 {
			return
		}
		at := rapid.IntRange(2, len(w.log.commits)).Draw(rt, "revision")
		prefer := rapid.SampledFrom([]string{"", "", "ours", "theirs"}).Draw(rt, "prefer")
		res, err := w.try(revert(w, api.Operation{Revision: int64(at), Prefer: prefer}))
		var e *Error
		if err != nil {
			require.True(rt, errors.As(err, &e), "%v", err)
			if e.Code == CodeProtected {
				return // a cluster cannot be deleted: the patches left by that are not searched
			}
		}
		want, conflicts := w.mergeBack(rt, w.log.commits[at-1].Changes, jsontext.Side(prefer), res.State)
		if len(conflicts) > 0 || e != nil && e.Code == CodeRevertConflict {
			require.NotNil(rt, e, "conflicts: %v", conflicts)
			require.Equal(rt, CodeRevertConflict, e.Code, "%v", e)
			found := map[docKey]bool{}
			for _, p := range e.Problems {
				found[docKey{p.Kind, p.ID}] = true
			}
			require.Equal(rt, conflicts, found, "%v", e)
			return
		}
		if e != nil {
			return // a rule refuses the resulting fleet
		}
		got := bodies(res.State)
		for key := range got {
			if doc := res.State.docs[key.kind][key.id]; doc.Deleted() {
				delete(got, key)
			}
		}
		require.Equal(rt, want, got)
	})
}

// commitRandomly commits one to four random edits together, if they are accepted.
func (w *world) commitRandomly(rt *rapid.T) {
	var edits []func(*Tx) error
	what := ""
	for range rapid.IntRange(1, 4).Draw(rt, "edits") {
		edit, name := randomLayerEdit(rt)
		switch rapid.IntRange(0, 5).Draw(rt, "of a component that layers assign") {
		case 0:
			cluster := rapid.SampledFrom([]string{"clu-g", "k1", "k2", "k3"}).Draw(rt, "patched")
			edit, name = patchGraph(cluster, rapid.SampledFrom([]string{`{"b":"2"}`, `{"a":"3"}`, `{"a":null}`}).Draw(rt, "patch")), "patch graph on "+cluster
		case 1:
			edit, name = createGraph(), "create graph"
		}
		edits, what = append(edits, edit), what+name+"; "
	}
	edits = append(edits, func(tx *Tx) error { tx.Guard(Guard{Off: true}); return nil })
	if res, err := w.try(both(edits...)); err == nil && len(res.Commit.Changes) > 0 {
		rt.Logf("revision %d: %s", res.State.Revision(), what)
		w.keep(res)
	}
}

// mergeBack returns the documents that a revert of some changes leaves, without decommissioned clusters, or its conflicts.
// It is computed without a Tx; reverted is the State whose layers determine the components of a cluster, nil if there is
// none.
func (w *world) mergeBack(rt *rapid.T, changes []Change, prefer jsontext.Side, reverted *State) (map[docKey]string, map[docKey]bool) {
	now := bodies(w.state)
	want, conflicts := maps.Clone(now), map[docKey]bool{}
	ofClusters := func(ch Change) bool { return ch.Kind == KindCluster }
	clustersLast := slices.Concat(slices.DeleteFunc(slices.Clone(changes), ofClusters), slices.DeleteFunc(slices.Clone(changes), func(ch Change) bool { return !ofClusters(ch) }))
	for _, ch := range clustersLast { // their patches depend on the layers after the revert
		key := docKey{ch.Kind, ch.ID}
		body := json.RawMessage(now[key])
		if now[key] == "" {
			body = nil
		}
		switch {
		case isInternal(ch.Kind):
		case string(body) == string(ch.After):
			want[key] = string(ch.Before)
		case string(body) == string(ch.Before), !ch.live(body) && !ch.live(ch.Before):
		case ch.live(ch.Before) && ch.live(ch.After) && ch.live(body):
			opt := threeway.Options{Prefer: prefer}
			if ch.Kind == KindCluster {
				opt.Given = func(merged map[string]any) map[string]bool { return componentsOfLayers(rt, want, merged) }
			}
			merged, found, err := threeway.Merge(threeway.Versions{Made: ch.After, Now: body, Before: ch.Before}, opt)
			require.NoError(rt, err)
			if len(found) > 0 {
				conflicts[key] = true
				continue
			}
			w.state.kinds.byName[ch.Kind].normalize(merged)
			text, err := jsontext.Canonical(merged)
			require.NoError(rt, err)
			want[key] = string(text)
		case prefer == "":
			conflicts[key] = true
		case prefer == jsontext.Theirs:
			want[key] = string(ch.Before)
		}
	}
	maps.DeleteFunc(want, func(key docKey, body string) bool {
		return body == "" || Change{Kind: key.kind}.tombstone(json.RawMessage(body))
	})
	for _, ch := range changes {
		if ch.Kind != KindComponent || want[docKey{ch.Kind, ch.ID}] != "" {
			continue
		}
		for key, body := range want {
			if key.kind != KindCluster || conflicts[key] {
				continue
			}
			obj, err := unstructured.Decode([]byte(body))
			require.NoError(rt, err)
			entries, _ := obj["platform_components"].([]any)
			if len(unstructured.NestedObject(unstructured.NestedObject(obj, "patches"), ch.ID)) == 0 || slices.ContainsFunc(entries, unstructured.HasID(ch.ID)) {
				continue
			}
			switch prefer {
			case "":
				conflicts[key] = true
			case jsontext.Ours:
				want[docKey{ch.Kind, ch.ID}] = now[docKey{ch.Kind, ch.ID}]
			default:
				delete(unstructured.NestedObject(obj, "patches"), ch.ID)
				delete(unstructured.NestedObject(obj, "patch_owners"), ch.ID)
				w.state.kinds.byName[KindCluster].normalize(obj)
				text, err := jsontext.Canonical(obj)
				require.NoError(rt, err)
				want[key] = string(text)
			}
		}
	}
	return want, conflicts
}

// componentsOfLayers returns the components that layers assign to a cluster.
func componentsOfLayers(rt *rapid.T, docs map[docKey]string, cluster map[string]any) map[string]bool {
	given := map[string]bool{}
	var c api.Cluster
	text, err := jsontext.Canonical(map[string]any{"id": cluster["id"], "environment": cluster["environment"], "labels": cluster["labels"]})
	require.NoError(rt, err)
	require.NoError(rt, json.Unmarshal(text, &c))
	for key, body := range docs {
		if key.kind != KindLayer || body == "" {
			continue
		}
		obj, err := unstructured.Decode([]byte(body))
		require.NoError(rt, err)
		matches, _ := obj["all"].(bool)
		if text, ok := obj["selector"].(string); ok && !matches {
			sel, err := ParseSelector(text)
			require.NoError(rt, err)
			matches = sel.Matches(&c)
		}
		entries, _ := obj["platform_components"].([]any)
		for _, e := range entries {
			if _, id, ok := unstructured.Entry(e); ok && matches {
				given[id] = true
			}
		}
	}
	return given
}
