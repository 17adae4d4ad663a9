package fleet

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// Plan returns the effect of the change on every cluster's polls, as the API shows it. It uses the functions that answer
// polls.
func (r Result) Plan() (api.Plan, error) {
	if len(r.base.enforcedPolicies()) == 0 || r.exemptFromPolicies() {
		return r.plan(nil)
	}
	return r.plan(r.newPolicyEffect())
}

// plan returns the plan, with the verdicts of policies if their view of the effect is to be collected.
func (r Result) plan(policies *policyEffect) (api.Plan, error) {
	reason := r.confirmationReason()
	plan := api.Plan{
		BaseRevision: int64(r.base.Revision()), ConfirmationRequired: reason != "", ConfirmationReason: reason,
		Changes: changeRefs(r.Commit.Changes), Groups: []api.EffectGroup{}, Ownership: r.ownership(),
		Results: []api.OperationResult{}, Warnings: append([]string{}, r.Warnings...),
	}
	plan.Waiting = []api.RolloutWaiting{}
	plan.Totals.Removals, plan.Protected = r.removals.count, r.removals.protectedEnvironments()
	plan.Totals.Leaving = r.removals.unlisted + r.removals.moving
	groups := map[string]int{}
	clusters, err := r.affected(true)
	if err != nil {
		return plan, err
	}
	slices.SortFunc(clusters, func(a, b affected) int { return cmp.Or(cmp.Compare(a.id, b.id), compareNames(a.before, b.before)) })
	effects := r.effects()
	freezes := r.newFreezeCheck()
	taken := &takeovers{base: r.base, next: r.State, work: work{r.work.Work, rendering.NewBudget(templateSteps), r.work.isStored}}
	for _, a := range clusters {
		if err := r.work.stopped(); err != nil {
			return plan, err
		}
		group, err := effects.on(a)
		if err != nil {
			return plan, err
		}
		freezes.add(a, group.key != "")
		if policies != nil {
			policies.add(a, group.key != "", nil)
		}
		if group.key == "" {
			continue
		}
		plan.Totals.Clusters++
		for _, e := range group.Effect {
			plan.Totals.Added += len(e.Added)
			plan.Totals.Changed += len(e.Changed)
			plan.Totals.Removed += len(e.Removed)
		}
		at, known := groups[group.key]
		if !known {
			at = len(plan.Groups)
			groups[group.key] = at
			plan.Groups = append(plan.Groups, group.EffectGroup)
			taken.add(a, group.Effect)
		}
		plan.Groups[at].Clusters = append(plan.Groups[at].Clusters, a.id)
	}
	plan.Warnings = append(plan.Warnings, taken.all()...)
	for _, step := range r.stageWaits() {
		plan.Waiting = append(plan.Waiting, *step.Waiting())
		plan.Warnings = append(plan.Warnings, step.startWarning())
	}
	if plan.Pending, err = r.pending(); err != nil {
		return plan, err
	}
	var reached []string
	if r.advancesRollout() {
		reached = plan.Pending
	} else if len(plan.Pending) > 0 {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("the change reaches %s when unpinned: %s", plural(len(plan.Pending), "pinned cluster"), firstIDs(plan.Pending, 3)))
	}
	refused := freezes.result(reached)
	if len(refused.pinned) > 0 {
		plan.Warnings = append(plan.Warnings, "the change would be refused: "+pinnedError(refused.pinned).Detail)
	}
	for _, f := range refused.frozen {
		plan.Warnings = append(plan.Warnings, "the change would be refused: "+f.describe())
	}
	plan.Frozen = frozenViews(refused.frozen)
	if plan.PlanHash, err = r.hash(plan.Groups); err != nil || policies == nil {
		return plan, err
	}
	verdicts, err := r.policyVerdicts(r.base.enforcedPolicies(), func() (*policyEffect, error) { return policies, nil })
	if err != nil {
		return plan, err
	}
	plan.Policies = policyViews(verdicts)
	if err := r.addApproval(plan); err != nil {
		return plan, err
	}
	for _, v := range plan.Policies {
		if v.Failed {
			plan.Warnings = append(plan.Warnings, verdictWarning(v))
		}
	}
	return plan, nil
}

// hash covers the changes and their effects, without the revision and times. It includes removals: polls do not show them,
// and they depend on documents that others may change, such as a deletion policy.
func (r Result) hash(groups []api.EffectGroup) (string, error) {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	var text bytes.Buffer
	for _, ch := range r.Commit.Changes {
		if err := r.work.stopped(); err != nil {
			return "", err
		}
		if isInternal(ch.Kind) && (ch.Kind != KindSourceDocuments || ch.ID != r.source) { // that of a source has what it adopts
			continue // tokens of orphaned clusters: a rotation in the meantime has no effect on the plan
		}
		if doc := r.State.docs[ch.Kind][ch.ID]; doc != nil && doc.Deleted() {
			ch.After = json.RawMessage(`"decommissioned"`) // its content contains the time
		} else if ch.Kind == KindRollout {
			was, is := r.base.docs[KindRollout][ch.ID], r.State.docs[KindRollout][ch.ID]
			var err error
			if ch.Before, err = withoutCommit(was, is); err != nil {
				return "", err
			}
			if ch.After, err = withoutCommit(is, was); err != nil {
				return "", err
			}
		}
		if err := encodeChange(&text, ch); err != nil {
			return "", err
		}
		if _, err := text.WriteTo(sum); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(sum, endOfList); err != nil {
		return "", err
	}
	if err := r.encodeList(sum, enc, len(groups), func(i int) any { return groups[i] }); err != nil {
		return "", err
	}
	clusters := sortedKeys(r.removals.byName)
	if err := r.encodeList(sum, enc, len(clusters), func(i int) any { return append(r.removals.idsFor(clusters[i]), clusters[i]) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16]), nil
}

// encodeList encodes a list item by item: as a whole it may take hundreds of megabytes.
func (r Result) encodeList(w io.Writer, enc *json.Encoder, n int, item func(i int) any) error {
	for i := range n {
		if err := r.work.stopped(); err != nil {
			return err
		}
		if err := enc.Encode(item(i)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, endOfList)
	return err
}

const endOfList = "end\n"

// encodeChange writes a change as encoding/json encodes it, without parsing the documents: stored documents have no white
// space, so only the characters that encoding/json escapes must be found.
func encodeChange(text *bytes.Buffer, ch Change) error {
	head, err := json.Marshal(struct {
		Kind Kind   `json:"kind"`
		ID   string `json:"id"`
	}{ch.Kind, ch.ID})
	if err != nil {
		return err
	}
	text.Write(bytes.TrimSuffix(head, []byte("}")))
	text.WriteString(`,"before":`)
	encodeDocument(text, ch.Before)
	text.WriteString(`,"after":`)
	encodeDocument(text, ch.After)
	text.WriteString("}\n")
	return nil
}

// encodeDocument writes a stored document with the escapes of encoding/json.
func encodeDocument(text *bytes.Buffer, body json.RawMessage) {
	if body == nil {
		text.WriteString("null")
		return
	}
	json.HTMLEscape(text, body)
}

// Changes returns the changed documents, without internal ones.
func (r Result) Changes() []api.ChangeRef { return changeRefs(r.Commit.Changes) }

// changeRefs returns references to changes, without those of internal documents.
func changeRefs(changes []Change) []api.ChangeRef {
	refs := make([]api.ChangeRef, 0, len(changes))
	for _, ch := range changes {
		if !kindUses[ch.Kind].derived {
			refs = append(refs, api.ChangeRef{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action()})
		}
	}
	return refs
}
