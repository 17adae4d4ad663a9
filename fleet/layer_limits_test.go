package fleet

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// bitwise has clusters that each match another combination of small layers, and one layer of many namespaces, which matches
// the clusters with the label wide.
func bitwise(t *testing.T, clusters, namespaces int, own string) *world {
	t.Helper()
	const bits = 10
	var entries, docs []string
	for i := range namespaces {
		entries = append(entries, fmt.Sprintf(`{"id":"n%d"}`, i))
		docs = append(docs, string(KindNamespace), entries[i])
	}
	for b := range bits {
		docs = append(docs, string(KindLayer), fmt.Sprintf(`{"id":"b%d","priority":%d,"selector":"b%d"}`, b, b+10, b))
	}
	docs = append(docs, string(KindLayer), `{"id":"wide","priority":5,"selector":"wide","namespaces":[`+strings.Join(entries, ",")+`]}`)
	for i := range clusters {
		labels := []string{`"k":"v"`}
		for b := range bits {
			if i>>b&1 == 1 {
				labels = append(labels, fmt.Sprintf(`"b%d":""`, b))
			}
		}
		docs = append(docs, string(KindCluster), fmt.Sprintf(`{"id":"k%d","cluster_dns":"k%d.example.com","environment":"dev","labels":{%s}%s}`, i, i, strings.Join(labels, ","), own))
	}
	w := newWorld(t, docs...)
	w.state.rules.MaxRemovals = 1_000_000
	return w
}

// TestLayerCombinationsAreLimited: a small change that would fill the memory of every process is refused before it does.
func TestLayerCombinationsAreLimited(t *testing.T) {
	t.Parallel()
	w := bitwise(t, 400, 5_000, "")
	for _, wide := range []func(*Tx) error{
		put(KindLayer, "wide", `{"all":true}`),
		func(tx *Tx) error { // by labels
			for _, d := range tx.Base().All(KindCluster) {
				if _, err := tx.SetLabels(d.ID, []byte(`{"wide":""}`)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := w.refused(CodeLimitExceeded, wide)
		runtime.ReadMemStats(&after)
		require.Equal(t, "clusters match 400 combinations of layers, which would have 2000000 entries and patch paths in all (before: 0); at most 500000 are possible. "+
			"Most of it is layer \"wide\", with 5000 in 400 of them: remove entries from it, or let it or other layers match by fewer different labels", err.Detail)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), "it is refused before it is worked out")
	}
}

// TestExcessiveLayersAreServed, may be reduced, and do not refuse other changes.
func TestExcessiveLayersAreServed(t *testing.T) {
	t.Parallel()
	w := bitwise(t, 300, 1_000, "")
	w.takes(put(KindLayer, "b9", `{"selector":"wide"}`))
	var records []Record
	for r := range w.state.Records() {
		if r.Kind == KindLayer && r.ID == "wide" { // as an older process left it
			r.Body = []byte(strings.Replace(string(r.Body), `"selector":"wide"`, `"all":true`, 1))
			require.Contains(t, string(r.Body), `"all":true`)
		}
		for i := range 2 {
			if r.Kind == KindLayer && r.ID == fmt.Sprintf("b%d", i) {
				r.Body = []byte(strings.Replace(string(r.Body), `"namespaces":[]`, `"namespaces":[`+manyEntries(1_500)+`]`, 1))
				require.Contains(t, string(r.Body), `"n1499"`)
			}
		}
		records = append(records, r)
	}
	for i := 1_000; i < 1_500; i++ {
		records = append(records, Record{Kind: KindNamespace, ID: fmt.Sprintf("n%d", i), Body: fmt.Appendf(nil, `{"id":"n%d"}`, i)})
	}
	var err error
	w.state, err = NewState(w.state.rules, w.state.Head(), w.state.at, records)
	require.NoError(t, err)
	require.Equal(t, 300*1_000+300*1_500, w.state.layers.cost.chainEntries)
	require.Len(t, inputsOf(t, w.state, "k1.example.com", KindNamespace), 1_500)

	w.takes(patch(KindLayer, "wide", `{"description":"no worse"}`))
	w.takes(patch(KindCluster, "k7", `{"environment":"prod"}`))
	w.refused(CodeLimitExceeded, create(KindLayer, `{"id":"more","priority":9,"selector":"k","namespaces":[{"id":"n1"}]}`))
	w.takes(patch(KindLayer, "b1", `{"namespaces":[{"id":"n3"}]}`))
	w.takes(func(tx *Tx) error { _, err := tx.SetLabels("k3", []byte(`{"b0":null}`)); return err })
	w.takes(patch(KindLayer, "b0", `{"namespaces":[]}`))
	require.Less(t, w.state.layers.cost.chainEntries, maxChainEntries)
	require.Len(t, w.state.layers.chains, 299, "what nobody has is not kept")
}

// takes runs an edit without confirmation and keeps it.
func (w *world) takes(edit func(*Tx) error) {
	w.t.Helper()
	tx := w.state.Begin()
	tx.Guard(Guard{Off: true})
	require.NoError(w.t, edit(tx))
	res, err := tx.Finish(Commit{ID: uuid.New(), At: w.now, Actor: "test"})
	require.NoError(w.t, err)
	w.keep(res)
}

func manyEntries(n int) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"id":"n%d"}`, i)
	}
	return strings.Join(entries, ",")
}

// TestClusterSettingsOverLayersAreLimited: a list with settings of the cluster itself is not shared.
func TestClusterSettingsOverLayersAreLimited(t *testing.T) {
	t.Parallel()
	w := bitwise(t, 1_000, 5_000, `,"namespaces":[{"id":"n7"}]`)
	w.takes(func(tx *Tx) error {
		for b := range 10 {
			if _, err := tx.Put(KindLayer, fmt.Sprintf("b%d", b), []byte(`{"selector":"nobody"}`)); err != nil {
				return err
			}
		}
		return nil
	})
	require.Contains(t, w.refused(CodeLimitExceeded, put(KindLayer, "wide", `{"all":true}`)).Detail,
		"clusters would have 5000000 entries of layers in lists that have settings of their own (before: 0); at most 4000000 are possible")
	// Another list does not matter.
	w.takes(patch(KindCluster, "k0", `{"namespaces":[],"labels":{"wide":""}}`))
	w.takes(patch(KindCluster, "k1", `{"labels":{"wide":""}}`))
	w.takes(create(KindComponent, `{"id":"c","component_path":"c","oci_url":"https://charts.example.com"}`))
	w.takes(patch(KindCluster, "k0", `{"platform_components":[{"id":"c"}]}`))
	require.Equal(t, layerCost{5_000, 5_000}, w.state.layers.cost)
}

// TestPatchesOverLayersAreCounted by their paths: if a cluster patches a component that a layer patches, all paths are
// copied.
func TestPatchesOverLayersAreCounted(t *testing.T) {
	t.Parallel()
	w := tiers(t, `{"id":"base","priority":10,"all":true,"platform_components":[{"id":"grafana"},{"id":"loki"}],"patches":{"grafana":{"a":1,"b":2,"c":3},"loki":{"a":1}}}`)
	require.Zero(t, w.state.layers.cost.mergedEntries)
	w.takes(patch(KindCluster, "c2", `{"patches":{"grafana":{"d":"4"}}}`))
	require.Equal(t, 2+3, w.state.layers.cost.mergedEntries, "the components that are patched, and grafana's paths")
}

// TestTypicalFleetsAreBelowTheLimits: the layerCost of a large fleet is far below the limits.
func TestTypicalFleetsAreBelowTheLimits(t *testing.T) {
	t.Parallel()
	s := loadShared(t, sharedFleet(t, 1_000, 5))
	require.Less(t, s.layers.cost.chainEntries, 100)
	require.Zero(t, s.layers.cost.mergedEntries)
}

// TestTooLargeAnswersStopTheCheck: a change that makes all answers too large is refused after the first hundred.
func TestTooLargeAnswersStopTheCheck(t *testing.T) {
	t.Parallel()
	w := bitwise(t, 400, 1, "")
	w.takes(create(KindNamespace, `{"id":"large","annotations":{"a":"`+strings.Repeat("x", 250<<10)+`"}}`))
	for i := range 4 {
		w.takes(create(KindNamespace, fmt.Sprintf(`{"id":"large%d","annotations":{"a":"%s"}}`, i, strings.Repeat("x", 250<<10))))
	}
	layer := `{"id":"large","priority":1,"selector":"large","namespaces":[{"id":"large"},{"id":"large0"},{"id":"large1"},{"id":"large2"},{"id":"large3"}]}`
	w.takes(create(KindLayer, layer))
	for _, large := range []func(*Tx) error{
		put(KindLayer, "large", `{"all":true}`),
		func(tx *Tx) error {
			for _, d := range tx.Base().All(KindCluster) {
				if _, err := tx.SetLabels(d.ID, []byte(`{"large":""}`)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		n := len(w.refused(CodeLimitExceeded, large).Problems)
		require.GreaterOrEqual(t, n, maxProblems)
		require.Less(t, n, 150)
	}
}
