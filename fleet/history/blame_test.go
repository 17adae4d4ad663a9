package history_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/fleettest"
	"github.com/flux-resourceset/flux-resourceset/fleet/history"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fixtures"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// attributed explains one value of a component, with revisions: "kind id revision", or "before revision".
func attributed(w *fleettest.World, cluster, list, id, pointer string) []string {
	w.T.Helper()
	doc, ok := w.State.Get(fleet.KindCluster, cluster)
	require.True(w.T, ok)
	ex, err := history.Explain(w.T.Context(), w.State, doc, list, id, pointer)
	require.NoError(w.T, err)
	require.NoError(w.T, history.Blame(w.T.Context(), w.State, &ex, &w.Log))
	require.Len(w.T, ex.Inputs, 1)
	var out []string
	for _, v := range ex.Inputs[0].Values {
		for _, say := range append([]api.ValueSource{v.SetBy}, v.InsteadOf...) {
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
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer) // revision 1
	version := func(v string) {
		w.Must(fleettest.Assign("c2", fleet.KindComponent, "grafana", fmt.Sprintf(`{"component_version":%q}`, v)))
	}
	version("17.5.0")                                                                                                                       // 2
	w.Must(fleettest.Patch(fleet.KindCluster, "c2", `{"labels":{"team":"x","region":"eu"}}`))                                               // 3
	w.Must(fleettest.Assign("c2", fleet.KindNamespace, "kept", ""))                                                                         // 4
	w.Must(fleettest.Put(fleet.KindCluster, "c2", `{"platform_components":[{"id":"loki"},{"id":"grafana","component_version":"17.5.0"}]}`)) // 5: it moves in its list
	w.Must(fleettest.Patch(fleet.KindLayer, "prod", `{"description":"production"}`))                                                        // 6
	require.Equal(t, []string{"cluster c2 2", "layer prod 1", "platform_component grafana 1"}, attributed(w, "c2", "platform-components", "grafana", "/component_version"))
	require.Equal(t, []string{"cluster c2 5"}, attributed(w, "c2", "platform-components", "loki", "/id")[:1])
	require.Equal(t, []string{"cluster c2 1"}, attributed(w, "c2", "platform-components", "grafana", "/cluster/dns"))

	version("18.0.0") // 7
	version("17.5.0") // 8: the same value as before, set again
	require.Equal(t, "cluster c2 8", attributed(w, "c2", "platform-components", "grafana", "/component_version")[0])

	// It is enabled because the setting was removed.
	enabled := func() string { return attributed(w, "c3", "platform-components", "loki", "/enabled")[0] }
	require.Equal(t, "layer prod 1", enabled())
	w.Must(func(tx *fleet.Tx) error {
		_, err := tx.AssignToLayer("prod", fleet.KindComponent, "loki", []byte(`{"enabled":false}`))
		return err
	})
	on := w.Must(func(tx *fleet.Tx) error {
		_, err := tx.AssignToLayer("prod", fleet.KindComponent, "loki", []byte(`{"enabled":null}`))
		return err
	})
	require.Equal(t, fmt.Sprint("layer prod ", on.Commit.Revision), enabled())
}

// TestBlameBeyondTheLog: a value that was set before the oldest revision of the log has no revision.
func TestBlameBeyondTheLog(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)
	w.Must(fleettest.Assign("c2", fleet.KindComponent, "grafana", `{"component_version":"17.5.0"}`))
	w.Must(fleettest.Patch(fleet.KindCluster, "c2", `{"labels":{"team":"x"}}`))
	w.Must(fleettest.Assign("c2", fleet.KindComponent, "grafana", `{"oci_tag":"x"}`))
	w.Log.Oldest = 3
	require.Equal(t, []string{"cluster c2 before 3", "layer prod before 3", "platform_component grafana before 3"}, attributed(w, "c2", "platform-components", "grafana", "/component_version"))
	require.Equal(t, "cluster c2 4", attributed(w, "c2", "platform-components", "grafana", "/source/oci_tag")[0])
}

// TestBlameOfDefaults: no revision set a default.
func TestBlameOfDefaults(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)
	w.Must(fleettest.Patch(fleet.KindComponent, "loki", `{"oci_tag":"x"}`))
	require.Equal(t, "platform_component loki 0", attributed(w, "c2", "platform-components", "loki", "/patches")[0])
}

// TestBlameOfAClusterThatWasCreatedAgain does not go back to the one before it.
func TestBlameOfAClusterThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	w := fleettest.Tiers(t, fixtures.BaseLayer, fixtures.ProdLayer)
	const cluster = `{"id":"c9","cluster_dns":"c9.example.com","environment":"prod"}`
	w.Must(fleettest.Create(fleet.KindCluster, cluster))
	w.Must(fleettest.Delete(fleet.KindCluster, "c9"))
	again := w.Must(fleettest.Create(fleet.KindCluster, cluster)).Commit.Revision
	require.Equal(t, fmt.Sprint("cluster c9 ", again), attributed(w, "c9", "platform-components", "grafana", "/cluster/dns")[0])
}

// TestBlameAgreesWithEveryVersion: in random fleets, the revision of a value is the last one that changed it.
func TestBlameAgreesWithEveryVersion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := randomWorld(t, rt, false, func(*fleet.State) {})
		w.Log.Oldest = fleet.Revision(rapid.IntRange(1, 4).Draw(rt, "oldest"))
		for _, doc := range w.State.All(fleet.KindCluster) {
			ex, err := history.Explain(t.Context(), w.State, doc, "", "", "")
			require.NoError(rt, err)
			require.NoError(rt, history.Blame(t.Context(), w.State, &ex, &w.Log))
			for _, in := range ex.Inputs {
				for _, v := range in.Values {
					for _, say := range append([]api.ValueSource{v.SetBy}, v.InsteadOf...) {
						want, found := setBy(rt, w, say)
						if !found {
							want = 0
						}
						require.EqualValues(rt, want, say.Revision, "%s %s %s", say.Kind, say.ID, say.Pointer)
						require.Equal(rt, say.Pointer != "" && !found, say.SetBefore == int64(max(w.Log.Oldest, 1)))
					}
				}
			}
		}
	})
}

// setBy searches every version of a document, from the newest one.
func setBy(rt *rapid.T, w *fleettest.World, say api.ValueSource) (fleet.Revision, bool) {
	if say.Pointer == "" {
		return 0, false
	}
	rec, found := w.State.Record(fleet.Kind(say.Kind), say.ID)
	require.True(rt, found)
	body := rec.Body
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
	for _, c := range slices.Backward(w.Log.Commits) {
		for _, ch := range c.Changes {
			if string(ch.Kind) != say.Kind || ch.ID != say.ID || c.Revision < w.Log.Oldest {
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
