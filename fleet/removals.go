package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

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

// removalWarning describes the removals of a change in one line; "" if Flux uninstalls nothing and no cluster leaves the fleet. Clusters that
// leave a list or an environment have their own warnings.
func (r Result) removalWarning(affectedNames []affected) string {
	uninstalled := r.removals.count - r.removals.leaving - r.removals.unlisted - r.removals.moving
	if uninstalled+r.removals.leaving == 0 {
		return ""
	}
	things, on, leaving := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range affectedNames {
		for _, i := range r.removals.byName[a.name] {
			switch i.Kind {
			case KindCluster:
				leaving[i.ID] = r.leavesFleet(a.before)
				continue
			case KindComponent:
				things[i.ID] = true
			default:
				things[r.base.kinds.noun(i.Kind)+" "+i.ID] = true
			}
			on[a.id] = true
		}
	}
	maps.DeleteFunc(leaving, func(_ string, leaves bool) bool { return !leaves })
	const most = 3
	var parts []string
	if uninstalled > 0 {
		parts = append(parts, fmt.Sprintf("Flux uninstalls %s on %s: %s on %s",
			plural(uninstalled, "thing"), plural(len(on), "cluster"), firstIDs(sortedKeys(things), most), firstIDs(sortedKeys(on), most)))
	}
	switch {
	case len(leaving) == 1:
		parts = append(parts, "1 cluster leaves the fleet: "+list(sortedKeys(leaving)))
	case len(leaving) > 1:
		parts = append(parts, fmt.Sprintf("%d clusters leave the fleet: %s", len(leaving), firstIDs(sortedKeys(leaving), most)))
	}
	return strings.Join(parts, "; ")
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

// cachedRemovals is removalsOn, computed once per group.
func (r Result) cachedRemovals(a affected, known map[groupKey][]installation) []installation {
	key, shared := a.groupKey()
	if !shared || r.objects.ofCluster(a.before, a.after) {
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
	only := a.changed // of the same lists, Flux uninstalls only definitions that change
	if a.before != after || len(a.kept) > 0 {
		only = nil
	}
	was := r.installedBefore(a, only)
	if len(was) == 0 {
		return nil
	}
	has := map[installation]bool{}
	if !after.Deleted() {
		// A namespace that stays on the list stays installed, whatever its policy has become.
		for _, i := range r.State.desiredInstallations(after, only) {
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

// installedBefore returns the installations on the cluster that polls by a name; see desiredInstallations.
func (r Result) installedBefore(a affected, only map[Kind]map[string]bool) []installation {
	if a.before != nil {
		if a.before.Deleted() {
			return a.kept
		}
		return append(r.base.installed(a.before, only, r.Commit.At), a.kept...)
	}
	if doc := r.base.docs[KindOrphan][a.name]; doc != nil {
		return doc.value.(*orphanRecord).Installed
	}
	return nil
}

// takeoverReason returns the reason why a change must be confirmed if another document answers a name from now on: the
// cluster that polls by this name is the same as before, and Flux uninstalls there whatever the new document lacks. It
// returns "" if no object is uninstalled.
func (r Result) takeoverReason(a affected, removed []installation) string {
	if len(removed) == 0 || a.after == nil || a.before != nil && a.before.id == a.after.id {
		return ""
	}
	return fmt.Sprintf("cluster %q takes over the name %q, and Flux would uninstall %s on the cluster that polls by it", a.after.id, a.name, plural(len(removed), "thing"))
}

// leavesList returns the filtered list of clusters that a cluster leaves while it stays in the fleet; "" for none.
func (r Result) leavesList(before *Effective) string {
	if before == nil || before.Deleted() || len(r.filters.Filters) == 0 && !r.filters.Unknown {
		return ""
	}
	was, is := r.base.docs[KindCluster][before.id], r.State.docs[KindCluster][before.id]
	if was == is || is == nil || is.Deleted() {
		return ""
	}
	a, b := was.Cluster(), is.Cluster()
	if a.Environment == b.Environment && maps.Equal(a.Labels, b.Labels) {
		return ""
	}
	if r.filters.Unknown {
		return "a filtered list of clusters (which ones are polled is not known yet)"
	}
	at := slices.IndexFunc(r.filters.Filters, func(f ClusterFilter) bool { return f.Matches(a) && !f.Matches(b) })
	if at < 0 {
		return ""
	}
	return "the list of clusters with " + r.filters.Filters[at].String()
}

// leavesEnvironment returns the protected environment that a cluster, or the name it polls by, leaves; "" for none.
func (r Result) leavesEnvironment(a affected) string {
	if a.before == nil || a.before.Deleted() || !slices.Contains(r.base.rules.Protected, a.before.cluster.Environment) {
		return ""
	}
	after := a.after
	if after == nil {
		if doc, ok := r.State.Get(KindCluster, a.before.id); ok {
			after = r.State.Effective(doc)
		}
	}
	if after == nil || after.Deleted() || after.cluster.Environment == a.before.cluster.Environment {
		return ""
	}
	return a.before.cluster.Environment
}

// addDeparture records that a cluster which stays in the fleet leaves a list from which it is provisioned, or a protected
// environment. It returns the removals that this counts as if the cluster loses nothing else.
func (l *removals) addDeparture(r Result, a affected, loses bool) []installation {
	environment, list := r.leavesEnvironment(a), r.leavesList(a.before)
	if environment != "" {
		l.mustConfirm = append(l.mustConfirm, fmt.Sprintf("cluster %q leaves the protected environment %q", a.before.id, environment))
		l.warnings = append(l.warnings, fmt.Sprintf("cluster %q leaves the protected environment %q, whose protection ends for it", a.before.id, environment))
	}
	if list != "" {
		l.warnings = append(l.warnings, fmt.Sprintf("cluster %q leaves %s: a management cluster that provisions from it may delete the cluster", a.before.id, list))
	}
	switch {
	case loses || environment == "" && list == "":
		return nil
	case environment != "":
		l.moving++
	default:
		l.unlisted++
	}
	return []installation{{Kind: KindCluster, ID: a.before.id}}
}

// recreationReason returns the reason why a change must be confirmed that creates a deleted resource type again; "" if no
// object is uninstalled by it.
func (r Result) recreationReason(a affected, removed []installation) string {
	for _, i := range removed {
		if typeID, ok := i.Kind.ResourceType(); ok && r.base.kinds.byKind[i.Kind] == nil && a.before != nil {
			return fmt.Sprintf("resource type %q is there again: cluster %q has kept objects of it since it was deleted, and Flux would uninstall them", typeID, a.before.id)
		}
	}
	return ""
}
