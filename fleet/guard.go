package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Guard limits the removals of a change.
type Guard struct {
	// PlanHash of a reviewed plan: the change is made only if its effect still equals that plan.
	PlanHash string
	// Careful refuses any removal from clusters of a protected environment that RemovesFrom does not name.
	Careful bool
	// RemovesFrom are the protected environments that a careful change may remove from.
	RemovesFrom []string
	// Off disables the guard; for plans, which commit no change.
	Off bool
}

// Guard sets the guard that Finish applies.
func (tx *Tx) Guard(g Guard) { tx.guard = g }

// check applies the guard to the result of a Tx.
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

// checkProtected refuses a careful change that removes from a protected environment that it does not name.
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

// removals are the installations that a change makes Flux uninstall, on all clusters.
type removals struct {
	count         int                           // including one for each cluster that leaves without any uninstallation
	leaving       int                           // number of these clusters
	unlisted      int                           // clusters that leave a filtered list of clusters without any uninstallation
	moving        int                           // clusters that leave a protected environment without any uninstallation
	byName        map[string][]installation     // by the DNS name of the cluster
	namespaces    map[string]int                // deleted with all their content: number of clusters, by name
	protected     map[string]protectedCluster   // clusters with deletion_protection, by id
	byEnvironment map[string]*api.ProtectedLoss // removals from protected environments, by name
	warnings      []string                      // about clusters that leave a list or an environment
	mustConfirm   []string                      // reasons that require confirmation, however few the removals
}

// protectedEnvironments returns the removals from protected environments, sorted by name.
func (l removals) protectedEnvironments() []api.ProtectedLoss {
	out := []api.ProtectedLoss{}
	for _, name := range sortedKeys(l.byEnvironment) {
		out = append(out, *l.byEnvironment[name])
	}
	return out
}

// addRemoval adds the removals of one cluster.
func (l *removals) addRemoval(a affected, removed []installation, rules Rules) {
	cluster := a.before
	if cluster == nil { // it takes over a name that has installations
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

// protectedCluster is a cluster with deletion_protection, and the ids that would be removed from it.
type protectedCluster struct {
	cluster *Effective
	leaving []string
}

// idsFor returns the removals of one cluster, sorted.
func (l removals) idsFor(dns string) []string {
	var ids []string
	for _, i := range l.byName[dns] {
		ids = append(ids, string(i.Kind)+"/"+i.ID)
	}
	slices.Sort(ids)
	return ids
}

// computeRemovals compares the clusters before and after the change.
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
		if reason := cmp.Or(r.recreationReason(a, removed), r.takeoverReason(a, removed)); reason != "" {
			all.mustConfirm = append(all.mustConfirm, reason)
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

// leavesFleet reports whether the cluster leaves the list from which management clusters provision.
func (r Result) leavesFleet(before *Effective) bool {
	if before == nil || before.Deleted() {
		return false
	}
	_, stays := r.State.Get(KindCluster, before.id)
	return !stays
}

// describe returns the removals as a phrase for messages.
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

// checkProtection refuses a change that removes anything from a cluster with deletion_protection, by whatever operation. The
// setting before the change counts: lifting it takes a change of its own.
func (l removals) checkProtection() error {
	if len(l.protected) == 0 {
		return nil
	}
	clusters := sortedKeys(l.protected)
	if len(clusters) > 1 {
		return errorf(CodeProtected, "%d clusters have deletion_protection, and this change would remove from them: %s; clear it first, in a change of its own",
			len(clusters), list(clusters))
	}
	id := clusters[0]
	return errorf(CodeProtected, "cluster %q has deletion_protection, and this change would remove from it: %s; clear it first, in a change of its own: %s",
		id, list(l.protected[id].leaving), l.protected[id].cluster.howToUnprotect())
}

// howToUnprotect returns the request that clears deletion_protection.
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

// protectedError refuses to delete the cluster.
func (e *Effective) protectedError() *Error {
	return errorf(CodeProtected, "cluster %q has deletion_protection; clear it first: %s", e.id, e.howToUnprotect())
}

// removedIDs returns the ids that would leave a cluster's lists or be uninstalled there.
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

// groupKey is equal for clusters that share their whole configuration, before and after: the removals are equal too.
type groupKey struct {
	before, after *layerChain
	was, is       string // environments
}

// groupKey of a cluster; not shared: no other cluster is equal.
func (a affected) groupKey() (like groupKey, shared bool) {
	if a.before == nil || a.after == nil || len(a.kept) > 0 || !a.before.shared || !a.after.shared || a.before.cluster.ClusterName != a.after.cluster.ClusterName {
		return groupKey{}, false
	}
	return groupKey{a.before.chain, a.after.chain, a.before.cluster.Environment, a.after.cluster.Environment}, true
}

// cachedRemovals is removalsOn, computed once per group.
func (r Result) cachedRemovals(a affected, known map[groupKey][]installation) []installation {
	key, shared := a.groupKey()
	if !shared {
		return r.removalsOn(a)
	}
	removed, present := known[key]
	if !present {
		removed = r.removalsOn(a)
		known[key] = removed
	}
	return removed
}

// removalsOn returns the installations that Flux would uninstall on the cluster that polls by one name. It does not
// uninstall a component that was disabled already, a namespace with the policy orphan, or anything on a cluster that is
// orphaned.
func (r Result) removalsOn(a affected) []installation {
	if a.before == a.after && !a.redeployed && len(a.kept) == 0 {
		return nil
	}
	after := a.after
	if after == nil { // a renamed cluster goes on polling, by its new name
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
		// A namespace that stays on the list stays installed, whatever its policy has become.
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

// lists returns the lists that clusters have before or after the change; in the later version if both.
func (r Result) lists() []*descriptor { return r.State.kinds.listsWithRemoved(r.base.kinds) }

// sameDeployments reports whether two clusters have the same entries, with the same deployment as far as the entries
// determine it.
func (r Result) sameDeployments(a, b *Effective) bool {
	return r.State.sameAnswers(r.base, a, b) ||
		fluxCluster(a.cluster) == fluxCluster(b.cluster) && !slices.ContainsFunc(r.lists(), func(list *descriptor) bool { return !list.sameDeployments(a, b) })
}

// desiredInstallations returns the enabled entries of a cluster.
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

// InstallCount returns the number of enabled entries in a cluster's lists.
func (s *State) InstallCount(d *Document) int {
	n, cluster := 0, s.Effective(d)
	for _, a := range s.kinds.lists {
		n += a.enabledCount(cluster)
	}
	return n
}

// installed returns the installations that Flux would remove if the answer lacked them.
func (s *State) installed(cluster *Effective, now time.Time) []installation {
	return slices.DeleteFunc(s.desiredInstallations(cluster), func(i installation) bool {
		a := s.kinds.descriptor(i.Kind)
		doc, ok := s.Get(i.Kind, i.ID)
		return a.mayBeKept && (!ok || a.kept(doc, now))
	})
}

// confirmationReason returns the reason why the change must be confirmed, or "".
func (r Result) confirmationReason() string {
	if reason := r.removals.mustConfirm; len(reason) > 0 {
		slices.Sort(reason)
		if more := len(reason) - 1; more > 0 {
			return fmt.Sprintf("%s (and %d more like it)", reason[0], more)
		}
		return reason[0]
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
