package fleet

import (
	"bytes"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// adoption moves settings that all clusters of a layer have in common out of their documents into the layer. The effective
// configuration of each cluster stays the same, including the order of its lists: a setting whose move would change it stays
// in the documents.
type adoption struct {
	tx       *Tx
	layer    *Document
	clusters []member
	lists    []*adoptedList
	patches  map[string]map[string]bool // paths by component
}

// member is a cluster that the layer matches.
type member struct {
	doc *Document
	has *Effective
	obj map[string]any // its document, opened
}

// adoptedList is the adopted part of one list.
type adoptedList struct {
	*descriptor
	entries []adoptedEntry
	moved   map[string]bool // ids that leave the clusters' documents
	left    int             // number of entries that stay only because of the order
}

// adoptedEntry is an entry of the layer. Without settings, only the assignment moves, and each cluster keeps its own
// settings.
type adoptedEntry struct {
	id       string
	settings map[string]any
}

// choose selects the entries of a list to adopt.
func (ad *adoption) choose(list *adoptedList) error {
	common, err := ad.commonEntries(list)
	if err != nil {
		return err
	}
	// Adopted entries follow those of the layer and of the layers below it, so existing entries must have that order
	// already.
	assigned := map[*layerChain]map[string]bool{}
	tails := make([][]string, len(ad.clusters))
	for i, m := range ad.clusters {
		below := assigned[m.has.chain]
		if below == nil {
			below = ad.assignedUpTo(m.has.chain, list)
			assigned[m.has.chain] = below
		}
		tails[i] = slices.DeleteFunc(list.ids(m.has), func(id string) bool { return below[id] })
	}
	settings := map[*Document]map[string]map[string]bool{}
	for id := range list.descriptor.entries(ad.clusters[0].has) {
		entry, known := common[id]
		if !known {
			continue
		}
		if err := ad.tx.work.stopped(); err != nil {
			return err
		}
		next := func(i int) bool { return len(tails[i]) > 0 && tails[i][0] == id }
		inOrder := true
		for i, m := range ad.clusters {
			inOrder = inOrder && (assigned[m.has.chain][id] || next(i))
		}
		if !inOrder {
			list.left++
			continue
		}
		for i := range tails {
			if next(i) {
				tails[i] = tails[i][1:]
			}
		}
		if entry != nil && !ad.staysInClusters(list, id, entry, settings) {
			list.moved[id] = true
		} else {
			entry = nil
		}
		list.entries = append(list.entries, adoptedEntry{id, entry})
	}
	return nil
}

// assignedUpTo returns the entries of a list that the layer and those below it assign.
func (ad *adoption) assignedUpTo(st *layerChain, list *adoptedList) map[string]bool {
	assigned := map[string]bool{}
	for _, d := range st.layers {
		for _, id := range d.layer().assignedIDs(list.descriptor) {
			assigned[id] = true
		}
		if d.ID == ad.layer.ID {
			break
		}
	}
	return assigned
}

// commonEntries returns the entries that all clusters have in their documents, equally enabled or disabled, by id: their
// settings, or nil if the settings differ.
func (ad *adoption) commonEntries(list *adoptedList) (map[string]map[string]any, error) {
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
			return nil, m.doc.Unreadable(err)
		}
		for i, id := range list.ids(m.doc.own) {
			text, ok := items[i].(jsontext.Text)
			on := list.kind != KindComponent || m.doc.Cluster().PlatformComponents[i].Enabled
			e := entries[id]
			if n == 0 && e == nil && ok {
				e = &entry{text: text, on: on, alike: true}
				entries[id] = e
			}
			if e == nil || e.count != n {
				continue // not all clusters have it
			}
			if !bytes.Equal(e.text, text) {
				if on != e.on {
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
			obj, err := unstructured.Decode(e.text)
			if err != nil {
				return nil, ad.clusters[0].doc.Unreadable(err)
			}
			common[id] = obj
		}
	}
	return common, nil
}

// openList returns a list of a cluster's opened object, with its entries parsed.
func (a *descriptor) openList(obj map[string]any) ([]any, error) {
	if a.typed {
		if _, err := unstructured.OpenField(obj, "resources"); err != nil {
			return nil, err
		}
	}
	if holder := a.listParent(obj); holder != nil {
		if _, err := unstructured.OpenField(holder, a.field); err != nil {
			return nil, err
		}
	}
	return a.entriesIn(obj), nil
}

// staysInClusters reports whether the settings of an entry would have another effect in the layer: a higher layer, which the clusters
// override now, would override them, or the layer has settings that they are merged with. An entry that is enabled needs no
// setting, unless another layer sets enabled. settings caches the settings of layers.
func (ad *adoption) staysInClusters(list *adoptedList, id string, entry map[string]any, settings map[*Document]map[string]map[string]bool) bool {
	own := list.entrySettings(entry)
	on, _ := own["enabled"].(bool)
	switches := !on
	seen := map[*layerChain]bool{}
	for _, m := range ad.clusters {
		if seen[m.has.chain] {
			continue
		}
		seen[m.has.chain] = true
		above := false
		for _, d := range m.has.chain.layers {
			here := d.ID == ad.layer.ID
			above = above || here
			if settings[d] == nil {
				settings[d] = d.layer().settingNames(list.descriptor)
			}
			for leaf := range settings[d][id] {
				switch {
				case above && !here && (hasKey(own, leaf) || sharesDigest(own, leaf)),
					here && (leaf == "images" || leaf == "flux") && hasKey(own, leaf),
					here && !hasKey(own, leaf) && sharesDigest(own, leaf):
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

// sharesDigest reports whether a setting of a higher layer and the settings of an entry determine one digest.
func sharesDigest(own map[string]any, leaf string) bool {
	if leaf == "oci_digest" {
		return hasKey(own, "oci_tag") || hasKey(own, "component_version")
	}
	return hasKey(own, "oci_digest") && slices.Contains(versionFields, leaf)
}

// entrySettings returns the settings of an entry besides its id.
func (a *descriptor) entrySettings(entry map[string]any) map[string]any {
	if a.typed {
		overrides, _ := entry["overrides"].(map[string]any)
		return overrides
	}
	leaves := maps.Clone(entry)
	delete(leaves, "id")
	return leaves
}

// choosePatches selects the patches to adopt: those without a field manager, of components that all clusters have.
func (ad *adoption) choosePatches() {
	first := ad.clusters[0].doc.Cluster()
	for _, component := range sortedKeys(first.Patches) {
		paths := map[string]bool{}
		for path, value := range first.Patches[component] {
			if !slices.ContainsFunc(ad.clusters, func(m member) bool { return !m.canAdoptPatch(ad.layer, component, path, value) }) {
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

// canAdoptPatch reports whether the layer can set a patch in place of the cluster.
func (m member) canAdoptPatch(layer *Document, component, path string, value []byte) bool {
	c := m.doc.Cluster()
	own, present := c.Patches[component][path]
	if !present || !bytes.Equal(own, value) || !isAssigned(m.has.cluster, component) {
		return false
	}
	for _, owned := range c.PatchOwners[component] {
		if slices.Contains(owned, path) {
			return false
		}
	}
	for _, d := range slices.Backward(m.has.chain.layers) {
		if d.ID == layer.ID {
			return true
		}
		if hasKey(d.layer().Patches[component], path) {
			return false // a higher layer would override it
		}
	}
	return true
}
