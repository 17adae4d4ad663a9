package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// effects works out what a commit does to the polls of clusters. One change usually does the same on thousands of
// them, so the difference between two inputs is computed once for all clusters where they are equal but for the cluster.
type effects struct {
	base, next *State
	known      map[Resource]map[string][]*difference // by the input's id
	size       int                                   // bytes of the differences there are
}

// maxKnown is how many differences are remembered for one input: beyond it every cluster has its own, and searching
// would cost more than computing.
const maxKnown = 16

// maxPlanBytes is how large a plan may become: beyond it nobody reads it, and it would take the memory of everybody else.
const maxPlanBytes = 64 << 20

// difference is what becomes of one input.
type difference struct {
	before, after any // without the cluster; before is nil when the input is new
	added         json.RawMessage
	change        api.InputChange
	text          string // all of it: clusters on which this reads the same form a group
}

// effect is what happens to the polls of one cluster.
type effect struct {
	api.EffectGroup
	key string // the same for clusters with the same effect
}

func (e *effects) on(a affected) (effect, error) {
	out := effect{EffectGroup: api.EffectGroup{Clusters: []string{}, Effect: map[string]api.EndpointEffect{}}}
	if a.after == nil {
		if out.Forgotten = a.before != nil && !a.before.Deleted(); out.Forgotten {
			out.key = "forgotten"
		}
		return out, nil
	}
	key := sha256.New() // the texts themselves may be long, and different on each of 10,000 clusters
	for res := range ResourceCount {
		endpoint, text, err := e.endpoint(a, res)
		if err != nil {
			return out, err
		}
		if text != "" {
			out.Effect[res.String()] = endpoint
			fmt.Fprintf(key, "%s %d %s", res, len(text), text)
		}
	}
	if len(out.Effect) > 0 {
		out.key = string(key.Sum(nil))
	}
	return out, nil
}

// endpoint compares what one endpoint of a cluster answers before and after. The text tells it from other effects;
// empty: nothing changes.
func (e *effects) endpoint(a affected, res Resource) (api.EndpointEffect, string, error) {
	out := api.EndpointEffect{Added: []json.RawMessage{}, Changed: []api.InputChange{}, Removed: []string{}}
	look := a.interesting(e.next, res)
	if look != nil && len(look) == 0 && a.before == a.after {
		return out, "", nil
	}
	before, err := inputsByID(e.base, a.before, res, look)
	if broken, ok := errors.AsType[*Error](err); ok && broken.Code == CodeUnresolved {
		before, look, err = inputList{}, nil, nil // it could not be answered before: whatever it is now is new
	}
	if err != nil {
		return out, "", err
	}
	after, err := inputsByID(e.next, a.after, res, look)
	if err != nil {
		return out, "", err
	}
	var text strings.Builder
	for _, in := range after.list {
		d, err := e.difference(res, in.id, before.byID[in.id], in.value)
		if err != nil {
			return out, "", err
		}
		switch {
		case d.added != nil:
			out.Added = append(out.Added, d.added)
		case len(d.change.Fields) > 0:
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
		ids := assignments[res].ids
		if out.Reordered = reordered(ids(a.before.Cluster()), ids(a.after.Cluster())); out.Reordered {
			text.WriteString("reordered")
		}
	}
	return out, text.String(), nil
}

// difference compares an input before, nil when there was none, and after.
func (e *effects) difference(res Resource, id string, before, after any) (*difference, error) {
	was, wasOn := withoutCluster(before)
	is, isOn := withoutCluster(after)
	shared := before == nil || wasOn == isOn
	if shared {
		for _, d := range e.known[res][id] {
			if reflect.DeepEqual(d.before, was) && reflect.DeepEqual(d.after, is) {
				return d, nil
			}
		}
	}
	d, err := compare(id, before, after)
	if err != nil {
		return nil, err
	}
	if e.size += len(d.text); e.size > maxPlanBytes {
		return nil, errorf(CodeLimitExceeded, "the effect is larger than %d MiB: change fewer clusters, or less on each, at a time", maxPlanBytes>>20)
	}
	d.before, d.after = was, is
	if e.known == nil {
		e.known = map[Resource]map[string][]*difference{}
	}
	if e.known[res] == nil {
		e.known[res] = map[string][]*difference{}
	}
	if shared && len(e.known[res][id]) < maxKnown {
		e.known[res][id] = append(e.known[res][id], d)
	}
	return d, nil
}

func compare(id string, before, after any) (*difference, error) {
	d := &difference{}
	if before == nil {
		obj, err := asObject(after)
		if err != nil {
			return nil, err
		}
		delete(obj, "cluster")
		d.added, err = canonical(obj)
		d.text = "+" + string(d.added)
		return d, err
	}
	fields, err := fieldChanges(before, after)
	if err != nil || len(fields) == 0 {
		return d, err
	}
	d.change = api.InputChange{ID: id, Fields: fields, Removal: uninstalls(before, after)}
	text, err := canonical(d.change)
	d.text = string(text)
	return d, err
}

// interesting are the ids whose inputs can differ; nil means any.
func (a affected) interesting(next *State, res Resource) map[string]bool {
	if a.before == nil || a.before.Deleted() != a.after.Deleted() {
		return nil
	}
	was, is := a.before.Cluster(), a.after.Cluster()
	if fluxCluster(was) != fluxCluster(is) {
		return nil
	}
	look := map[string]bool{}
	toggled := map[string]bool{}
	if was != is {
		look, toggled = reassigned(was, is, res)
	}
	changed := a.changed[assignments[res].kind]
	if len(changed) == 0 && len(toggled) == 0 {
		return look
	}
	for id := range assignments[res].each(is) {
		doc, ok := next.Get(assignments[res].kind, id)
		if changed[id] || ok && res == PlatformComponents && slices.ContainsFunc(doc.Component().DependsOn, func(dep string) bool { return changed[dep] || toggled[dep] }) {
			look[id] = true
		}
	}
	return look
}

// reassigned are the ids on a cluster's list that are assigned, or patched, in another way than before; and the
// components that came, went, or were switched on or off, which those that depend on them notice.
func reassigned(was, is *api.Cluster, res Resource) (ids, toggled map[string]bool) {
	ids, toggled = map[string]bool{}, map[string]bool{}
	if res != PlatformComponents {
		before, after := assignments[res].ids(was), assignments[res].ids(is)
		for _, id := range append(missing(before, after), missing(after, before)...) {
			ids[id] = true
		}
		return ids, toggled
	}
	entries := make(map[string]api.ComponentAssignment, len(was.PlatformComponents))
	for _, e := range was.PlatformComponents {
		entries[e.ID] = e
	}
	for _, e := range is.PlatformComponents {
		before, had := entries[e.ID]
		if delete(entries, e.ID); !had || !reflect.DeepEqual(before, e) || !maps.EqualFunc(was.Patches[e.ID], is.Patches[e.ID], sameBytes) {
			ids[e.ID] = true
		}
		if before.Enabled != e.Enabled {
			toggled[e.ID] = true
		}
	}
	for id, e := range entries {
		ids[id] = true
		if e.Enabled {
			toggled[id] = true
		}
	}
	return ids, toggled
}

func sameBytes(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

type input struct {
	id    string
	value any
}

type inputList struct {
	list []input
	byID map[string]any
}

func inputsByID(s *State, d *Document, res Resource, look map[string]bool) (inputList, error) {
	out := inputList{byID: map[string]any{}}
	if d == nil {
		return out, nil
	}
	add := func(id string, value any) {
		if look == nil || look[id] {
			out.list = append(out.list, input{id, value})
			out.byID[id] = value
		}
	}
	inputs, _, err := s.inputsOnly(d, res, look)
	if err != nil {
		return out, err
	}
	switch inputs := inputs.(type) {
	case []api.FluxPlatformComponent:
		for _, in := range inputs {
			add(in.ID, in)
		}
	case []api.FluxNamespace:
		for _, in := range inputs {
			add(in.ID, in)
		}
	case []api.FluxRoleBinding:
		for _, in := range inputs {
			add(in.ID, in)
		}
	}
	return out, nil
}

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

// uninstalls tells whether an input that stays makes Flux remove what it installed for it.
func uninstalls(before, after any) bool {
	was, ok := before.(api.FluxPlatformComponent)
	is, still := after.(api.FluxPlatformComponent)
	return ok && still && was.Enabled && (!is.Enabled || inputDeployment(was) != inputDeployment(is))
}

func inputDeployment(in api.FluxPlatformComponent) deployment {
	return newDeployment(in.Type, in.ReleaseName, in.TargetNamespace, in.ComponentPath, in.Source.OCIURL)
}

// withoutCluster takes an input apart: what it is on any cluster, and the cluster.
func withoutCluster(value any) (any, api.FluxCluster) {
	var cluster api.FluxCluster
	switch in := value.(type) {
	case api.FluxPlatformComponent:
		cluster, in.Cluster = in.Cluster, cluster
		return in, cluster
	case api.FluxNamespace:
		cluster, in.Cluster = in.Cluster, cluster
		return in, cluster
	case api.FluxRoleBinding:
		cluster, in.Cluster = in.Cluster, cluster
		return in, cluster
	}
	return value, cluster
}
