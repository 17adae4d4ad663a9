package fleet

import "slices"

// Guard sets the guard that Finish applies.
func (tx *Tx) Guard(g Guard) { tx.guard = g }

// withoutPlan reports whether the change is made without the plan_hash of a plan, so that its warnings must describe the effect.
func (g Guard) withoutPlan() bool { return g.PlanHash == "" && !g.Off && !g.proposed }

// check applies the guard to the result of a Tx.
func (g Guard) check(r Result) error {
	if err := r.removals.checkProtection(); err != nil {
		return err
	}
	if g.Off {
		return nil
	}
	if g.Keep && g.PlanHash == "" && r.removals.count > 0 {
		return errorf(CodeConfirm, "%s would be removed, and the first artifact of a source removes nothing", plural(r.removals.count, "installed thing"))
	}
	if g.PlanHash != "" {
		plan, err := r.plan(nil)
		if err != nil {
			return err
		}
		if plan.PlanHash != g.PlanHash {
			return &Error{Code: CodeStale, Detail: "the change would no longer do what was planned; make a new plan"}
		}
		return nil
	}
	if need := r.confirmationReason(); need != "" && !r.confirmedByRollout() {
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
