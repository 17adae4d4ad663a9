package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/diff"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// effects computes the effects of a commit on the polls of clusters. One change usually has the same effect on thousands of
// clusters, so the difference between two inputs is computed once for all clusters whose inputs differ only in the cluster
// block.
type effects struct {
	base, next *State
	removed    removals
	now        time.Time
	known      map[Kind]map[string][]*difference // by the id of the input
	size       int                               // total bytes of the differences
	alike      map[groupKey]effect               // of clusters without settings of their own, by their chains before and after
}

// maxKnown is the number of differences that are cached per input: with more of them, searching would cost more than
// computing.
const maxKnown = 16

// maxPlanBytes is the maximum size of a plan: a larger one is unreadable, and would exhaust the memory of the process.
const maxPlanBytes = 64 << 20

// difference is the change of one input.
type difference struct {
	before, after any // without the cluster block; before is nil for a new input
	added         json.RawMessage
	change        api.InputChange
	text          string // the change as text: clusters with equal texts form a group
}

// effect is the effect on the polls of one cluster.
type effect struct {
	api.EffectGroup
	key string // equal for clusters with the same effect
}

// on returns the effect on one cluster, cached for clusters with equal configurations.
func (e *effects) on(a affected) (effect, error) {
	out := effect{EffectGroup: api.EffectGroup{Clusters: []string{}, Effect: map[string]api.EndpointEffect{}}}
	if a.after == nil {
		if out.Forgotten = a.before != nil && !a.before.Deleted(); out.Forgotten {
			out.key = "forgotten"
		}
		return out, nil
	}
	if a.before != nil && len(a.kept) == 0 && e.next.sameAnswers(e.base, a.before, a.after) {
		return out, nil
	}
	like, shared := a.groupKey()
	if shared = shared && fluxCluster(a.before.cluster) == fluxCluster(a.after.cluster); shared {
		if known, present := e.alike[like]; present {
			return known, nil
		}
	}
	key := sha256.New() // the texts may be long, and different on each of 10,000 clusters
	for _, list := range e.next.kinds.listsWithRemoved(e.base.kinds) {
		endpoint, text, err := e.endpoint(a, list)
		if err != nil {
			return out, err
		}
		if text != "" {
			out.Effect[list.endpoint] = endpoint
			fmt.Fprintf(key, "%s %d %s", list.endpoint, len(text), text)
		}
	}
	if len(out.Effect) > 0 {
		out.key = string(key.Sum(nil))
	}
	if shared {
		if e.alike == nil {
			e.alike = map[groupKey]effect{}
		}
		e.alike[like] = out
	}
	return out, nil
}

// endpoint compares the answers of one endpoint of a cluster before and after. The text identifies the effect; empty: no
// change.
func (e *effects) endpoint(a affected, list *descriptor) (api.EndpointEffect, string, error) {
	out := api.EndpointEffect{Added: []json.RawMessage{}, Changed: []api.InputChange{}, Removed: []string{}}
	look := a.changedIDs(e.next, list)
	if look != nil && len(look) == 0 && a.before == a.after && len(a.kept) == 0 {
		return out, "", nil
	}
	before, err := inputsByID(e.base, a.before, list, look)
	if broken, ok := errors.AsType[*Error](err); ok && broken.Code == CodeUnresolved {
		before, look, err = inputList{}, nil, nil // it could not be answered before: every input is new
	}
	if err != nil {
		return out, "", err
	}
	after, err := inputsByID(e.next, a.after, list, look)
	if err != nil {
		return out, "", err
	}
	var text strings.Builder
	for _, id := range e.removed.hiddenRemovals(a, list.kind, e.base) {
		out.Removed = append(out.Removed, id)
		fmt.Fprintf(&text, "-%q", id)
	}
	for _, in := range after.list {
		d, err := e.difference(a.before, list, in.id, before.byID[in.id], in.value)
		if err != nil {
			return out, "", err
		}
		switch {
		case d.added != nil:
			out.Added = append(out.Added, d.added)
		case len(d.change.Fields) > 0 || d.change.Removal:
			out.Changed = append(out.Changed, d.change)
		}
		text.WriteString(d.text)
	}
	for _, in := range before.list {
		if _, stays := after.byID[in.id]; !stays {
			out.Removed = append(out.Removed, in.id)
			fmt.Fprintf(&text, "-%q", in.id)
		}
	}
	if a.before != nil && a.before != a.after && before.byID != nil {
		if out.Reordered = reordered(list.ids(a.before), list.ids(a.after)); out.Reordered {
			text.WriteString("reordered")
		}
	}
	return out, text.String(), nil
}

// difference compares an input before, nil for a new one, and after. on is the cluster before.
func (e *effects) difference(on *Effective, list *descriptor, id string, before, after any) (*difference, error) {
	was, wasOn := list.splitCluster(before)
	is, isOn := list.splitCluster(after)
	shared := before == nil || wasOn == isOn
	if shared {
		for _, d := range e.known[list.kind][id] {
			// Whether objects are removed may depend on the environment, which is part of the cluster block.
			if reflect.DeepEqual(d.before, was) && reflect.DeepEqual(d.after, is) && (before == nil || e.uninstalls(on, list, id, before, after) == d.change.Removal) {
				return d, nil
			}
		}
	}
	d, err := e.compare(on, list, id, before, after)
	if err != nil {
		return nil, err
	}
	if e.size += len(d.text); e.size > maxPlanBytes {
		return nil, errorf(CodeLimitExceeded, "the effect is larger than %d MiB: change fewer clusters, or less on each, at a time", maxPlanBytes>>20)
	}
	d.before, d.after = was, is
	if e.known == nil {
		e.known = map[Kind]map[string][]*difference{}
	}
	if e.known[list.kind] == nil {
		e.known[list.kind] = map[string][]*difference{}
	}
	if shared && len(e.known[list.kind][id]) < maxKnown {
		e.known[list.kind][id] = append(e.known[list.kind][id], d)
	}
	return d, nil
}

// uninstalls reports whether Flux removes objects that it installed for an input that stays.
func (e *effects) uninstalls(on *Effective, list *descriptor, id string, before, after any) bool {
	if !list.typed {
		return list.uninstalls(before, after)
	}
	base := e.base.kinds.byKind[list.kind]
	doc, ok := e.base.definition(on, list.kind, id)
	was, isInput := before.(resourceInput)
	if base == nil || !ok || !isInput || base.kept(doc, e.now) {
		return false
	}
	return renamesObjects(namingOf(base), namingOf(list), was, after.(resourceInput))
}

// compare computes the difference between two versions of an input; before is nil for a new one.
func (e *effects) compare(on *Effective, list *descriptor, id string, before, after any) (*difference, error) {
	d := &difference{}
	if before == nil {
		obj, err := unstructured.FromValue(after)
		if err != nil {
			return nil, err
		}
		delete(obj, "cluster")
		d.added, err = jsontext.Canonical(obj)
		d.text = "+" + string(d.added)
		return d, err
	}
	fields, err := diff.Fields(before, after)
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
	for id := range list.eachID(a.after) {
		doc, ok := next.definition(a.after, list.kind, id)
		if changed[id] || ok && slices.ContainsFunc(list.dependsOn(doc), func(dep string) bool { return changed[dep] || toggled[dep] }) {
			look[id] = true
		}
	}
	return look
}

type inputList struct {
	list []input
	byID map[string]any
}

// inputsByID returns the inputs of a cluster's list in a State, or those in look only.
func inputsByID(s *State, d *Effective, list *descriptor, look map[string]bool) (inputList, error) {
	out := inputList{byID: map[string]any{}}
	// The cluster's list as that State defines it.
	if list = s.kinds.byKind[list.kind]; d == nil || list == nil {
		return out, nil
	}
	var err error
	if out.list, _, err = s.resolveInputs(d, list, look); err != nil {
		return out, err
	}
	for _, in := range out.list {
		out.byID[in.id] = in.value
	}
	return out, nil
}

// reordered reports whether the ids in both lists have another order.
func reordered(before, after []string) bool {
	place := make(map[string]int, len(after))
	for i, id := range after {
		place[id] = i
	}
	last := -1
	for _, id := range before {
		if at, stays := place[id]; stays {
			if at < last {
				return true
			}
			last = at
		}
	}
	return false
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
