package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// attributed explains one value of a component, with revisions: "kind id revision", or "before revision".
func (w *world) attributed(cluster, list, id, pointer string) []string {
	w.t.Helper()
	doc, ok := w.state.Get(KindCluster, cluster)
	require.True(w.t, ok)
	ex, err := w.state.Explain(w.t.Context(), doc, list, id, pointer)
	require.NoError(w.t, err)
	require.NoError(w.t, w.state.Blame(w.t.Context(), &ex, &w.log))
	require.Len(w.t, ex.Inputs, 1)
	var out []string
	for _, v := range ex.Inputs[0].Values {
		for _, say := range append([]api.ValueSource{v.SaidBy}, v.InsteadOf...) {
			text := fmt.Sprintf("%s %s %d", say.Kind, say.ID, say.Revision)
			if say.SetBefore > 0 {
				text = fmt.Sprintf("%s %s before %d", say.Kind, say.ID, say.SetBefore)
			}
			out = append(out, text)
		}
	}
	return out
}

// TestBlameFindsTheRevisionOfAValue, which need not be the last one of the document.
func TestBlameFindsTheRevisionOfAValue(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer) // revision 1
	version := func(v string) {
		w.must(assign("c2", KindComponent, "grafana", fmt.Sprintf(`{"component_version":%q}`, v)))
	}
	version("17.5.0")                                                                                                       // 2
	w.must(patch(KindCluster, "c2", `{"labels":{"team":"x","region":"eu"}}`))                                               // 3
	w.must(assign("c2", KindNamespace, "kept", ""))                                                                         // 4
	w.must(put(KindCluster, "c2", `{"platform_components":[{"id":"loki"},{"id":"grafana","component_version":"17.5.0"}]}`)) // 5: it moves in its list
	w.must(patch(KindLayer, "prod", `{"description":"production"}`))                                                        // 6
	require.Equal(t, []string{"cluster c2 2", "layer prod 1", "platform_component grafana 1"}, w.attributed("c2", "platform-components", "grafana", "/component_version"))
	require.Equal(t, []string{"cluster c2 5"}, w.attributed("c2", "platform-components", "loki", "/id")[:1])
	require.Equal(t, []string{"cluster c2 1"}, w.attributed("c2", "platform-components", "grafana", "/cluster/dns"))

	version("18.0.0") // 7
	version("17.5.0") // 8: the same value as before, set again
	require.Equal(t, "cluster c2 8", w.attributed("c2", "platform-components", "grafana", "/component_version")[0])

	// It is enabled because the setting was removed.
	enabled := func() string { return w.attributed("c3", "platform-components", "loki", "/enabled")[0] }
	require.Equal(t, "layer prod 1", enabled())
	w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", KindComponent, "loki", []byte(`{"enabled":false}`))
		return err
	})
	on := w.must(func(tx *Tx) error {
		_, err := tx.AssignToLayer("prod", KindComponent, "loki", []byte(`{"enabled":null}`))
		return err
	})
	require.Equal(t, fmt.Sprint("layer prod ", on.Commit.Revision), enabled())
}

// TestBlameBeyondTheLog: a value that was set before the oldest revision of the log has no revision.
func TestBlameBeyondTheLog(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	w.must(assign("c2", KindComponent, "grafana", `{"component_version":"17.5.0"}`))
	w.must(patch(KindCluster, "c2", `{"labels":{"team":"x"}}`))
	w.must(assign("c2", KindComponent, "grafana", `{"oci_tag":"x"}`))
	w.log.oldest = 3
	require.Equal(t, []string{"cluster c2 before 3", "layer prod before 3", "platform_component grafana before 3"}, w.attributed("c2", "platform-components", "grafana", "/component_version"))
	require.Equal(t, "cluster c2 4", w.attributed("c2", "platform-components", "grafana", "/source/oci_tag")[0])
}

// TestBlameOfDefaults: no revision set a default.
func TestBlameOfDefaults(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	w.must(patch(KindComponent, "loki", `{"oci_tag":"x"}`))
	require.Equal(t, "platform_component loki 0", w.attributed("c2", "platform-components", "loki", "/patches")[0])
}

// TestBlameOfAClusterThatWasCreatedAgain does not go back to the one before it.
func TestBlameOfAClusterThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	w := tiers(t, baseLayer, prodLayer)
	const cluster = `{"id":"c9","cluster_dns":"c9.example.com","environment":"prod"}`
	w.must(create(KindCluster, cluster))
	w.must(remove(KindCluster, "c9", DeleteOptions{}))
	again := w.must(create(KindCluster, cluster)).Commit.Revision
	require.Equal(t, fmt.Sprint("cluster c9 ", again), w.attributed("c9", "platform-components", "grafana", "/cluster/dns")[0])
}

// TestBlameAgreesWithEveryVersion: in random fleets, the revision of a value is the last one that changed it.
func TestBlameAgreesWithEveryVersion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := layeredWorld(t)
		for range rapid.IntRange(1, 25).Draw(rt, "commits") {
			edit, _ := randomLayerEdit(rt)
			tx := w.state.Begin()
			tx.Guard(Guard{Off: true})
			if edit(tx) != nil {
				continue
			}
			if res, err := tx.Finish(Commit{ID: newCommitID(rt), At: w.now, Actor: "test"}); err == nil {
				w.keep(res)
			}
		}
		w.log.oldest = Revision(rapid.IntRange(1, 4).Draw(rt, "oldest"))
		for _, doc := range w.state.All(KindCluster) {
			ex, err := w.state.Explain(t.Context(), doc, "", "", "")
			require.NoError(rt, err)
			require.NoError(rt, w.state.Blame(t.Context(), &ex, &w.log))
			for _, in := range ex.Inputs {
				for _, v := range in.Values {
					for _, say := range append([]api.ValueSource{v.SaidBy}, v.InsteadOf...) {
						want, found := w.setBy(rt, say)
						if !found {
							want = 0
						}
						require.EqualValues(rt, want, say.Revision, "%s %s %s", say.Kind, say.ID, say.Pointer)
						require.Equal(rt, say.Pointer != "" && !found, say.SetBefore == int64(max(w.log.oldest, 1)))
					}
				}
			}
		}
	})
}

// setBy searches every version of a document, from the newest one.
func (w *world) setBy(rt *rapid.T, say api.ValueSource) (Revision, bool) {
	if say.Pointer == "" {
		return 0, false
	}
	body := w.state.docs[Kind(say.Kind)][say.ID].Body
	places := []string{say.Pointer}
	if !say.Value.IsSpecified() {
		places = []string{say.Pointer + "/id", say.Pointer + "/enabled"}
	}
	values := func(text json.RawMessage) (all []string) {
		for _, place := range places {
			all = append(all, valueAt(rt, body, text, place))
		}
		return all
	}
	now := values(body)
	for _, c := range slices.Backward(w.log.commits) {
		for _, ch := range c.Changes {
			if string(ch.Kind) != say.Kind || ch.ID != say.ID || c.Revision < w.log.oldest {
				continue
			}
			before := ch.Before
			if ch.Action() == "create" {
				before = nil
			}
			if was := values(before); strings.Join(was, "|") != strings.Join(now, "|") {
				return c.Revision, true
			}
		}
	}
	return 0, false
}

// valueAt returns the value in a version of a document for a pointer into its newest version; entries of lists are found by
// their ids.
func valueAt(rt *rapid.T, newest, version json.RawMessage, pointer string) string {
	var n, v any
	require.NoError(rt, json.Unmarshal(newest, &n))
	if version == nil {
		return "absent"
	}
	require.NoError(rt, json.Unmarshal(version, &v))
	for key := range strings.SplitSeq(pointer[1:], "/") {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch of := n.(type) {
		case map[string]any:
			n = of[key]
			there := false
			if m, ok := v.(map[string]any); ok {
				v, there = m[key]
			}
			if !there {
				return "absent"
			}
		case []any:
			var at int
			_, err := fmt.Sscan(key, &at)
			require.NoError(rt, err)
			n = of[at]
			list, _ := v.([]any)
			v = nil
			for _, item := range list {
				if item.(map[string]any)["id"] == n.(map[string]any)["id"] {
					v = item
				}
			}
			if v == nil {
				return "absent"
			}
		default:
			return "absent"
		}
	}
	text, err := json.Marshal(v)
	require.NoError(rt, err)
	return string(text)
}
