package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxFacetValues is the number of listed values of a facet: clusters may have ten thousand. maxLabelFacets is the number of label keys.
const (
	maxFacetValues = 50
	maxLabelFacets = 30
)

// facetKey is one value of a facet. label is the key of a label; tag is of a version.
type facetKey struct{ name, label, value, tag string }

// overrides reports whether a cluster's own document overrides a component, of which the id may be empty: any. See [fleet.ClusterComponent].
func overrides(st *fleet.State, cluster *fleet.Document, what api.GetStatusParamsOverrides, component string) bool {
	if what == api.GetStatusParamsOverridesPatches {
		patches := cluster.Cluster().Patches
		return len(patches[component]) > 0 || component == "" && len(patches) > 0
	}
	for one := range st.Components(cluster) {
		if one.Deviates && (component == "" || one.ID == component) {
			return true
		}
	}
	return false
}

// facetsOf counts clusters by environment (in promotion order), label, layer, component, overrides, and if component is not empty by its version.
func facetsOf(st *fleet.State, clusters []evaluatedCluster, component string, rules fleet.Rules) []api.StatusFacet {
	counts, components := map[facetKey]int{}, map[string]int{}
	for i := range clusters {
		doc := clusters[i].doc
		c := doc.Cluster()
		counts[facetKey{name: "environment", value: c.Environment}]++
		for key, value := range c.Labels {
			counts[facetKey{name: "label", label: key, value: value}]++
		}
		for _, id := range st.LayerIDs(doc) {
			counts[facetKey{name: "layer", value: id}]++
		}
		if overrides(st, doc, api.GetStatusParamsOverridesPatches, component) {
			counts[facetKey{name: "overrides", value: string(api.GetStatusParamsOverridesPatches)}]++
		}
		deviates := false
		for one := range st.Components(doc) {
			deviates = deviates || one.Deviates && (component == "" || one.ID == component)
			components[one.ID]++
			if one.ID == component {
				counts[facetKey{name: "version", value: one.ComponentVersion, tag: one.OCITag}]++
			}
		}
		if deviates {
			counts[facetKey{name: "overrides", value: string(api.GetStatusParamsOverridesVersion)}]++
		}
	}
	for id, n := range components {
		counts[facetKey{name: "component", value: id}] = n
	}
	facets, clustersOf := map[facetKey]*api.StatusFacet{}, map[facetKey]int{}
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b facetKey) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.value, b.value), cmp.Compare(a.tag, b.tag))
	}) {
		of := facetKey{name: key.name, label: key.label}
		f := facets[of]
		if f == nil {
			f = &api.StatusFacet{Name: key.name, Key: key.label}
			facets[of] = f
		}
		clustersOf[of] += counts[key]
		if len(f.Values) == maxFacetValues {
			f.OtherValues++
			continue
		}
		f.Values = append(f.Values, api.FacetValue{Value: key.value, OCITag: key.tag, Clusters: counts[key]})
	}
	if f := facets[facetKey{name: "environment"}]; f != nil {
		slices.SortFunc(f.Values, func(a, b api.FacetValue) int { return rules.CompareEnvironments(a.Value, b.Value) })
	}
	return orderFacets(facets, clustersOf)
}

// facetOrder is the order of facets other than labels; labels follow layers.
var facetOrder = []string{"environment", "component", "version", "overrides", "layer", "label"}

// orderFacets returns the facets by name; of the labels those that most clusters have, sorted by key.
func orderFacets(facets map[facetKey]*api.StatusFacet, clusters map[facetKey]int) []api.StatusFacet {
	keys := slices.SortedFunc(maps.Keys(facets), func(a, b facetKey) int {
		return cmp.Or(cmp.Compare(slices.Index(facetOrder, a.name), slices.Index(facetOrder, b.name)), cmp.Compare(clusters[b], clusters[a]), cmp.Compare(a.label, b.label))
	})
	first := slices.IndexFunc(keys, func(k facetKey) bool { return k.name == "label" })
	if first >= 0 {
		keys = keys[:min(len(keys), first+maxLabelFacets)]
		slices.SortFunc(keys[first:], func(a, b facetKey) int { return cmp.Compare(a.label, b.label) })
	}
	out := make([]api.StatusFacet, len(keys))
	for i, key := range keys {
		out[i] = *facets[key]
	}
	return out
}
