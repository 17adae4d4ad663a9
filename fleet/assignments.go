package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fieldmanagers"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// clusterEdit changes a cluster's document. It gets the current document, and the object to be stored next, of which only
// one level is parsed: see openDocument. If it returns changed false, the document stays the same. An edit runs on thousands
// of clusters concurrently, so it must modify only the object, and should open only the parts that it changes.
type clusterEdit func(before *Document, obj map[string]any) (changed bool, err error)

// editCluster runs an edit on one cluster.
func (tx *Tx) editCluster(cluster string, edit clusterEdit) (*Document, error) {
	before, err := tx.Get(KindCluster, cluster)
	if err != nil {
		return nil, err
	}
	after, err := tx.applyEdit(before, edit)
	if err == nil {
		tx.recordEdited(before, after)
	}
	return after, err
}

// recordEdited records the result of applyEdit as an edit of the Tx.
func (tx *Tx) recordEdited(before, after *Document) {
	if after != before {
		tx.record(after.Kind, after.ID, after)
	}
}

// applyEdit returns a cluster after an edit.
func (tx *Tx) applyEdit(before *Document, edit clusterEdit) (*Document, error) {
	obj, err := openDocument(before)
	if err != nil {
		return nil, err
	}
	changed, err := edit(before, obj)
	if err != nil || !changed {
		return before, err
	}
	return tx.kinds.compose(before.Kind, before.ID, before, obj, tx.shared)
}

// SetLabels changes a cluster's labels by an RFC 7396 merge patch.
func (tx *Tx) SetLabels(cluster string, patch []byte) (*Document, error) {
	doc, err := tx.editCluster(cluster, setLabels(patch))
	if err == nil {
		tx.recordOperation(onCluster("set_labels", cluster, "", "", pathsOf(patch)))
	}
	return doc, err
}

// setLabels returns the edit of SetLabels.
func setLabels(patch []byte) clusterEdit {
	request, err := ParseJSON(patch)
	if e, ok := errors.AsType[*Error](err); ok {
		for i := range e.Problems {
			e.Problems[i].Pointer = "/labels" + e.Problems[i].Pointer
		}
	}
	return func(before *Document, obj map[string]any) (bool, error) {
		if err != nil {
			return false, err
		}
		if request == nil { // as for every field of a document, null resets to the default
			delete(obj, "labels")
			return true, nil
		}
		labels, err := unstructured.OpenField(obj, "labels")
		if err != nil {
			return false, before.Unreadable(err)
		}
		obj["labels"] = jsontext.MergePatch(labels, request)
		return true, nil
	}
}

// requestReconciliation returns the edit that lets Flux reconcile everything that a cluster is served, once. It changes inputs, but
// nothing that they install.
func requestReconciliation(at string) (clusterEdit, error) {
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		return nil, Invalid([]Problem{{Detail: "requested_at: must be a time of RFC 3339, such as 2026-01-02T03:04:05Z"}})
	}
	return func(_ *Document, obj map[string]any) (bool, error) {
		obj["reconcile_requested_at"] = at
		return true, nil
	}, nil
}

// Assign adds a definition to a cluster's list, or updates its entry. settings is the body of the request: for a component
// its enabled flag and overrides (absent: unchanged, null: no override), nil for the other kinds.
func (tx *Tx) Assign(cluster string, kind Kind, id string, settings []byte) (*Document, error) {
	doc, err := tx.editCluster(cluster, tx.assign(kind, id, settings))
	if err == nil {
		tx.recordOperation(onCluster("assign_"+tx.descriptor(kind).verbSuffix(), cluster, kind, id, fieldsOf(settings)))
	}
	return doc, err
}

// assign returns the edit of Assign.
func (tx *Tx) assign(kind Kind, id string, settings []byte) clusterEdit {
	_, wrong := tx.Get(kind, id)
	request := map[string]any{}
	if wrong == nil && len(bytes.TrimSpace(settings)) > 0 {
		request, wrong = ParseObject(settings)
	}
	a := tx.kinds.descriptor(kind)
	return func(before *Document, obj map[string]any) (bool, error) {
		if wrong != nil {
			return false, wrong
		}
		entries, err := a.openEntries(obj, id)
		if err != nil {
			return false, before.Unreadable(err)
		}
		at := slices.IndexFunc(entries, unstructured.HasID(id))
		if at < 0 {
			at = len(entries)
			entries = append(entries, tx.newEntry(before, a, id))
			if err := a.removeExclusion(obj, id); err != nil {
				return false, before.Unreadable(err)
			}
		}
		entry, _, _ := unstructured.Entry(entries[at])
		if err := copySettings(entry, request); err != nil {
			return false, before.Unreadable(err)
		}
		a.setEntries(obj, entries)
		return true, nil
	}
}

// newEntry returns the first entry of a cluster for a definition: a definition that a layer assigns stays enabled or
// disabled as it was.
func (tx *Tx) newEntry(cluster *Document, a *descriptor, id string) map[string]any {
	entry := map[string]any{"id": id}
	if e := tx.effective(cluster); e.chain != nil {
		if enabled, present := a.enabled(e, id); present && !enabled {
			entry["enabled"] = false
		}
	}
	return entry
}

// removeExclusion lets a cluster have a definition from its layers again.
func (a *descriptor) removeExclusion(obj map[string]any, id string) error {
	if obj["excludes"] == nil {
		return nil
	}
	if _, err := unstructured.OpenField(obj, "excludes"); err != nil {
		return err
	}
	excludes, _ := obj["excludes"].(map[string]any)
	if a.typed {
		if _, err := unstructured.OpenField(excludes, "resources"); err != nil {
			return err
		}
	}
	holder := a.listParent(excludes)
	if holder == nil {
		return nil
	}
	if _, err := unstructured.OpenField(holder, a.field); err != nil {
		return err
	}
	if ids, _ := holder[a.field].([]any); slices.Contains(ids, any(id)) {
		holder[a.field] = slices.DeleteFunc(slices.Clone(ids), func(v any) bool { return v == id })
	}
	return nil
}

// Unassign removes a definition from a cluster's list, and a component's patches with it. It does nothing if the definition
// is not on the list.
func (tx *Tx) Unassign(cluster string, kind Kind, id string) (*Document, error) {
	tx.noteUnknown(kind, id)
	return tx.unassignFrom(cluster, kind, id)
}

func (tx *Tx) unassignFrom(cluster string, kind Kind, id string) (*Document, error) {
	doc, err := tx.editCluster(cluster, tx.unassign(kind, id))
	if err == nil {
		tx.recordOperation(onCluster("unassign_"+tx.descriptor(kind).verbSuffix(), cluster, kind, id, nil))
	}
	return doc, err
}

// noteUnknown warns that the definition to unassign does not exist, often because of a typing error.
func (tx *Tx) noteUnknown(kind Kind, id string) {
	if a := tx.descriptor(kind); a != nil && tx.raw(kind, id) == nil {
		tx.note("there is no %s %q", a.rules.noun, id)
	}
}

// unassign returns the edit of Unassign.
func (tx *Tx) unassign(kind Kind, id string) clusterEdit {
	a := tx.descriptor(kind)
	return func(before *Document, obj map[string]any) (bool, error) {
		if a == nil {
			return false, tx.notFound(KindResourceType, kind.Endpoint())
		}
		tx.recordUnassigned(before.ID, a, id)
		entries, err := a.openEntries(obj, id)
		if err != nil {
			return false, before.Unreadable(err)
		}
		left := slices.DeleteFunc(slices.Clone(entries), unstructured.HasID(id))
		if len(left) == len(entries) {
			return false, nil
		}
		a.setEntries(obj, left)
		if kind == KindComponent {
			err = setPatches(before, obj, id, fieldmanagers.Read(nil, nil))
		}
		return true, err
	}
}

// maxUnassigned limits the memory and the time that warnFromLayers needs. Its warnings name definitions and layers, not clusters, so more
// clusters rarely add one.
const maxUnassigned = 20_000

func (tx *Tx) recordUnassigned(cluster string, a *descriptor, id string) {
	tx.notesMu.Lock()
	defer tx.notesMu.Unlock()
	if len(tx.unassigned) < maxUnassigned {
		tx.unassigned = append(tx.unassigned, unassigned{cluster, a, id})
	}
}

// warnFromLayers warns of definitions removed from a cluster's own list that stay on the cluster, because a layer assigns them. It runs
// after all edits: a later one may remove the definition from the layer, too.
func (tx *Tx) warnFromLayers() error {
	for _, u := range tx.unassigned {
		if err := tx.work.stopped(); err != nil {
			return err
		}
		if cluster := tx.raw(KindCluster, u.cluster); cluster != nil && !cluster.Deleted() {
			tx.warnFromLayer(cluster, u.list, u.id)
		}
	}
	return nil
}

// warnFromLayer warns if a cluster has a definition only because a layer assigns it.
func (tx *Tx) warnFromLayer(cluster *Document, a *descriptor, id string) {
	if _, own := a.enabled(cluster.own, id); own || len(tx.layers.ascending) == 0 {
		return
	}
	for _, d := range slices.Backward(tx.matchingLayers(cluster.Cluster()).layers) {
		if !slices.Contains(d.layer().assignedIDs(a), id) {
			continue
		}
		if _, present := a.enabled(tx.effective(cluster), id); !present {
			return
		}
		how := fmt.Sprintf("list it in the cluster's excludes (%s)", strings.TrimPrefix(a.pointer(), "/"))
		if a.kind == KindComponent {
			how = "assign it there with enabled=false"
		}
		tx.note("%s %q stays where it comes from layer %q; to take it off a cluster of that layer, %s", a.rules.noun, id, d.ID, how)
		return
	}
}

// setPatches replaces a component's patches on a cluster and their owners; empty ones are omitted.
func setPatches(before *Document, obj map[string]any, component string, o *fieldmanagers.Patches) error {
	for _, field := range []string{"patches", "patch_owners"} {
		if _, err := unstructured.OpenField(obj, field); err != nil {
			return before.Unreadable(err)
		}
	}
	unstructured.SetNestedKey(obj, "patches", component, o.Values(), len(o.Values()))
	owners := o.Stored()
	unstructured.SetNestedKey(obj, "patch_owners", component, owners, len(owners))
	return nil
}
