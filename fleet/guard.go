package fleet

import (
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
	if before == nil || before.Deleted() || after == nil || before == after && !a.redeployed {
		return r
	}
	was, is := before.Cluster(), after.Cluster()
	if a.redeployed || !slices.EqualFunc(was.PlatformComponents, is.PlatformComponents, runsAlike) {
		running := map[string]deployment{}
		for _, e := range is.PlatformComponents {
			if doc, ok := next.Get(KindComponent, e.ID); ok && e.Enabled {
				running[e.ID] = deploymentOf(doc.Component())
			}
		}
		for _, e := range was.PlatformComponents {
			if doc, ok := base.Get(KindComponent, e.ID); ok && e.Enabled && running[e.ID] != deploymentOf(doc.Component()) {
				r.count++
			}
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

// deployment is what Flux knows an installed component by: when it changes, Flux uninstalls what is there and installs it
// anew.
type deployment struct{ kind, release, namespace string }

func deploymentOf(p *api.PlatformComponent) deployment {
	return deployment{p.Type, p.ReleaseName, p.TargetNamespace}
}

func runsAlike(a, b api.ComponentAssignment) bool { return a.ID == b.ID && a.Enabled == b.Enabled }

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
	for _, a := range r.affected(false) {
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
