package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// raisable reports whether the last started stage has clusters that a raise would serve the change to.
func (r *rollout) raisable() bool {
	return r.open() && r.Started > 0 && r.Started <= len(r.Stages) && r.Stages[r.Started-1].Reached != ""
}

// raise moves the bound of the last started stage by AtOnce clusters. A stage has at most maxRaises raises: where so many
// clusters have joined that they are not enough, each serves more clusters.
func (tx *Tx) raise(r *rollout, again bool) {
	s := &r.Stages[r.Started-1]
	if s.AtOnce == 0 {
		return
	}
	var rest []uint64 // the positions of the clusters that are not served the change yet
	for _, d := range tx.base.All(KindCluster) {
		if c := d.Cluster(); r.stageOf(c) == r.Started-1 && (!again || !r.reaches(c)) {
			rest = append(rest, position(r.ID, c.ID))
		}
	}
	slices.Sort(rest)
	if again {
		s.Raises++
	}
	n := max(s.AtOnce, (len(rest)+maxRaises-s.Raises)/(maxRaises-s.Raises+1))
	if s.Reached, s.reached = "", 0; n < len(rest) {
		s.reached = rest[n-1] + 1
		s.Reached = fmt.Sprintf("%016x", s.reached)
	}
}

// countReached returns the number of clusters of a stage, which has size clusters, that are served the change.
func (s *State) countReached(r *rollout, stage, size int) int {
	switch {
	case !r.open() || stage >= r.Started:
		return 0
	case r.Stages[stage].Reached == "":
		return size
	}
	n := 0
	for _, d := range s.docs[KindCluster] {
		if c := d.Cluster(); !d.Deleted() && r.stageOf(c) == stage && r.reaches(c) {
			n++
		}
	}
	return n
}

// checkAtOnce refuses stages that would need too many raises.
func (s *State) checkAtOnce(r *rollout) error {
	sizes := s.stageSizes(r)
	var problems []Problem
	for i := range r.Stages {
		if at := r.Stages[i].AtOnce; at > 0 && sizes[i] > at*(maxRaises+1) {
			problems = append(problems, Problem{Pointer: jsontext.Pointer("stages", i, "at_once"), Detail: fmt.Sprintf(
				"stage %q has %d clusters, and at most %d raises are possible: at least %d at once", r.Stages[i].Name, sizes[i], maxRaises, (sizes[i]+maxRaises)/(maxRaises+1))})
		}
	}
	return Invalid(problems)
}

// stampRollout adds the values of a rollout that the commit determines. The time of a start is not before the newest commit
// that this process knows, so that a clock that is behind cannot shorten a soak.
func (tx *Tx) stampRollout(r *rollout, action string, c Commit) error {
	at := new(later(tx.base.newest, c.At))
	switch action {
	case RolloutStart:
		r.Stages[r.Started-1].StartedAt = at
	case RolloutRaise:
		r.Stages[r.Started-1].RaisedAt = at
	case RolloutSkip: // its clusters move to other stages
		r.ChangedBy, r.ChangedByID = c.Actor, personOf(tx.scope.identity(), c.Actor)
	}
	if slices.Contains([]string{RolloutStart, RolloutSkip, RolloutResume}, action) && c.Actor != RolloutRunner && c.Actor != VersionAutomation {
		r.Principal, r.Identity = c.Actor, tx.scope.identity()
	}
	doc, err := tx.kinds.newRecord(KindRollout, r.ID, r)
	if err == nil {
		tx.record(KindRollout, r.ID, doc)
	}
	return err
}

// since returns when the clusters of a started stage that were reached last got the change; the zero time for a stage that
// was started by a version without times.
func (s *rolloutStage) since() (at time.Time) {
	for _, t := range []*time.Time{s.StartedAt, s.RaisedAt} {
		if t != nil {
			at = later(at, *t)
		}
	}
	return at
}

// unverified reports whether a stage passes, or has passed, by time alone.
func (r *rollout) unverified() bool {
	return r.Advance == advanceAutomatic && slices.ContainsFunc(r.Stages, func(s rolloutStage) bool { return parseGate(r.effectiveGate(&s.RolloutStage)).confirmed == 0 })
}
