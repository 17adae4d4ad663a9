package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// KindRollout is the kind of rollouts: committed changes that do not yet apply to every cluster. Clusters of started stages
// are served as if the change had been made, all others as if it had not. The kind is not in [Kinds]: nobody writes such a
// document directly, and like tokens rollouts are never reverted.
const KindRollout Kind = "rollout"

// KindStrategy is the kind of strategies: named stages, which rollouts copy when they are created.
const KindStrategy Kind = "strategy"

const (
	maxRollouts        = 20        // that are not completed or aborted
	maxRolloutChanges  = 20        // documents that one rollout changes
	maxRolloutBytes    = 256 << 10 // of these documents before and after
	maxRolloutStages   = 32        // without the last one, which the server adds
	maxStageClusterIDs = 1_000
)

// lastStage is the name of the stage that the server adds: it has the clusters that no other stage selects.
const lastStage = "rest"

// The states of a rollout. It is open in the first three.
const (
	rolloutProposed  = "proposed" // no stage has started
	rolloutRunning   = "running"
	rolloutPaused    = "paused" // no stage can start
	rolloutCompleted = "completed"
	rolloutAborted   = "aborted"
)

// The actions on a rollout.
const (
	RolloutStart    = "start"
	RolloutPause    = "pause"
	RolloutResume   = "resume"
	RolloutSkip     = "skip"
	RolloutBack     = "back"
	RolloutAbort    = "abort"
	RolloutComplete = "complete"
	RolloutApprove  = "approve" // allows a stage to start
)

// RolloutRunner is the actor of the commits by which rollouts advance automatically.
const RolloutRunner = "rollout-runner"

// VersionAutomation is the actor of the commits that version policies make.
const VersionAutomation = "version-automation"

func (d *Document) rollout() *rollout { return d.value.(*rollout) }

// parse computes the values that clusters are matched with. A rollout with an unreadable stage must not be read as one with
// fewer clusters: these would lose the change.
func (r *rollout) parse() (err error) {
	for i := range r.Stages {
		s := &r.Stages[i]
		s.ids = make(map[string]bool, len(s.ClusterIDs))
		for _, id := range s.ClusterIDs {
			s.ids[id] = true
		}
		if s.Selector != "" {
			if s.selector, err = ParseSelector(s.Selector); err != nil {
				return fmt.Errorf("stage %q: %w", s.Name, err)
			}
		}
		if s.Below != "" {
			if s.below, err = strconv.ParseUint(s.Below, 16, 64); err != nil {
				return fmt.Errorf("stage %q: %w", s.Name, err)
			}
		}
	}
	return nil
}

// open reports whether the rollout still protects the fields that it changes.
func (r *rollout) open() bool {
	return r.State == rolloutProposed || r.State == rolloutRunning || r.State == rolloutPaused
}

// delivers reports whether the rollout reaches clusters.
func (r *rollout) delivers() bool { return r.open() && r.Started > 0 }

// reaches reports whether a cluster is in a started stage.
func (r *rollout) reaches(c *api.Cluster) bool { return r.stageOf(c) < r.Started }

// stageOf returns the index of the first stage that selects a cluster.
func (r *rollout) stageOf(c *api.Cluster) int {
	for i := range r.Stages {
		if r.Stages[i].selects(r.ID, c) {
			return i
		}
	}
	return len(r.Stages) // only in a database that was edited by hand: the last stage selects all clusters
}

// stageName returns the name of the stage of a cluster.
func (r *rollout) stageName(c *api.Cluster) string {
	if at := r.stageOf(c); at < len(r.Stages) {
		return r.Stages[at].Name
	}
	return ""
}

// selects reports whether a stage selects a cluster, regardless of the stages before it.
func (s *rolloutStage) selects(rollout string, c *api.Cluster) bool {
	return !s.Skipped && s.matches(c) && (s.Below == "" || position(rollout, c.ID) < s.below)
}

// matches is selects without the restriction by percent or count.
func (s *rolloutStage) matches(c *api.Cluster) bool {
	return s.All || s.Selector != "" && s.selector.Matches(c) || s.ids[c.ID]
}

// position orders clusters within the stages of a rollout. It depends on nothing else, so that a cluster that joins displaces
// no other one.
func position(rollout, cluster string) uint64 {
	sum := sha256.Sum256([]byte(rollout + "/" + cluster))
	return binary.BigEndian.Uint64(sum[:8])
}

// setBounds converts percent and count of the stages to bounds that cover exactly that many of the clusters which match
// now and are in no earlier stage, and at least one.
func (r *rollout) setBounds(clusters []*Document) {
	for i := range r.Stages {
		s := &r.Stages[i]
		s.Below, s.below = "", 0
		if s.Percent == 0 && s.Count == 0 {
			continue
		}
		var at []uint64
		for _, d := range clusters {
			if c := d.Cluster(); r.stageOf(c) == i {
				at = append(at, position(r.ID, c.ID))
			}
		}
		slices.Sort(at)
		switch n := max(s.Count, (len(at)*s.Percent+99)/100); {
		case s.Percent == 100: // clusters that join are in it too
			continue
		case len(at) > 0:
			s.below = at[min(n, len(at))-1] + 1
		default: // of a stage without clusters: clusters that join, in proportion
			s.below = ^uint64(0) / 100 * uint64(s.Percent)
		}
		s.Below = fmt.Sprintf("%016x", s.below)
	}
}

// checkDeletable refuses to delete a rollout that is open.
func (d *Document) checkDeletable() error {
	if d.Kind == KindRollout && d.rollout().open() {
		return errorf(CodeConflict, "rollout %q is %s: abort or complete it first", d.ID, d.rollout().State)
	}
	return nil
}

// withoutCommit returns a rollout without the values that the commit determines: a plan that another principal made
// earlier has the same hash. It has only the approvals that are not in another version of it too: a plan without others has the same
// hash before and after them. A rollout that does not exist is null.
func withoutCommit(d, other *Document) (json.RawMessage, error) {
	if d == nil {
		return nil, nil
	}
	r := d.rollout()
	out := *r
	out.Principal, out.Identity, out.ChangedBy, out.ChangedByID, out.Stages = "", nil, "", "", slices.Clone(r.Stages)
	for i := range out.Stages {
		s := &out.Stages[i]
		s.StartedAt = nil
		switch {
		case s.Approved == nil:
		case other != nil && i < len(other.rollout().Stages) && other.rollout().Stages[i].Approved != nil && *other.rollout().Stages[i].Approved == *s.Approved:
			s.Approved = nil
		default:
			s.Approved = &stageApproval{Effect: s.Approved.Effect}
		}
	}
	return jsontext.Canonical(&out)
}

// awaitsApproval reports whether a stage requires an approval that it does not have. Neither a person nor the runner may
// start such a stage, or skip it: its clusters would get the change in a later stage, without approval.
func (r *rollout) awaitsApproval(stage int) bool {
	return stage < len(r.Stages) && r.Stages[stage].Approval && r.Stages[stage].Approved == nil
}

// withoutPendingApprovals returns a rollout without the approvals of stages that have not started. A restore must not bring back
// an approval that ended because its stage was rolled back.
func (ks *kindSet) withoutPendingApprovals(d *Document) (*Document, error) {
	r := *d.rollout()
	r.Stages = slices.Clone(r.Stages)
	for i := r.Started; i < len(r.Stages); i++ {
		r.Stages[i].Approved = nil
	}
	return ks.newRecord(KindRollout, d.ID, &r)
}

// approvalEnded reports whether the stage has an approval of another effect than the current one.
func (s *rolloutStage) approvalEnded(effect string) bool {
	return s.Approval && s.Approved != nil && s.Approved.Effect != effect
}

// ended returns why the approval does not count any more.
func (a *stageApproval) ended() string {
	return fmt.Sprintf("the approval of %s has ended: the clusters of the stage, or the inputs that its start changes on them, differ from those approved", a.By)
}

// startsItself reports whether the runner starts the first stage too.
func (r *rollout) startsItself() bool { return r.Advance == advanceAutomatic && r.StartAt != nil }

// advances reports whether the rollout advances automatically now.
func (r *rollout) advances() bool {
	return r.State == rolloutRunning && r.Advance == advanceAutomatic || r.State == rolloutProposed && r.startsItself()
}
