package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Guard is what stands between a change and more removals than anybody meant.
type Guard struct {
	// PlanHash of a plan that was seen: the change is only made while its effect is still that one.
	PlanHash string
	// Off lets everything pass; for planning, where nothing is changed.
	Off bool
}

// Guard sets the guard that Finish applies.
func (tx *Tx) Guard(g Guard) { tx.guard = g }

// check holds the result of a Tx against the guard.
func (g Guard) check(r Result) error {
	if g.Off {
		return nil
	}
	if g.PlanHash != "" {
		plan, err := r.Plan()
		if err != nil {
			return err
		}
		if plan.PlanHash != g.PlanHash {
			return &Error{Code: CodeStale, Detail: "the change would no longer do what was planned; make a new plan"}
		}
		return nil
	}
	if need := r.confirmation(); need != "" {
		return &Error{Code: CodeConfirm, Detail: need + ": look at it with POST /plan, and send the plan_hash of that plan"}
	}
	return nil
}

// removals counts what Flux would uninstall on one cluster.
type removals struct {
	count      int
	namespaces []string // deleted with everything in them
}

// removalsOn compares a cluster's lists before and after. Not counted is what Flux does not uninstall: a component
// that was disabled already, a namespace with deletion policy orphan, and a cluster that is forgotten.
func removalsOn(base, next *State, a affected) removals {
	var r removals
	before, after := a.before, a.after
	if before == nil || before.Deleted() || after == nil || before == after && !a.retyped {
		return r
	}
	was, is := before.Cluster(), after.Cluster()
	running := map[string]string{}
	for _, e := range is.PlatformComponents {
		if doc, ok := next.Get(KindComponent, e.ID); ok && e.Enabled {
			running[e.ID] = doc.Component().Type
		}
	}
	for _, e := range was.PlatformComponents {
		if doc, ok := base.Get(KindComponent, e.ID); ok && e.Enabled && running[e.ID] != doc.Component().Type {
			r.count++
		}
	}
	for _, id := range missing(assignments[Namespaces].ids(was), assignments[Namespaces].ids(is)) {
		if doc, ok := base.Get(KindNamespace, id); ok && doc.namespace().DeletionPolicy == policyDelete {
			r.count++
			r.namespaces = append(r.namespaces, id)
		}
	}
	r.count += len(missing(assignments[RoleBindings].ids(was), assignments[RoleBindings].ids(is)))
	return r
}

func missing(before, after []string) []string {
	kept := make(map[string]bool, len(after))
	for _, id := range after {
		kept[id] = true
	}
	return slices.DeleteFunc(slices.Clone(before), func(id string) bool { return kept[id] })
}

// confirmation says why the change must be confirmed, or nothing. A change of one cluster need not be: that is what
// deletion_protection is for.
func (r Result) confirmation() string {
	total, clusters := 0, 0
	namespaces := map[string]int{}
	for _, a := range r.affected() {
		lost := removalsOn(r.base, r.State, a)
		if lost.count > 0 {
			clusters++
		}
		total += lost.count
		for _, ns := range lost.namespaces {
			namespaces[ns]++
		}
	}
	if clusters < 2 {
		return ""
	}
	for _, ns := range sortedKeys(namespaces) {
		if namespaces[ns] > 1 {
			return fmt.Sprintf("namespace %q and everything in it would be deleted on %d clusters", ns, namespaces[ns])
		}
	}
	if total > r.base.rules.MaxRemovals {
		return fmt.Sprintf("%d installed things would be removed from %d clusters, and more than %d need to be confirmed", total, clusters, r.base.rules.MaxRemovals)
	}
	return ""
}

// affected is one DNS name whose answers a commit may change: clusters poll by their name, so what matters is which
// document answered it before and which does after.
type affected struct {
	id            string // of the cluster that answers after, or that answered before
	before, after *Document
	changed       map[Kind]map[string]bool // definitions that changed
	retyped       bool                     // a component is deployed in another way
}

// affected are the names of clusters that change or refer to a definition that does, sorted by id.
func (r Result) affected() []affected {
	edited, names := map[string]bool{}, map[string]bool{}
	changed := map[Kind]map[string]bool{}
	for _, ch := range r.Commit.Changes {
		if ch.Kind == KindCluster {
			edited[ch.ID] = true
			for _, s := range []*State{r.base, r.State} {
				if doc := s.docs[KindCluster][ch.ID]; doc != nil {
					names[doc.Cluster().ClusterDNS] = true
				}
			}
			continue
		}
		if ch.Kind == KindToken {
			continue
		}
		if changed[ch.Kind] == nil {
			changed[ch.Kind] = map[string]bool{}
		}
		changed[ch.Kind][ch.ID] = true
	}
	retyped := false
	for id := range changed[KindComponent] {
		was, is := r.base.docs[KindComponent][id], r.State.docs[KindComponent][id]
		retyped = retyped || was != nil && is != nil && was.Component().Type != is.Component().Type
	}
	out := []affected{}
	for name := range names {
		before, _ := r.base.ByDNS(name)
		after, _ := r.State.ByDNS(name)
		out = append(out, affected{cmp.Or(after, before).ID, before, after, changed, retyped})
	}
	if len(changed) > 0 {
		for id, doc := range r.State.docs[KindCluster] {
			if !edited[id] && refersTo(doc.Cluster(), changed) {
				out = append(out, affected{id, doc, doc, changed, retyped})
			}
		}
	}
	slices.SortFunc(out, func(a, b affected) int { return cmp.Or(cmp.Compare(a.id, b.id), compareNames(a.before, b.before)) })
	return out
}

func compareNames(a, b *Document) int {
	name := func(d *Document) string {
		if d == nil {
			return ""
		}
		return d.Cluster().ClusterDNS
	}
	return cmp.Compare(name(a), name(b))
}

func refersTo(c *api.Cluster, changed map[Kind]map[string]bool) bool {
	for _, a := range assignments {
		if a.hasAny(c, changed[a.kind]) {
			return true
		}
	}
	return false
}

// Plan is the effect of the change on every cluster's polls, as the API shows it. It is computed with the functions
// that answer polls.
func (r Result) Plan() (api.Plan, error) {
	plan := api.Plan{
		BaseRevision: int64(r.base.Revision()), ConfirmationRequired: r.confirmation() != "",
		Changes: changeRefs(r.Commit.Changes), Groups: []api.EffectGroup{}, Results: []api.OperationResult{}, Warnings: append([]string{}, r.Warnings...),
	}
	groups := map[string]int{}
	for _, a := range r.affected() {
		group, err := r.effect(a)
		if err != nil {
			return plan, err
		}
		if len(group.Effect) == 0 && !group.Forgotten {
			continue
		}
		plan.Totals.Clusters++
		plan.Totals.Removals += removalsOn(r.base, r.State, a).count
		for _, e := range group.Effect {
			plan.Totals.Added += len(e.Added)
			plan.Totals.Changed += len(e.Changed)
			plan.Totals.Removed += len(e.Removed)
		}
		key, err := canonical(group)
		if err != nil {
			return plan, err
		}
		at, known := groups[string(key)]
		if !known {
			at = len(plan.Groups)
			groups[string(key)] = at
			plan.Groups = append(plan.Groups, group)
		}
		plan.Groups[at].Clusters = append(plan.Groups[at].Clusters, a.id)
	}
	var err error
	plan.PlanHash, err = r.hash(plan.Groups)
	return plan, err
}

// hash is over what changes and what that does, without the revision and times.
func (r Result) hash(groups []api.EffectGroup) (string, error) {
	type change struct {
		Kind   Kind            `json:"kind"`
		ID     string          `json:"id"`
		Before json.RawMessage `json:"before"`
		After  json.RawMessage `json:"after"`
	}
	changes := make([]change, 0, len(r.Commit.Changes))
	for _, ch := range r.Commit.Changes {
		if ch.Kind == KindToken {
			continue // those of clusters that are forgotten: a rotation meanwhile changes nothing about that
		}
		planned := change(ch)
		if doc := r.State.docs[ch.Kind][ch.ID]; doc != nil && doc.Deleted() {
			planned.After = json.RawMessage(`"decommissioned"`) // its content holds the time
		}
		changes = append(changes, planned)
	}
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	if err := enc.Encode(changes); err != nil {
		return "", err
	}
	if err := enc.Encode(groups); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16]), nil
}

// Changes names the documents that changed.
func (r Result) Changes() []api.ChangeRef { return changeRefs(r.Commit.Changes) }

func changeRefs(changes []Change) []api.ChangeRef {
	refs := make([]api.ChangeRef, len(changes))
	for i, ch := range changes {
		refs[i] = api.ChangeRef{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action()}
	}
	return refs
}

// effect is what happens to the polls of one cluster.
func (r Result) effect(a affected) (api.EffectGroup, error) {
	group := api.EffectGroup{Clusters: []string{}, Effect: map[string]api.EndpointEffect{}}
	if a.after == nil {
		group.Forgotten = a.before != nil && !a.before.Deleted()
		return group, nil
	}
	for res := range resourceCount {
		e, err := r.endpoint(a, res)
		if err != nil {
			return group, err
		}
		if len(e.Added)+len(e.Changed)+len(e.Removed) > 0 || e.Reordered {
			group.Effect[res.String()] = e
		}
	}
	return group, nil
}

func (r Result) endpoint(a affected, res Resource) (api.EndpointEffect, error) {
	e := api.EndpointEffect{Added: []json.RawMessage{}, Changed: []api.InputChange{}, Removed: []string{}}
	look := a.interesting(r.State, res)
	before, err := inputsByID(r.base, a.before, res, look)
	if broken, ok := errors.AsType[*Error](err); ok && broken.Code == CodeUnresolved {
		before, err = inputList{}, nil // it could not be answered before: whatever it is now is new
	}
	if err != nil {
		return e, err
	}
	after, err := inputsByID(r.State, a.after, res, look)
	if err != nil {
		return e, err
	}
	for _, in := range after.list {
		was, had := before.byID[in.id]
		if !had {
			added, err := withoutCluster(in.value)
			if err != nil {
				return e, err
			}
			e.Added = append(e.Added, added)
			continue
		}
		fields, err := fieldChanges(was, in.value)
		if err != nil {
			return e, err
		}
		if len(fields) > 0 {
			e.Changed = append(e.Changed, api.InputChange{ID: in.id, Fields: fields, Removal: uninstalls(was, in.value)})
		}
	}
	for _, in := range before.list {
		if _, stays := after.byID[in.id]; !stays {
			e.Removed = append(e.Removed, in.id)
		}
	}
	e.Reordered = look == nil && reordered(before.list, after.list)
	return e, nil
}

// interesting are the inputs that can differ when the cluster itself has not changed; nil means any.
func (a affected) interesting(next *State, res Resource) map[string]bool {
	if a.before != a.after {
		return nil
	}
	changed := a.changed[assignments[res].kind]
	look := map[string]bool{}
	if len(changed) == 0 {
		return look
	}
	for id := range assignments[res].each(a.after.Cluster()) {
		doc, ok := next.Get(assignments[res].kind, id)
		if changed[id] || ok && res == PlatformComponents && slices.ContainsFunc(doc.Component().DependsOn, func(dep string) bool { return changed[dep] }) {
			look[id] = true
		}
	}
	return look
}

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
	if look != nil && len(look) == 0 {
		return out, nil
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

func reordered(before, after []input) bool {
	place := make(map[string]int, len(after))
	for i, in := range after {
		place[in.id] = i
	}
	last := -1
	for _, in := range before {
		if at, stays := place[in.id]; stays {
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
	return ok && still && was.Enabled && (!is.Enabled || is.Type != was.Type)
}

func withoutCluster(value any) (json.RawMessage, error) {
	obj, err := asObject(value)
	if err != nil {
		return nil, err
	}
	delete(obj, "cluster")
	return canonical(obj)
}

func asObject(value any) (map[string]any, error) {
	body, err := canonical(value)
	if err != nil {
		return nil, err
	}
	return decodeOwn(body)
}
