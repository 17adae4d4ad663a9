package fleet

import (
	"iter"
	"reflect"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// definition is a kind of document that clusters are assigned: D is its model, E that of an entry of a cluster's list, I
// that of the input which a cluster polls for it. One value of this type is all the fleet knows about a kind, and
// everything that is done for all kinds loops over the values that there are; see kinds.go.
type definition[D, E, I any] struct {
	kind     Kind
	noun     string // as messages call it
	field    string // the collection: in paths, in seed files, and where a cluster has its list
	endpoint string // the last part of the path that is polled
	idField  string // the field of a batch's operation that names one; its verbs end like it: assign_namespace

	// typed: it is made by a resource type, of that document, which is nil where only documents by themselves are read. What
	// clusters have of it is in their resources, under the type's id, or is not there.
	typed   bool
	typeDoc *Document

	// late: there may be clusters that were stored before this was a kind. They have none of it. For every other list, one
	// that is missing is a document that cannot be read: an empty list in its place would uninstall what it should name.
	addedLater bool

	idFrom  func(op *api.Operation) string
	list    func(of *Effective) *[]E
	entryID func(entry *E) string
	// stamp fills in what the API shows of a document beyond its content.
	setMetadata func(model *D, revision int64, created, updated time.Time)
	// normalize fills in defaults and brings values into the one form that is stored. It may meet values of any
	// type, and leaves those that are wrong for check and the decoder to refuse.
	normalize func(obj map[string]any)
	// check reports what is wrong with a document in a State, and advice about it.
	check func(c *checker, model *D)
	// input is what a cluster polls, but for the block about the cluster itself, which cluster finds in it. Every field must
	// always be there, since a template fails on a missing one, and nothing volatile may be in it.
	input   func(on *inputContext, model *D, entry *E) (I, error)
	cluster func(in *I) *api.FluxCluster

	// What follows may be left out.

	seedAlias string         // another name of the list in seed files
	make      func() *D      // a model to decode into
	complete  func(*D) error // derives what is kept beside what was decoded
	// bound is what an input adds at most to an answer where a cluster says nothing of its own: its size, if left out.
	bound func(model *D) int
	// checkOn reports what is wrong with what a cluster says about its entries, beyond that they are there once.
	checkEntries   func(c *checker, on *clusterCheck)
	normalizeEntry func(entry map[string]any)
	merge          entryMerge[E] // of what layers and the cluster say about one entry
	overrides      *overrideRules[D]
	// dependsOn are the definitions of the same kind that one names in depends_on.
	dependsOn func(model *D) []string
	// changed warns of what a change of a definition does.
	changed func(c *checker, was, is *D)

	// enabled: the cluster is told to have it, rather than to have it removed.
	enabled func(entry *E) bool
	// deployment is what an installed one is known by on a cluster of an environment; when it changes, Flux uninstalls what
	// is there.
	deployment func(model *D, entry *E, environment string) deployment
	same       func(a, b *E) bool         // two entries for one definition deploy it alike, beside what deployment says
	redeployed func(was, is *D) bool      // the deployment has changed, on whatever cluster
	uninstalls func(before, after I) bool // the input stays, and yet Flux removes what it has installed for it
	// keeps: Flux leaves it in place where it is taken off a cluster.
	kept func(d *Document, now time.Time) bool
}

// overrides are what clusters say about a definition besides having it.
type overrideRules[D any] struct {
	size         func(cluster *api.Cluster) int             // at most, encoded, in the cluster's answer
	sizeFromType bool                                       // the size depends on a resource type, so that no document can keep it
	differ       func(was, is *api.Cluster, id string) bool // in what they say about one
	overriddenOn func(cluster *api.Cluster, id string) bool // the cluster says something about it
	invalidates  func(was, is *D) bool                      // a change may make it wrong
	recheck      func(c *checker, on *Effective, id string) // then
}

// input is one input with its id.
type input struct {
	id    string
	value any
}

// site is the cluster that inputs are made for.
type inputContext struct {
	state   *State
	cluster *Effective
	types   map[string]string // see components
}

// components are the components that are enabled on the cluster, with their types.
func (s *inputContext) components() map[string]string {
	if s.types != nil || s.cluster == nil {
		return s.types
	}
	s.types = map[string]string{}
	for _, e := range s.cluster.cluster.PlatformComponents {
		if doc, ok := s.state.Get(KindComponent, e.ID); ok && e.Enabled {
			s.types[e.ID] = doc.Component().Type
		}
	}
	return s.types
}

// assigned makes the definition one of a kindSet's.
func (d definition[D, E, I]) descriptor() *descriptor {
	a := &descriptor{
		kind: d.kind, field: d.field, endpoint: d.endpoint, idField: d.idField, seedAlias: d.seedAlias, addedLater: d.addedLater, typed: d.typed, typeDoc: d.typeDoc, slot: -1,
		rules: d.rules(), idFrom: d.idFrom, normalizeEntry: d.normalizeEntry, checkEntries: d.checkEntries, mayBeKept: d.kept != nil, kept: d.kept,
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
			for i := range *d.list(c) {
				if e := &(*d.list(c))[i]; d.entryID(e) == id {
					return d.isEnabled(e), true
				}
			}
			return false, false
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

// options takes over what may be left out.
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

// rules are those that it has like every kind of document.
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
		k.complete = func(value any) error { return d.complete(value.(*D)) }
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

func (d definition[D, E, I]) changedEntries(was, is *Effective) (ids, toggled map[string]bool) {
	ids, toggled = map[string]bool{}, map[string]bool{}
	before := *d.list(was)
	entries := make(map[string]*E, len(before))
	for i := range before {
		entries[d.entryID(&before[i])] = &before[i]
	}
	after := *d.list(is)
	for i := range after {
		e, id := &after[i], d.entryID(&after[i])
		old := entries[id]
		delete(entries, id)
		if old == nil || !reflect.DeepEqual(*old, *e) || d.overrides != nil && d.overrides.differ(was.cluster, is.cluster, id) {
			ids[id] = true
		}
		if (old != nil && d.isEnabled(old)) != d.isEnabled(e) {
			toggled[id] = true
		}
	}
	for id, e := range entries {
		if ids[id] = true; d.isEnabled(e) {
			toggled[id] = true
		}
	}
	return ids, toggled
}

func (d definition[D, E, I]) isEnabled(entry *E) bool { return d.enabled == nil || d.enabled(entry) }

// alike: in the same order, and deployed in the same way as far as two clusters of one environment say.
func (d definition[D, E, I]) sameDeployments(a, b *Effective) bool {
	as, bs := *d.list(a), *d.list(b)
	if len(as) != len(bs) {
		return false
	}
	anyone := new(D)
	for i := range as {
		x, y := &as[i], &bs[i]
		if d.same != nil && !d.same(x, y) {
			return false
		}
		if d.entryID(x) != d.entryID(y) || d.isEnabled(x) != d.isEnabled(y) || d.deployment != nil && d.deployment(anyone, x, "") != d.deployment(anyone, y, "") {
			return false
		}
	}
	return true
}

func (d definition[D, E, I]) appendInstallations(out []installation, s *State, cluster *Effective) []installation {
	entries := *d.list(cluster)
	for i := range entries {
		e := &entries[i]
		if !d.isEnabled(e) {
			continue
		}
		one := installation{Kind: d.kind, ID: d.entryID(e)}
		if d.deployment != nil {
			doc, ok := s.Get(d.kind, one.ID)
			if !ok {
				continue
			}
			one.deployment = d.deployment(doc.value.(*D), e, cluster.cluster.Environment)
		}
		out = append(out, one)
	}
	return out
}

// subject is a cluster that is checked.
type clusterCheck struct {
	own       *api.Cluster // what its document says; nil: that has not changed, and only what the cluster has is checked
	effective *Effective
}
