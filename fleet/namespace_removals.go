package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// checkPolicies prevents the deletion of a namespace whose policy says to keep it: Flux applies the policy that it received
// last, so the policy must arrive before the namespace leaves the list.
func (v *txValidation) checkPolicies(edits []edit, now time.Time) {
	for _, e := range edits {
		if e.kind != KindCluster {
			continue
		}
		before, ok := v.base.Get(KindCluster, e.id)
		if !ok || e.doc == nil { // an orphaned cluster: Flux deletes nothing there
			continue
		}
		var is *Effective
		if after, ok := v.next.Get(KindCluster, e.id); ok {
			is = v.next.Effective(after)
		}
		v.namespacesLeft(v.base.Effective(before), is, now)
	}
	for _, r := range v.servedChanges {
		v.namespacesLeft(r.was, r.is, now)
	}
}

// namespacesLeft checks the namespaces that are removed from a cluster; is is nil if it is decommissioned.
func (v *txValidation) namespacesLeft(was, is *Effective, now time.Time) {
	before, after := was.cluster.Namespaces, []api.NamespaceRef(nil)
	if is != nil {
		after = is.cluster.Namespaces
	}
	if slices.Equal(before, after) || len(v.problems) >= maxAllProblems {
		return
	}
	kept := make(map[string]bool, len(after))
	for _, ref := range after {
		kept[ref.ID] = true
	}
	for _, ref := range before {
		if !kept[ref.ID] {
			v.removed(was, is, ref.ID, now)
		}
	}
}

// removed refuses or warns if Flux may still delete a removed namespace because of its former policy.
func (v *txValidation) removed(before, after *Effective, namespace string, now time.Time) {
	cluster := before.id
	was, ok := v.base.definition(before, KindNamespace, namespace)
	if !ok {
		return
	}
	is, ok := v.next.definition(after, KindNamespace, namespace)
	switch {
	case was.namespace().DeletionPolicy == policyDelete && ok && is.namespace().DeletionPolicy == policyOrphan:
		v.problems = append(v.problems, Problem{Pointer: "", Detail: fmt.Sprintf(
			"namespace %q would be deleted on cluster %q: set deletion_policy to orphan first, and take it off the cluster once the cluster has polled", namespace, cluster)})
	case was.namespace().DeletionPolicy == policyOrphan && was.unsettled(now):
		v.warnings = append(v.warnings, fmt.Sprintf(
			"namespace %q was changed %s ago: if cluster %q has not polled since its deletion_policy became orphan, the namespace is deleted there", namespace, now.Sub(was.UpdatedAt).Round(time.Second), cluster))
	}
}
