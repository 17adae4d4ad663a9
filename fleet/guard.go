package fleet

import (
	"fmt"
	"slices"
	"time"

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
	if err := r.lost.protection(); err != nil {
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
	if need := r.confirmation(); need != "" {
		return &Error{Code: CodeConfirm, Detail: need + ": look at it with POST /plan, and send the plan_hash of that plan"}
	}
	return nil
}

// losses are what a change makes Flux uninstall, on all clusters.
type losses struct {
	count, clusters int
	namespaces      map[string]int      // deleted with everything in them, and on how many clusters
	protected       map[string][]string // what would leave clusters with deletion_protection
}

// losses compares what clusters have with what they would have.
func (r Result) losses(hit []affected) losses {
	all := losses{namespaces: map[string]int{}, protected: map[string][]string{}}
	for _, a := range hit {
		if before := a.before; before != nil && !before.Deleted() && before.Cluster().DeletionProtection {
			if leaving := r.leaving(a); len(leaving) > 0 {
				all.protected[before.ID] = leaving
			}
		}
		lost := r.removalsOn(a)
		if len(lost) > 0 {
			all.clusters++
		}
		all.count += len(lost)
		for _, i := range lost {
			if i.Kind == KindNamespace {
				all.namespaces[i.ID]++
			}
		}
	}
	return all
}

// protection refuses a change that takes anything off a cluster with deletion_protection, whatever route it takes. It is
// what the fleet says before the change that counts: who lifts it does so in a change of its own.
func (l losses) protection() error {
	if len(l.protected) == 0 {
		return nil
	}
	clusters := sortedKeys(l.protected)
	if len(clusters) > 1 {
		return errorf(CodeProtected, "%d clusters have deletion_protection, and this would take something off them: %s; clear it first, in a change of its own",
			len(clusters), list(clusters))
	}
	id := clusters[0]
	return errorf(CodeProtected, "cluster %q has deletion_protection, and this would take off it: %s; clear it first, in a change of its own: PATCH /clusters/%s {\"deletion_protection\": false}",
		id, list(l.protected[id]), id)
}

// leaving are the ids of what would leave a cluster's lists or be uninstalled there.
func (r Result) leaving(a affected) []string {
	ids := map[string]bool{}
	for _, i := range r.removalsOn(a) {
		ids[i.ID] = true
	}
	if a.after != nil && a.after != a.before {
		for _, list := range assignments {
			for _, id := range missing(list.ids(a.before.Cluster()), list.ids(a.after.Cluster())) {
				ids[id] = true
			}
		}
	}
	return sortedKeys(ids)
}

// removalsOn is what Flux would uninstall on the cluster that polls by one name. It does not uninstall a component that
// was disabled already, a namespace that it was told to keep, or anything on a cluster that is forgotten.
func (r Result) removalsOn(a affected) []installation {
	if a.before == a.after && !a.redeployed {
		return nil
	}
	after := a.after
	if after == nil { // whoever is renamed goes on polling, by its new name
		if after = r.State.docs[KindCluster][a.before.ID]; after == nil {
			return nil
		}
	}
	if a.before != nil && !a.redeployed && sameLists(a.before.Cluster(), after.Cluster()) {
		return nil
	}
	was := r.installedUnder(a)
	if len(was) == 0 {
		return nil
	}
	has := map[installation]bool{}
	if !after.Deleted() {
		// A namespace that stays on the list is there, whatever its policy has become.
		for _, i := range r.State.wanted(after.Cluster()) {
			has[i] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(was), func(i installation) bool { return has[i] })
}

// sameLists tells whether two clusters are assigned the same things, deployed in the same way as far as they say.
func sameLists(a, b *api.Cluster) bool {
	alike := func(a, b api.ComponentAssignment) bool {
		return a.ID == b.ID && a.Enabled == b.Enabled && a.ComponentPath == b.ComponentPath
	}
	return slices.EqualFunc(a.PlatformComponents, b.PlatformComponents, alike) &&
		slices.Equal(a.Namespaces, b.Namespaces) && slices.Equal(a.Rolebindings, b.Rolebindings)
}

// wanted is what a cluster is told to run.
func (s *State) wanted(c *api.Cluster) []installation {
	out := make([]installation, 0, len(c.PlatformComponents)+len(c.Namespaces)+len(c.Rolebindings))
	for _, e := range c.PlatformComponents {
		if doc, ok := s.Get(KindComponent, e.ID); ok && e.Enabled {
			out = append(out, installation{KindComponent, e.ID, deploymentOn(doc.Component(), e)})
		}
	}
	for _, ref := range c.Namespaces {
		out = append(out, installation{Kind: KindNamespace, ID: ref.ID})
	}
	for _, ref := range c.Rolebindings {
		out = append(out, installation{Kind: KindRoleBinding, ID: ref.ID})
	}
	return out
}

// installed is what a cluster runs and Flux would remove if it was no longer told to run it.
func (s *State) installed(c *api.Cluster, now time.Time) []installation {
	return slices.DeleteFunc(s.wanted(c), func(i installation) bool { return i.Kind == KindNamespace && s.keeps(i.ID, now) })
}

// keeps tells whether Flux leaves a namespace in place that is taken off a cluster. It goes by the deletion policy that
// it applied last, so one that was changed lately does not count yet.
func (s *State) keeps(namespace string, now time.Time) bool {
	doc, ok := s.Get(KindNamespace, namespace)
	return !ok || doc.namespace().DeletionPolicy == policyOrphan && !doc.unsettled(now)
}

// unsettled tells whether a document was changed so lately that some clusters may not have polled since.
func (d *Document) unsettled(now time.Time) bool {
	return now.Sub(d.UpdatedAt) < settleTime && d.UpdatedAt.After(d.CreatedAt)
}

func missing(before, after []string) []string {
	kept := make(map[string]bool, len(after))
	for _, id := range after {
		kept[id] = true
	}
	return slices.DeleteFunc(slices.Clone(before), func(id string) bool { return kept[id] })
}

// confirmation says why the change must be confirmed, or nothing.
func (r Result) confirmation() string {
	for _, ns := range sortedKeys(r.lost.namespaces) {
		if n := r.lost.namespaces[ns]; n > 1 {
			return fmt.Sprintf("namespace %q and everything in it would be deleted on %d clusters", ns, n)
		}
	}
	lately := r.base.lately(r.Commit.At)
	most, before := r.base.rules.MaxRemovals, removalsIn(lately)
	if r.lost.count == 0 || r.lost.count+before <= most {
		return ""
	}
	what := fmt.Sprintf("%s would be removed from %s", plural(r.lost.count, "installed thing"), plural(r.lost.clusters, "cluster"))
	if before > 0 {
		what += fmt.Sprintf(", %d were within the last hour without a plan_hash (%s)", before, spentBy(lately))
	}
	return fmt.Sprintf("%s, and more than %d in an hour need to be confirmed", what, most)
}
