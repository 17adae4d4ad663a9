package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/diff"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// effects computes the effects of a commit on the polls of clusters. One change usually has the same effect on thousands of
// clusters, so each difference between two inputs is computed once for all clusters whose inputs differ only in the cluster
// block. Usually that is known before the inputs are built: they are built of the same definitions and settings.
type effects struct {
	base, next *State
	objects    *objectChanges
	removed    removals
	now        time.Time
	known      map[docKey][]*difference // by the definition of the input
	computed   map[docKey][]computed    // the same, with clusters that have them
	size       int                      // total bytes of the differences
	alike      map[groupKey]effect      // of clusters without settings of their own, by their chains before and after
	byKey      map[string]effect        // by their keys
}

// newEffects returns the effects of a commit between two States.
func newEffects(base, next *State, objects *objectChanges) *effects {
	return &effects{base: base, next: next, objects: objects, known: map[docKey][]*difference{}, computed: map[docKey][]computed{}, alike: map[groupKey]effect{}, byKey: map[string]effect{}}
}

// effects returns the effects of the change.
func (r Result) effects() *effects {
	e := newEffects(r.base, r.State, r.objects)
	e.removed, e.now = r.removals, r.Commit.At
	return e
}

// maxKnown is the number of differences, and of clusters, that are cached per input: with more of them, searching would cost
// more than computing.
const maxKnown = 16

// maxPlanBytes is the maximum size of a plan: a larger one is unreadable, and would exhaust the memory of the process.
const maxPlanBytes = 64 << 20

// difference is the change of one input.
type difference struct {
	before, after any // the fields that differ, without the cluster block; before is nil for a new input
	added         json.RawMessage
	change        api.InputChange
	text          string            // the change as text; empty: no change
	hash          [sha256.Size]byte // of the text
}

// computed is a cluster, before and after, for which a difference was computed.
type computed struct {
	was, is *Effective // was is nil if the inputs before are not known
	*difference
}

// effect is the effect on the polls of one cluster.
type effect struct {
	api.EffectGroup
	key string // equal for clusters with the same effect
}

// listEffect is the effect on the polls of one list of a cluster.
type listEffect struct {
	differences []*difference
	removed     []string
	reordered   bool
}

// on returns the effect on one cluster, cached for clusters with equal configurations.
func (e *effects) on(a affected) (effect, error) {
	none := effect{EffectGroup: api.EffectGroup{Clusters: []string{}, Effect: map[string]api.EndpointEffect{}}}
	if a.after == nil {
		if none.Forgotten = a.before != nil && !a.before.Deleted(); none.Forgotten {
			none.key = "forgotten"
		}
		return none, nil
	}
	if a.before != nil && len(a.kept) == 0 && e.next.sameAnswers(e.base, a.before, a.after) {
		return none, nil
	}
	like, shared := a.groupKey()
	if shared = shared && fluxCluster(a.before.cluster) == fluxCluster(a.after.cluster) && !e.objects.ofCluster(a.before, a.after); shared {
		if known, present := e.alike[like]; present {
			return known, nil
		}
	}
	out, err := e.onLists(a)
	if err == nil && shared {
		e.alike[like] = out
	}
	return out, err
}

// onLists returns the effect on all lists of a cluster, cached for clusters with the same effect.
func (e *effects) onLists(a affected) (effect, error) {
	changed := map[string]listEffect{}
	var key []byte
	for _, list := range e.next.kinds.listsWithRemoved(e.base.kinds) {
		one, err := e.list(a, list)
		if err != nil {
			return effect{}, err
		}
		if part := one.key(); len(part) > 0 {
			changed[list.endpoint] = one
			key = append(fmt.Appendf(key, "%q %d ", list.endpoint, len(part)), part...)
		}
	}
	if known, present := e.byKey[string(key)]; present {
		return known, nil
	}
	out := effect{key: string(key), EffectGroup: api.EffectGroup{Clusters: []string{}, Effect: make(map[string]api.EndpointEffect, len(changed))}}
	for endpoint, one := range changed {
		out.Effect[endpoint] = one.view()
	}
	e.byKey[out.key] = out
	return out, nil
}

// key identifies the effect; empty: there is none.
func (l listEffect) key() (key []byte) {
	for _, d := range l.differences {
		if d.text != "" {
			key = append(key, d.hash[:]...)
		}
	}
	for _, id := range l.removed {
		key = fmt.Appendf(key, "-%q", id)
	}
	if l.reordered {
		key = append(key, "reordered"...)
	}
	return key
}

// view returns the effect as the API shows it.
func (l listEffect) view() api.EndpointEffect {
	out := api.EndpointEffect{Added: []json.RawMessage{}, Changed: []api.InputChange{}, Removed: append([]string{}, l.removed...), Reordered: l.reordered}
	for _, d := range l.differences {
		switch {
		case d.added != nil:
			out.Added = append(out.Added, d.added)
		case d.text != "":
			out.Changed = append(out.Changed, d.change)
		}
	}
	return out
}

// list compares the answers of one list of a cluster before and after.
func (e *effects) list(a affected, list *descriptor) (listEffect, error) {
	look := a.changedIDs(e.next, list)
	if look != nil && len(look) == 0 && a.before == a.after && len(a.kept) == 0 {
		return listEffect{}, nil
	}
	out, known := e.knownEffect(a, list, look)
	if !known {
		var err error
		if out, err = e.computedEffect(a, list, look); err != nil {
			return out, err
		}
	}
	out.removed = append(e.removed.hiddenRemovals(a, list.kind, e.base), out.removed...)
	return out, nil
}

// computedEffect compares the inputs of a list that can differ.
func (e *effects) computedEffect(a affected, list *descriptor, look map[string]bool) (listEffect, error) {
	out, was := listEffect{}, a.before
	before, err := inputsByID(e.base, was, list, look)
	if broken, ok := errors.AsType[*Error](err); ok && broken.Code == CodeUnresolved {
		before, was, look, err = inputList{}, nil, nil, nil // it could not be answered before: every input is new
	}
	if err != nil {
		return out, err
	}
	after, err := inputsByID(e.next, a.after, list, look)
	if err != nil {
		return out, err
	}
	for _, in := range after.list {
		d, err := e.difference(was, a.after, list, input{in.id, before.byID[in.id]}, in)
		if err != nil {
			return out, err
		}
		out.differences = append(out.differences, d)
	}
	for _, in := range before.list {
		if _, stays := after.byID[in.id]; !stays {
			out.removed = append(out.removed, in.id)
		}
	}
	out.reordered = was != nil && was != a.after && reordered(list.ids(was), list.ids(a.after))
	return out, nil
}

// knownEffect is computedEffect without building the inputs. It requires that the differences are known from other clusters
// whose inputs are built of the same documents and settings; patches may differ if they do not change.
func (e *effects) knownEffect(a affected, list *descriptor, look map[string]bool) (out listEffect, known bool) {
	before := e.base.kinds.byKind[list.kind]
	if look == nil || before == nil || e.next.kinds.byKind[list.kind] != list || list.typed && e.objects.ofCluster(a.before, a.after) {
		return out, false
	}
	inputs := 0
	for id := range list.entries(a.after) {
		if !look[id] {
			continue
		}
		inputs++
		all, unchanged := e.computed[docKey{list.kind, id}], e.patchesUnchanged(list, id, a.before, a.after)
		at := slices.IndexFunc(all, func(c computed) bool {
			comparePatches := !unchanged || c.was == nil || !list.sameOverrides(c.was, c.is, id)
			return c.was != nil && c.was.cluster.Environment == a.before.cluster.Environment && // whether objects are removed may depend on it
				e.base.sameInput(before, id, c.was, a.before, comparePatches) && e.next.sameInput(list, id, c.is, a.after, comparePatches)
		})
		if at < 0 {
			return out, false
		}
		out.differences = append(out.differences, all[at].difference)
	}
	if inputs < len(look) || !e.next.resolves(a.after, list) {
		return out, false // inputs are removed, or there is no answer
	}
	out.reordered = a.before != a.after && reordered(list.ids(a.before), list.ids(a.after))
	return out, true
}

// patchesUnchanged reports whether an input that a cluster had before has the same patches afterwards: those of its definition, and those of
// the cluster. Clusters with different patches then have the same difference.
func (e *effects) patchesUnchanged(list *descriptor, id string, before, after *Effective) bool {
	was, ok := e.base.definition(before, list.kind, id)
	is, stays := e.next.definition(after, list.kind, id)
	if !ok || !stays || list.overrides != nil && list.overrides.invalidates(was, is) {
		return false
	}
	_, had := list.enabled(before, id) // the difference of a new input has its patches
	return had && list.sameOverrides(before, after, id)
}

// difference compares an input before, with a nil value for a new one, and after. was and is are the cluster before and after.
func (e *effects) difference(was, is *Effective, list *descriptor, before, after input) (*difference, error) {
	key := docKey{list.kind, after.id}
	own, block := list.splitCluster(before.value)
	newOwn, newBlock := list.splitCluster(after.value)
	own, newOwn = changedFields(own, newOwn)
	shared := before.value == nil || block == newBlock
	var d *difference
	if shared {
		at := slices.IndexFunc(e.known[key], func(d *difference) bool {
			// Whether objects are removed may depend on the environment, which is part of the cluster block.
			return reflect.DeepEqual(d.before, own) && reflect.DeepEqual(d.after, newOwn) &&
				(before.value == nil || e.uninstalls(was, list, key.id, before.value, after.value) == d.change.Removal)
		})
		if at >= 0 {
			d = e.known[key][at]
		}
	}
	if d == nil {
		var err error
		if d, err = e.compare(was, list, key.id, before.value, after.value); err != nil {
			return nil, err
		}
		if e.size += len(d.text); e.size > maxPlanBytes {
			return nil, errorf(CodeLimitExceeded, "the effect is larger than %d MiB: change fewer clusters, or less on each, at a time", maxPlanBytes>>20)
		}
		d.before, d.after, d.hash = own, newOwn, sha256.Sum256([]byte(d.text))
		if shared && len(e.known[key]) < maxKnown {
			e.known[key] = append(e.known[key], d)
		}
	}
	if shared && len(e.computed[key]) < maxKnown {
		e.computed[key] = append(e.computed[key], computed{was, is, d})
	}
	return d, nil
}

// changedFields returns copies of two versions of an input without the fields that are equal in both. The difference does not depend on
// them, so clusters with other values of these fields have the same one.
func changedFields(before, after any) (was, is any) {
	x, y := reflect.ValueOf(before), reflect.ValueOf(after)
	if before == nil || x.Type() != y.Type() || x.Kind() != reflect.Struct {
		return before, after
	}
	a, b := reflect.New(x.Type()).Elem(), reflect.New(y.Type()).Elem()
	a.Set(x)
	b.Set(y)
	for i := range a.NumField() {
		if !a.Field(i).CanSet() { // the input of a resource type
			return before, after
		}
		if reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			a.Field(i).SetZero()
			b.Field(i).SetZero()
		}
	}
	return a.Interface(), b.Interface()
}

// uninstalls reports whether Flux removes objects that it installed for an input that stays.
func (e *effects) uninstalls(on *Effective, list *descriptor, id string, before, after any) bool {
	if !list.typed {
		return list.uninstalls != nil && list.uninstalls(before, after)
	}
	base := e.base.kinds.byKind[list.kind]
	doc, ok := e.base.definition(on, list.kind, id)
	was, isInput := before.(resourceInput)
	if base == nil || !ok || !isInput || base.kept(doc, e.now) {
		return false
	}
	is := after.(resourceInput)
	return e.objects.removes(base.resourceType(), list.resourceType(), &was, &is)
}

// withoutValuesJSON returns an input without values_json: plans show the same values as values.
func withoutValuesJSON(in any) any {
	if component, ok := in.(api.FluxPlatformComponent); ok {
		component.ValuesJSON = ""
		return component
	}
	return in
}

// compare computes the difference between two versions of an input; before is nil for a new one.
func (e *effects) compare(on *Effective, list *descriptor, id string, before, after any) (*difference, error) {
	d := &difference{}
	if before == nil {
		obj, err := unstructured.FromValue(withoutValuesJSON(after))
		if err != nil {
			return nil, err
		}
		delete(obj, "cluster")
		d.added, err = jsontext.Canonical(obj)
		d.text = "+" + string(d.added)
		return d, err
	}
	fields, err := diff.Fields(withoutValuesJSON(before), withoutValuesJSON(after))
	removal := e.uninstalls(on, list, id, before, after)
	if err != nil || len(fields) == 0 && !removal {
		return d, err
	}
	if d.change = (api.InputChange{ID: id, Fields: fields, Removal: removal}); fields == nil {
		d.change.Fields = []api.FieldChange{}
	}
	text, err := jsontext.Canonical(d.change)
	d.text = string(text)
	return d, err
}

// changedIDs returns the ids of inputs that can differ; nil means any.
func (a affected) changedIDs(next *State, list *descriptor) map[string]bool {
	if a.before == nil || a.before.Deleted() != a.after.Deleted() {
		return nil
	}
	if fluxCluster(a.before.cluster) != fluxCluster(a.after.cluster) {
		return nil
	}
	look := map[string]bool{}
	toggled := map[string]bool{}
	if a.before != a.after {
		look, toggled = list.changedEntries(a.before, a.after)
	}
	changed := a.changed[list.kind]
	if len(changed) == 0 && len(toggled) == 0 {
		return look
	}
	for id := range list.entries(a.after) {
		doc, ok := next.definition(a.after, list.kind, id)
		if changed[id] || ok && slices.ContainsFunc(list.dependsOn(doc), func(dep string) bool { return changed[dep] || toggled[dep] }) {
			look[id] = true
		}
	}
	return look
}

// hiddenRemovals returns the ids of a list's inputs that a cluster loses and that the State before the change does not
// contain: installations under a name that was not answered, or retained ones of a missing resource type.
func (l removals) hiddenRemovals(a affected, kind Kind, base *State) []string {
	if a.before != nil && (base.kinds.byKind[kind] != nil || len(a.kept) == 0) {
		return nil
	}
	var ids []string
	for _, i := range l.byName[a.name] {
		if i.Kind == kind {
			ids = append(ids, i.ID)
		}
	}
	return ids
}
