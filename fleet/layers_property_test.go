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
	docs := []string{
		string(KindComponent), `{"id":"c0","component_path":"p","oci_url":"https://charts.example.com","patches":{"a":"1","b.c":"x"}}`,
		string(KindComponent), `{"id":"c1","component_path":"p","oci_url":"https://charts.example.com","depends_on":["c0"]}`,
		string(KindComponent), `{"id":"c2","component_path":"p","oci_url":"oci://registry.example.com/x","patches":{"A":"1"}}`,
		string(KindNamespace), `{"id":"n0"}`, string(KindNamespace), `{"id":"n1"}`,
		string(KindRoleBinding), `{"id":"b0","role":"view","subjects":[{"kind":"User","name":"jo"}]}`,
		string(KindResourceType), `{"id":"t","overridable":["x","y"],"schema":{"type":"object","additionalProperties":false,"properties":{"x":{"default":0},"y":{"default":"a"},"z":{"default":[]}}}}`,
		string(ResourceKind("t")), `{"id":"r0"}`, string(ResourceKind("t")), `{"id":"r1","spec":{"x":3}}`,
	}
	for i, labels := range []string{`{}`, `{"tier":"a"}`, `{"tier":"b","region":"eu"}`} {
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":"dev","labels":%s}`, i, i, labels))
	}
	return newWorld(t, docs...)
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
		shallow(into, from)
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
	n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	id, cluster := fmt.Sprint("l", n("layer", 3)), fmt.Sprint("k", n("cluster", 3))
	settings := func() string {
		return pick("settings", "", "", `,"component_version":"1.0"`, `,"component_version":"2.0","oci_tag":"t"`, `,"component_path":"q"`, `,"values_from":[{"kind":"Secret","name":"s"}]`,
			`,"oci_tag":"t","oci_digest":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`, `,"component_version":"2.0","oci_digest":"sha256:f123456789abcdeff123456789abcdeff123456789abcdeff123456789abcdef"`,
			`,"images":[{"name":"a","new_tag":"1"}]`, `,"images":[{"name":"a"},{"name":"b","new_name":"c"}]`)
	}
	components := func(enabled ...string) string {
		var out []string
		for _, c := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 3, rapid.ID).Draw(t, "components") {
			out = append(out, fmt.Sprintf(`{"id":"c%d"%s%s}`, c, settings(), pick("enabled", enabled...)))
		}
		return strings.Join(out, ",")
	}
	refs := func(letter string, most int) string {
		var out []string
		for _, c := range rapid.SliceOfNDistinct(rapid.IntRange(0, most), 0, most+1, rapid.ID).Draw(t, letter) {
			out = append(out, fmt.Sprintf(`{"id":"%s%d"}`, letter, c))
		}
		return strings.Join(out, ",")
	}
	resources := func() string {
		var out []string
		for _, c := range rapid.SliceOfNDistinct(rapid.IntRange(0, 1), 0, 2, rapid.ID).Draw(t, "resources") {
			out = append(out, fmt.Sprintf(`{"id":"r%d"%s}`, c, pick("overrides", "", `,"overrides":{"x":1}`, `,"overrides":{"x":[2],"y":"b"}`, `,"overrides":{"y":{"k":1}}`)))
		}
		return strings.Join(out, ",")
	}
	values := func(nulls bool) string {
		all := []string{`"a":"2"`, `"a":3`, `"b.c":"y"`, `"b.d":true`, `"b":{"k":1}`, `"l[0]":1`}
		if nulls {
			all = append(all, `"a":null`, `"b.c":null`, `"b":null`)
		}
		path := func(s string) string { before, _, _ := strings.Cut(s, ":"); return before }
		return "{" + strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 2, path).Draw(t, "values"), ",") + "}"
	}
	switch n("edit", 11) {
	case 0, 1, 2, 3:
		overrides := pick("apart", "", "", `"c0":{"component_version":"9"}`, `"c1":{"oci_tag":"u","component_path":"z"}`)
		body := fmt.Sprintf(`{"id":%q,"priority":%d,%s,"platform_components":[%s],"namespaces":[%s],"rolebindings":[%s],"resources":{"t":[%s]},"overrides":{%s},"patches":{"c0":%s,"c1":%s,"c2":%s}%s}`,
			id, n("priority", 9), pick("selector", `"selector":"tier=a"`, `"selector":"tier in (a,b)"`, `"selector":"environment=dev"`, `"selector":"region"`, `"selector":"!tier"`, `"all":true`),
			components("", "", `,"enabled":false`, `,"enabled":true`), refs("n", 1), refs("b", 0), resources(), overrides, values(true), values(true), pick("variables", `{}`, `{"A":"2"}`, `{"A":null,"B":1}`),
			pick("protection", "", "", "", `,"deletion_protection":true`, `,"deletion_protection":false`))
		return func(tx *Tx) error {
			if _, err := tx.Get(KindLayer, id); err != nil {
				return create(KindLayer, body)(tx)
			}
			return put(KindLayer, id, body)(tx)
		}, body
	case 4:
		return remove(KindLayer, id, DeleteOptions{}), "remove " + id
	case 5:
		labels := pick("labels", `{"tier":"a"}`, `{"tier":"b"}`, `{"tier":null}`, `{"region":"eu"}`, `{"region":null}`)
		return func(tx *Tx) error { _, err := tx.SetLabels(cluster, []byte(labels)); return err }, cluster + " gets " + labels
	case 6, 7:
		excludes := pick("excludes", `{}`, `{}`, `{"namespaces":["n0"]}`, `{"namespaces":["n1","n0"],"rolebindings":["b0"]}`, `{"resources":{"t":["r0"]}}`)
		body := fmt.Sprintf(`{"id":%q,"cluster_dns":"%s.example.com","environment":%q,"platform_components":[%s],"namespaces":[%s],"resources":{"t":[%s]},"patches":{"c0":%s},"excludes":%s}`,
			cluster, cluster, pick("environment", "dev", "prod"), components("", `,"enabled":false`), refs("n", 1), resources(), values(false), excludes)
		return func(tx *Tx) error {
			if _, err := tx.Get(KindCluster, cluster); err != nil {
				return create(KindCluster, body)(tx)
			}
			return put(KindCluster, cluster, body)(tx)
		}, body
	case 8:
		kind, def := KindComponent, fmt.Sprint("c", n("component", 2))
		if rapid.Bool().Draw(t, "namespace") {
			kind, def = KindNamespace, fmt.Sprint("n", n("namespace", 1))
		}
		if rapid.Bool().Draw(t, "off") {
			return func(tx *Tx) error { _, err := tx.Unassign(cluster, kind, def); return err }, "unassign " + def + " from " + cluster
		}
		return assign(cluster, kind, def, ""), "assign " + def + " to " + cluster
	case 9:
		def, body := fmt.Sprint("c", n("component", 2)), values(true)
		return func(tx *Tx) error { _, err := tx.PatchValues(cluster, def, []byte(body), PatchOptions{}); return err }, "patch " + def + " on " + cluster + ": " + body
	case 10:
		kind, def := KindComponent, fmt.Sprint("c", n("component", 2))
		switch n("kind", 2) {
		case 1:
			kind, def = KindNamespace, fmt.Sprint("n", n("namespace", 1))
		case 2:
			kind, def = KindResourceType, "t"
		}
		return remove(kind, def, DeleteOptions{Cascade: true}), "remove " + def
	default:
		if rapid.Bool().Draw(t, "whole cluster") {
			return remove(KindCluster, cluster, DeleteOptions{Orphan: rapid.Bool().Draw(t, "orphan")}), "remove " + cluster
		}
		def := fmt.Sprint("c", n("component", 1))
		body := fmt.Sprintf(`{"patches":{"a":%s}}`, pick("catalog", `"7"`, `null`, `{"x":1}`))
		return patch(KindComponent, def, body), def + " gets " + body
	}
}
