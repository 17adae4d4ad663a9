package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/policy"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Policies are evaluated on the effect of a change, after rights, freezes and the guard. Those of the State before the change decide, so a
// change cannot lift the rule that refuses it.

// maxVerdictClusters is the number of clusters that a plan names for each policy.
const maxVerdictClusters = 100

// policyVerdict is the result of one policy on a change.
type policyVerdict struct {
	policy   *Document
	failed   bool
	message  string   // of a failed policy, or the error of its rule
	clusters []string // that the policy concerns, sorted
	changed  int      // the number of these clusters, if the rule limits those of an hour
}

// refuses reports whether the policy refuses the change, unless it is approved.
func (v policyVerdict) refuses() bool { return v.failed && v.policy.Policy().Action != PolicyWarn }

// describe describes the failure in a message.
func (v policyVerdict) describe() string { return fmt.Sprintf("policy %q: %s", v.policy.ID, v.message) }

// policyVerdicts evaluates policies on the change. effect computes the effect, if a rule reads it. A policy with a match that concerns no
// cluster of the effect has no verdict, unless a field that this version does not know may extend the match.
func (r Result) policyVerdicts(policies []*Document, effect func() (*policyEffect, error)) ([]policyVerdict, error) {
	if len(policies) == 0 || len(r.Commit.Changes) == 0 {
		return nil, nil
	}
	var computed *policyEffect
	on := func(p *Policy) (*policy.Effect, error) {
		if computed == nil {
			var err error
			if computed, err = effect(); err != nil {
				return nil, err
			}
		}
		return computed.of(p), nil
	}
	change, removals := r.policyChange(), removalsIn(r.base.recentRemovals(r.Commit.At))
	refusing, warning := policy.NewBudget(), policy.NewWarningBudget() // so that no warning makes a policy fail that refuses
	var out []policyVerdict
	for _, d := range policies {
		p := d.Policy()
		if p.Match != nil && p.Known() {
			if e, err := on(p); err != nil || len(e.Clusters) == 0 {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		v := policyVerdict{policy: d}
		in := &policy.Input{
			Change: change, Now: r.Commit.At, Recent: policy.Recent{Removals: removals, Count: r.base.recentClusters(r.Commit.At, d.ID)},
			Effect: func() (*policy.Effect, error) { return on(p) },
		}
		budget := refusing
		if p.Action == PolicyWarn {
			budget = warning
		}
		if err := r.evaluatePolicy(p, in, budget, &v); err != nil {
			return nil, err
		}
		if v.failed && computed != nil {
			for _, c := range computed.of(p).Clusters {
				v.clusters = append(v.clusters, c.ID)
			}
			v.clusters = slices.Compact(v.clusters)
		}
		out = append(out, v)
	}
	return out, nil
}

// evaluatePolicy sets the result of a verdict. A rule that cannot be evaluated fails. The error is that of the work.
func (r Result) evaluatePolicy(p *Policy, in *policy.Input, budget *policy.Budget, v *policyVerdict) error {
	fail := func(err error) error {
		v.failed, v.message = true, "its rule cannot be evaluated on this change: "+err.Error()
		return r.work.stopped()
	}
	if !p.Known() {
		v.failed, v.message = true, "it has a field that this version does not know"
		return nil
	}
	program, err := p.Program()
	if err != nil { // stored by another version
		return fail(err)
	}
	verdict, err := program.Eval(r.work.Context(), in, budget)
	if err != nil {
		return fail(err)
	}
	if program.ReadsRecentCount {
		effect, err := in.Effect()
		if err != nil {
			return err
		}
		v.changed = len(effect.Clusters)
	}
	v.failed, v.message = verdict.Failed, verdict.Message
	if v.failed && v.message == "" {
		v.message = "its rule is false for this change"
		if p.Description != "" {
			v.message = p.Description
		}
	}
	return nil
}

// policyChange returns the change as policies read it.
func (r Result) policyChange() *policy.Change {
	out := &policy.Change{Kind: "change", Actor: r.Commit.Actor, Author: r.Commit.Author, Reason: r.Commit.Reason, Source: r.source}
	operations, more, _ := r.Commit.Requested()
	only := func(is func(api.RevisionOperation) bool) bool {
		return len(operations) > 0 && more == 0 && !slices.ContainsFunc(operations, func(op api.RevisionOperation) bool { return !is(op) })
	}
	switch {
	case r.source != "":
		out.Kind = "source"
	case r.Commit.Actor == VersionAutomation:
		out.Kind = "version"
	case only(func(op api.RevisionOperation) bool { return op.Op == "revert" }):
		out.Kind = "revert"
	case only(func(op api.RevisionOperation) bool { return op.Op == "restore" }):
		out.Kind = "restore"
	case only(func(op api.RevisionOperation) bool { return op.Kind == string(KindRollout) && op.Op != "create" }):
		out.Kind, out.Rollout = "rollout", operations[0].ID
	}
	for _, ch := range r.Commit.Changes {
		if kindUses[ch.Kind].derived {
			continue
		}
		doc := &policy.Document{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action()}
		if ch.Kind != KindToken && ch.Kind != KindWebhook { // they have secrets
			doc.Before, doc.After = ch.Before, ch.After
		}
		out.Documents = append(out.Documents, doc)
	}
	return out
}

// exemptFromPolicies reports whether no policy may refuse the change: it takes a rollout back or pauses it, or it has no effect on
// clusters and only takes something away from people and programs. Otherwise a rule that is always false would lock everybody out.
func (r Result) exemptFromPolicies() bool {
	operations, more, _ := r.Commit.Requested()
	takesBack := len(operations) > 0 && more == 0 && !r.redoes
	for _, op := range operations {
		takesBack = takesBack && op.Kind == string(KindRollout) && slices.Contains([]string{RolloutBack, RolloutAbort, RolloutPause}, op.Op)
	}
	return takesBack || !slices.ContainsFunc(r.Commit.Changes, func(ch Change) bool { return !takesAway(ch) && !r.startsNothing(ch) })
}

// startsNothing reports whether a change of a rollout is exempt: the proposal of version policies, which is what they do if policies refuse
// their change, or the end of a rollout that has not started, as by a hold of its version.
func (r Result) startsNothing(ch Change) bool {
	was, is := r.base.docs[KindRollout][ch.ID], r.State.docs[KindRollout][ch.ID]
	if ch.Kind != KindRollout || is == nil {
		return false
	}
	if is.rollout().State == rolloutAborted {
		return was != nil && was.rollout().State == rolloutProposed
	}
	return r.Commit.Actor == VersionAutomation && is.rollout().State == rolloutProposed
}

// takesAway reports whether the change of a document is exempt from policies.
func takesAway(ch Change) bool {
	switch ch.Kind {
	case KindFreeze:
		return ch.Before == nil
	case KindToken, KindAccess:
		return ch.After == nil
	case KindSessionEnd:
		return ch.After != nil
	case KindPolicy: // they need a right of their own
		return true
	case KindSource:
		return suspends(ch, func(obj map[string]any) map[string]any { return map[string]any{"": obj} })
	case KindComponent:
		return suspends(ch, func(obj map[string]any) map[string]any {
			policies, _ := obj["version_policies"].(map[string]any)
			return policies
		})
	default:
		return kindUses[ch.Kind].derived
	}
}

// suspends reports whether a change only sets the field suspended of objects in a document, and ends the suspension of none.
func suspends(ch Change, in func(map[string]any) map[string]any) bool {
	if ch.Before == nil || ch.After == nil {
		return false
	}
	var texts [2][]byte
	var suspended [2]map[string]bool
	for i, body := range []json.RawMessage{ch.Before, ch.After} {
		obj, err := unstructured.Decode(body)
		if err != nil {
			return false
		}
		suspended[i] = map[string]bool{}
		for name, v := range in(obj) {
			of, _ := v.(map[string]any)
			if set, _ := of["suspended"].(bool); set {
				suspended[i][name] = true
			}
			delete(of, "suspended")
		}
		if texts[i], err = jsontext.Canonical(obj); err != nil {
			return false
		}
	}
	for name := range suspended[0] {
		if !suspended[1][name] {
			return false
		}
	}
	return len(suspended[1]) > len(suspended[0]) && bytes.Equal(texts[0], texts[1])
}

// checkPolicyRules refuses a change that a policy refuses, unless the guard names the policy and the commit has a reason. It adds the
// warnings of policies, and returns the operations that record an override.
func (tx *Tx) checkPolicyRules(res *Result) (overridden []api.RevisionOperation, used []edit, err error) {
	if tx.guard.Off || tx.guard.proposed || len(res.base.docs[KindPolicy]) == 0 || res.exemptFromPolicies() {
		return nil, nil, nil
	}
	verdicts, err := res.policyVerdicts(res.base.enforcedPolicies(), res.policyEffect)
	if err != nil {
		return nil, nil, err
	}
	var refused []policyVerdict
	res.changedClusters = map[string]int{}
	for _, v := range verdicts {
		if v.changed > 0 {
			res.changedClusters[v.policy.ID] = v.changed
		}
		switch {
		case v.refuses() && slices.Contains(tx.guard.OverridePolicies, v.policy.ID):
			overridden = append(overridden, api.RevisionOperation{Op: "override", Kind: string(KindPolicy), ID: v.policy.ID, Clusters: len(v.clusters)})
			res.PolicyWarnings = append(res.PolicyWarnings, fmt.Sprintf("policy %q is overridden: %s", v.policy.ID, v.message))
		case v.refuses():
			refused = append(refused, v)
		case v.failed:
			res.PolicyWarnings = append(res.PolicyWarnings, v.describe())
		}
	}
	res.Warnings = append(res.Warnings, res.PolicyWarnings...)
	switch {
	case len(overridden) == 0:
	case !res.Commit.hasReason():
		err = Invalid([]Problem{{Detail: fmt.Sprintf("a reason is required to override the policy %q: send X-Change-Reason", overridden[0].ID)}})
	default:
		err = tx.checkPolicyOverrideInScope()
	}
	if len(refused) == 0 {
		return overridden, nil, err
	}
	approved, used, refusal := tx.useApproval(res, refused)
	return append(overridden, approved...), used, cmp.Or(refusal, err)
}

// useApproval returns the operations that record an approval which admits the change, and the edit that uses it up. The error is that of
// the policies, if they refuse the change.
func (tx *Tx) useApproval(res *Result, refused []policyVerdict) (approved []api.RevisionOperation, used []edit, err error) {
	if slices.ContainsFunc(refused, func(v policyVerdict) bool { return v.policy.Policy().Action != PolicyApprove }) {
		return nil, nil, policyError(refused, approvalUse{})
	}
	use, err := res.approval(tx.guard.PlanHash) // which the guard has compared
	if err != nil {
		return nil, nil, err
	}
	if use.doc == nil {
		return nil, nil, policyError(refused, use)
	}
	for _, v := range refused {
		approved = append(approved, api.RevisionOperation{Op: opApproved, Kind: string(KindPolicy), ID: v.policy.ID, Clusters: len(v.clusters), Fields: []string{truncate("by=" + use.doc.approval().By)}})
	}
	for id, d := range tx.base.docs[KindApproval] { // those of other persons too: a change is approved once
		if d == use.doc || d.approval().PlanHash == use.PlanHash && d.approval().Subject == use.Subject {
			used = append(used, edit{KindApproval, id, nil})
		}
	}
	return approved, used, nil
}

// checkPolicyOverrideInScope refuses to override policies without the right to do so, and for role write: it changes none either.
func (tx *Tx) checkPolicyOverrideInScope() error {
	if tx.scope == nil && tx.withoutAdmin {
		return errorf(CodeOutOfScope, "overrides of policies need the role admin, or the right %s", RightOverridePolicy)
	}
	return tx.checkOverrideInScope(RightOverridePolicy)
}

// policyError returns the error of failed policies, with one problem for each, and the approval that would admit the change.
func policyError(refused []policyVerdict, use approvalUse) error {
	var problems []Problem
	var details []string
	for _, v := range refused {
		problems = append(problems, Problem{Kind: KindPolicy, ID: v.policy.ID, Detail: v.message})
		details = append(details, v.describe())
	}
	if use.PlanHash != "" {
		details = append(details, use.describe())
	}
	return &Error{Code: CodePolicy, Detail: strings.Join(details, "; "), Problems: problems, Approval: use.NeededApproval}
}

// FailedPolicies returns the failed policies of a plan, and the warnings of another plan of the same change with those about them. It is
// for a principal who may not read policies: the other plan was made without them. All clusters of the effect are in both plans.
func FailedPolicies(whole, visible api.Plan) ([]api.PolicyVerdict, []string) {
	warnings := visible.Warnings
	failed := slices.DeleteFunc(slices.Clone(whole.Policies), func(v api.PolicyVerdict) bool { return !v.Failed })
	for _, v := range failed {
		warnings = append(warnings, verdictWarning(v))
	}
	return failed, warnings
}

// verdictWarning returns the warning of a plan about a failed policy.
func verdictWarning(v api.PolicyVerdict) string {
	text := fmt.Sprintf("policy %q: %s", v.ID, v.Message)
	switch {
	case v.ApprovedBy != "":
		text = "approved by " + v.ApprovedBy + ": " + text
	case v.Action == PolicyApprove:
		text = "the change needs the approval of another person: " + text
		if v.ApprovalEnded != "" {
			text += "; the approval does not count, since " + v.ApprovalEnded
		}
	case v.Action != PolicyWarn:
		text = "the change would be refused: " + text
	}
	return text
}

// addApproval adds the approval of the change to the verdicts of a plan.
func (r Result) addApproval(plan api.Plan) error {
	needed := func(v api.PolicyVerdict) bool { return v.Failed && v.Action == PolicyApprove }
	if r.approval == nil || !slices.ContainsFunc(plan.Policies, needed) {
		return nil
	}
	use, err := r.approval(plan.PlanHash)
	if err != nil {
		return err
	}
	for i := range plan.Policies {
		switch v := &plan.Policies[i]; {
		case !needed(*v):
		case use.doc == nil:
			v.ApprovalEnded = use.problem
		default:
			a := use.doc.approval()
			v.ApprovedBy, v.ApprovedUntil = a.By, new(a.At.Add(approvalAge))
		}
	}
	return nil
}

// policyViews returns the verdicts as a plan shows them.
func policyViews(verdicts []policyVerdict) []api.PolicyVerdict {
	out := make([]api.PolicyVerdict, 0, len(verdicts))
	for _, v := range verdicts {
		out = append(out, api.PolicyVerdict{ID: v.policy.ID, Action: v.policy.Policy().Action, Failed: v.failed, Message: v.message, Clusters: len(v.clusters), ClusterIds: append([]string{}, v.clusters[:min(len(v.clusters), maxVerdictClusters)]...)})
	}
	return out
}
