package fleet

import (
	"encoding/json"
	"iter"
	"reflect"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// definition is a kind of document that can be assigned to clusters: D is its model, E the model of an entry in a cluster's
// list, I the model of the input that a cluster polls. One value of this type holds all rules of a kind, and code for all
// kinds loops over these values; see kinds.go.
type definition[D, E, I any] struct {
	kind     Kind
	noun     string // name in messages
	field    string // the collection: in paths, in seed files, and the cluster's field with the list
	endpoint string // the last part of the path that clusters poll
	idField  string // the field of a batch operation that names a definition; its operations end with the same word: assign_namespace

	// typed: the kind comes from a resource type with the document typeDoc, which is nil if documents are read without their
	// type. Clusters hold entries in their resources, under the type's id, or not at all.
	typed   bool
	typeDoc *Document

	// addedLater: clusters may have been stored before this kind existed; they have none of it. For every other kind, a
	// document without the list cannot be read: an empty list in its place would uninstall the missing entries.
	addedLater bool

	idFrom  func(op *api.Operation) string
	list    func(of *Effective) *[]E
	entryID func(entry *E) string
	// setMetadata sets the fields that the API shows besides the content of a document.
	setMetadata func(model *D, revision int64, created, updated time.Time)
	// normalize sets defaults and converts values to their stored form. It may get values of any type, and leaves invalid
	// ones to check and the decoder.
	normalize func(obj map[string]any)
	// check reports the problems of a document in a State, and warnings.
	check func(c *checker, model *D)
	// input builds the input that a cluster polls, without the cluster block, which cluster returns a pointer to. Every
	// field must always be present, since a template fails on a missing one, and no field may be volatile.
	input   func(on *inputContext, model *D, entry *E) (I, error)
	cluster func(in *I) *api.FluxCluster

	// The following fields are optional.

	seedAlias string         // another name of the list in seed files
	make      func() *D      // returns a model to decode into
	complete  func(*D) error // computes derived values after decoding
	// bound returns an upper bound, in bytes, of the size that an input adds to an answer for a cluster without settings of
	// its own. Default: the size of the input.
	bound func(model *D) int
	// checkEntries reports problems of a cluster's entries, except missing and duplicate ones.
	checkEntries   func(c *checker, on *clusterCheck)
	normalizeEntry func(entry map[string]any)
	merge          entryMerge[E] // of an entry of layers and of the cluster
	overrides      *overrideRules[D]
	// dependsOn returns the definitions of the same kind that a definition names in depends_on.
	dependsOn func(model *D) []string
	// changed warns of the consequences of a change of a definition.
	changed func(c *checker, was, is *D)

	// enabled: the cluster shall have it, rather than remove it.
	enabled func(entry *E) bool
	// deployment identifies an installed definition on a cluster of an environment; if it changes, Flux uninstalls the old
	// one.
	deployment func(model *D, entry *E, environment string) deployment
	same       func(a, b *E) bool         // two entries for one definition have the same deployment, apart from the fields in deployment
	redeployed func(was, is *D) bool      // the deployment has changed, on any cluster
	uninstalls func(before, after I) bool // the input stays, but Flux removes objects that it has installed for it
	// object returns the object that the shipped template renders for a definition, if another definition may render it too.
	// idOf returns the id of the definition that renders an object, empty if there is none; default: that of object.
	object func(id string) rendering.Object
	idOf   func(o rendering.Object) string
	// kept: Flux keeps the object when the definition is removed from a cluster.
	kept func(d *Document, now time.Time) bool
}

// overrideRules describe the settings that clusters have for a definition besides its assignment.
type overrideRules[D any] struct {
	size         func(cluster *api.Cluster) int             // upper bound of their encoded size in the cluster's answer
	sizeFromType bool                                       // the size depends on a resource type, so it cannot be cached in a document
	differ       func(was, is *api.Cluster, id string) bool // whether the settings of one definition differ
	overriddenOn func(cluster *api.Cluster, id string) bool // whether the cluster has settings of a definition
	invalidates  func(was, is *D) bool                      // whether a change of the definition may make them invalid
	recheck      func(c *checker, on *Effective, id string) // checks them again after such a change
}

// components returns the enabled components of the cluster, with their types.
func (s *inputContext) components() map[string]string {
	if s.types != nil || s.cluster == nil {
		return s.types
	}
	s.types = map[string]string{}
	for _, e := range s.cluster.cluster.PlatformComponents {
		if doc, ok := s.state.definition(s.cluster, KindComponent, e.ID); ok && e.Enabled {
			s.types[e.ID] = doc.Component().Type
		}
	}
	return s.types
}

// descriptor erases the type parameters of the definition.
func (d definition[D, E, I]) descriptor() *descriptor {
	a := &descriptor{
		kind: d.kind, field: d.field, endpoint: d.endpoint, idField: d.idField, seedAlias: d.seedAlias, addedLater: d.addedLater, typed: d.typed, typeDoc: d.typeDoc, slot: -1,
		rules: d.rules(), idFrom: d.idFrom, normalizeEntry: d.normalizeEntry, checkEntries: d.checkEntries, mayBeKept: d.kept != nil, kept: d.kept,
		object: d.object, idOf: d.idOf,
		eachID:  func(c *Effective) iter.Seq[string] { return d.ids(*d.list(c)) },
		count:   func(c *Effective) int { return len(*d.list(c)) },
		missing: func(c *Effective) bool { return *d.list(c) == nil },
		entries: func(c *Effective) iter.Seq2[string, bool] {
			return func(yield func(string, bool) bool) {
				all := *d.list(c)
				for i := range all {
					if !yield(d.entryID(&all[i]), d.isEnabled(&all[i])) {
						return
					}
				}
			}
		},
		clear:       func(c *Effective) { *d.list(c) = []E{} },
		buildInputs: d.buildInputs,
		splitCluster: func(in any) (any, api.FluxCluster) {
			own, ok := in.(I)
			if !ok {
				return in, api.FluxCluster{}
			}
			block := *d.cluster(&own)
			*d.cluster(&own) = api.FluxCluster{}
			return own, block
		},
		changedEntries: d.changedEntries,
		sameEntry:      d.sameEntry,
		sameOverrides:  d.sameOverrides,
		enabledCount: func(c *Effective) int {
			n := 0
			for i := range *d.list(c) {
				if d.isEnabled(&(*d.list(c))[i]) {
					n++
				}
			}
			return n
		},
		appendInstallations: d.appendInstallations,
		sameDeployments:     d.sameDeployments,
		identical: func(a, b *Effective) bool {
			x, y := *d.list(a), *d.list(b)
			return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
		},
		enabled: func(c *Effective, id string) (bool, bool) {
			e := d.entry(c, id)
			return e != nil && d.isEnabled(e), e != nil
		},
		merger:       d.merger(),
		dependsOn:    func(*Document) []string { return nil },
		redeployed:   func(_, _ *Document) bool { return false },
		uninstalls:   func(_, _ any) bool { return false },
		invalidates:  func(_, _ *Document) bool { return false },
		overriddenOn: func(*api.Cluster, string) bool { return false },
	}
	d.setOptional(a)
	return a
}

// setOptional copies the optional fields.
func (d definition[D, E, I]) setOptional(a *descriptor) {
	if d.dependsOn != nil {
		a.dependsOn = func(doc *Document) []string { return d.dependsOn(doc.value.(*D)) }
	}
	if d.redeployed != nil {
		a.redeployed = func(was, is *Document) bool { return d.redeployed(was.value.(*D), is.value.(*D)) }
	}
	if d.uninstalls != nil {
		a.uninstalls = func(before, after any) bool { return d.uninstalls(before.(I), after.(I)) }
	}
	if o := d.overrides; o != nil {
		a.hasOverrides, a.sizeFromType, a.size, a.overriddenOn, a.recheck = true, o.sizeFromType, o.size, o.overriddenOn, o.recheck
		a.invalidates = func(was, is *Document) bool { return o.invalidates(was.value.(*D), is.value.(*D)) }
	}
}

// rules returns the rules that it shares with every kind of document.
func (d definition[D, E, I]) rules() kindRules {
	k := kindRules{
		name: d.kind, noun: d.noun, collection: d.kind.collection(d.field), normalize: d.normalize,
		empty: func() any {
			if d.make != nil {
				return d.make()
			}
			return new(D)
		},
		check: func(c *checker, doc *Document) { d.check(c, doc.value.(*D)) },
		view: func(doc *Document) any {
			model := *doc.value.(*D)
			d.setMetadata(&model, int64(doc.Revision), doc.CreatedAt, doc.UpdatedAt)
			return &model
		},
		bound: func(value any) int {
			if d.bound != nil {
				return d.bound(value.(*D))
			}
			in, err := d.input(&inputContext{}, value.(*D), new(E))
			if err != nil {
				return 0 // there is no answer then
			}
			return encodedSize(in)
		},
	}
	if d.complete != nil {
		k.complete = func(value any, _ json.RawMessage) error { return d.complete(value.(*D)) }
	}
	if d.changed != nil {
		k.changed = func(c *checker, was, is *Document) { d.changed(c, was.value.(*D), is.value.(*D)) }
	}
	return k
}

func (d definition[D, E, I]) ids(entries []E) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range entries {
			if !yield(d.entryID(&entries[i])) {
				return
			}
		}
	}
}

// buildInputs builds the inputs of a list; definitions are those of the entries, in the same order.
func (d definition[D, E, I]) buildInputs(on *inputContext, definitions []*Document, only map[string]bool) ([]input, error) {
	entries := *d.list(on.cluster)
	block := fluxCluster(on.cluster.cluster)
	out := make([]input, 0, len(entries))
	for i := range entries {
		id := d.entryID(&entries[i])
		if only != nil && !only[id] {
			continue
		}
		in, err := d.input(on, definitions[i].value.(*D), &entries[i])
		if err != nil {
			return nil, err
		}
		*d.cluster(&in) = block
		out = append(out, input{id, in})
	}
	return out, nil
}

// changedEntries compares a list of two versions of a cluster; see descriptor.
func (d definition[D, E, I]) changedEntries(was, is *Effective) (ids, toggled map[string]bool) {
	ids, toggled = map[string]bool{}, map[string]bool{}
	before, after := *d.list(was), *d.list(is)
	compare := func(id string, old, e *E) {
		if old == nil || !reflect.DeepEqual(old, e) || d.overrides != nil && d.overrides.differ(was.cluster, is.cluster, id) {
			ids[id] = true
		}
		if (old != nil && d.isEnabled(old)) != d.isEnabled(e) {
			toggled[id] = true
		}
	}
	same := 0 // the number of first entries with the same ids, usually all
	for ; same < min(len(before), len(after)) && d.entryID(&before[same]) == d.entryID(&after[same]); same++ {
		compare(d.entryID(&after[same]), &before[same], &after[same])
	}
	entries := make(map[string]*E, len(before)-same)
	for i := range before[same:] {
		e := &before[same+i]
		entries[d.entryID(e)] = e
	}
	for i := range after[same:] {
		e := &after[same+i]
		id := d.entryID(e)
		compare(id, entries[id], e)
		delete(entries, id)
	}
	for id, e := range entries {
		if ids[id] = true; d.isEnabled(e) {
			toggled[id] = true
		}
	}
	return ids, toggled
}

// entry returns the entry of a cluster for a definition; nil: it has none.
func (d definition[D, E, I]) entry(of *Effective, id string) *E {
	entries := *d.list(of)
	for i := range entries {
		if d.entryID(&entries[i]) == id {
			return &entries[i]
		}
	}
	return nil
}

// sameEntry and sameOverrides compare two clusters; see descriptor.
func (d definition[D, E, I]) sameEntry(a, b *Effective, id string) bool {
	return reflect.DeepEqual(d.entry(a, id), d.entry(b, id))
}

func (d definition[D, E, I]) sameOverrides(a, b *Effective, id string) bool {
	return a == b || d.overrides == nil || !d.overrides.differ(a.cluster, b.cluster, id)
}

func (d definition[D, E, I]) isEnabled(entry *E) bool { return d.enabled == nil || d.enabled(entry) }

// sameDeployments: the same order, and the same deployments as far as two clusters of one environment determine them.
func (d definition[D, E, I]) sameDeployments(a, b *Effective) bool {
	as, bs := *d.list(a), *d.list(b)
	if len(as) != len(bs) {
		return false
	}
	empty := new(D)
	for i := range as {
		x, y := &as[i], &bs[i]
		if d.same != nil && !d.same(x, y) {
			return false
		}
		if d.entryID(x) != d.entryID(y) || d.isEnabled(x) != d.isEnabled(y) || d.deployment != nil && d.deployment(empty, x, "") != d.deployment(empty, y, "") {
			return false
		}
	}
	return true
}

// appendInstallations appends the enabled entries of a cluster with their deployments.
func (d definition[D, E, I]) appendInstallations(out []installation, s *State, cluster *Effective) []installation {
	entries := *d.list(cluster)
	for i := range entries {
		e := &entries[i]
		if !d.isEnabled(e) {
			continue
		}
		one := installation{Kind: d.kind, ID: d.entryID(e)}
		if d.deployment != nil {
			doc, ok := s.definition(cluster, d.kind, one.ID)
			if !ok {
				continue
			}
			one.deployment = d.deployment(doc.value.(*D), e, cluster.cluster.Environment)
		}
		out = append(out, one)
	}
	return out
}

// merger returns the type-erased merge rules of the definition.
func (d definition[D, E, I]) merger() listMerger {
	f := d.merge
	f.ID = d.entryID
	if f.get == nil {
		f.get = func(e *Effective) []E { return *d.list(e) }
		f.set = func(e *Effective, entries []E) { *d.list(e) = entries }
	}
	return f.forKind(d.kind)
}
