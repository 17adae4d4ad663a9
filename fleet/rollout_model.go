package fleet

import (
	"encoding/json"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// rollout is the value of a rollout's document.
type rollout struct {
	ID          string          `json:"id"`
	Description string          `json:"description,omitempty"`
	State       string          `json:"state"`
	Started     int             `json:"started"` // number of started stages, which are the first ones
	Stages      []rolloutStage  `json:"stages"`
	Changes     []rolloutChange `json:"changes"`
	Operations  json.RawMessage `json:"operations,omitempty"` // the requested operations, as in a commit
	// ConfirmedRemovals is the number of removals of the whole change that its author confirmed with a plan_hash.
	ConfirmedRemovals int `json:"confirmed_removals"`
	// Confirmed identifies these removals; see [removals.digests].
	Confirmed []byte `json:"confirmed,omitempty"`
	// Author is the actor that created it, ChangedBy the one that last skipped a stage, which moves its clusters to others.
	Author    string `json:"author,omitempty"`
	ChangedBy string `json:"changed_by,omitempty"`
	// AuthorID and ChangedByID identify Author and ChangedBy: see personOf. Rollouts of earlier versions have no ids.
	AuthorID    string `json:"author_id,omitempty"`
	ChangedByID string `json:"changed_by_id,omitempty"`
	RolloutSettings
	// PausedBecause is the reason why the runner paused it.
	PausedBecause string `json:"paused_because,omitempty"`
	// Principal is the actor who created, started or resumed it last. The runner acts with this actor's permission.
	Principal string `json:"principal,omitempty"`
	// Identity is the identity of a Principal of an issuer, with the groups and claims that granted its rights; nil: the Principal is
	// a token.
	Identity *Subject `json:"identity,omitempty"`
	// Automation is the name of the move of version policies that proposed it, and Versions are those that it brings; empty: a person
	// created it.
	Automation string           `json:"automation,omitempty"`
	Versions   []rolloutVersion `json:"versions,omitempty"`
	// Source is the artifact that it delivers; nil: no source created it.
	Source *rolloutSource `json:"source,omitempty"`
}

// rolloutVersion is a version that a rollout of version policies brings.
type rolloutVersion struct {
	Component string `json:"component"`
	Image     string `json:"image,omitempty"` // empty: it is a version of the component itself
	Version   string `json:"version"`
	Digest    string `json:"digest,omitempty"`
}

// rolloutSource is the artifact of a source that a rollout delivers.
type rolloutSource struct {
	ID string `json:"id"` // of the source
	SourceArtifact
	Files []ManagedDocument `json:"files"` // the documents that the rollout changes
}

// RolloutSettings determine how a rollout advances. The zero value is advanced by hand.
type RolloutSettings struct {
	Advance   string           `json:"advance,omitempty"`    // manual or automatic; empty: manual
	Gate      *api.RolloutGate `json:"gate,omitempty"`       // of all stages; nil: the default
	OnFailure string           `json:"on_failure,omitempty"` // pause or back; empty: pause
	Windows   []api.Window     `json:"windows,omitempty"`    // in which the runner may start stages; none: always
	// StartAt is when the runner starts the first stage, at the earliest; nil: a person starts it.
	StartAt *time.Time `json:"start_at,omitempty"`
}

// RolloutStage is a stage of a rollout: exactly one of ClusterIDs, Selector and All selects its clusters, of which those in
// an earlier stage are left out. Percent (1 to 100) or Count restricts them to a part, of at least one cluster; 0: all.
type RolloutStage struct {
	Name       string   `json:"name"`
	ClusterIDs []string `json:"cluster_ids,omitempty"`
	Selector   string   `json:"selector,omitempty"`
	All        bool     `json:"all,omitempty"`
	Percent    int      `json:"percent,omitempty"`
	Count      int      `json:"count,omitempty"`
	// Approval: the stage cannot start without an approval.
	Approval bool             `json:"approval,omitempty"`
	Gate     *api.RolloutGate `json:"gate,omitempty"` // in place of fields of the rollout's
	// StartAt is the time before which the runner does not start the stage; nil: none.
	StartAt *time.Time `json:"start_at,omitempty"`
}

// rolloutStage is a stage as it is stored.
type rolloutStage struct {
	RolloutStage
	// Below restricts the stage to clusters whose position is below it, as 16 hexadecimal digits; see position. The server
	// computes it from percent or count.
	Below string `json:"below,omitempty"`
	// Skipped: the stage has no clusters. Those that it selects are in the next stage that selects them.
	Skipped  bool           `json:"skipped,omitempty"`
	Approved *stageApproval `json:"approved,omitempty"` // nil: it has no approval
	// StartedAt is the time of a commit, not before the newest commit then known.
	StartedAt *time.Time `json:"started_at,omitempty"`

	ids      map[string]bool // ClusterIDs
	selector Selector
	below    uint64
}

// stageApproval is the approval of a stage.
type stageApproval struct {
	By string    `json:"by"` // the actor of the commit
	At time.Time `json:"at"` // its time
	// Effect identifies what it approves: see [RolloutInputs.StageEffect]. Approvals of earlier versions have none, and do not count.
	Effect string `json:"effect,omitempty"`
	// PlanHash is that of the start of the stage, if policies had the action approve: see approvalOfStage.
	PlanHash string `json:"plan_hash,omitempty"`
}

// rolloutChange is one document before and after the change, as when the rollout was created.
type rolloutChange struct {
	Kind   Kind            `json:"kind"`
	ID     string          `json:"id"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// strategy is the value of a strategy's document.
type strategy struct {
	ID          string         `json:"id"`
	Description string         `json:"description,omitempty"`
	Stages      []rolloutStage `json:"stages"`
	// Gate is copied with the stages.
	Gate *api.RolloutGate `json:"gate,omitempty"`
}
