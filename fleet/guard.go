package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Guard is what stands between a change and more removals than anybody meant.
type Guard struct {
	// PlanHash of a plan that was seen: the change is only made while its effect is still that one.
	PlanHash string
	// Careful refuses what would take anything off clusters of a protected environment that RemovesFrom does not name.
	Careful bool
	// RemovesFrom are the protected environments that a careful change may take something from.
	RemovesFrom []string
	// Off lets everything pass; for planning, where nothing is changed.
	Off bool
}

// Guard sets the guard that Finish applies.
func (tx *Tx) Guard(g Guard) { tx.guard = g }

// check holds the result of a Tx against the guard.
func (g Guard) check(r Result) error {
	if err := r.removals.checkProtection(); err != nil {
		return err
	}
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
	if need := r.confirmationReason(); need != "" {
		return &Error{Code: CodeConfirm, Detail: need + ": look at it with POST /plan, and send the plan_hash of that plan"}
	}
	return g.checkProtected(r.removals)
}

// protects refuses a careful change that takes something from a protected environment that it does not name.
func (g Guard) checkProtected(removed removals) error {
	if !g.Careful {
		return nil
	}
	for _, tier := range removed.protectedEnvironments() {
		if !slices.Contains(g.RemovesFrom, tier.Environment) {
			return errorf(CodeConfirm, "%s would be removed from %s of the protected environment %q, which the change does not name: look at it with POST /plan, and send its plan_hash, or X-Fleet-Removes-From: %s",
				plural(tier.Removals, "installed thing"), plural(tier.Clusters, "cluster"), tier.Environment, tier.Environment)
		}
	}
	return nil
}

// losses are what a change makes Flux uninstall, on all clusters.
type removals struct {
	count         int                           // with one for each cluster that leaves without anything being uninstalled on it
	leaving       int                           // of those
	unlisted      int                           // clusters that leave a filtered list of clusters, and nothing is uninstalled on them
	moving        int                           // clusters that leave a protected environment, and nothing is uninstalled on them
	byName        map[string][]installation     // by the DNS name of the cluster
	namespaces    map[string]int                // deleted with everything in them, and on how many clusters
	protected     map[string]protectedCluster   // clusters with deletion_protection, by id
	byEnvironment map[string]*api.ProtectedLoss // what protected environments lose, by name
	warnings      []string                      // of clusters that leave a list or an environment
	mustConfirm   []string                      // why the change needs to be confirmed, however little is removed
}

// tiers are the protected environments that lose something, in the order of their names.
func (l removals) protectedEnvironments() []api.ProtectedLoss {
	out := []api.ProtectedLoss{}
	for _, name := range sortedKeys(l.byEnvironment) {
		out = append(out, *l.byEnvironment[name])
	}
	return out
}

// lose notes what a cluster loses.
func (l *removals) addRemoval(a affected, removed []installation, rules Rules) {
	cluster := a.before
	if cluster == nil { // it takes over a name under which something is installed
		cluster = a.after
	}
	l.byName[a.name] = removed
	l.count += len(removed)
	for _, i := range removed {
		if i.Kind == KindNamespace {
			l.namespaces[i.ID]++
		}
	}
	if cluster == nil || !slices.Contains(rules.Protected, cluster.cluster.Environment) {
		return
	}
	tier := l.byEnvironment[cluster.cluster.Environment]
	if tier == nil {
		tier = &api.ProtectedLoss{Environment: cluster.cluster.Environment}
		l.byEnvironment[tier.Environment] = tier
	}
	tier.Clusters++
	tier.Removals += len(removed)
}

// protected is a cluster with deletion_protection, and what would leave it.
type protectedCluster struct {
	cluster *Effective
	leaving []string
}

// idsOn names what a cluster loses, sorted.
func (l removals) idsFor(dns string) []string {
	var ids []string
	for _, i := range l.byName[dns] {
		ids = append(ids, string(i.Kind)+"/"+i.ID)
	}
	slices.Sort(ids)
	return ids
}

// losses compares what clusters have with what they would have.
func (r Result) computeRemovals(affectedNames []affected) removals {
	all := removals{byName: map[string][]installation{}, namespaces: map[string]int{}, protected: map[string]protectedCluster{}, byEnvironment: map[string]*api.ProtectedLoss{}}
	known := map[groupKey][]installation{}
	for _, a := range affectedNames {
		if before := a.before; before != nil && !before.Deleted() && before.cluster.DeletionProtection {
			leaving := r.removedIDs(a)
			if left := r.leavesList(before); left != "" {
				leaving = append(leaving, left)
			}
			if len(leaving) > 0 {
				all.protected[before.id] = protectedCluster{before, leaving}
			}
		}
		removed := r.cachedRemovals(a, known)
		if why := cmp.Or(r.recreationReason(a, removed), r.takeoverReason(a, removed)); why != "" {
			all.mustConfirm = append(all.mustConfirm, why)
		}
		if len(removed) == 0 && r.leavesFleet(a.before) {
			removed = []installation{{Kind: KindCluster, ID: a.before.id}}
			all.leaving++
		}
		if left := all.addDeparture(r, a, len(removed) > 0); len(removed) == 0 {
			removed = left
		}
		if len(removed) > 0 {
			all.addRemoval(a, removed, r.base.rules)
		}
	}
	return all
}

// leaves: the cluster is no longer in the list from which management clusters provision.
func (r Result) leavesFleet(before *Effective) bool {
	if before == nil || before.Deleted() {
		return false
	}
	_, stays := r.State.Get(KindCluster, before.id)
	return !stays
}

// what says it to people.
func (l removals) describe() string {
	var parts []string
	others := l.leaving + l.unlisted + l.moving
	if n := l.count - others; n > 0 {
		parts = append(parts, fmt.Sprintf("%s would be removed from %s", plural(n, "installed thing"), plural(len(l.byName)-others, "cluster")))
	}
	if l.leaving > 0 {
		parts = append(parts, plural(l.leaving, "cluster")+" would leave the fleet")
	}
	if l.unlisted > 0 {
		parts = append(parts, plural(l.unlisted, "cluster")+" would leave a filtered list of clusters that is polled")
	}
	if l.moving > 0 {
		parts = append(parts, plural(l.moving, "cluster")+" would leave a protected environment")
	}
	return strings.Join(parts, ", and ")
}

// protection refuses a change that takes anything off a cluster with deletion_protection, whatever route it takes. It is
// what the fleet says before the change that counts: who lifts it does so in a change of its own.
func (l removals) checkProtection() error {
	if len(l.protected) == 0 {
		return nil
	}
	clusters := sortedKeys(l.protected)
	if len(clusters) > 1 {
		return errorf(CodeProtected, "%d clusters have deletion_protection, and this would take something off them: %s; clear it first, in a change of its own",
			len(clusters), list(clusters))
	}
	id := clusters[0]
	return errorf(CodeProtected, "cluster %q has deletion_protection, and this would take off it: %s; clear it first, in a change of its own: %s",
		id, list(l.protected[id].leaving), l.protected[id].cluster.howToUnprotect())
}

// unprotect says how deletion_protection is cleared.
func (e *Effective) howToUnprotect() string {
	if e.withoutLayers().cluster.DeletionProtection {
		return fmt.Sprintf("PATCH /clusters/%s {\"deletion_protection\": false}", e.id)
	}
	for _, d := range slices.Backward(e.chain.layers) {
		if d.layer().DeletionProtection != nil {
			return fmt.Sprintf("PATCH /layers/%s {\"deletion_protection\": null}", d.ID)
		}
	}
	return ""
}

// protectedFrom refuses to delete it.
func (e *Effective) protectedError() *Error {
	return errorf(CodeProtected, "cluster %q has deletion_protection; clear it first: %s", e.id, e.howToUnprotect())
}

// leaving are the ids of what would leave a cluster's lists or be uninstalled there.
func (r Result) removedIDs(a affected) []string {
	ids := map[string]bool{}
	for _, i := range r.removalsOn(a) {
		ids[i.ID] = true
	}
	if a.after != nil && a.after != a.before {
		for _, list := range r.lists() {
			for _, id := range missing(list.ids(a.before), list.ids(a.after)) {
				ids[id] = true
			}
		}
	}
	return sortedKeys(ids)
}

// likeness is what clusters have in common that share all they have, before and after: the same is removed from each.
type groupKey struct {
	before, after *layerChain
	was, is       string // environments
}

// likeness of a cluster; not shared: it is like no other.
func (a affected) groupKey() (like groupKey, shared bool) {
	if a.before == nil || a.after == nil || len(a.kept) > 0 || !a.before.shared || !a.after.shared || a.before.cluster.ClusterName != a.after.cluster.ClusterName {
		return groupKey{}, false
	}
	return groupKey{a.before.chain, a.after.chain, a.before.cluster.Environment, a.after.cluster.Environment}, true
}

// removalsLike is removalsOn, worked out once for clusters that are alike.
func (r Result) cachedRemovals(a affected, known map[groupKey][]installation) []installation {
	key, shared := a.groupKey()
	if !shared {
		return r.removalsOn(a)
	}
	removed, there := known[key]
	if !there {
		removed = r.removalsOn(a)
		known[key] = removed
	}
	return removed
}

// removalsOn is what Flux would uninstall on the cluster that polls by one name. It does not uninstall a component that
// was disabled already, a namespace that it was told to keep, or anything on a cluster that is forgotten.
func (r Result) removalsOn(a affected) []installation {
	if a.before == a.after && !a.redeployed && len(a.kept) == 0 {
		return nil
	}
	after := a.after
	if after == nil { // whoever is renamed goes on polling, by its new name
		doc := r.State.docs[KindCluster][a.before.id]
		if doc == nil {
			return nil
		}
		after = r.State.Effective(doc)
	}
	if a.before != nil && !a.redeployed && len(a.kept) == 0 && r.sameDeployments(a.before, after) {
		return nil
	}
	was := r.installedBefore(a)
	if len(was) == 0 {
		return nil
	}
	has := map[installation]bool{}
	if !after.Deleted() {
		// A namespace that stays on the list is there, whatever its policy has become.
		for _, i := range r.State.desiredInstallations(after) {
			has[i] = true
		}
	}
	removed := slices.DeleteFunc(slices.Clone(was), func(i installation) bool {
		i.Identity = ""
		return has[i]
	})
	if len(removed) == len(was) || len(r.State.kinds.lists) == r.State.kinds.compiledCount {
		return removed
	}
	return append(removed, r.renamed(a.before, after, was)...)
}

// lists are those that clusters had before or have after. Of one that is there before and after it is the one after.
func (r Result) lists() []*descriptor { return r.State.kinds.listsWithRemoved(r.base.kinds) }

// alike tells whether two clusters are assigned the same things, deployed in the same way as far as they say.
func (r Result) sameDeployments(a, b *Effective) bool {
	return r.State.sameAnswers(r.base, a, b) ||
		fluxCluster(a.cluster) == fluxCluster(b.cluster) && !slices.ContainsFunc(r.lists(), func(list *descriptor) bool { return !list.sameDeployments(a, b) })
}

// wanted is what a cluster is told to run.
func (s *State) desiredInstallations(cluster *Effective) []installation {
	n := 0
	for _, a := range s.kinds.lists {
		n += a.count(cluster)
	}
	out := make([]installation, 0, n)
	for _, a := range s.kinds.lists {
		out = a.appendInstallations(out, s, cluster)
	}
	return out
}

// Installs is how much a cluster is told to have installed: the entries of its lists that are enabled.
func (s *State) InstallCount(d *Document) int {
	n, cluster := 0, s.Effective(d)
	for _, a := range s.kinds.lists {
		n += a.enabledCount(cluster)
	}
	return n
}

// installed is what a cluster runs and Flux would remove if it was no longer told to run it.
func (s *State) installed(cluster *Effective, now time.Time) []installation {
	return slices.DeleteFunc(s.desiredInstallations(cluster), func(i installation) bool {
		a := s.kinds.descriptor(i.Kind)
		doc, ok := s.Get(i.Kind, i.ID)
		return a.mayBeKept && (!ok || a.kept(doc, now))
	})
}

func missing(before, after []string) []string {
	kept := make(map[string]bool, len(after))
	for _, id := range after {
		kept[id] = true
	}
	return slices.DeleteFunc(slices.Clone(before), func(id string) bool { return kept[id] })
}

// confirmation says why the change must be confirmed, or nothing.
func (r Result) confirmationReason() string {
	if why := r.removals.mustConfirm; len(why) > 0 {
		slices.Sort(why)
		if more := len(why) - 1; more > 0 {
			return fmt.Sprintf("%s (and %d more like it)", why[0], more)
		}
		return why[0]
	}
	for _, ns := range sortedKeys(r.removals.namespaces) {
		if n := r.removals.namespaces[ns]; n > 1 {
			return fmt.Sprintf("namespace %q and everything in it would be deleted on %d clusters", ns, n)
		}
	}
	recent := r.base.recentRemovals(r.Commit.At)
	most, before := r.base.rules.MaxRemovals, removalsIn(recent)
	if r.removals.count == 0 || r.removals.count+before <= most {
		return ""
	}
	reason := r.removals.describe()
	if before > 0 {
		reason += fmt.Sprintf(", %d were within the last hour without a plan_hash (%s)", before, listRevisions(recent))
	}
	return fmt.Sprintf("%s, and more than %d in an hour need to be confirmed", reason, most)
}
