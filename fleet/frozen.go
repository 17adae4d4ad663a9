package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// freezeCheck collects the frozen clusters that a change affects. Freezes, and the clusters that they select, are those
// before the change: a commit that ends a freeze cannot also use its end. Only the end of a pin is itself
// a change of answers, which its own freeze does not forbid.
type freezeCheck struct {
	r      Result
	active []*Document
	ids    map[string]map[string]bool // by the id of the freeze
}

// newFreezeCheck returns the check of a change.
func (r Result) newFreezeCheck() *freezeCheck {
	active := slices.DeleteFunc(r.base.ActiveFreezes(r.Commit.At), func(d *Document) bool {
		return r.base.docs[KindSnapshot][d.ID] != nil && r.State.docs[KindFreeze][d.ID] == nil
	})
	return &freezeCheck{r, active, map[string]map[string]bool{}}
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

// concerns reports whether an affected cluster is frozen.
func (f *freezeCheck) concerns(a affected) bool {
	cluster := f.clusterOf(a)
	return cluster != nil && slices.ContainsFunc(f.active, func(d *Document) bool { return f.r.base.isFrozenBy(d, cluster.cluster) })
}

// add adds an affected cluster. differs: the effect on its answers is not empty.
func (f *freezeCheck) add(a affected, differs bool) {
	if !f.concerns(a) {
		return
	}
	cluster := f.clusterOf(a)
	differs = differs || len(f.r.removals.byName[a.name]) > 0 || f.createdAgain(a)
	for _, d := range f.active {
		if f.r.base.isFrozenBy(d, cluster.cluster) && (differs || f.leaves(d, a)) {
			if f.ids[d.ID] == nil {
				f.ids[d.ID] = map[string]bool{}
			}
			f.ids[d.ID][cluster.id] = true
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

// leaves reports whether a change of the cluster's labels takes it out of the freeze, so that the next change would be
// possible.
func (f *freezeCheck) leaves(d *Document, a affected) bool {
	return a.after != nil && !f.r.base.isFrozenBy(d, a.after.cluster)
}

// result returns the frozen clusters, by freeze.
func (f *freezeCheck) result() (out []frozen) {
	for _, d := range f.active {
		if ids := f.ids[d.ID]; len(ids) > 0 {
			out = append(out, frozen{d, sortedKeys(ids)})
		}
	}
	return out
}

// frozen returns the frozen clusters that the change affects. If the change starts a stage of a rollout, it also returns
// the clusters of this stage under pins.
func (r Result) frozen() ([]frozen, error) {
	check := r.newFreezeCheck()
	if len(check.active) == 0 {
		return nil, nil
	}
	clusters, err := r.affected(true)
	if err != nil {
		return nil, err
	}
	effects := r.effects()
	for _, a := range clusters {
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		if !check.concerns(a) {
			continue
		}
		effect, err := effects.on(a)
		if err != nil {
			return nil, err
		}
		check.add(a, effect.key != "")
	}
	out := check.result()
	if r.advancesRollout() {
		pending, err := r.pending()
		if err != nil {
			return nil, err
		}
		out = append(out, pending...)
	}
	return out, nil
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

// pending returns the clusters under pins that the change reaches when the freezes end. A cluster under several
// freezes is listed for each of them.
func (r Result) pending() (out []frozen, err error) {
	for _, d := range r.State.sorted(KindSnapshot, func(*Document) bool { return true }) {
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		ids := r.State.snapshotClusters(d, func(id string, is *frozenCluster) bool {
			was := r.base.frozen[id]
			return was != nil && r.State.answersDiffer(r.base, id, was.configured, is.configured)
		})
		if len(ids) > 0 {
			out = append(out, frozen{r.State.docs[KindFreeze][d.ID], ids})
		}
	}
	return out, nil
}

// checkFrozen refuses a change that affects frozen clusters, unless the guard names the freezes and the commit has a reason.
// It returns the operations that record an override.
func (g Guard) checkFrozen(r Result) ([]api.RevisionOperation, error) {
	if g.Off || g.proposed {
		return nil, nil
	}
	all, err := r.frozen()
	if err != nil {
		return nil, err
	}
	var overridden []api.RevisionOperation
	var refused []frozen
	for _, f := range all {
		if slices.Contains(g.OverrideFreezes, f.freeze.ID) && f.freeze.freeze().Mode != freezeModePin {
			overridden = append(overridden, api.RevisionOperation{Op: "override", Kind: string(KindFreeze), ID: f.freeze.ID, Clusters: len(f.clusters)})
		} else {
			refused = append(refused, f)
		}
	}
	switch {
	case len(refused) > 0:
		return nil, frozenError(refused)
	case len(overridden) > 0 && r.Commit.Reason == "":
		return nil, Invalid([]Problem{{Detail: fmt.Sprintf("a reason is required to override the freeze %q: send X-Change-Reason", overridden[0].ID)}})
	}
	return overridden, nil
}

// frozenError returns the error for frozen clusters, with one problem for each.
func frozenError(all []frozen) error {
	var problems []Problem
	var details, ids []string
	ends := "" // advice if a freeze cannot be overridden
	for _, f := range all {
		details = append(details, f.describe())
		if f.freeze.freeze().Mode != freezeModePin {
			ids = append(ids, f.freeze.ID)
		} else {
			ends = "; end the pins first"
		}
		for _, id := range f.clusters {
			problems = append(problems, Problem{Kind: KindCluster, ID: id, Detail: fmt.Sprintf("is frozen by %q", f.freeze.ID)})
		}
	}
	detail := strings.Join(details, "; and ") + ends
	if ends == "" {
		detail += fmt.Sprintf("; to make the change all the same, send X-Fleet-Override-Freeze: %s and X-Change-Reason", strings.Join(ids, ","))
	}
	return &Error{Code: CodeFrozen, Problems: problems, Detail: detail}
}

// describe describes the refusal of a change in a message.
func (f frozen) describe() string {
	until := ""
	if t := f.freeze.freeze().Until; t != nil {
		until = " until " + t.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("the answers to %s would change, which %s %q (%s) forbids%s: %s", plural(len(f.clusters), "cluster"), f.freeze.freeze().noun(), f.freeze.ID, f.freeze.freeze().Reason, until, f.firstClusters())
}

// firstClusters returns the ids of the first clusters, and the number of the other clusters.
func (f frozen) firstClusters() string { return firstIDs(f.clusters, 3) }

// frozenViews returns the frozen clusters as a plan shows them.
func frozenViews(all []frozen) []api.FrozenClusters {
	out := []api.FrozenClusters{}
	for _, f := range all {
		out = append(out, api.FrozenClusters{Freeze: f.freeze.ID, Reason: f.freeze.freeze().Reason, Until: f.freeze.freeze().Until, ClusterIds: f.clusters})
	}
	return out
}
