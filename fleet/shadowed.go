package fleet

import (
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxOverruling is of how many clusters with the same layers it is found out whether all say the same themselves.
const maxOverruling = 1_000

// saying is one thing that a layer says.
type saying struct {
	what  string
	above func(higher *layer) bool // a higher layer says it
	own   func(c *api.Cluster) bool
}

// adviseShadowed warns of what a layer says to no effect: on all clusters that it matches, a higher layer or the cluster itself
// says the same.
func adviseShadowed(c *checker, l *layer) {
	if c.next.layers == nil {
		return
	}
	places := c.next.layers.placesOf(l.ID)
	if len(places) == 0 {
		return // it matches nothing, which is said
	}
	for _, s := range l.sayings(c.next.kinds) {
		if c.full() {
			return
		}
		switch overruled, byClusters := s.overruled(places); {
		case overruled && byClusters:
			c.warn("%s does nothing in layer %q: all its clusters say it themselves, or a higher layer does", s.what, l.ID)
		case overruled:
			c.warn("%s does nothing in layer %q: on all its clusters a higher layer says it", s.what, l.ID)
		}
	}
}

// sayings is what a layer says beside what it gives.
func (l *layer) sayings(ks *kindSet) []saying {
	var out []saying
	for _, a := range ks.lists {
		if a.kind != KindComponent && !a.typed {
			continue
		}
		said := map[*layer]map[string]map[string]bool{}
		leaves := l.leavesOf(a)
		for _, id := range sortedKeys(leaves) {
			for _, leaf := range sortedKeys(leaves[id]) {
				out = append(out, saying{
					what: fmt.Sprintf("%s of %s %q", leaf, a.rules.noun, id),
					above: func(higher *layer) bool {
						if said[higher] == nil {
							said[higher] = higher.leavesOf(a)
						}
						return said[higher][id][leaf]
					},
					own: func(c *api.Cluster) bool { return a.saysOf(c, id, leaf) },
				})
			}
		}
	}
	for _, id := range sortedKeys(l.Patches) {
		for _, path := range sortedKeys(l.Patches[id]) {
			out = append(out, saying{
				what:  fmt.Sprintf("the patch %q of component %q", path, id),
				above: func(higher *layer) bool { return hasKey(higher.Patches[id], path) },
				own:   func(c *api.Cluster) bool { return hasKey(c.Patches[id], path) },
			})
		}
	}
	return out
}

// saysOf tells whether a cluster says something of a definition itself. That a component is enabled is in each of its entries.
func (a *assigned) saysOf(c *api.Cluster, id, leaf string) bool {
	if a.typed {
		return slices.ContainsFunc(c.Resources[a.field], func(e api.ResourceAssignment) bool { return e.ID == id && hasKey(e.Overrides, leaf) })
	}
	return slices.ContainsFunc(c.PlatformComponents, func(e api.ComponentAssignment) bool {
		return e.ID == id && (leaf == "enabled" || leaf == "oci_tag" && e.OCITag != "" || leaf == "component_path" && e.ComponentPath != "" ||
			leaf == "component_version" && e.ComponentVersion != "" || leaf == "values_from" && len(e.ValuesFrom) > 0)
	})
}

// overruled tells whether others have the word in all places, and whether clusters are among them.
func (s saying) overruled(places []*layerPlace) (overruled, byClusters bool) {
	for _, p := range places {
		if slices.ContainsFunc(p.higher, s.above) {
			continue
		}
		if p.shared || len(p.clusters) > maxOverruling || slices.ContainsFunc(p.clusters, func(c *api.Cluster) bool { return !s.own(c) }) {
			return false, false
		}
		byClusters = true
	}
	return true, byClusters
}

// layerPlace is a combination of layers in which clusters have one.
type layerPlace struct {
	higher   []*layer
	clusters []*api.Cluster // what those say themselves that say something
	shared   bool           // some say nothing
}

// placesOf are the combinations in which clusters have a layer.
func (l *layering) placesOf(id string) []*layerPlace {
	places := map[*stack]*layerPlace{}
	var out []*layerPlace
	for _, e := range l.of {
		p, known := places[e.stack]
		if !known {
			if at := slices.IndexFunc(e.stack.layers, func(d *Document) bool { return d.ID == id }); at >= 0 {
				p = &layerPlace{}
				for _, d := range e.stack.layers[at+1:] {
					p.higher = append(p.higher, d.layer())
				}
				out = append(out, p)
			}
			places[e.stack] = p
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
