package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// usageIDs is the maximum number of clusters that a usage names for each variant.
const usageIDs = 100

// running returns the variant of a component that a cluster runs: the settings of the cluster or a layer, or else of the
// catalog.
func running(p *api.PlatformComponent, e *api.ComponentAssignment) api.ComponentVariant {
	return api.ComponentVariant{
		ComponentVersion: cmp.Or(e.ComponentVersion, p.ComponentVersion),
		OCITag:           cmp.Or(e.OCITag, p.OCITag),
		ComponentPath:    cmp.Or(e.ComponentPath, p.ComponentPath),
	}
}

// Running returns the variant of a component that a cluster runs; not ok if the component is not assigned to it.
func (s *State) Running(cluster *Document, component string) (runs api.ComponentVariant, ok bool) {
	e := s.Effective(cluster)
	doc, present := s.definition(e, KindComponent, component)
	if !present {
		return runs, false
	}
	entries := e.Cluster().PlatformComponents
	at := slices.IndexFunc(entries, func(e api.ComponentAssignment) bool { return e.ID == component })
	if at < 0 {
		return runs, false
	}
	return running(doc.Component(), &entries[at]), true
}

// InputSources returns the documents that determine an input of a cluster: its definition, the cluster, the layers that match it, and the
// rollouts that reach it.
func (s *State) InputSources(cluster *Document, list, id string) []*Document {
	e := s.Effective(cluster)
	docs := []*Document{cluster}
	if kind, ok := s.PolledAt(list); ok {
		if doc, ok := s.definition(e, kind, id); ok {
			docs = append(docs, doc)
		}
	}
	if e.chain != nil {
		docs = append(docs, e.chain.layers...)
	}
	return append(docs, e.rolloutsOn()...)
}

// Usage returns the clusters that run a component, grouped by variant, the most used first. CodeNotFound if there is no such
// component.
func (s *State) Usage(component string) (api.ComponentUsage, error) {
	if _, err := s.Find(KindComponent, component); err != nil {
		return api.ComponentUsage{}, err
	}
	type variant struct{ version, tag, path string }
	found := map[variant]*api.ComponentVariant{}
	usage := api.ComponentUsage{ID: component, Variants: []api.ComponentVariant{}}
	for _, cluster := range s.All(KindCluster) {
		has := s.Effective(cluster)
		doc, _ := s.definition(has, KindComponent, component)
		c := has.Cluster()
		at := slices.IndexFunc(c.PlatformComponents, func(e api.ComponentAssignment) bool { return e.ID == component })
		if at < 0 {
			continue
		}
		e := &c.PlatformComponents[at]
		runs := running(doc.Component(), e)
		key := variant{runs.ComponentVersion, runs.OCITag, runs.ComponentPath}
		v := found[key]
		if v == nil {
			v = &runs
			v.Environments, v.ClusterIds = map[string]int{}, []string{}
			found[key] = v
		}
		usage.Clusters++
		v.Clusters++
		v.Environments[c.Environment]++
		if !e.Enabled {
			usage.Disabled++
			v.Disabled++
		}
		if e.ComponentVersion != "" || e.OCITag != "" || e.ComponentPath != "" {
			v.Overriding++
		}
		if len(c.Patches[component]) > 0 {
			v.Patched++
		}
		if len(v.ClusterIds) < usageIDs {
			v.ClusterIds = append(v.ClusterIds, c.ID)
		}
	}
	for _, v := range slices.SortedFunc(maps.Values(found), func(a, b *api.ComponentVariant) int {
		return cmp.Or(cmp.Compare(b.Clusters, a.Clusters), cmp.Compare(a.ComponentVersion, b.ComponentVersion), cmp.Compare(a.OCITag, b.OCITag), cmp.Compare(a.ComponentPath, b.ComponentPath))
	}) {
		usage.Variants = append(usage.Variants, *v)
	}
	return usage, nil
}
