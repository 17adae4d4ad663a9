package fleet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Finish validates the fleet after the edits and returns the commit that makes them, with c's id, time, actor, reason and
// request id. It reports all problems at once. A problem that was stored before and has not grown is a warning: unrelated
// changes must stay possible.
func (tx *Tx) Finish(c Commit) (Result, error) {
	if tx.base.visible != nil { // clusters would lose everything that it lacks
		return Result{}, errors.New("a State with only the visible documents cannot be changed")
	}
	if tx.beforeFinish != nil {
		if err := tx.beforeFinish(c); err != nil {
			return Result{}, err
		}
	}
	if err := tx.updateVersionRecords(c); err != nil {
		return Result{}, err
	}
	if err := tx.updateSourceRecords(c.At); err != nil {
		return Result{}, err
	}
	tx.noteMissingValues()
	if err := tx.warnFromLayers(); err != nil {
		return Result{}, err
	}
	edits, changes, err := tx.changes(c.At)
	if err != nil {
		return Result{}, err
	}
	if err := cmp.Or(tx.checkAdminKinds(), tx.checkDocumentsInScope(edits)); err != nil {
		return Result{}, err
	}
	if err := tx.checkLabelsInScope(edits, c.At); err != nil {
		return Result{}, err
	}
	if len(changes) == 0 {
		res := Result{Commit: c, State: tx.base, Warnings: tx.sortedNotes(), base: tx.base, objects: newObjectChanges(tx.base, tx.base, tx.work), work: tx.work}
		return res, tx.guard.check(res)
	}
	if err := tx.checkFleetLimits(edits, c.At); err != nil {
		return Result{}, err
	}
	if err := tx.checkReferenceCounts(edits); err != nil {
		return Result{}, err
	}
	c.Revision, c.Changes = tx.base.Revision()+1, changes
	if c.Operations, err = tx.requestedOperations(changes); err != nil {
		return Result{}, err
	}
	duplicates := tx.duplicateDNS(edits)
	next, err := tx.base.with(c, edits, false)
	if err != nil && (next == nil || len(duplicates) == 0) {
		return Result{}, err
	}
	if err := cmp.Or(next.checkPriorities(edits), tx.checkLayerCostInScope(next)); err != nil {
		return Result{}, err
	}
	if err := cmp.Or(next.checkRolloutDocuments(), tx.base.checkRolloutDeletions(edits, c.At)); err != nil {
		return Result{}, err
	}
	v := &txValidation{base: tx.base, next: next, layerChanges: next.layerChanges(tx.base, edits), servedChanges: next.servedChanges(tx.base, edits), problems: duplicates, work: tx.work, recalled: tx.recalled, valid: validPatches{patches: map[*Document][]api.PatchValues{}}}
	res := Result{Commit: c, State: next, base: tx.base, layerChanges: v.servedChanges, filters: tx.filters, objects: newObjectChanges(tx.base, next, tx.work), work: tx.work, redoes: tx.redoes, source: tx.source}
	if err := v.checkFleet(tx, edits, c.At); err != nil {
		return Result{}, tx.scopeErrorFirst(edits, &res, err)
	}
	res.Warnings, res.Stored = append(tx.sortedNotes(), v.warnings...), v.stored
	affectedNames, err := res.affected(false)
	if err != nil {
		return Result{}, err
	}
	res.removals = res.computeRemovals(affectedNames)
	if err := tx.work.stopped(); err != nil {
		return Result{}, err // the objects were not compared completely
	}
	res.Warnings = append(res.Warnings, res.removals.warnings...)
	if err := tx.checkClustersInScope(&res); err != nil {
		return Result{}, err
	}
	if err := tx.checkReadable(edits, &res); err != nil {
		return Result{}, err
	}
	overridden, err := tx.checkManaged(c)
	if err != nil {
		return Result{}, err
	}
	frozen, err := tx.guard.checkFrozen(res)
	if err == nil && len(frozen) > 0 {
		err = tx.checkOverrideInScope(RightOverrideFreeze)
	}
	if err != nil {
		return res, err
	}
	overridden = append(overridden, frozen...)
	if err := tx.guard.check(res); err != nil {
		return res, err
	}
	if tx.guard.withoutPlan() {
		if err := res.warnOfEffect(affectedNames); err != nil {
			return res, err
		}
	}
	res.approval = func(planHash string) (approvalUse, error) {
		if planHash == "" {
			plan, err := res.plan(nil)
			if err != nil {
				return approvalUse{}, err
			}
			planHash = plan.PlanHash
		}
		return tx.approvalOf(&res, edits, planHash)
	}
	policies, used, err := tx.checkPolicyRules(&res)
	if err != nil {
		return res, err
	}
	overridden = append(overridden, policies...)
	if err := tx.recordOverridden(&res, overridden); err != nil {
		return res, err
	}
	return res.recordRemovals(affectedNames, tx.guard.PlanHash != "" || res.confirmedByRollout(), used)
}

// warnOfEffect warns of what is easily overlooked in a change without a plan. These warnings are first: a long list of headers is cut off.
func (r *Result) warnOfEffect(affectedNames []affected) error {
	var out []string
	if w := r.removalWarning(affectedNames); w != "" {
		out = append(out, w)
	}
	pinned, err := r.pending()
	switch {
	case len(pinned) == 1:
		out = append(out, "1 cluster is pinned and keeps what it is served: "+pinned[0])
	case len(pinned) > 1:
		out = append(out, fmt.Sprintf("%d clusters are pinned and keep what they are served: %s", len(pinned), firstIDs(pinned, 3)))
	}
	r.Warnings = append(out, r.Warnings...)
	return err
}

// checkFleet returns an error if the fleet is not valid after the edits.
func (v *txValidation) checkFleet(tx *Tx, edits []edit, now time.Time) error {
	if !tx.seed.covers(tx) {
		if err := v.checkInUse(tx, edits); err != nil {
			return err
		}
		missing := v.checkMissing(tx, edits)
		v.checkDocuments(edits)
		if missing != nil && !slices.ContainsFunc(v.problems, func(p Problem) bool { return strings.HasPrefix(p.Pointer, "/variables/") }) {
			return missing // other problems may be those of text without values
		}
		v.checkExpanded(edits)
		v.checkDependents(edits)
		v.checkSharedObjects(edits)
		if err := tx.work.stopped(); err != nil {
			return err // the commit was not checked completely
		}
		v.checkPolicies(edits, now)
		v.checkManagedPolicies(edits)
	}
	if err := cmp.Or(v.err(), v.checkSecretValues(edits)); err != nil {
		return err
	}
	if err := v.checkVariants(edits); err != nil {
		return cmp.Or(tx.work.stopped(), err)
	}
	return nil
}

// recordOverridden records the overridden freezes, sources and policies among the requested operations of the commit.
func (tx *Tx) recordOverridden(res *Result, overridden []api.RevisionOperation) (err error) {
	if len(overridden) == 0 {
		return nil
	}
	for _, op := range overridden {
		if op.Kind == string(KindFreeze) { // the others are noted already
			res.Warnings = append(res.Warnings, fmt.Sprintf("freeze %q is overridden: the answers to %s change", op.ID, plural(op.Clusters, "frozen cluster")))
		}
	}
	asked := tx.requested
	tx.requested = nil // overrides come first: a long list is cut off at its end
	for _, op := range overridden {
		tx.recordOperation(op)
	}
	tx.requested = append(tx.requested, asked...)
	res.Commit.Operations, err = tx.requestedOperations(res.Commit.Changes)
	return err
}

// changes returns the edits that change a document, sorted, and the same as changes of the log.
func (tx *Tx) changes(now time.Time) ([]edit, []Change, error) {
	var edits []edit
	for key, doc := range tx.edits {
		if err := tx.work.stopped(); err != nil {
			return nil, nil, err
		}
		before := tx.base.docs[key.kind][key.id]
		if pendingTombstone(doc) {
			tombstone, err := tx.tombstone(doc, now)
			if err != nil {
				return nil, nil, err
			}
			doc = tombstone
		}
		if before == nil && doc == nil || before != nil && doc != nil && bytes.Equal(before.Body, doc.Body) {
			continue
		}
		edits = append(edits, edit{key.kind, key.id, doc})
	}
	edits, err := tx.addPins(tx.dropTokens(tx.endTombstones(edits)))
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(edits, func(a, b edit) int {
		if a.kind == b.kind { // true for nearly all of possibly thousands of pairs
			return strings.Compare(a.id, b.id)
		}
		return strings.Compare(string(a.kind)+"/"+a.id, string(b.kind)+"/"+b.id)
	})
	return edits, changesOf(tx.base, edits), nil
}

// duplicateDNS reports clusters that would share a DNS name.
func (tx *Tx) duplicateDNS(edits []edit) []Problem {
	taken := map[string]string{}
	var problems []Problem
	for _, e := range edits {
		if e.kind != KindCluster || e.doc == nil {
			continue
		}
		dns := lowerASCII(e.doc.Cluster().ClusterDNS) // a stored name may have any case
		other, clash := taken[dns]
		if holder, ok := tx.base.byDNS[dns]; ok && holder != e.id && !clash {
			after, edited := editOf(edits, holder)
			clash = !edited || after != nil && lowerASCII(after.Cluster().ClusterDNS) == dns
			other = holder
		}
		if clash {
			problems = append(problems, Problem{Pointer: "/cluster_dns", Detail: fmt.Sprintf("%q is the cluster_dns of cluster %q", dns, other), Kind: e.kind, ID: e.id})
		}
		taken[dns] = e.id
	}
	return problems
}

// editOf returns the edit of a cluster, and whether there is one.
func editOf(edits []edit, cluster string) (*Document, bool) {
	for _, e := range edits {
		if e.kind == KindCluster && e.id == cluster {
			return e.doc, true
		}
	}
	return nil, false
}

// err returns the problems as an error: validation errors first, then limits, then object conflicts.
func (v *txValidation) err() error {
	if len(v.problems) > 0 {
		return Invalid(append(v.problems, v.limits...))
	}
	if len(v.limits) > 0 {
		return &Error{Code: CodeLimitExceeded, Detail: summarizeProblems(v.limits), Problems: v.limits}
	}
	if len(v.conflicts) > 0 {
		return &Error{Code: CodeObjectConflict, Detail: summarizeProblems(v.conflicts), Problems: v.conflicts}
	}
	return nil
}

// checkDocuments checks the changed documents.
func (v *txValidation) checkDocuments(edits []edit) {
	found := v.checkEach(len(edits), func(i int) checkResult {
		if edits[i].doc == nil {
			return checkResult{}
		}
		now, was := v.checkDocument(edits[i])
		return checkResult{now, was}
	})
	for _, f := range found {
		if f.now != nil {
			v.add(f.now, f.was)
		}
	}
}

// check returns the problems of a document in the next State.
func (v *txValidation) check(doc *Document, limit int, known bool) *checker {
	c := &checker{next: v.next, base: v.base, limit: limit, alreadyValid: known, recalled: v.recalled[docKey{doc.Kind, doc.ID}], work: v.work, valid: &v.valid}
	if !doc.Deleted() {
		if v.next.kinds.mayBeServed(doc.Kind) {
			checkReferences(c, doc)
		}
		doc.rules.check(c, doc)
	}
	return c
}

// checkDocument checks one document in the next State, and in the base if that matters.
func (v *txValidation) checkDocument(e edit) (now, was *checker) {
	doc := v.next.docs[e.kind][e.id]
	before := v.base.docs[e.kind][e.id]
	known := v.alreadyValid(before, doc)
	now, was = v.check(doc, maxProblems, known), &checker{next: v.base, work: v.work}
	if before != nil && len(now.problems)+len(now.limits)+len(now.warnings) > 0 {
		was = check(v.base, before, 0, v.work)
		if n := len(was.problems); n > 0 { // these are only warnings, so they must not use up the limit
			if now = v.check(doc, maxProblems+n, known); now.full() {
				now.problem("", "there are %d problems or more; %d of them were stored before", now.limit, n)
			}
		}
	}
	if e.kind == KindCluster && !doc.Deleted() {
		checkSizes(now, v.next.configured(doc), v.next.kinds.lists...)
		if len(now.limits) > 0 && before != nil && !before.Deleted() {
			checkSizes(was, v.base.configured(before), v.base.kinds.lists...)
		}
		if len(now.problems)+len(now.limits) == 0 && !now.inactivePatches && v.work.stopped() == nil {
			v.markChecked(before, doc)
		}
	}
	if before != nil && doc.rules.changed != nil {
		doc.rules.changed(now, before, doc)
	}
	for _, problems := range [][]Problem{now.problems, now.limits} {
		for i := range problems {
			problems[i].Kind, problems[i].ID = e.kind, e.id
		}
	}
	return now, was
}

// alreadyValid reports whether a cluster has the same configuration as in the base, which was checked without problems.
// Warnings of such a check would not be new either.
func (v *txValidation) alreadyValid(before, doc *Document) bool {
	return v.unchanged(before, doc) && v.base.configured(before).checked.Load() == v.next.definitions
}

// unchanged reports whether the answers to a live cluster are certainly the same as before.
func (v *txValidation) unchanged(before, doc *Document) bool {
	return doc.Kind == KindCluster && before != nil && !before.Deleted() && !doc.Deleted() &&
		v.next.sameAnswers(v.base, v.base.configured(before), v.next.configured(doc))
}

// markChecked marks the configuration of a cluster as checked, also in the base: the next plan starts from there.
func (v *txValidation) markChecked(before, doc *Document) {
	v.next.configured(doc).checked.Store(v.next.definitions)
	if v.unchanged(before, doc) {
		v.base.configured(before).checked.Store(v.next.definitions)
	}
}

// checkInUse refuses to delete a definition that other documents still refer to.
func (v *txValidation) checkInUse(tx *Tx, edits []edit) error {
	deleted := map[Kind]map[string]bool{}
	for _, e := range edits {
		if e.doc == nil && e.kind != KindCluster && e.kind != KindResourceType {
			if deleted[e.kind] == nil {
				deleted[e.kind] = map[string]bool{}
			}
			deleted[e.kind][e.id] = true
		}
	}
	usersOf := map[Kind]map[string][]*Document{}
	for kind, ids := range deleted {
		usersOf[kind] = tx.referrersOf(kind, ids)
	}
	var used []string
	for _, kind := range v.next.unknownTypeKinds() {
		users := v.next.sorted(kind, func(*Document) bool { return true })
		used = append(used, fmt.Sprintf("the resource type %q is used by %s: %s", kind.Endpoint(), plural(len(users), "resource"), list(idsOf(users))))
	}
	for _, e := range edits {
		users := usersOf[e.kind][e.id]
		if len(users) == 0 {
			continue
		}
		var clusters, layers, others []string
		for _, u := range users {
			switch u.Kind {
			case KindCluster:
				clusters = append(clusters, u.ID)
			case KindLayer:
				layers = append(layers, u.ID)
			default:
				others = append(others, u.ID)
			}
		}
		noun := tx.base.kinds.noun(e.kind)
		var by []string
		if len(clusters) > 0 {
			by = append(by, fmt.Sprintf("%s: %s", plural(len(clusters), "cluster"), list(clusters)))
		}
		if len(layers) > 0 {
			by = append(by, fmt.Sprintf("%s: %s", plural(len(layers), "layer"), list(layers)))
		}
		if len(others) > 0 {
			by = append(by, fmt.Sprintf("%s: %s", plural(len(others), noun), list(others)))
		}
		used = append(used, fmt.Sprintf("the %s %q is used by %s", noun, e.id, strings.Join(by, ", and ")))
	}
	if len(used) == 0 {
		return nil
	}
	return errorf(CodeInUse, "%s; unassign it first, or delete it with cascade=true", strings.Join(used, "; "))
}

// covers reports whether a Tx only creates documents that Check has found valid.
func (s Seed) covers(tx *Tx) bool {
	if len(s) == 0 || tx.base.Revision() != 0 || len(tx.edits) != len(s) || s[0].under == nil || !slices.Equal(s[0].under.Environments, tx.base.rules.Environments) {
		return false
	}
	for _, d := range s {
		if d.under != s[0].under || d.doc == nil || tx.edits[docKey{d.Kind, d.ID}] != d.doc {
			return false
		}
	}
	return true
}
