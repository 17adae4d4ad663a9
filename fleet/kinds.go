package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// typeDefaultField is a field of a stored component whose type is kustomize only because of its oci_url, since no request
// has set another type. Such a component becomes helm when its URL becomes one that kustomize cannot have. A component of
// type helm never becomes kustomize by default: an oci:// URL may hold a chart too, and Flux would uninstall the release.
const typeDefaultField = "type_default"

// namespaceSetField is a field of a stored kustomize component whose target_namespace a request has set. Without it, the stored
// target_namespace is a default, or an earlier version stored it without rendering it. It then has no effect, and the API shows none:
// rendering it would move the objects of running components on an upgrade.
const namespaceSetField = "target_namespace_set"

// incarnationField is a field of a cluster's document: the number of clusters of its DNS name that were deleted, with
// installations, before it was created. The first cluster of a name has none.
//
// A cluster that is created again gets new receipts through this field, even for unchanged inputs: Flux Operator sends the
// receipt of an unchanged input once an hour, and receipts from the previous cluster of that name must not count for the new
// one.
const incarnationField = "incarnation"

// viewOf returns a cluster as the API shows it, with the value of its document or its effective one.
func (ks *kindSet) viewOf(d *Document, value any) any {
	view := ks.copyValue(value)
	c := ks.cluster(view)
	c.Revision, c.CreatedAt, c.UpdatedAt = int64(d.Revision), d.CreatedAt, d.UpdatedAt
	return view
}

// setLists sets the lists of the set, and the indexes over them.
func (ks *kindSet) setLists(lists []*descriptor) {
	ks.lists = lists
	ks.byName, ks.byKind, ks.byEndpoint = map[Kind]*kindRules{}, map[Kind]*descriptor{}, map[string]*descriptor{}
	for i, list := range lists {
		if i == ks.compiledCount {
			ks.kinds = append(ks.kinds, ks.others.types)
		}
		ks.kinds = append(ks.kinds, &list.rules)
		ks.byKind[list.kind] = list
		if ks.byEndpoint[list.endpoint] == nil { // a type that will be refused must not replace another list
			ks.byEndpoint[list.endpoint] = list
		}
	}
	if len(lists) == ks.compiledCount {
		ks.kinds = append(ks.kinds, ks.others.types)
	}
	ks.kinds = append(ks.kinds, ks.others.layers, ks.others.clusters)
	for _, k := range slices.Concat(ks.kinds, ks.others.internal) {
		ks.byName[k.name] = k
	}
}

// withTypes returns the set with the kinds of some resource types, in the order of their ids. Descriptors of unchanged types
// are the same pointers as before; if all are unchanged, so is the set.
func (ks *kindSet) withTypes(types map[string]*Document) *kindSet {
	lists := slices.Clone(ks.lists[:ks.compiledCount])
	for _, id := range sortedKeys(types) {
		a := ks.byKind[ResourceKind(id)]
		if a == nil || a.typeDoc != types[id] {
			a = ks.others.resources(id, types[id])
		}
		lists = append(lists, a)
	}
	if slices.Equal(lists, ks.lists) {
		return ks
	}
	next := &kindSet{compiledCount: ks.compiledCount, others: ks.others, cluster: ks.cluster, copyFields: ks.copyFields, copyValue: ks.copyValue, emptyCluster: ks.emptyCluster}
	next.setLists(lists)
	return next
}

// checkEndpoints refuses a committed resource type whose endpoint is that of a compiled-in kind. Its clusters would get that
// kind's list, and remove everything that the type installed.
func (ks *kindSet) checkEndpoints() error {
	for _, a := range ks.lists[ks.compiledCount:] {
		if other := ks.byEndpoint[a.endpoint]; other != a {
			return fmt.Errorf("resource type %q cannot be read: this version has the list of each %s in its place", a.endpoint, other.rules.noun)
		}
	}
	return nil
}

// withType returns the set with one resource type changed, or removed if the document is nil.
func (ks *kindSet) withType(id string, doc *Document) *kindSet {
	types := map[string]*Document{}
	for _, a := range ks.lists[ks.compiledCount:] {
		types[a.typeDoc.ID] = a.typeDoc
	}
	if types[id] = doc; doc == nil {
		delete(types, id)
	}
	return ks.withTypes(types)
}

// listsWithRemoved returns the lists of this set, then the lists that only an older set has.
func (ks *kindSet) listsWithRemoved(before *kindSet) []*descriptor {
	if ks == before {
		return ks.lists
	}
	lists := slices.Clone(ks.lists)
	for _, a := range before.lists {
		if ks.byKind[a.kind] == nil {
			lists = append(lists, a)
		}
	}
	return lists
}

// names returns the names of all kinds that describe the fleet, definitions before the clusters that refer to them.
func (ks *kindSet) names() []Kind {
	names := make([]Kind, len(ks.kinds))
	for i, k := range ks.kinds {
		names[i] = k.name
	}
	return names
}

func (ks *kindSet) noun(kind Kind) string {
	if k := ks.byName[kind]; k != nil {
		return k.noun
	}
	return string(kind)
}

// descriptor returns a kind of definition; nil if it is none.
func (ks *kindSet) descriptor(kind Kind) *descriptor { return ks.byKind[kind] }

// document decodes a document from a store.
func (ks *kindSet) document(rec Record) (*Document, error) {
	kind := ks.byName[rec.Kind]
	if kind == nil {
		return nil, fmt.Errorf("the store holds a document of kind %q, which this version does not know", rec.Kind)
	}
	value, err := decodeModel(kind, rec)
	if err != nil {
		return nil, err
	}
	return ks.newDocument(kind, rec, value)
}

// newDocument returns the document of a decoded value.
func (ks *kindSet) newDocument(kind *kindRules, rec Record, value any) (*Document, error) {
	if kind.complete != nil {
		if err := kind.complete(value, rec.Body); err != nil {
			return nil, fmt.Errorf("%s %q cannot be read: %w", kind.noun, rec.ID, err)
		}
	}
	doc := &Document{Record: rec, value: value, rules: kind}
	if doc.refers = len(referringFields(rec.Kind)) > 0 && variables.In(rec.Body); doc.refers {
		doc.references = referencesIn(doc)
	}
	cluster := ks.cluster(value)
	if cluster == nil {
		if kind.bound != nil {
			doc.bound = kind.bound(value)
		}
		return doc, nil
	}
	if err := ks.completeLists(rec.ID, &Effective{value: value, cluster: cluster}); err != nil {
		return nil, err
	}
	doc.own = ks.newOwn(rec, value, cluster)
	return doc, nil
}

// completeLists makes those lists of a cluster empty that did not exist when it was stored.
func (ks *kindSet) completeLists(id string, cluster *Effective) error {
	for _, a := range ks.lists[:ks.compiledCount] {
		if !a.complete(cluster) {
			return fmt.Errorf("cluster %q cannot be read: one of its lists is missing", id)
		}
	}
	return nil
}

// fieldCopier returns a kindSet's copyFields for clusters of the model M.
func fieldCopier[M any]() func(value, from any, fields []string) {
	index := map[string][]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[M]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		index[name] = f.Index
	}
	return func(value, from any, fields []string) {
		to, of := reflect.ValueOf(value).Elem(), reflect.ValueOf(from).Elem()
		for _, name := range fields {
			if at := index[name]; at != nil { // unless this version does not know the field
				to.FieldByIndex(at).Set(of.FieldByIndex(at))
			}
		}
	}
}

// readOnly are the fields that the server sets. Requests may contain them and they are ignored, so that the response to a
// GET can be sent back.
var readOnly = []string{"revision", "created_at", "updated_at", "deleted_at", "patch_owners", "layers", "clusters", "cluster_count", "reconcile_requested_at", incarnationField, typeDefaultField, namespaceSetField}

// notFound returns the CodeNotFound error of a document.
func (ks *kindSet) notFound(kind Kind, id string) *Error {
	if typeID, ok := kind.ResourceType(); ok && ks.byName[kind] == nil {
		kind, id = KindResourceType, typeID
	}
	return errorf(CodeNotFound, "there is no %s %q", ks.noun(kind), id)
}

// newRecord returns a document that the service itself writes.
func (ks *kindSet) newRecord(kind Kind, id string, value any) (*Document, error) {
	obj, err := unstructured.FromValue(value)
	if err != nil {
		return nil, err
	}
	body, err := jsontext.Canonical(obj)
	if err != nil {
		return nil, err
	}
	return ks.document(Record{Kind: kind, ID: id, Body: body})
}
