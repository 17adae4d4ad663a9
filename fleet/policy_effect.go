package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/policy"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// policyEffect collects the effect of a change as policies read it: the clusters whose inputs, removals, environment or labels change,
// and those that join or leave.
type policyEffect struct {
	r        Result
	clusters []*policyCluster
	room     []policyCluster // for the next ones
	known    map[docKey][]knownEntry
	matched  map[string]*policy.Effect // by the match of the policy

	fillLists func(*policy.Lists, policy.ListName) error // fill, allocated once
}

// policyCluster is a cluster of the effect.
type policyCluster struct {
	policy.Cluster
	affected
	versions [2]policy.Version
	lists    policy.Lists
}

// clustersPerAllocation is the number of clusters that are allocated at once.
const clustersPerAllocation = 128

// knownEntry is the change of an input on one cluster. Clusters whose inputs are built of the same documents and settings share it.
type knownEntry struct {
	was, is *Effective
	change  any // a *policy.Entry; nil: the inputs are equal
}

func (r Result) newPolicyEffect() *policyEffect {
	e := &policyEffect{r: r, known: map[docKey][]knownEntry{}, matched: map[string]*policy.Effect{}}
	e.fillLists = e.fill
	return e
}

// policyEffect computes the effect.
func (r Result) policyEffect() (*policyEffect, error) {
	out := r.newPolicyEffect()
	clusters, err := r.affected(true)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(clusters, func(a, b affected) int { return cmp.Or(cmp.Compare(a.id, b.id), compareNames(a.before, b.before)) })
	for _, a := range clusters {
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		lists, differs, err := out.compare(a)
		if err != nil {
			return nil, err
		}
		out.add(a, differs, lists)
	}
	return out, nil
}

// compare returns the inputs of a cluster that differ, and whether its answers do: these have the cluster and an order too. It computes
// less than [effects.on], which describes the differences.
func (e *policyEffect) compare(a affected) (lists *policy.Lists, differs bool, err error) {
	live := a.before != nil && a.after != nil
	lists = &policy.Lists{}
	if live && len(a.kept) == 0 && e.r.State.sameAnswers(e.r.base, a.before, a.after) {
		return lists, false, nil
	}
	moved := live && a.before != a.after && fluxCluster(a.before.cluster) != fluxCluster(a.after.cluster)
	for _, list := range e.r.lists() {
		changes, err := e.changes(a, list)
		if err != nil {
			return nil, false, err
		}
		for _, change := range changes {
			addChange(lists, list, change)
		}
		differs = differs || len(changes) > 0 || moved && list.count(a.after) > 0 || live && a.before != a.after && reordered(list.ids(a.before), list.ids(a.after))
	}
	return lists, differs, nil
}

// add adds an affected cluster. differs: its answers change. lists are the inputs that differ; nil: they are computed when a rule reads them.
func (e *policyEffect) add(a affected, differs bool, lists *policy.Lists) {
	if len(e.room) == 0 {
		e.room = make([]policyCluster, clustersPerAllocation)
	}
	c := &e.room[0]
	*c = policyCluster{affected: a}
	c.ID, c.Removals = a.id, len(e.r.removals.byName[a.name])
	c.Before, c.After = versionOf(a.before, &c.versions[0]), versionOf(a.after, &c.versions[1])
	if c.Before == nil && c.After == nil {
		return
	}
	stays := a.before == a.after || c.Before != nil && c.After != nil && c.Before.Environment == c.After.Environment && maps.Equal(c.Before.Labels, c.After.Labels)
	if !differs && c.Removals == 0 && stays {
		return
	}
	if c.Lists = lists; lists == nil {
		c.lists.At, c.lists.Fill = len(e.clusters), e.fillLists
		c.Lists = &c.lists
	}
	e.room = e.room[1:]
	e.clusters = append(e.clusters, c)
}

// versionOf sets a cluster as policies read it; nil: there is none.
func versionOf(of *Effective, version *policy.Version) *policy.Version {
	if of == nil || of.Deleted() {
		return nil
	}
	version.Environment, version.Labels = of.cluster.Environment, of.cluster.Labels
	return version
}

// of returns the effect on the clusters that a policy matches before or after the change.
func (e *policyEffect) of(p *Policy) *policy.Effect {
	key := ""
	if p.Match != nil {
		text, _ := json.Marshal(p.Match) //nolint:errchkjson // it has only texts
		key = string(text)
	}
	if out := e.matched[key]; out != nil {
		return out
	}
	out := &policy.Effect{Clusters: make([]*policy.Cluster, 0, len(e.clusters))}
	for _, c := range e.clusters {
		if p.Match == nil || c.Before != nil && p.Matches(c.before.cluster) || c.After != nil && c.after != c.before && p.Matches(c.after.cluster) {
			out.Clusters = append(out.Clusters, &c.Cluster)
			out.Removals += c.Removals
		}
	}
	e.matched[key] = out
	return out
}

// fill adds the inputs of a cluster's list that differ.
func (e *policyEffect) fill(to *policy.Lists, of policy.ListName) error {
	a := e.clusters[to.At].affected
	for _, list := range e.r.lists() {
		if listName(list) != of {
			continue
		}
		changes, err := e.changes(a, list)
		if err != nil {
			return err
		}
		for _, change := range changes {
			addChange(to, list, change)
		}
	}
	return nil
}

// listName returns the name of a list in rules.
func listName(list *descriptor) policy.ListName {
	switch list.kind {
	case KindComponent:
		return policy.ListComponents
	case KindNamespace:
		return policy.ListNamespaces
	case KindRoleBinding:
		return policy.ListRoleBindings
	default:
		return policy.ListResources
	}
}

// changes returns the changes of inputs of a cluster's list.
func (e *policyEffect) changes(a affected, list *descriptor) ([]any, error) {
	if err := e.r.work.stopped(); err != nil {
		return nil, err
	}
	if a.before == a.after && len(a.kept) == 0 && len(a.changed[list.kind]) == 0 {
		return nil, nil
	}
	look := a.lookAt(e.r.State, list)
	if look != nil && len(look) == 0 && a.before == a.after && len(a.kept) == 0 {
		return nil, nil
	}
	if changes, known := e.knownChanges(a, list, look); known {
		return changes, nil
	}
	return e.computedChanges(a, list, look)
}

// lookAt is changedIDs for clusters that may join or leave.
func (a affected) lookAt(next *State, list *descriptor) map[string]bool {
	if a.before == nil || a.after == nil || a.before.Deleted() || a.after.Deleted() {
		return nil
	}
	return a.changedIDs(next, list)
}

// knownChanges returns the changes of inputs that are known of other clusters, if all are.
func (e *policyEffect) knownChanges(a affected, list *descriptor, look map[string]bool) (changes []any, known bool) {
	before := e.r.base.kinds.byKind[list.kind]
	if look == nil || before == nil || e.r.State.kinds.byKind[list.kind] != list || len(a.kept) > 0 {
		return nil, false
	}
	for _, id := range sortedKeys(look) {
		all := e.known[docKey{list.kind, id}]
		at := slices.IndexFunc(all, func(k knownEntry) bool {
			return e.r.base.sameInput(before, id, k.was, a.before, true) && e.r.State.sameInput(list, id, k.is, a.after, true)
		})
		if at < 0 {
			return nil, false
		}
		if change := all[at].change; change != nil {
			changes = append(changes, change)
		}
	}
	return changes, true
}

// computedChanges builds the inputs of a cluster's list that may differ, and compares them.
func (e *policyEffect) computedChanges(a affected, list *descriptor, look map[string]bool) (changes []any, err error) {
	was, is := a.before, a.after
	if was != nil && was.Deleted() {
		was = nil
	}
	if is != nil && is.Deleted() {
		is = nil
	}
	before, err := inputsByID(e.r.base, was, list, look)
	if broken, ok := errors.AsType[*Error](err); ok && broken.Code == CodeUnresolved {
		before, err = inputList{}, nil // it could not be answered before: every input is new
	}
	if err != nil {
		return nil, err
	}
	after, err := inputsByID(e.r.State, is, list, look)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, in := range slices.Concat(before.list, after.list) {
		ids[in.id] = true
	}
	maps.Copy(ids, look)
	for _, id := range sortedKeys(ids) {
		change, err := changeOf(list, id, before.byID[id], after.byID[id])
		if err != nil {
			return nil, err
		}
		if key := (docKey{list.kind, id}); look != nil && was != nil && is != nil && len(e.known[key]) < maxKnown {
			e.known[key] = append(e.known[key], knownEntry{was, is, change})
		}
		if change != nil {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

// changeOf returns the change of one input, without the cluster block; nil: the inputs are equal.
func changeOf(list *descriptor, id string, before, after any) (any, error) {
	own := func(in any) any {
		if in == nil {
			return nil
		}
		out, _ := list.splitCluster(in)
		return out
	}
	was, is := own(before), own(after)
	if reflect.DeepEqual(was, is) {
		return nil, nil
	}
	if resource, err := resourceChangeOf(id, was, is); resource != nil || err != nil {
		return resource, err
	}
	return cmp.Or[any](inputChangeOf[api.FluxPlatformComponent](id, was, is), inputChangeOf[api.FluxNamespace](id, was, is), inputChangeOf[api.FluxRoleBinding](id, was, is)), nil
}

// inputChangeOf returns the change of inputs of one type; nil: they are of another type.
func inputChangeOf[T any](id string, before, after any) any {
	was, had := before.(T)
	is, has := after.(T)
	if !had && !has {
		return nil
	}
	out := &policy.Entry[T]{ID: id}
	if had {
		out.Before = &was
	}
	if has {
		out.After = &is
	}
	return out
}

// resourceChangeOf is inputChangeOf for the inputs of resource types.
func resourceChangeOf(id string, before, after any) (any, error) {
	was, had := before.(resourceInput)
	is, has := after.(resourceInput)
	if !had && !has {
		return nil, nil
	}
	out := &policy.Entry[map[string]any]{ID: id}
	for _, version := range []struct {
		of   resourceInput
		has  bool
		into **map[string]any
	}{{was, had, &out.Before}, {is, has, &out.After}} {
		if !version.has {
			continue
		}
		text, err := json.Marshal(version.of)
		if err != nil {
			return nil, err
		}
		fields := map[string]any{}
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
		delete(fields, "cluster")
		*version.into = &fields
	}
	return out, nil
}

// addChange adds the change of an input to the lists of a cluster.
func addChange(to *policy.Lists, list *descriptor, change any) {
	switch c := change.(type) {
	case *policy.Entry[api.FluxPlatformComponent]:
		to.Components = append(to.Components, c)
	case *policy.Entry[api.FluxNamespace]:
		to.Namespaces = append(to.Namespaces, c)
	case *policy.Entry[api.FluxRoleBinding]:
		to.RoleBindings = append(to.RoleBindings, c)
	case *policy.Entry[map[string]any]:
		if to.Resources == nil {
			to.Resources = map[string][]*policy.Entry[map[string]any]{}
		}
		to.Resources[list.endpoint] = append(to.Resources[list.endpoint], c)
	}
}
