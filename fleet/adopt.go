package fleet

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// adoptInto runs the operation of that name. If it names several layers, each adopts what the layers before it have left.
func (b *Batch) adoptInto(op api.Operation) ([]*Document, error) {
	if len(op.Layers) == 0 || len(op.ClusterIds) > 0 || op.Selector != "" || op.All {
		return nil, Invalid([]Problem{{Detail: "layers: names the layers that adopt common settings of their clusters; cluster_ids, selector and all are not allowed"}})
	}
	touched := map[docKey]*Document{}
	for _, layer := range op.Layers {
		docs, err := b.adopt(layer)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			touched[docKey{d.Kind, d.ID}] = d
		}
	}
	docs := slices.Collect(maps.Values(touched))
	sortDocuments(docs)
	return docs, nil
}

// adopt moves the common settings of a layer's clusters into the layer, and returns the documents that this changes.
func (b *Batch) adopt(layer string) ([]*Document, error) {
	doc, err := b.tx.Get(KindLayer, layer)
	if err != nil {
		return nil, err
	}
	ad := &adoption{tx: b.tx, layer: doc, patches: map[string]map[string]bool{}}
	if err := ad.openDocuments(); err != nil {
		return nil, err
	}
	for _, a := range b.tx.kinds.lists {
		list := &adoptedList{descriptor: a, moved: map[string]bool{}}
		if err := ad.choose(list); err != nil {
			return nil, err
		}
		ad.lists = append(ad.lists, list)
		if err := b.stopped(); err != nil {
			return nil, err
		}
	}
	ad.choosePatches()
	after, err := b.tx.editLayer(layer, ad.editLayer)
	if err != nil {
		return nil, err
	}
	docs := []*Document{after}
	if bytes.Equal(after.Body, doc.Body) {
		docs = nil
	}
	ids := make([]string, len(ad.clusters))
	for i, m := range ad.clusters {
		ids[i] = m.doc.ID
	}
	changed, err := b.tryEdit(ids, ad.editCluster)
	if err != nil {
		return nil, err
	}
	for _, o := range changed {
		if o.err != nil {
			return nil, o.err
		}
		if o.doc != o.before {
			b.tx.recordEdited(o.before, o.doc)
			docs = append(docs, o.doc)
		}
	}
	for _, list := range ad.lists {
		if list.left > 0 {
			b.tx.note("%d of the %s that all clusters of layer %q have stay in their documents: moving them would change the order of the polled list", list.left, list.field, layer)
		}
	}
	return docs, ad.verify()
}

// openDocuments finds the clusters of the layer and opens their documents.
func (ad *adoption) openDocuments() error {
	ad.tx.each(KindCluster, func(d *Document) {
		if !d.Deleted() && ad.layer.layer().matches(d.Cluster()) {
			ad.clusters = append(ad.clusters, member{doc: d})
		}
	})
	if len(ad.clusters) == 0 {
		return Invalid([]Problem{{Detail: fmt.Sprintf("layer %q matches no cluster: there is nothing to adopt", ad.layer.ID)}})
	}
	slices.SortFunc(ad.clusters, func(a, b member) int { return bytes.Compare([]byte(a.doc.ID), []byte(b.doc.ID)) })
	return parallel.Errors(len(ad.clusters), func(i int) (err error) {
		m := &ad.clusters[i]
		m.has = ad.tx.effective(m.doc)
		m.obj, err = openDocument(m.doc)
		return err
	})
}

// editLayer adds the adopted settings to the layer.
func (ad *adoption) editLayer(obj map[string]any) error {
	overrides, _ := obj["overrides"].(map[string]any)
	for _, list := range ad.lists {
		entries := slices.Clone(list.entriesIn(obj))
		for _, adopted := range list.entries {
			at := slices.IndexFunc(entries, unstructured.HasID(adopted.id))
			if at < 0 {
				at = len(entries)
				entries = append(entries, map[string]any{"id": adopted.id})
			}
			entry, _, _ := unstructured.Entry(entries[at])
			if !list.typed {
				maps.Copy(entry, adopted.settings)
				if settings, ok := overrides[adopted.id].(map[string]any); ok && list.kind == KindComponent { // a layer must not set a field twice
					maps.DeleteFunc(settings, func(leaf string, _ any) bool { return hasKey(adopted.settings, leaf) })
				}
			} else if overrides := list.entrySettings(adopted.settings); len(overrides) > 0 {
				merged := unstructured.NestedObject(entry, "overrides")
				maps.Copy(merged, overrides)
				entry["overrides"] = merged
			}
		}
		if len(list.entries) > 0 {
			list.setEntries(obj, entries)
		}
	}
	first := ad.clusters[0].doc.Cluster()
	for component, paths := range ad.patches {
		patches, _ := obj["patches"].(map[string]any)
		settings, _ := patches[component].(map[string]any)
		if settings == nil {
			settings = map[string]any{}
			patches[component] = settings
		}
		for path := range paths {
			value, err := ParseJSON(first.Patches[component][path])
			if err != nil {
				return ad.clusters[0].doc.Unreadable(err)
			}
			settings[path] = value
		}
	}
	return nil
}

// editCluster removes the adopted settings from a cluster.
func (ad *adoption) editCluster(before *Document, obj map[string]any) (changed bool, err error) {
	for _, list := range ad.lists {
		if len(list.moved) == 0 {
			continue
		}
		items, err := list.openList(obj)
		if err != nil {
			return false, before.Unreadable(err)
		}
		left := make([]any, 0, len(items))
		for i, id := range list.ids(before.own) {
			if !list.moved[id] {
				left = append(left, items[i])
			}
		}
		list.setEntries(obj, left)
		changed = true
	}
	for component, paths := range ad.patches {
		o := patchesOn(before.Cluster(), component)
		for path := range paths {
			o.Remove(path)
		}
		if err := setPatches(before, obj, component, o); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// verify compares the effective configuration of each cluster with the one before, so that an error in this file cannot
// remove anything from a cluster.
func (ad *adoption) verify() error {
	return parallel.Errors(len(ad.clusters), func(i int) error {
		m := ad.clusters[i]
		doc, err := ad.tx.Get(KindCluster, m.doc.ID)
		if err != nil {
			return err
		}
		is := ad.tx.effective(doc)
		for _, list := range ad.lists {
			differ, _ := list.changedEntries(m.has, is)
			if len(differ) > 0 || !slices.Equal(list.ids(m.has), list.ids(is)) {
				err = ad.checkDuplicates(list.field, m.doc.ID)
			}
		}
		same := func(a, b api.PatchValues) bool { return maps.EqualFunc(a, b, jsontext.Same) }
		if !maps.EqualFunc(m.has.cluster.Patches, is.cluster.Patches, same) {
			err = ad.checkDuplicates("patches", m.doc.ID)
		}
		return err
	})
}

// checkDuplicates refuses documents that an earlier operation of the batch has left invalid: if a cluster lists an entry
// twice, or lists and excludes it, its configuration changes when that is corrected.
func (ad *adoption) checkDuplicates(field, cluster string) error {
	return Invalid([]Problem{{Detail: fmt.Sprintf("adopting common settings into layer %q would change the %s of cluster %q, as an operation before this one leaves them",
		ad.layer.ID, field, cluster)}})
}
