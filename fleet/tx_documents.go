package fleet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Create adds a document. CodeConflict if it exists.
func (tx *Tx) Create(kind Kind, body []byte) (*Document, error) {
	obj, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
	return tx.CreateObject(kind, obj)
}

// CreateObject is Create with a parsed body, as [ParseObject] returns it. It does not change the body, so that an edit can be
// repeated without parsing again.
func (tx *Tx) CreateObject(kind Kind, body map[string]any) (*Document, error) {
	doc, err := tx.create(kind, jsontext.CopyObject(body))
	if err == nil {
		tx.recordOperation(api.RevisionOperation{Op: "create", Kind: string(kind), ID: doc.ID})
	}
	return doc, err
}

// create is Create with parsed JSON, which it modifies.
func (tx *Tx) create(kind Kind, obj map[string]any) (*Document, error) {
	if tx.kinds.byName[kind] == nil {
		return nil, tx.notFound(kind, "")
	}
	maps.DeleteFunc(obj, func(field string, v any) bool { return v == nil || slices.Contains(readOnly, field) })
	id, _ := obj["id"].(string)
	if id == "" {
		return nil, Invalid([]Problem{{Pointer: "/id", Detail: "is required and must be a string that is not empty"}})
	}
	if existing := tx.raw(kind, id); existing != nil {
		if !existing.Deleted() {
			return nil, errorf(CodeConflict, "the %s %q exists already", tx.kinds.noun(kind), id)
		}
		if dns, _ := obj["cluster_dns"].(string); lowerASCII(dns) != lowerASCII(existing.Cluster().ClusterDNS) {
			return nil, errorf(CodeConflict, "the id %q belongs to a decommissioned cluster whose DNS name %q still answers empty lists; end that with DELETE /clusters/%s?mode=orphan, or choose another id",
				id, existing.Cluster().ClusterDNS, id)
		}
	}
	delete(tx.recalled, docKey{kind, id}) // an earlier operation may have restored and deleted it
	if dns, _ := obj["cluster_dns"].(string); kind == KindCluster {
		if n := tx.incarnation(id, dns); n > 0 {
			obj[incarnationField] = n
		}
	}
	if kind == KindComponent {
		recordNamespace(obj, obj)
	}
	doc, err := tx.put(kind, id, nil, obj)
	if err == nil && kind == KindLayer {
		err = tx.checkLayerCountEarly()
	}
	if err != nil {
		return nil, err
	}
	if kind == KindCluster {
		tx.endDecommission(doc.Cluster())
		if key := (docKey{kind, id}); tx.base.docs[kind][id] != nil {
			if tx.created == nil {
				tx.created = map[docKey]bool{}
			}
			tx.created[key] = true
		}
	}
	return doc, nil
}

// Put replaces the fields that are present in the body and not null.
func (tx *Tx) Put(kind Kind, id string, body []byte) (*Document, error) {
	request, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
	return tx.PutObject(kind, id, request)
}

// PutObject is Put with a parsed body, which it does not change.
func (tx *Tx) PutObject(kind Kind, id string, body map[string]any) (*Document, error) {
	before := tx.raw(kind, id)
	doc, err := tx.update(kind, id, body, func(stored, request map[string]any) map[string]any {
		if kind == KindLayer || kind == KindFreeze {
			replaceSelection(stored, request)
		}
		if kind == KindSource {
			replaceReference(stored, request)
		}
		return mergePut(stored, request)
	})
	if err == nil {
		tx.recordOperation(documentOperation("update", before, doc, body))
	}
	return doc, err
}

// Patch applies an RFC 7396 merge patch.
func (tx *Tx) Patch(kind Kind, id string, body []byte) (*Document, error) {
	request, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
	return tx.PatchObject(kind, id, request)
}

// PatchObject is Patch with a parsed body, which it does not change.
func (tx *Tx) PatchObject(kind Kind, id string, body map[string]any) (*Document, error) {
	before := tx.raw(kind, id)
	doc, err := tx.update(kind, id, body, func(stored, request map[string]any) map[string]any {
		if kind == KindSource {
			replaceReference(stored, request)
		}
		return jsontext.MergePatch(stored, request).(map[string]any)
	})
	if err == nil {
		tx.recordOperation(documentOperation("patch", before, doc, body))
	}
	return doc, err
}

// update changes a document by a request body; change merges a copy of it into the stored object.
func (tx *Tx) update(kind Kind, id string, body map[string]any, change func(stored, request map[string]any) map[string]any) (*Document, error) {
	before, err := tx.Get(kind, id)
	if err != nil {
		return nil, err
	}
	request := jsontext.CopyObject(body)
	for _, f := range readOnly {
		delete(request, f)
	}
	if v, ok := request["id"]; ok && v != id && v != nil {
		return nil, Invalid([]Problem{{Pointer: "/id", Detail: fmt.Sprintf("the id never changes: it must be %q", id)}})
	}
	delete(request, "id")
	return tx.edit(before, func(stored map[string]any) map[string]any {
		if kind == KindComponent {
			settlesType(stored, request)
		}
		before := maps.Clone(stored)
		after := change(stored, request)
		if kind == KindComponent {
			dropReplacedDigest(before, after, request)
			recordNamespace(after, request)
		}
		if kind == KindLayer {
			dropReplacedDigests(before, after, request)
		}
		return after
	})
}

// edit changes a document through a function of its stored form.
func (tx *Tx) edit(before *Document, change func(map[string]any) map[string]any) (*Document, error) {
	stored, err := unstructured.Decode(before.Body)
	if err != nil {
		return nil, before.Unreadable(err)
	}
	return tx.put(before.Kind, before.ID, before, change(stored))
}

// Force lets subsequent writes of whole cluster documents overwrite patches that named managers own.
func (tx *Tx) Force(force bool) { tx.force = force }

// put stores an object as the document's new content.
func (tx *Tx) put(kind Kind, id string, before *Document, obj map[string]any) (*Document, error) {
	if kind == KindResourceType {
		if err := checkTypePatterns(obj); err != nil {
			return nil, err
		}
	}
	tx.kinds.byName[kind].normalize(obj)
	if kind == KindCluster {
		var was *api.Cluster
		if before != nil {
			was = before.Cluster()
			if err := dropOrphanedPatches(was, obj, tx.componentsFromLayers(obj)); err != nil {
				return nil, err
			}
		}
		if err := reconcileOwners(was, obj, tx.componentsFromLayers, tx.force); err != nil {
			return nil, err
		}
	}
	return tx.store(kind, id, obj)
}

// store stores an object as the content of a document; it may change the object.
func (tx *Tx) store(kind Kind, id string, obj map[string]any) (*Document, error) {
	doc, err := tx.kinds.compose(kind, id, nil, obj, tx.shared)
	if err != nil {
		return nil, err
	}
	tx.record(kind, id, doc)
	return doc, nil
}

// incarnation returns that of a cluster which is created with an id and a DNS name.
func (tx *Tx) incarnation(id, dns string) (n int) {
	if old, ok := tx.base.ByDNS(dns); ok && (old.ID != id || old.Deleted()) {
		n = old.incarnation() + 1
	}
	doc := tx.base.docs[KindOrphan][lowerASCII(dns)]
	if doc == nil {
		return n
	}
	previous := doc.value.(*orphanRecord)
	if len(previous.Installed) > 0 { // otherwise no object on the cluster sends old receipts
		return max(n, previous.Incarnation+1)
	}
	return max(n, previous.Incarnation)
}
