package fleet

// confirmedByRollout reports whether the removals of a stage belong to those that the author of the rollout confirmed with
// the plan_hash of the whole change: those of all stages so far are not more.
func (r Result) confirmedByRollout() bool {
	if r.base.rollouts == nil {
		return false
	}
	var started *Change
	for i, ch := range r.Commit.Changes {
		switch {
		case isInternal(ch.Kind):
		case ch.Kind != KindRollout || started != nil:
			return false
		default:
			started = &r.Commit.Changes[i]
		}
	}
	if started == nil || started.Before == nil || started.After == nil {
		return false
	}
	was, is := r.base.docs[KindRollout][started.ID], r.State.docs[KindRollout][started.ID]
	if is.rollout().ConfirmedRemovals == 0 || is.rollout().Started < was.rollout().Started || !is.rollout().open() {
		return false
	}
	without := *was.rollout()
	without.State, without.Started = rolloutProposed, 0
	doc, err := r.base.kinds.newRecord(KindRollout, was.ID, &without)
	if err != nil {
		return false
	}
	edits := []edit{{KindRollout, was.ID, doc}}
	c := r.Commit
	c.Changes = []Change{*started}
	base, err := r.base.with(c, edits, true)
	if err != nil {
		return false
	}
	all := Result{Commit: c, State: r.State, base: base, layerChanges: r.State.layerChanges(base, edits), filters: r.filters, work: r.work}
	names, err := all.affected(false)
	return err == nil && all.computeRemovals(names).count <= is.rollout().ConfirmedRemovals
}
