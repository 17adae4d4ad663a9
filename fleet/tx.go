package fleet

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Tx collects edits to a State, and reads its own edits. It changes no other value; Finish returns the resulting State.
type Tx struct {
	base    *State
	kinds   *kindSet             // with the resource types after the edits
	edits   map[docKey]*Document // nil: deleted
	guard   Guard
	force   bool // overwrite patches that named managers own
	seed    Seed // the seed that the documents come from, if any
	work    work
	filters ClusterFilters
	notesMu sync.Mutex
	notes   []string // further warnings
	layers  *txLayers
	byLabel labelIndex
	// recalled are former versions that documents are restored to; they were valid then.
	recalled map[docKey]*Document

	requested          []doneOperation // what it was asked for
	changedByOperation map[docKey]bool // documents that the current operation of a batch changed; nil: it is no batch
	nested             int             // more than 0: in the middle of one of them
}

// DeleteOptions control the deletion of a document.
type DeleteOptions struct {
	// Cascade removes a definition from every document that refers to it.
	Cascade bool
	// Orphan deletes a cluster at once instead of answering its polls with empty lists: Flux keeps its objects.
	Orphan bool
}

// Result is the result of a Tx.
type Result struct {
	Commit   Commit // with its revision and changes; without changes there is nothing to commit
	State    *State // after the commit
	Warnings []string
	// Stored is the number of problems in the checked documents that were stored before, and so do not refuse the change.
	Stored       int
	base         *State
	layerChanges []layerChange // clusters that layers change
	removals     removals
	work         work
	filters      ClusterFilters
}

// Begin starts a Tx on the State.
func (s *State) Begin() *Tx {
	tx := &Tx{base: s, kinds: s.kinds, edits: map[docKey]*Document{}, layers: &txLayers{}, work: newWork(context.Background())}
	if s.layers != nil {
		tx.layers.ascending = s.layers.ascending
	}
	return tx
}

// note adds a warning to the result.
func (tx *Tx) note(format string, args ...any) {
	tx.notesMu.Lock()
	defer tx.notesMu.Unlock()
	if note := fmt.Sprintf(format, args...); !slices.Contains(tx.notes, note) {
		tx.notes = append(tx.notes, note)
	}
}

// sortedNotes returns the warnings in an order that does not depend on the edits, which run on many clusters concurrently.
func (tx *Tx) sortedNotes() []string { return slices.Sorted(slices.Values(tx.notes)) }

// Base returns the State that the Tx was begun on.
func (tx *Tx) Base() *State { return tx.base }

// Get returns a document with the edits of the Tx.
func (tx *Tx) Get(kind Kind, id string) (*Document, error) {
	doc := tx.raw(kind, id)
	if doc == nil || doc.Deleted() || tx.kinds.byName[kind] == nil {
		return nil, tx.notFound(kind, id)
	}
	return doc, nil
}

func (tx *Tx) notFound(kind Kind, id string) *Error { return tx.kinds.notFound(kind, id) }

// record records an edit; a nil document deletes. Every edit goes through this function.
func (tx *Tx) record(kind Kind, id string, doc *Document) {
	was := tx.raw(kind, id)
	if tx.changedByOperation != nil && (was == nil || doc == nil || !bytes.Equal(was.Body, doc.Body)) {
		tx.changedByOperation[docKey{kind, id}] = true
	}
	if kind == KindCluster {
		tx.byLabel.update(was, doc)
	}
	tx.edits[docKey{kind, id}] = doc
	if kind == KindResourceType {
		tx.kinds = tx.kinds.withType(id, doc)
	}
	if kind == KindLayer {
		tx.recomputeLayers()
	}
}

// descriptor returns a kind of definition with the edits of the Tx. If the Tx deleted its type it returns the kind before
// that, so that the remaining entries on clusters can still be removed. Nil if there is none.
func (tx *Tx) descriptor(kind Kind) *descriptor {
	return cmp.Or(tx.kinds.descriptor(kind), tx.base.kinds.descriptor(kind))
}

// raw returns a document with the edits of the Tx, also a decommissioned cluster; nil if there is none.
func (tx *Tx) raw(kind Kind, id string) *Document {
	if doc, edited := tx.edits[docKey{kind, id}]; edited {
		return doc
	}
	return tx.base.docs[kind][id]
}

// Match fails with CodeStale unless ifMatch, the value of an If-Match header, names the document's version. An empty ifMatch
// passes, and so does a missing document, which the edit itself reports.
func (tx *Tx) Match(kind Kind, id, ifMatch string) error {
	doc, ok := tx.base.Get(kind, id)
	if ifMatch == "" || !ok || MatchETag(ifMatch, doc.ETag()) {
		return nil
	}
	return &Error{Code: CodeStale, ETag: doc.ETag(), Detail: fmt.Sprintf("the %s %q has changed: its ETag is now %s", tx.kinds.noun(kind), id, doc.ETag())}
}

// MatchETag reports whether a list of ETags, as in If-Match and If-None-Match, contains the given one. Weak ETags match,
// since a proxy that compresses makes ours weak.
func MatchETag(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == "*" || candidate == etag {
			return true
		}
	}
	return false
}

// Create adds a document. CodeConflict if it exists.
func (tx *Tx) Create(kind Kind, body []byte) (*Document, error) {
	obj, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
	doc, err := tx.create(kind, obj)
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
	if dns, _ := obj["cluster_dns"].(string); kind == KindCluster {
		if n := tx.incarnation(id, dns); n > 0 {
			obj[incarnationField] = n
		}
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
	}
	return doc, nil
}

// endDecommission removes the decommissioned cluster with the DNS name of a new live cluster.
func (tx *Tx) endDecommission(c *api.Cluster) {
	old, ok := tx.base.ByDNS(c.ClusterDNS)
	if ok && old.Deleted() && old.ID != c.ID {
		tx.record(KindCluster, old.ID, nil)
	}
}

// Put replaces the fields that are present in the body and not null.
func (tx *Tx) Put(kind Kind, id string, body []byte) (*Document, error) {
	before := tx.raw(kind, id)
	doc, err := tx.update(kind, id, body, func(stored, request map[string]any) map[string]any {
		if kind == KindLayer {
			replaceSelection(stored, request)
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
	before := tx.raw(kind, id)
	doc, err := tx.update(kind, id, body, func(stored, request map[string]any) map[string]any {
		return jsontext.MergePatch(stored, request).(map[string]any)
	})
	if err == nil {
		tx.recordOperation(documentOperation("patch", before, doc, body))
	}
	return doc, err
}

// update changes a document by a request body; change merges the request into the stored object.
func (tx *Tx) update(kind Kind, id string, body []byte, change func(stored, request map[string]any) map[string]any) (*Document, error) {
	before, err := tx.Get(kind, id)
	if err != nil {
		return nil, err
	}
	request, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
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
		return change(stored, request)
	})
}

// edit changes a document through a function of its stored form.
func (tx *Tx) edit(before *Document, change func(map[string]any) map[string]any) (*Document, error) {
	stored, err := unstructured.Decode(before.Body)
	if err != nil {
		return nil, errUnreadable(before, err)
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

// store makes an object the document's content without changing it.
func (tx *Tx) store(kind Kind, id string, obj map[string]any) (*Document, error) {
	doc, err := tx.kinds.compose(kind, id, obj)
	if err != nil {
		return nil, err
	}
	tx.record(kind, id, doc)
	return doc, nil
}

// Delete deletes a document. Finish decides whether a document still refers to it, so that a Tx may first delete and then
// unassign.
func (tx *Tx) Delete(kind Kind, id string, opt DeleteOptions) (*Document, error) {
	doc, clusters, err := tx.delete(kind, id, opt)
	if err == nil {
		op := api.RevisionOperation{Op: "delete", Kind: string(kind), ID: id, Cascade: opt.Cascade && kind != KindCluster, Clusters: clusters}
		if opt.Orphan {
			op.Mode = "orphan"
		}
		tx.recordOperation(op)
	}
	return doc, err
}

// delete is Delete, and returns the number of clusters that it removes a definition from.
func (tx *Tx) delete(kind Kind, id string, opt DeleteOptions) (doc *Document, clusters int, err error) {
	doc = tx.raw(kind, id)
	if doc == nil || doc.Deleted() && !opt.Orphan {
		return nil, 0, tx.notFound(kind, id)
	}
	if kind != KindCluster {
		if opt.Cascade {
			clusters = tx.countClustersWith(kind, id)
		}
		tx.record(kind, id, nil)
		switch {
		case !opt.Cascade: // Finish finds remaining references
		case kind == KindResourceType:
			err = tx.deleteResources(id)
		default:
			err = tx.unassignEverywhere(kind, id)
		}
		if err == nil && kind == KindComponent {
			err = tx.dropPatches(id)
		}
		return doc, clusters, err
	}
	// Deletion protection cannot be lifted in the commit that deletes. The layers in this Tx may differ from those before,
	// so both count.
	stored, exists := tx.base.Get(kind, id)
	if doc.own.cluster.DeletionProtection {
		return nil, 0, doc.own.protectedError()
	}
	if exists && tx.base.Effective(stored).cluster.DeletionProtection {
		return nil, 0, tx.base.Effective(stored).protectedError()
	}
	if opt.Orphan {
		tx.record(kind, id, nil)
		return doc, 0, nil
	}
	// Finish completes it, since it knows the time.
	tx.record(kind, id, &Document{Record: Record{Kind: kind, ID: id}, value: doc.value, rules: doc.rules, own: doc.own})
	return doc, 0, nil
}

// each visits the documents of a kind, with the edits of the Tx.
func (tx *Tx) each(kind Kind, visit func(*Document)) {
	for id, doc := range tx.base.docs[kind] {
		if _, edited := tx.edits[docKey{kind, id}]; !edited {
			visit(doc)
		}
	}
	for key, doc := range tx.edits {
		if doc != nil && !pendingTombstone(doc) && key.kind == kind {
			visit(doc)
		}
	}
}

// deletedAt formats the time of a decommissioning for storage.
func deletedAt(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
