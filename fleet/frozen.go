package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// freezeCheck collects the frozen clusters that a change affects, and the pinned ones that it would serve something else. Freezes, and
// the clusters that they select, are those before the change: a commit that ends a freeze cannot also use its end. Pins are those after
// it, so a commit may unpin a cluster, and one that pins it changes none of its answers.
type freezeCheck struct {
	r      Result
	active []*Document
	open   *openings
	// back: the change only takes changes back, which freezes with windows permit. A revert that changes no answer may not, since it
	// would only take a cluster out of the freeze or move its windows.
	back, reverts bool

	ids    map[string]map[string]*Effective // by the id of the freeze
	pinned map[string]bool
}

// refusals are the clusters because of which a change is refused.
type refusals struct {
	frozen []frozen
	pinned []string // ids, sorted
}

// newFreezeCheck returns the check of a change.
func (r Result) newFreezeCheck() *freezeCheck {
	check := &freezeCheck{
		r: r, active: r.base.ActiveFreezes(r.Commit.At), open: newOpenings(later(r.Commit.At, r.base.newest)), ids: map[string]map[string]*Effective{}, pinned: map[string]bool{},
	}
	check.back, check.reverts = r.takesBack()
	if check.back && !check.reverts {
		check.active = slices.DeleteFunc(check.active, func(d *Document) bool { return d.freeze().isRecurring() })
	}
	return check
}

// clusterOf returns the cluster whose answers must not change; nil: none. A cluster that joins has no answer yet that could
// change, unless it takes over a name with installations. A decommissioned cluster is not frozen.
func (f *freezeCheck) clusterOf(a affected) *Effective {
	switch {
	case a.before != nil && !a.before.Deleted():
		return a.before
	case len(f.r.removals.byName[a.name]) > 0 && a.after != nil && !a.after.Deleted():
		return a.after
	}
	return nil
}

// isPinned reports whether an affected cluster is pinned after the change.
func (f *freezeCheck) isPinned(a affected) bool {
	return a.after != nil && f.r.State.pinned[a.after.id] != nil
}

// concerns reports whether an affected cluster is frozen or pinned.
func (f *freezeCheck) concerns(a affected) bool {
	cluster := f.clusterOf(a)
	return f.isPinned(a) || cluster != nil && slices.ContainsFunc(f.active, func(d *Document) bool { return f.open.holds(d, cluster) })
}

// add adds an affected cluster. differs: the effect on its answers is not empty.
func (f *freezeCheck) add(a affected, differs bool) {
	if !f.concerns(a) {
		return
	}
	differs = differs || len(f.r.removals.byName[a.name]) > 0 || f.createdAgain(a)
	if f.isPinned(a) && (differs || a.before == nil || a.before.id != a.after.id) {
		f.pinned[a.after.id] = true
	}
	cluster := f.clusterOf(a)
	for _, d := range f.active {
		if cluster == nil || !f.open.holds(d, cluster) {
			continue
		}
		if differs && (!f.back || !d.freeze().isRecurring()) || !differs && f.leaves(d, a) {
			if f.ids[d.ID] == nil {
				f.ids[d.ID] = map[string]*Effective{}
			}
			f.ids[d.ID][cluster.id] = cluster
		}
	}
}

// createdAgain reports whether the change deletes a cluster and creates it again, which changes the receipts of its inputs.
func (f *freezeCheck) createdAgain(a affected) bool {
	if a.before == nil || a.after == nil {
		return false
	}
	was, is := f.r.base.docs[KindCluster][a.before.id], f.r.State.docs[KindCluster][a.before.id]
	return was != nil && is != nil && was.incarnation() != is.incarnation() &&
		slices.ContainsFunc(f.r.lists(), func(list *descriptor) bool { return list.count(a.before) > 0 })
}

// leaves reports whether a change of the cluster's labels takes it out of the freeze, or one of its variables moves the windows of the
// freeze, so that the next change would be possible.
func (f *freezeCheck) leaves(d *Document, a affected) bool {
	return a.after != nil && (!d.freeze().matches(a.after.cluster) || a.before != nil && d.freeze().zones(a.before) != d.freeze().zones(a.after))
}

// result returns what was added, and the pinned clusters that the started stage of a rollout would reach.
func (f *freezeCheck) result(reached []string) (out refusals) {
	for _, d := range f.active {
		if ids := f.ids[d.ID]; len(ids) > 0 {
			one := frozen{freeze: d, clusters: sortedKeys(ids), until: d.freeze().Until}
			if opens := f.open.latest(d, slices.Collect(maps.Values(ids))); !opens.IsZero() {
				one.until = &opens
			}
			out.frozen = append(out.frozen, one)
		}
	}
	for _, id := range reached {
		f.pinned[id] = true
	}
	out.pinned = sortedKeys(f.pinned)
	return out
}

// refusals returns the clusters because of which the change is refused.
func (r Result) refusals() (refusals, error) {
	check := r.newFreezeCheck()
	if len(check.active) == 0 && r.State.pinned == nil {
		return refusals{}, nil
	}
	clusters, err := r.affected(true)
	if err != nil {
		return refusals{}, err
	}
	effects := r.effects()
	for _, a := range clusters {
		if err := r.work.stopped(); err != nil {
			return refusals{}, err
		}
		if !check.concerns(a) {
			continue
		}
		effect, err := effects.on(a)
		if err != nil {
			return refusals{}, err
		}
		check.add(a, effect.key != "")
	}
	var reached []string
	if r.advancesRollout() {
		reached, err = r.pending()
	}
	return check.result(reached), err
}

// takesBack reports whether the change only takes changes back: it reverts, or takes a rollout from clusters. reverts: it reverts.
func (r Result) takesBack() (back, reverts bool) {
	operations, more, _ := r.Commit.Requested()
	back = len(operations) > 0 && more == 0 && !r.redoes
	for _, op := range operations {
		reverts = reverts || op.Op == "revert"
		back = back && (op.Op == "revert" || op.Kind == string(KindRollout) && (op.Op == RolloutBack || op.Op == RolloutAbort))
	}
	return back, reverts
}

// advancesRollout reports whether the change starts a stage of a rollout.
func (r Result) advancesRollout() bool {
	return slices.ContainsFunc(r.Commit.Changes, func(ch Change) bool {
		was, is := r.base.docs[KindRollout][ch.ID], r.State.docs[KindRollout][ch.ID]
		if ch.Kind != KindRollout || was == nil || is == nil {
			return false
		}
		return is.rollout().Started > was.rollout().Started
	})
}

// affectedLater returns the pinned clusters whose answers the change changes when they are unpinned.
func (r Result) affectedLater() (out []affected, err error) {
	for id := range r.State.pinned {
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		was, is := r.base.docs[KindCluster][id], r.State.docs[KindCluster][id]
		if was == nil || is == nil {
			continue // its document changes
		}
		if before, after := r.base.configured(was), r.State.configured(is); r.State.answersDiffer(r.base, id, before, after) {
			out = append(out, affected{id: id, name: lowerName(is.Cluster()), before: before, after: after})
		}
	}
	return out, nil
}

// pending returns the pinned clusters that the change reaches when they are unpinned.
func (r Result) pending() ([]string, error) {
	late, err := r.affectedLater()
	ids := make([]string, len(late))
	for i, a := range late {
		ids[i] = a.id
	}
	slices.Sort(ids)
	return ids, err
}

// checkFrozen refuses a change that serves pinned clusters something else, and one that affects frozen clusters, unless the guard names
// the freezes and the commit has a reason. It returns the operations that record an override.
func (g Guard) checkFrozen(r Result) ([]api.RevisionOperation, error) {
	if g.Off || g.proposed {
		return nil, nil
	}
	all, err := r.refusals()
	if err != nil {
		return nil, err
	}
	if len(all.pinned) > 0 {
		return nil, pinnedError(all.pinned)
	}
	var overridden []api.RevisionOperation
	var refused []frozen
	for _, f := range all.frozen {
		if slices.Contains(g.OverrideFreezes, f.freeze.ID) {
			overridden = append(overridden, api.RevisionOperation{Op: "override", Kind: string(KindFreeze), ID: f.freeze.ID, Clusters: len(f.clusters)})
		} else {
			refused = append(refused, f)
		}
	}
	switch {
	case len(refused) > 0:
		return nil, frozenError(refused)
	case len(overridden) > 0 && !r.Commit.hasReason():
		return nil, Invalid([]Problem{{Detail: fmt.Sprintf("a reason is required to override the freeze %q: send X-Change-Reason", overridden[0].ID)}})
	}
	return overridden, nil
}

// frozenError returns the error for frozen clusters, with one problem for each.
func frozenError(all []frozen) error {
	var problems []Problem
	var details []string
	for _, f := range all {
		details = append(details, f.describe())
		for _, id := range f.clusters {
			problems = append(problems, Problem{Kind: KindCluster, ID: id, Detail: fmt.Sprintf("is frozen by %q", f.freeze.ID)})
		}
	}
	return &Error{
		Code: CodeFrozen, Problems: problems,
		Detail: strings.Join(details, "; and "),
	}
}

// describe describes the refusal of a change in a message.
func (f frozen) describe() string {
	until := ""
	if f.freeze.freeze().isRecurring() {
		until = " at this time of the week"
	}
	if f.until != nil {
		until += " until " + f.until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("the answers to %s would change, which freeze %q (%s) forbids%s: %s", plural(len(f.clusters), "cluster"), f.freeze.ID, f.freeze.freeze().Reason, until, f.firstClusters())
}

// firstClusters returns the ids of the first clusters, and the number of the other clusters.
func (f frozen) firstClusters() string { return firstIDs(f.clusters, 3) }

// frozenViews returns the frozen clusters as a plan shows them.
func frozenViews(all []frozen) []api.FrozenClusters {
	out := []api.FrozenClusters{}
	for _, f := range all {
		out = append(out, api.FrozenClusters{Freeze: f.freeze.ID, Reason: f.freeze.freeze().Reason, Until: f.until, ClusterIds: f.clusters})
	}
	return out
}
