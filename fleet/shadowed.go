package fleet

import "slices"

// adviseShadowed warns of what a layer says to no effect: on all clusters that it matches, a higher layer says the same.
func adviseShadowed(c *checker, l *layer) {
	if c.next.layers == nil {
		return
	}
	above := c.next.layers.above(l.ID)
	if len(above) == 0 {
		return // it matches nothing, which is said
	}
	shadowed := func(says func(*layer) bool) bool {
		return !slices.ContainsFunc(above, func(higher []*layer) bool { return !slices.ContainsFunc(higher, says) })
	}
	for _, id := range sortedKeys(l.Overrides) {
		version := func(h *layer) bool { return componentVersionIn(h, id) != "" }
		if l.Overrides[id].ComponentVersion != "" && shadowed(version) {
			c.warn("component_version of component %q does nothing in layer %q: on all its clusters a higher layer says another one", id, l.ID)
		}
	}
	for _, id := range sortedKeys(l.Patches) {
		for _, path := range sortedKeys(l.Patches[id]) {
			if c.full() {
				return
			}
			if shadowed(func(h *layer) bool { return hasKey(h.Patches[id], path) }) {
				c.warn("the patch %q of component %q does nothing in layer %q: on all its clusters a higher layer says it", path, id, l.ID)
			}
		}
	}
}

// componentVersionIn is what a layer says about the version of a component, in either place.
func componentVersionIn(l *layer, id string) string {
	for _, e := range l.PlatformComponents {
		if e.ID == id && e.ComponentVersion != "" {
			return e.ComponentVersion
		}
	}
	return l.Overrides[id].ComponentVersion
}

// above are the layers above one, for each combination in which clusters have it.
func (l *layering) above(id string) [][]*layer {
	seen := map[*stack]bool{}
	var out [][]*layer
	for _, e := range l.of {
		at := slices.IndexFunc(e.stack.layers, func(d *Document) bool { return d.ID == id })
		if at < 0 || seen[e.stack] {
			continue
		}
		seen[e.stack] = true
		var higher []*layer
		for _, d := range e.stack.layers[at+1:] {
			higher = append(higher, d.layer())
		}
		out = append(out, higher)
	}
	return out
}
