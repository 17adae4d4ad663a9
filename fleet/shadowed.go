package fleet

import (
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxShadowCheck is the maximum number of clusters with the same layers that are searched for a setting that all of them
// override.
const maxShadowCheck = 1_000

// layerSetting is one setting of a layer.
type layerSetting struct {
	name         string
	setByHigher  func(higher *layer) bool // whether a higher layer has the setting
	setByCluster func(c *api.Cluster) bool
}

// adviseShadowed warns of settings of a layer without effect: on all matching clusters, a higher layer or the cluster itself
// overrides them.
func adviseShadowed(c *checker, l *layer) {
	if c.next.layers == nil {
		return
	}
	places := c.next.layers.chainsWith(l.ID)
	if len(places) == 0 {
		return // it matches no cluster, which is reported separately
	}
	for _, s := range l.layerSettings(c.next.kinds) {
		if c.full() {
			return
		}
		switch overruled, byClusters := s.overridden(places); {
		case overruled && byClusters:
			c.warn("%s has no effect in layer %q: all its clusters override it themselves, or a higher layer does", s.name, l.ID)
		case overruled:
			c.warn("%s has no effect in layer %q: a higher layer overrides it on all its clusters", s.name, l.ID)
		}
	}
}

// layerSettings returns the settings of a layer, besides its assignments.
func (l *layer) layerSettings(ks *kindSet) []layerSetting {
	var out []layerSetting
	for _, a := range ks.lists {
		if a.kind != KindComponent && !a.typed {
			continue
		}
		cache := map[*layer]map[string]map[string]bool{}
		leaves := l.settingNames(a)
		for _, id := range sortedKeys(leaves) {
			delete(leaves[id], "images") // merged by name, so no list overrides another as a whole
			delete(leaves[id], "flux")
			for _, leaf := range sortedKeys(leaves[id]) {
				out = append(out, layerSetting{
					name: fmt.Sprintf("%s of %s %q", leaf, a.rules.noun, id),
					setByHigher: func(higher *layer) bool {
						if cache[higher] == nil {
							cache[higher] = higher.settingNames(a)
						}
						return cache[higher][id][leaf] || leaf == "oci_digest" && (cache[higher][id]["oci_tag"] || cache[higher][id]["component_version"])
					},
					setByCluster: func(c *api.Cluster) bool { return a.setByCluster(c, id, leaf) },
				})
			}
		}
	}
	for _, id := range sortedKeys(l.Patches) {
		for _, path := range sortedKeys(l.Patches[id]) {
			out = append(out, layerSetting{
				name:         fmt.Sprintf("the patch %q of component %q", path, id),
				setByHigher:  func(higher *layer) bool { return hasKey(higher.Patches[id], path) },
				setByCluster: func(c *api.Cluster) bool { return hasKey(c.Patches[id], path) },
			})
		}
	}
	return out
}

// setByCluster reports whether a cluster's own document has a setting of a definition. Each entry of a component sets
// enabled.
func (a *descriptor) setByCluster(c *api.Cluster, id, leaf string) bool {
	if a.typed {
		return slices.ContainsFunc(c.Resources[a.field], func(e api.ResourceAssignment) bool { return e.ID == id && hasKey(e.Overrides, leaf) })
	}
	return slices.ContainsFunc(c.PlatformComponents, func(e api.ComponentAssignment) bool {
		return e.ID == id && (leaf == "enabled" || leaf == "oci_tag" && e.OCITag != "" || leaf == "component_path" && e.ComponentPath != "" ||
			leaf == "oci_digest" && setsVersion(e.ComponentVersion, e.OCITag, e.OCIDigest) ||
			leaf == "component_version" && e.ComponentVersion != "" || leaf == "values_from" && len(e.ValuesFrom) > 0)
	})
}

// overridden reports whether the setting is overridden for all uses of the layer, and whether clusters do so for some of
// them.
func (s layerSetting) overridden(places []*chainUse) (overruled, byClusters bool) {
	for _, p := range places {
		if slices.ContainsFunc(p.higher, s.setByHigher) {
			continue
		}
		if p.shared || len(p.clusters) > maxShadowCheck || slices.ContainsFunc(p.clusters, func(c *api.Cluster) bool { return !s.setByCluster(c) }) {
			return false, false
		}
		byClusters = true
	}
	return true, byClusters
}

// chainUse is a combination of layers that includes a layer, with its clusters.
type chainUse struct {
	higher   []*layer
	clusters []*api.Cluster // clusters with settings of their own
	shared   bool           // some clusters have no settings of their own
}

// chainsWith returns the combinations that include a layer.
func (l *layerResolution) chainsWith(id string) []*chainUse {
	places := map[*layerChain]*chainUse{}
	var out []*chainUse
	for _, e := range l.effective {
		p, known := places[e.chain]
		if !known {
			if at := slices.IndexFunc(e.chain.layers, func(d *Document) bool { return d.ID == id }); at >= 0 {
				p = &chainUse{}
				for _, d := range e.chain.layers[at+1:] {
					p.higher = append(p.higher, d.layer())
				}
				out = append(out, p)
			}
			places[e.chain] = p
		}
		switch {
		case p == nil:
		case e.shared:
			p.shared = true
		default:
			p.clusters = append(p.clusters, e.own.cluster)
		}
	}
	return out
}
