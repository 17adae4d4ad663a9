package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// TestRandomEditsOfLayers runs random edits of layers, clusters and definitions. For any order of writes, each cluster gets
// the answer of an equivalent fleet without layers, whose cluster documents hold the merged settings: merged here from the
// texts by separate code. A follower and a start give the same answers, plans equal the effects, and refusals are domain
// errors.
func TestRandomEditsOfLayers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		followed := w.state
		for range rapid.IntRange(1, 25).Draw(rt, "commits") {
			var edits []func(*Tx) error
			what := ""
			for range rapid.IntRange(1, 3).Draw(rt, "edits") {
				edit, name := randomLayerEdit(rt)
				edits = append(edits, edit)
				what += name + "; "
			}
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			err := both(edits...)(tx)
			var res Result
			if err == nil {
				res, err = tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"})
			}
			if err != nil {
				var e *Error
				require.True(rt, errors.As(err, &e), "%s: %v", what, err)
				continue
			}
			if len(res.Commit.Changes) == 0 {
				continue
			}
			plan, err := res.Plan()
			require.NoError(rt, err, what)
			requirePlanned(rt, w.state, res.State, plan, what)
			if followed, err = followed.Apply(res.Commit); err != nil {
				require.NoError(rt, err, what)
			}
			loaded, err := NewState(testRules, res.State.head, res.State.at, slices.Collect(res.State.Records()))
			require.NoError(rt, err, what)
			want := polls(rt, res.State)
			require.Equal(rt, want, polls(rt, followed), "followed: %s", what)
			require.Equal(rt, want, polls(rt, loaded), "loaded: %s", what)
			for _, doc := range res.State.All(KindCluster) {
				flat := flattened(rt, res.State, doc)
				for _, a := range res.State.kinds.lists {
					require.Equal(rt, poll(rt, flat, doc.Cluster().ClusterDNS, a.kind), want[doc.Cluster().ClusterDNS+"/"+a.endpoint], "%s of %s: %s", a.endpoint, doc.ID, what)
					answer, err := res.State.Answer(doc, a.kind)
					require.NoError(rt, err)
					e := res.State.Effective(doc)
					require.GreaterOrEqual(rt, res.State.bound(e, a), answer.Size, what)
					require.Equal(rt, a.ids(flat.Effective(flat.docs[KindCluster][doc.ID])), a.ids(e))
				}
				require.Equal(rt, flat.InstallCount(flat.docs[KindCluster][doc.ID]), res.State.InstallCount(doc))
				for _, other := range []*State{followed, loaded} {
					require.Equal(rt, res.State.Effective(doc).bound, other.Effective(other.docs[KindCluster][doc.ID]).bound)
					require.Equal(rt, res.State.Effective(doc).cluster, other.Effective(other.docs[KindCluster][doc.ID]).cluster)
				}
			}
			w.state = res.State
			w.now = w.now.Add(time.Minute)
		}
	})
}

func layeredWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, fixtures.Layered()...)
}

// flattened returns a fleet without layers: the definitions of another fleet and one of its clusters, whose document holds
// the merged settings.
func flattened(t require.TestingT, s *State, doc *Document) *State {
	own, err := unstructured.Decode(doc.Body)
	require.NoError(t, err)
	var layers []map[string]any
	for _, d := range s.All(KindLayer) {
		l, err := unstructured.Decode(d.Body)
		require.NoError(t, err)
		sel, err := ParseSelector(d.layer().Selector)
		require.NoError(t, err)
		if d.layer().All || sel.Matches(doc.Cluster()) {
			layers = append(layers, l)
		}
	}
	slices.SortFunc(layers, func(a, b map[string]any) int {
		return strings.Compare(fmt.Sprintf("%09v", a["priority"]), fmt.Sprintf("%09v", b["priority"]))
	})
	objects := func(v any) (out []map[string]any) {
		list, _ := v.([]any)
		for _, item := range list {
			out = append(out, item.(map[string]any))
		}
		return out
	}
	field := func(v any, name string) any {
		m, _ := v.(map[string]any)
		return m[name]
	}
	excluded := func(path ...string) map[string]bool {
		v := own["excludes"]
		for _, p := range path {
			v = field(v, p)
		}
		out := map[string]bool{}
		ids, _ := v.([]any)
		for _, id := range ids {
			out[id.(string)] = true
		}
		return out
	}
	fold := func(of func(map[string]any) []map[string]any, apart func(map[string]any) map[string]any, not map[string]bool, merge func(into, from map[string]any)) []any {
		leaves, order := map[string]map[string]any{}, []string{}
		say := func(id string, from map[string]any) {
			if leaves[id] == nil {
				leaves[id] = map[string]any{"id": id}
			}
			merge(leaves[id], from)
		}
		for _, l := range layers {
			for _, e := range of(l) {
				id := e["id"].(string)
				if say(id, e); !slices.Contains(order, id) && !not[id] {
					order = append(order, id)
				}
			}
			for id, o := range apart(l) {
				say(id, o.(map[string]any))
			}
		}
		for _, e := range of(own) {
			id := e["id"].(string)
			if say(id, e); !slices.Contains(order, id) {
				order = append(order, id)
			}
		}
		out := []any{}
		for _, id := range order {
			out = append(out, leaves[id])
		}
		return out
	}
	shallow := func(into, from map[string]any) {
		maps.Copy(into, from)
	}
	component := func(into, from map[string]any) {
		for _, name := range []string{"component_version", "oci_tag", "oci_digest"} {
			if from[name] != nil {
				delete(into, "oci_digest")
			}
		}
		images := objects(into["images"])
		for _, image := range objects(from["images"]) {
			at := slices.IndexFunc(images, func(lower map[string]any) bool { return lower["name"] == image["name"] })
			if at < 0 {
				at, images = len(images), append(images, nil)
			}
			images[at] = image
		}
		flux := map[string]any{}
		for _, settings := range []any{into["flux"], from["flux"]} { // here of one level, and commonMetadata of two
			object, _ := settings.(map[string]any)
			lower, _ := flux["commonMetadata"].(map[string]any)
			maps.Copy(flux, object)
			if upper, set := object["commonMetadata"].(map[string]any); set && lower != nil {
				metadata := maps.Clone(lower)
				maps.Copy(metadata, upper)
				flux["commonMetadata"] = metadata
			}
		}
		shallow(into, from)
		if len(flux) > 0 {
			into["flux"] = flux
		}
		delete(into, "images")
		for _, image := range images {
			list, _ := into["images"].([]any)
			into["images"] = append(list, image)
		}
	}
	deep := func(into, from map[string]any) {
		overrides, _ := into["overrides"].(map[string]any)
		if overrides == nil {
			overrides = map[string]any{}
		}
		more, _ := from["overrides"].(map[string]any)
		maps.Copy(overrides, more)
		if into["overrides"] = overrides; len(overrides) == 0 {
			delete(into, "overrides")
		}
	}
	none := func(map[string]any) map[string]any { return nil }
	flat := map[string]any{}
	shallow(flat, own)
	delete(flat, "excludes")
	flat["platform_components"] = fold(func(m map[string]any) []map[string]any { return objects(m["platform_components"]) },
		func(m map[string]any) map[string]any { o, _ := m["overrides"].(map[string]any); return o }, nil, component)
	for _, name := range []string{"namespaces", "rolebindings"} {
		flat[name] = fold(func(m map[string]any) []map[string]any { return objects(m[name]) }, none, excluded(name), shallow)
	}
	resources := map[string]any{}
	for _, a := range s.kinds.lists[s.kinds.compiledCount:] {
		resources[a.field] = fold(func(m map[string]any) []map[string]any { return objects(field(m["resources"], a.field)) }, none, excluded("resources", a.field), deep)
	}
	flat["resources"] = resources
	patches, gone := map[string]any{}, map[string][]string{}
	for _, e := range objects(flat["platform_components"]) {
		id := e["id"].(string)
		values := map[string]any{}
		for _, m := range append(slices.Clone(layers), own) {
			more, _ := field(m["patches"], id).(map[string]any)
			for path, v := range more {
				if delete(values, path); v != nil {
					values[path] = v
				} else {
					gone[id] = append(gone[id], path)
				}
			}
		}
		patches[id] = values
	}
	flat["patches"] = patches
	delete(flat, "patch_owners")
	compiledIn.byName[KindCluster].normalize(flat)
	var records []Record
	for rec := range s.Records() {
		switch {
		case rec.Kind == KindLayer || isInternal(rec.Kind) || rec.Kind == KindCluster && rec.ID != doc.ID:
			continue
		case rec.Kind == KindCluster:
			if rec.Body, err = jsontext.Canonical(flat); err != nil {
				require.NoError(t, err)
			}
		case rec.Kind == KindComponent:
			obj, err := unstructured.Decode(rec.Body)
			require.NoError(t, err)
			for _, path := range gone[rec.ID] {
				delete(obj["patches"].(map[string]any), path)
			}
			rec.Body, err = jsontext.Canonical(obj)
			require.NoError(t, err)
		}
		records = append(records, rec)
	}
	out, err := NewState(testRules, s.head, s.at, records)
	require.NoError(t, err)
	return out
}

func randomLayerEdit(t *rapid.T) (func(*Tx) error, string) {
	op := fixtures.RandomLayerEdit(t)
	return batch(op), op
}
