package fleet

import (
	"bytes"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// choose decides which entries of a list are adopted.
func (ad *adoption) choose(list *adoptedList) error {
	common, err := ad.common(list)
	if err != nil {
		return err
	}
	// Moved entries come behind those of the layer and of those below it, and so must be what is there anyway.
	tails := make([][]string, len(ad.clusters))
	for i, m := range ad.clusters {
		below := map[string]bool{}
		for _, d := range m.has.stack.layers {
			for _, id := range d.layer().entriesOf(list.assigned) {
				below[id] = true
			}
			if d.ID == ad.layer.ID {
				break
			}
		}
		tails[i] = slices.DeleteFunc(list.ids(m.has), func(id string) bool { return below[id] })
	}
	for id := range list.each(ad.clusters[0].has) {
		entry, known := common[id]
		if !known {
			continue
		}
		inOrder := !slices.ContainsFunc(tails, func(tail []string) bool { return slices.Contains(tail, id) && tail[0] != id })
		if !inOrder {
			list.left++
			continue
		}
		for i, tail := range tails {
			if len(tail) > 0 && tail[0] == id {
				tails[i] = tail[1:]
			}
		}
		if entry != nil && !ad.overruled(list, id, entry) {
			list.moved[id] = true
		} else {
			entry = nil
		}
		list.entries = append(list.entries, adoptedEntry{id, entry})
	}
	return nil
}

// common are the entries that all clusters have in their documents, switched on or off alike, by id: what they say, or nil where
// they do not say the same.
func (ad *adoption) common(list *adoptedList) (map[string]map[string]any, error) {
	type entry struct {
		text  []byte
		on    bool
		count int
		alike bool
	}
	entries := map[string]*entry{}
	for n, m := range ad.clusters {
		items, err := list.openList(m.obj)
		if err != nil {
			return nil, unreadable(m.doc, err)
		}
		for i, id := range list.ids(m.doc.alone) {
			text, ok := items[i].(jsontext.Text)
			e := entries[id]
			if n == 0 && e == nil && ok {
				on, _ := list.switched(m.doc.alone, id)
				e = &entry{text: text, on: on, alike: true}
				entries[id] = e
			}
			if e == nil || e.count != n {
				continue // not all of them have it
			}
			if !bytes.Equal(e.text, text) {
				if on, _ := list.switched(m.doc.alone, id); on != e.on {
					continue
				}
				e.alike = false
			}
			e.count++
		}
	}
	common := map[string]map[string]any{}
	for id, e := range entries {
		if e.count != len(ad.clusters) {
			continue
		}
		common[id] = nil
		if e.alike {
			obj, err := decodeOwn(e.text)
			if err != nil {
				return nil, unreadable(ad.clusters[0].doc, err)
			}
			common[id] = obj
		}
	}
	return common, nil
}

// openList is a list in a cluster's opened object, with its entries as they are.
func (a *assigned) openList(obj map[string]any) ([]any, error) {
	if a.typed {
		if _, err := opened(obj, "resources"); err != nil {
			return nil, err
		}
	}
	if holder := a.holder(obj); holder != nil {
		if _, err := opened(holder, a.field); err != nil {
			return nil, err
		}
	}
	return a.entriesIn(obj), nil
}

// overruled tells whether a higher layer, over which the clusters have the last word, would have it over this one. What is
// switched on need not be said, unless another layer switches it.
func (ad *adoption) overruled(list *adoptedList, id string, entry map[string]any) bool {
	says := list.leaves(entry)
	on, _ := says["enabled"].(bool)
	switches := !on
	seen := map[*Document]bool{}
	for _, m := range ad.clusters {
		above := false
		for _, d := range m.has.stack.layers {
			here := d.ID == ad.layer.ID
			if above = above || here; seen[d] {
				continue
			}
			seen[d] = true
			for leaf := range d.layer().leavesOf(list.assigned, id) {
				if hasKey(says, leaf) && above && !here {
					return true
				}
				switches = switches || leaf == "enabled"
			}
		}
	}
	if !switches {
		delete(entry, "enabled")
	}
	return false
}

// leaves is what an entry says beside that it is there.
func (a *assigned) leaves(entry map[string]any) map[string]any {
	if a.typed {
		overrides, _ := entry["overrides"].(map[string]any)
		return overrides
	}
	leaves := maps.Clone(entry)
	delete(leaves, "id")
	return leaves
}

// leavesOf are the names of what a layer says about a definition beside that it gives it.
func (l *layer) leavesOf(a *assigned, id string) map[string]bool {
	leaves := map[string]bool{}
	if a.typed {
		for _, s := range l.resources[a.field] {
			if s.entry.ID == id {
				for property := range s.entry.Overrides {
					leaves[property] = true
				}
			}
		}
		return leaves
	}
	if a.kind != KindComponent {
		return leaves
	}
	say := func(o api.LayerOverride) {
		for leaf, said := range map[string]bool{
			"oci_tag": o.OCITag != "", "component_path": o.ComponentPath != "", "component_version": o.ComponentVersion != "", "values_from": len(o.ValuesFrom) > 0,
		} {
			if said {
				leaves[leaf] = true
			}
		}
	}
	for _, e := range l.PlatformComponents {
		if e.ID == id {
			say(api.LayerOverride{OCITag: e.OCITag, ComponentPath: e.ComponentPath, ComponentVersion: e.ComponentVersion, ValuesFrom: e.ValuesFrom})
			if e.Enabled != nil {
				leaves["enabled"] = true
			}
		}
	}
	say(l.Overrides[id])
	return leaves
}

// choosePatches decides which patches are adopted: those that no field manager owns, of components that all clusters have.
func (ad *adoption) choosePatches() {
	first := ad.clusters[0].doc.Cluster()
	for _, component := range sortedKeys(first.Patches) {
		paths := map[string]bool{}
		for path, value := range first.Patches[component] {
			if !slices.ContainsFunc(ad.clusters, func(m member) bool { return !m.patchesAlike(ad.layer, component, path, value) }) {
				paths[path] = true
			}
		}
		set := api.PatchValues{}
		for path, value := range ad.layer.layer().Patches[component] {
			if set[path] = value; string(value) == "null" {
				set[path] = []byte(`""`)
			}
		}
		for path := range paths {
			set[path] = first.Patches[component][path]
		}
		def, err := ad.tx.Get(KindComponent, component)
		if err == nil && len(paths) > 0 && len(patchProblems(def.Component().Type, set)) == 0 {
			ad.patches[component] = paths
		}
	}
}

// patchesAlike tells whether a cluster says a patch so that the layer can say it in its place.
func (m member) patchesAlike(layer *Document, component, path string, value []byte) bool {
	c := m.doc.Cluster()
	said, there := c.Patches[component][path]
	if !there || !bytes.Equal(said, value) || !isAssigned(m.has.cluster, component) {
		return false
	}
	for _, owned := range c.PatchOwners[component] {
		if slices.Contains(owned, path) {
			return false
		}
	}
	for _, d := range slices.Backward(m.has.stack.layers) {
		if d.ID == layer.ID {
			return true
		}
		if hasKey(d.layer().Patches[component], path) {
			return false // over the clusters it has not the last word
		}
	}
	return true
}
