package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// The rights of a principal with access documents are checked against the effect of a commit: one access document must cover each
// document that the commit changes, and each cluster whose answers may differ, before and after the commit. So a batch, a restore,
// a cascade or a stage of a rollout needs no rules of its own.

// LimitTo makes Finish refuse a change with CodeOutOfScope unless one access document of the rights permits the whole change. For
// a dry run, the right to plan is sufficient.
func (tx *Tx) LimitTo(r Rights, dryRun bool) {
	tx.scope = &scope{rights: r}
	tx.withoutAdmin = !r.Everywhere(RightAdmin)
	for _, a := range r.grants {
		if a.permitsChanges() {
			tx.scope.grants = append(tx.scope.grants, grant{a, false})
		}
		if dryRun && a.may(RightPlan) {
			tx.scope.grants = append(tx.scope.grants, grant{a, true})
		}
	}
}

// checkAdminKinds is checkAdminKind for all edits, unless access documents decide: their refusal names the documents.
func (tx *Tx) checkAdminKinds() (err error) {
	for key := range tx.edits {
		if err == nil && tx.scope == nil && (key.kind != KindSource || !tx.suspended[key.id]) {
			err = tx.checkAdminKind(key.kind)
		}
	}
	return err
}

// identity returns the identity of an issuer whose rights limit the Tx; nil: there is none.
func (s *scope) identity() *Subject {
	if s == nil {
		return nil
	}
	return s.rights.Identity()
}

// narrow keeps only the grants that cover all n documents or clusters. If no grant remains, the error is CodeOutOfScope, with those
// that no grant covers.
func (s *scope) narrow(n int, covers func(g grant, i int) bool, problem func(i int) Problem) error {
	kept := slices.Clone(s.grants)
	var outside []Problem
	for i := 0; i < n && len(outside) < maxProblems; i++ {
		kept = slices.DeleteFunc(kept, func(g grant) bool { return !covers(g, i) })
		if len(kept) == 0 && !slices.ContainsFunc(s.grants, func(g grant) bool { return covers(g, i) }) {
			if p, last := problem(i), len(outside)-1; last < 0 || outside[last] != p { // a cluster may be affected now and later
				outside = append(outside, p)
			}
		}
	}
	switch {
	case len(outside) > 0:
		return outOfScope(outside)
	case len(kept) == 0 && n > 0:
		return errorf(CodeOutOfScope, "no access document of yours permits the whole change: they permit parts of it, but are not combined; make one change for each part")
	}
	s.grants = kept
	return nil
}

// outOfScope returns the error for documents and clusters that no access document covers.
func outOfScope(outside []Problem) error {
	names := make([]string, len(outside))
	for i, p := range outside {
		names[i] = fmt.Sprintf("%s %q", p.Kind, p.ID)
	}
	return &Error{Code: CodeOutOfScope, Detail: "no access document of yours permits this change of " + list(names), Problems: outside}
}

// checkDocumentsInScope refuses a change of documents that no access document permits.
func (tx *Tx) checkDocumentsInScope(edits []edit) error {
	if tx.scope == nil {
		return nil
	}
	if len(tx.scope.grants) == 0 {
		return errorf(CodeOutOfScope, "no access document of yours permits changes")
	}
	check := scopeCheck{tx: tx, approval: tx.requestedOnly(RolloutApprove), revert: tx.requestedOnly("revert")}
	edits = slices.DeleteFunc(slices.Clone(edits), check.isDerived)
	return tx.scope.narrow(len(edits), func(g grant, i int) bool { return check.permits(g, edits[i]) }, func(i int) Problem {
		detail := "no access document of yours permits this change"
		if slices.ContainsFunc(tx.scope.grants, func(g grant) bool { return check.onlyVersions(g, edits[i]) }) {
			detail += "; push_version permits only other versions in entries that exist"
		}
		return Problem{Kind: edits[i].kind, ID: edits[i].id, Detail: detail}
	})
}

// requestedOnly reports whether all requested operations are of one kind.
func (tx *Tx) requestedOnly(op string) bool {
	return len(tx.requested) > 0 && !slices.ContainsFunc(tx.requested, func(ran doneOperation) bool { return ran.Op != op })
}

// scopeCheck checks the documents of a change.
type scopeCheck struct {
	tx       *Tx
	approval bool // the change consists only of approvals
	revert   bool // the change consists only of reverts
}

// isDerived reports whether the change of a document results from the rest of the commit: a record of the service, or the token of
// a deleted cluster.
func (c scopeCheck) isDerived(e edit) bool {
	if e.kind == KindToken && e.doc == nil {
		cluster := c.tx.base.docs[KindToken][e.id].token().ClusterID
		doc, edited := c.tx.edits[docKey{KindCluster, cluster}]
		return cluster != "" && edited && (doc == nil || c.tx.createsAgain(edit{KindCluster, cluster, doc}))
	}
	if e.kind == KindVersionAutomation {
		return !c.tx.holdsChanged[e.id]
	}
	if e.kind == KindSource {
		return c.tx.suspended[e.id]
	}
	return kindUses[e.kind].derived
}

// permits reports whether a grant permits the change of a document.
func (c scopeCheck) permits(g grant, e edit) bool {
	before, after := c.tx.base.docs[e.kind][e.id], e.doc
	if e.kind == KindVersionAutomation { // a request changes holds, which needs the rights on the component
		component := c.tx.raw(KindComponent, e.id)
		return component != nil && (g.planned || g.may(RightWrite)) && (g.On == nil || c.covers(g, component))
	}
	if c.tx.kinds.useOf(e.kind).forAdmins() {
		return g.On == nil && (g.may(RightAdmin) || c.tx.kinds.useOf(e.kind).policies && g.may(RightPolicy)) // also for plans: their answers contain the subjects of access documents
	}
	approves := e.kind == KindRollout && approvesStage(before, after)
	switch {
	case g.planned:
	case approves && !g.may(RightApprove):
		return false
	case c.approval: // the principal may change the rollout only by approving a stage
		if !approves {
			return false
		}
	case g.may(RightWrite), c.revert && g.may(RightRevert), g.may(RightPushVersion) && g.permitsVersions(before, after):
	default:
		return false
	}
	if g.On == nil {
		return true
	}
	return (before == nil || c.covers(g, before)) && (after == nil || c.covers(g, after))
}

// onlyVersions reports whether a grant permits the change of versions in a document and no other change of it.
func (c scopeCheck) onlyVersions(g grant, e edit) bool {
	before, after := c.tx.base.docs[e.kind][e.id], e.doc
	return before != nil && after != nil && g.may(RightPushVersion) && !g.may(RightWrite) && g.coversVersionsOf(e.kind) &&
		(g.On == nil || c.covers(g, before) && c.covers(g, after))
}

// approvesStage reports whether a change of a rollout adds an approval. The change needs the right to approve, regardless of the
// operation that made it.
func approvesStage(before, after *Document) bool {
	if after == nil {
		return false
	}
	for i, stage := range after.rollout().Stages {
		var was *stageApproval
		if before != nil && i < len(before.rollout().Stages) {
			was = before.rollout().Stages[i].Approved
		}
		if stage.Approved != nil && (was == nil || *was != *stage.Approved) {
			return true
		}
	}
	return false
}

// covers reports whether one version of a document is within the limits of a grant.
func (c scopeCheck) covers(g grant, doc *Document) bool {
	if !g.coversKind(doc.Kind) {
		return false
	}
	limited := g.On.Selector != ""
	switch doc.Kind {
	case KindCluster:
		return !limited || g.selector.Matches(doc.Cluster())
	case KindComponent:
		return matchesAny(g.On.Components, doc.ID)
	case KindLayer:
		l := doc.layer()
		return matchesAny(g.On.Layers, doc.ID) && (!limited || l.selectorErr == nil && !l.All && l.selector.within(g.selector))
	case KindFreeze:
		f := doc.freeze()
		return !limited || !f.All && f.Selector != "" && f.selector.within(g.selector)
	case KindRollout:
		return c.coversRollout(g, doc.rollout())
	case KindStrategy, KindResourceType:
		return !limited // rollouts and definitions of others may use them
	default: // its effect on clusters is checked
		return true
	}
}

// coversRollout reports whether the limits of a grant cover every document that a rollout changes. Its stages need no limit:
// reachedByRollouts finds their clusters.
func (c scopeCheck) coversRollout(g grant, r *rollout) bool {
	for _, ch := range r.Changes {
		for _, body := range []json.RawMessage{ch.Before, ch.After} {
			doc, err := c.tx.kinds.document(Record{Kind: ch.Kind, ID: ch.ID, Body: body})
			if err != nil || !c.covers(g, doc) {
				return false
			}
		}
	}
	return true
}

// matchesAny reports whether an id matches one of the patterns, or there are none.
func matchesAny(patterns []string, id string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return matchesPattern(p, id) })
}

// within reports whether a selector contains each requirement of limit. It then selects only clusters that limit selects, also of
// clusters that join later.
func (s Selector) within(limit Selector) bool {
	have, _ := s.selector.Requirements()
	want, _ := limit.selector.Requirements()
	for _, r := range want {
		if !slices.ContainsFunc(have, func(h labels.Requirement) bool { return sameRequirement(h, r) }) {
			return false
		}
	}
	return true
}

// sameRequirement reports whether two requirements are equal; all operators for equality count as one.
func sameRequirement(a, b labels.Requirement) bool {
	operator := func(r labels.Requirement) selection.Operator {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals:
			return selection.In
		case selection.NotEquals:
			return selection.NotIn
		default:
			return r.Operator()
		}
	}
	return a.Key() == b.Key() && operator(a) == operator(b) && a.Values().Equal(b.Values())
}

// checkClustersInScope refuses a change of answers to clusters unless an access document covers them before and after. It does not
// compare answers: each cluster whose answers may differ must be covered.
func (tx *Tx) checkClustersInScope(res *Result) error {
	if tx.scope == nil {
		return nil
	}
	if slices.ContainsFunc(tx.scope.grants, func(g grant) bool { return g.limitsClusters() }) {
		clusters, err := tx.clustersToCover(res)
		if err != nil {
			return err
		}
		slices.SortFunc(clusters, func(a, b affected) int { return strings.Compare(a.id, b.id) })
		err = tx.scope.narrow(len(clusters), func(g grant, i int) bool { return g.coversCluster(res, clusters[i]) }, func(i int) Problem {
			return Problem{Kind: KindCluster, ID: clusters[i].id, Detail: "its answers may change, and no access document of yours permits that"}
		})
		if err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(tx.scope.grants, func(g grant) bool { return !g.planned }) {
		res.Warnings = append(res.Warnings, "the change would be refused: your access documents permit only to plan it")
	}
	return nil
}

// clustersToCover returns the clusters that determine which access documents cover the change, and those that none covers. Clusters
// that only refer to a changed definition are omitted if they cannot change that.
func (tx *Tx) clustersToCover(r *Result) ([]affected, error) {
	direct, changes := r.affectedDirectly()
	late, err := r.affectedLater()
	if err != nil {
		return nil, err
	}
	out := append(r.addRecreated(direct, changes.definitions), late...)
	staged := tx.changedByRollouts()
	add := func(id string) bool {
		a, refers := r.affectedByDefinitions(id, changes)
		if !refers {
			a, refers = r.reachedByRollouts(id, staged)
		}
		if refers {
			out = append(out, a)
		}
		return refers
	}
	for id := range tx.base.pinned {
		add(id)
	}
	if len(changes.definitions)+len(staged) == 0 {
		return out, nil
	}
	var limits []*access
	for _, g := range tx.scope.grants {
		if g.limitsClusters() {
			limits = append(limits, g.access)
		}
	}
	excluded := make([]bool, len(limits)) // because of a cluster in out
	for id, outside := range tx.base.referrersOutside(limits, changes.definitions, staged) {
		if err := r.work.stopped(); err != nil {
			return nil, err
		}
		if len(outside) < len(tx.scope.grants) && !slices.ContainsFunc(outside, func(i int) bool { return !excluded[i] }) {
			continue
		}
		if add(id) {
			for _, i := range outside {
				excluded[i] = true
			}
		}
	}
	return out, nil
}

// changedByRollouts returns the definitions that open rollouts in the change stage. An approval, a skipped stage or a pause changes
// no answer at once, but decides about later answers to the clusters that refer to these definitions.
func (tx *Tx) changedByRollouts() map[Kind]map[string]bool {
	staged := map[Kind]map[string]bool{}
	for key, doc := range tx.edits {
		if key.kind != KindRollout {
			continue
		}
		for _, d := range []*Document{tx.base.docs[KindRollout][key.id], doc} {
			if d == nil || !d.rollout().open() {
				continue
			}
			addRolloutChanges(staged, d)
		}
	}
	return staged
}

// reachedByRollouts returns a cluster if it refers to a definition that rollouts stage, now or when it is unpinned.
func (r *Result) reachedByRollouts(id string, staged map[Kind]map[string]bool) (affected, bool) {
	doc := r.State.docs[KindCluster][id]
	if doc == nil {
		return affected{}, false
	}
	if !r.State.uses(doc, staged) {
		return affected{}, false
	}
	e := r.State.Effective(doc)
	return affected{id: id, name: lowerName(doc.Cluster()), before: e, after: e}, true
}

// addRolloutChanges adds the documents that a rollout changes.
func addRolloutChanges(changed map[Kind]map[string]bool, doc *Document) {
	for _, ch := range doc.rollout().Changes {
		if changed[ch.Kind] == nil {
			changed[ch.Kind] = map[string]bool{}
		}
		changed[ch.Kind][ch.ID] = true // a layer is within the limits with all clusters that it selects: see covers
	}
}

// limitsClusters reports whether the document limits the clusters that a change may affect.
func (a *access) limitsClusters() bool { return a.On != nil && a.On.Selector != "" }

// coversCluster reports whether a cluster is within the limits before and after a change. A new cluster with the DNS name of a
// deleted cluster that left objects is not: it would uninstall them, and the labels of the deleted cluster are unknown.
func (a *access) coversCluster(res *Result, of affected) bool {
	if !a.limitsClusters() {
		return true
	}
	if of.before == nil && res.base.docs[KindOrphan][of.name] != nil {
		return false
	}
	return (of.before == nil || a.selector.Matches(of.before.cluster)) && (of.after == nil || a.selector.Matches(of.after.cluster))
}

// checkOverrideInScope refuses to override something without the right to do so.
func (tx *Tx) checkOverrideInScope(right Right) error {
	if tx.scope == nil {
		return nil
	}
	tx.scope.grants = slices.DeleteFunc(tx.scope.grants, func(g grant) bool { return !g.may(right) && !g.planned })
	if len(tx.scope.grants) == 0 {
		return errorf(CodeOutOfScope, "no access document of yours that permits the change grants %s as well", right)
	}
	return nil
}
