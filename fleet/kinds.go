package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Kind names a kind of document, as it is written in the log and in the API. It never changes.
type Kind string

// kindRules is what the fleet knows about every kind of document.
type kindRules struct {
	name       Kind
	noun       string     // as messages call it
	collection string     // in paths and seed files; empty: there are none of these
	empty      func() any // pointer to the model to decode into
	normalize  func(obj map[string]any)
	complete   func(value any) error // derives what is kept beside what was decoded; may be nil
	check      func(c *checker, d *Document)
	view       func(d *Document) any // as the API shows it; nil: it does not
	changed    func(c *checker, was, is *Document)
	// bound is what the document adds at most to the encoded answer of a cluster; see answer_size.go.
	bound func(value any) int
}

// kindSet is the kinds of documents of a fleet. It never changes. A State has one, and whatever it does for each kind it
// does for those of that set: those that are compiled in, then one for each resource type. A test has one more than
// anybody else.
type kindSet struct {
	lists         []*descriptor // the definitions, in the order of everything that names them all
	kinds         []*kindRules
	byName        map[Kind]*kindRules // internal ones as well
	byKind        map[Kind]*descriptor
	byEndpoint    map[string]*descriptor // by endpoint
	compiledCount int                    // how many of the lists are compiled in: the first
	// cluster is the value of a cluster's document as what clusters have in every set; nil when it is another kind's.
	cluster func(value any) *api.Cluster
	// takeOver makes some fields of a cluster's value, by their names in JSON, what they are in another.
	copyFields   func(value, from any, fields []string)
	copyValue    func(value any) any // such a value, to be changed
	emptyCluster func() *Effective   // a cluster that says nothing
}

// compiledIn are the kinds that this program is built with.
var compiledIn = newKindSet(func(c *api.Cluster) *api.Cluster { return c },
	componentKind.descriptor(),
	namespaceKind.descriptor(),
	roleBindingKind.descriptor(),
)

// newKindSet is the kinds of a fleet without resource types whose clusters have the model M and lists of some
// definitions.
func newKindSet[M any](cluster func(*M) *api.Cluster, lists ...*descriptor) *kindSet {
	ks := &kindSet{compiledCount: len(lists), copyFields: fieldCopier[M]()}
	ks.cluster = func(value any) *api.Cluster {
		if model, ok := value.(*M); ok {
			return cluster(model)
		}
		return nil
	}
	ks.copyValue = func(value any) any {
		model := *value.(*M)
		return &model
	}
	ks.emptyCluster = func() *Effective {
		model := new(M)
		return &Effective{value: model, cluster: cluster(model)}
	}
	clusters := &kindRules{
		name: KindCluster, noun: "cluster", collection: "clusters",
		empty:     func() any { return new(M) },
		normalize: ks.normalizeCluster,
		check:     checkCluster,
		changed:   changedCluster,
		view: func(d *Document) any {
			return ks.viewOf(d, d.value)
		},
	}
	for slot, list := range lists {
		list.slot = slot
	}
	ks.setLists(lists, layerRules(ks), clusters)
	return ks
}

// viewOf is a cluster as the API shows it: what its document says, or what it has.
func (ks *kindSet) viewOf(d *Document, value any) any {
	view := ks.copyValue(value)
	c := ks.cluster(view)
	c.Revision, c.CreatedAt, c.UpdatedAt = int64(d.Revision), d.CreatedAt, d.UpdatedAt
	return view
}

// fill makes the set that of some lists.
func (ks *kindSet) setLists(lists []*descriptor, layers, clusters *kindRules) {
	ks.lists = lists
	ks.byName, ks.byKind, ks.byEndpoint = map[Kind]*kindRules{}, map[Kind]*descriptor{}, map[string]*descriptor{}
	for i, list := range lists {
		if i == ks.compiledCount {
			ks.kinds = append(ks.kinds, &typeKind)
		}
		ks.kinds = append(ks.kinds, &list.rules)
		ks.byKind[list.kind] = list
		if ks.byEndpoint[list.endpoint] == nil { // a type that is about to be refused takes nobody's place
			ks.byEndpoint[list.endpoint] = list
		}
	}
	if len(lists) == ks.compiledCount {
		ks.kinds = append(ks.kinds, &typeKind)
	}
	ks.kinds = append(ks.kinds, layers, clusters)
	for _, k := range slices.Concat(ks.kinds, []*kindRules{&tokenKind, &budgetKind, &orphanKind}) {
		ks.byName[k.name] = k
	}
}

// withTypes is the set with the kinds that resource types make, in the order of their ids. Those of a type's document that
// has not changed are the same values as before, and so is the set if that is true of all.
func (ks *kindSet) withTypes(types map[string]*Document) *kindSet {
	lists := slices.Clone(ks.lists[:ks.compiledCount])
	for _, id := range sortedKeys(types) {
		a := ks.byKind[ResourceKind(id)]
		if a == nil || a.typeDoc != types[id] {
			a = resourceKind(id, types[id])
		}
		lists = append(lists, a)
	}
	if slices.Equal(lists, ks.lists) {
		return ks
	}
	next := &kindSet{compiledCount: ks.compiledCount, cluster: ks.cluster, copyFields: ks.copyFields, copyValue: ks.copyValue, emptyCluster: ks.emptyCluster}
	next.setLists(lists, ks.byName[KindLayer], ks.byName[KindCluster])
	return next
}

// clash refuses a committed resource type whose list is polled where a kind that is compiled in has its own. Its clusters would
// be answered with that one, and remove all that the type gives.
func (ks *kindSet) checkEndpoints() error {
	for _, a := range ks.lists[ks.compiledCount:] {
		if other := ks.byEndpoint[a.endpoint]; other != a {
			return fmt.Errorf("resource type %q cannot be read: this version has the list of each %s in its place", a.endpoint, other.rules.noun)
		}
	}
	return nil
}

// withType is the set with a resource type changed, or without it when the document is nil.
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

// listsSince are the lists, and those that an older set has besides.
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

// names are those of all kinds that describe the fleet, definitions before the clusters that refer to them.
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

// assigned is a kind of definition; nil when it is none.
func (ks *kindSet) descriptor(kind Kind) *descriptor { return ks.byKind[kind] }

// document reads a document as a store keeps it.
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

// completed is the document of a value that was decoded.
func (ks *kindSet) newDocument(kind *kindRules, rec Record, value any) (*Document, error) {
	if kind.complete != nil {
		if err := kind.complete(value); err != nil {
			return nil, fmt.Errorf("%s %q cannot be read: %w", kind.noun, rec.ID, err)
		}
	}
	if l, ok := value.(*layer); ok {
		if err := ks.decodeLayer(l, rec.Body); err != nil {
			return nil, fmt.Errorf("%s %q cannot be read: %w", kind.noun, rec.ID, err)
		}
	}
	doc := &Document{Record: rec, value: value, rules: kind}
	cluster := ks.cluster(value)
	if cluster == nil {
		doc.bound = kind.bound(value)
		return doc, nil
	}
	if err := ks.completeLists(rec.ID, &Effective{value: value, cluster: cluster}); err != nil {
		return nil, err
	}
	doc.own = ks.newOwn(rec, value, cluster)
	return doc, nil
}

// completeLists makes the lists of a cluster empty that were no lists yet when it was stored.
func (ks *kindSet) completeLists(id string, cluster *Effective) error {
	for _, a := range ks.lists[:ks.compiledCount] {
		if !a.missing(cluster) {
			continue
		}
		if !a.addedLater {
			return fmt.Errorf("cluster %q cannot be read: one of its lists is missing", id)
		}
		a.clear(cluster)
	}
	return nil
}

// compose makes a document of its content.
func (ks *kindSet) compose(kind Kind, id string, obj map[string]any) (*Document, error) {
	ks.byName[kind].normalize(obj)
	body, err := jsontext.Canonical(obj)
	if err != nil {
		return nil, err
	}
	doc, err := ks.document(Record{Kind: kind, ID: id, Body: body})
	if err != nil {
		return nil, Invalid([]Problem{decodeProblem(err)})
	}
	return doc, nil
}

// rewrite makes a cluster's next document of its content, of which some fields are the Text that they are now. Those are
// not decoded anew either.
func (ks *kindSet) rewrite(before *Document, obj map[string]any) (*Document, error) {
	kind := ks.byName[before.Kind]
	kind.normalize(obj)
	var as []string
	anew := make(map[string]any, len(obj))
	for field, v := range obj {
		if _, ok := v.(jsontext.Text); ok {
			as = append(as, field)
			continue
		}
		text, err := jsontext.Canonical(v)
		if err != nil {
			return nil, err
		}
		anew[field], obj[field] = jsontext.Text(text), jsontext.Text(text)
	}
	rec := Record{Kind: before.Kind, ID: before.ID}
	var err error
	if rec.Body, err = jsontext.Canonical(anew); err != nil {
		return nil, err
	}
	value, err := decodeModel(kind, rec)
	if err != nil {
		return nil, Invalid([]Problem{decodeProblem(err)})
	}
	ks.copyFields(value, before.value, as)
	if rec.Body, err = jsontext.Canonical(obj); err != nil {
		return nil, err
	}
	doc, err := ks.newDocument(kind, rec, value)
	if err != nil {
		return nil, Invalid([]Problem{decodeProblem(err)})
	}
	return doc, nil
}

// takesOver is a kindSet's takeOver for clusters of the model M.
func fieldCopier[M any]() func(value, from any, fields []string) {
	index := map[string][]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[M]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		index[name] = f.Index
	}
	return func(value, from any, fields []string) {
		to, of := reflect.ValueOf(value).Elem(), reflect.ValueOf(from).Elem()
		for _, name := range fields {
			if at := index[name]; at != nil { // or it is one that this version does not know
				to.FieldByIndex(at).Set(of.FieldByIndex(at))
			}
		}
	}
}

// Kinds are the names of all kinds of documents that describe the fleet, definitions before the clusters that refer to
// them, without those that resource types make. Tokens do not.
func Kinds() []Kind { return compiledIn.names() }

// Definitions are the kinds of definitions that clusters are assigned, and whose lists they poll, without those that
// resource types make.
func Definitions() []Kind {
	names := make([]Kind, len(compiledIn.lists))
	for i, a := range compiledIn.lists {
		names[i] = a.kind
	}
	return names
}

// Collection is what the API and seed files call all documents of a kind; empty when they have no such thing.
func (k Kind) Collection() string {
	if rules := compiledIn.byName[k]; rules != nil {
		return rules.collection
	}
	return k.collection("")
}

// collection is that of a resource type's definitions, or what all others have.
func (k Kind) collection(field string) string {
	if id, ok := k.ResourceType(); ok {
		return "resources/" + id
	}
	return field
}

// Endpoint is the last part of the path at which clusters poll their list of a kind of definition; empty when it is none.
func (k Kind) Endpoint() string {
	if a := compiledIn.descriptor(k); a != nil {
		return a.endpoint
	}
	id, _ := k.ResourceType()
	return id
}

// PolledAt is the kind of definition that clusters poll at an endpoint.
func (s *State) PolledAt(endpoint string) (Kind, bool) {
	a := s.kinds.byEndpoint[endpoint]
	if a == nil {
		return "", false
	}
	return a.kind, true
}

// readOnly are the fields the server fills in. In a request they are ignored, so that what a GET answered can be
// sent back.
var readOnly = []string{"revision", "created_at", "updated_at", "deleted_at", "patch_owners", "layers", "clusters", incarnationField, typeDefaultField}
