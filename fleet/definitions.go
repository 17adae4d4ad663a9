package fleet

import (
	"encoding/json"
	"iter"
	"reflect"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// definition is a kind of document that can be assigned to clusters: D is its model, E the model of an entry in a cluster's
// list, I the model of the input that a cluster polls. Its descriptor has the rules that need none of them. Code for all kinds
// loops over the descriptors; see kinds.go.
type definition[D, E, I any] struct {
	descriptor

	list    func(of *Effective) []E
	setList func(of *Effective, entries []E) // nil for resource types
	entryID func(entry *E) string
	// setMetadata sets the fields that the API shows besides the content of a document.
	setMetadata func(model *D, revision int64, created, updated time.Time)
	// input builds the input that a cluster polls, without the cluster block, which cluster returns a pointer to. Every
	// field must always be present, since a template fails on a missing one, and no field may be volatile.
	input   func(on *inputContext, model *D, entry *E) (I, error)
	cluster func(in *I) *api.FluxCluster

	// The following fields are optional.

	merge entryMerge[E] // of an entry of layers and of the cluster
	// isEnabled: the cluster shall have it, rather than remove it.
	isEnabled func(entry *E) bool
	// deployment identifies an installed definition on a cluster of an environment; if it changes, Flux uninstalls the old
	// one.
	deployment func(model *D, entry *E, environment string) deployment
	same       func(a, b *E) bool // two entries for one definition have the same deployment, apart from the fields in deployment
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

// describe returns the descriptor of the definition, with its optional rules.
func (d definition[D, E, I]) describe() *descriptor {
	a := d.descriptor
	a.slot, a.rules.name, a.rules.collection = -1, d.kind, d.kind.collection(d.field)
	if a.rules.empty == nil {
		a.rules.empty = func() any { return new(D) }
	}
	a.rules.view = func(doc *Document) any {
		model := *doc.value.(*D)
		d.setMetadata(&model, int64(doc.Revision), doc.CreatedAt, doc.UpdatedAt)
		return &model
	}
	if a.rules.bound == nil {
		a.rules.bound = func(value any) int {
			in, err := d.input(&inputContext{}, value.(*D), new(E))
			if err != nil {
				return 0 // there is no answer then
			}
			return encodedSize(in)
		}
	}
	if a.dependsOn == nil {
		a.dependsOn = func(*Document) []string { return nil }
	}
	if a.redeployed == nil {
		a.redeployed = func(_, _ *Document) bool { return false }
	}
	d.merge.ID = d.entryID
	a.entryLists = &d
	return &a
}

func (d *definition[D, E, I]) count(of *Effective) int { return len(d.list(of)) }

func (d *definition[D, E, I]) entries(of *Effective) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		all := d.list(of)
		for i := range all {
			if !yield(d.entryID(&all[i]), d.enables(&all[i])) {
				return
			}
		}
	}
}

func (d *definition[D, E, I]) enabled(of *Effective, id string) (enabled, present bool) {
	e := d.entry(of, id)
	return e != nil && d.enables(e), e != nil
}

func (d *definition[D, E, I]) complete(of *Effective) bool {
	if d.list(of) != nil {
		return true
	}
	d.setList(of, []E{})
	return d.addedLater
}

func (d *definition[D, E, I]) splitCluster(in any) (any, api.FluxCluster) {
	own, ok := in.(I)
	if !ok {
		return in, api.FluxCluster{}
	}
	block := *d.cluster(&own)
	*d.cluster(&own) = api.FluxCluster{}
	return own, block
}

func (d *definition[D, E, I]) identical(a, b *Effective) bool {
	x, y := d.list(a), d.list(b)
	return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
}

func (d *definition[D, E, I]) readLayer(list json.RawMessage) (any, error) {
	return overlay.Read[E](list)
}

func (d *definition[D, E, I]) layerIDs(entries any) []string {
	of := entries.([]overlay.Entry[E])
	ids := make([]string, len(of))
	for i := range of {
		ids[i] = d.entryID(&of[i].Value)
	}
	return ids
}

func (d *definition[D, E, I]) mergeLayers(layers []*layer) any {
	return d.merge.merge(layers, func(l *layer) []overlay.Entry[E] { return l.lists[d.kind].([]overlay.Entry[E]) })
}

func (d *definition[D, E, I]) applyLayers(merged any, own, e *Effective) {
	d.setList(e, d.merge.Over(merged.(*overlay.Merged[E]), d.list(own), d.excludedIDs(own)))
}

func (d *definition[D, E, I]) copyList(from, e *Effective) { d.setList(e, d.list(from)) }

// buildInputs builds the inputs of a list; definitions are those of the entries, in the same order.
func (d *definition[D, E, I]) buildInputs(on *inputContext, definitions []*Document, only map[string]bool) ([]input, error) {
	entries := d.list(on.cluster)
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

// changedEntries compares a list of two versions of a cluster; see entryLists.
func (d *definition[D, E, I]) changedEntries(was, is *Effective) (ids, toggled map[string]bool) {
	ids, toggled = map[string]bool{}, map[string]bool{}
	before, after := d.list(was), d.list(is)
	compare := func(id string, old, e *E) {
		if old == nil || !reflect.DeepEqual(old, e) || d.overrides != nil && d.overrides.differ(was.cluster, is.cluster, id) {
			ids[id] = true
		}
		if (old != nil && d.enables(old)) != d.enables(e) {
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
		if ids[id] = true; d.enables(e) {
			toggled[id] = true
		}
	}
	return ids, toggled
}

// entry returns the entry of a cluster for a definition; nil: it has none.
func (d *definition[D, E, I]) entry(of *Effective, id string) *E {
	entries := d.list(of)
	for i := range entries {
		if d.entryID(&entries[i]) == id {
			return &entries[i]
		}
	}
	return nil
}

func (d *definition[D, E, I]) sameEntry(a, b *Effective, id string) bool {
	return reflect.DeepEqual(d.entry(a, id), d.entry(b, id))
}

func (d *definition[D, E, I]) enables(entry *E) bool { return d.isEnabled == nil || d.isEnabled(entry) }

// sameDeployments: the same order, and the same deployments as far as two clusters of one environment determine them.
func (d *definition[D, E, I]) sameDeployments(a, b *Effective) bool {
	as, bs := d.list(a), d.list(b)
	if len(as) != len(bs) {
		return false
	}
	empty := new(D)
	for i := range as {
		x, y := &as[i], &bs[i]
		if d.same != nil && !d.same(x, y) {
			return false
		}
		if d.entryID(x) != d.entryID(y) || d.enables(x) != d.enables(y) || d.deployment != nil && d.deployment(empty, x, "") != d.deployment(empty, y, "") {
			return false
		}
	}
	return true
}

// appendInstallations appends the enabled entries of a cluster with their deployments.
func (d *definition[D, E, I]) appendInstallations(out []installation, s *State, cluster *Effective) []installation {
	entries := d.list(cluster)
	for i := range entries {
		e := &entries[i]
		if !d.enables(e) {
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
