package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// KindRollout is the kind of rollouts: committed changes that do not yet apply to every cluster. Clusters of started stages
// are served as if the change had been made, all others as if it had not. The kind is not in [Kinds]: nobody writes such a
// document directly, and like tokens rollouts are never reverted.
const KindRollout Kind = "rollout"

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

var rolloutKind = kindRules{
	name:       KindRollout,
	noun:       "rollout",
	collection: "rollouts",
	empty:      func() any { return new(rollout) },
	normalize:  func(map[string]any) {},
	complete:   func(value any, _ json.RawMessage) error { return value.(*rollout).parse() },
	check:      func(c *checker, d *Document) { checkRollout(c, d.rollout()) },
	bound:      func(any) int { return 0 },
}

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
}

// rolloutStage is a stage as it is stored.
type rolloutStage struct {
	RolloutStage
	// Below restricts the stage to clusters whose position is below it, as 16 hexadecimal digits; see position. The server
	// computes it from percent or count.
	Below string `json:"below,omitempty"`
	// Skipped: the stage has no clusters. Those that it selects are in the next stage that selects them.
	Skipped bool `json:"skipped,omitempty"`

	selector Selector
	below    uint64
}

// rolloutChange is one document before and after the change, as when the rollout was created.
type rolloutChange struct {
	Kind   Kind            `json:"kind"`
	ID     string          `json:"id"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

func (d *Document) rollout() *rollout { return d.value.(*rollout) }

// parse computes the values that clusters are matched with. A rollout with an unreadable stage must not be read as one with
// fewer clusters: these would lose the change.
func (r *rollout) parse() (err error) {
	for i := range r.Stages {
		s := &r.Stages[i]
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

// selects reports whether a stage selects a cluster, regardless of the stages before it.
func (s *rolloutStage) selects(rollout string, c *api.Cluster) bool {
	return !s.Skipped && s.matches(c) && (s.Below == "" || position(rollout, c.ID) < s.below)
}

// matches is selects without the restriction by percent or count.
func (s *rolloutStage) matches(c *api.Cluster) bool {
	return s.All || s.Selector != "" && s.selector.Matches(c) || slices.Contains(s.ClusterIDs, c.ID)
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

// checkRollout checks a rollout's document.
func checkRollout(c *checker, r *rollout) {
	c.dnsSubdomain("/id", r.ID)
	c.text("/description", r.Description, 1024)
	names := map[string]bool{}
	for i := range r.Stages {
		if c.full() {
			return
		}
		s, at := &r.Stages[i], jsontext.Pointer("stages", i)
		c.dnsLabel(at+"/name", s.Name)
		if names[s.Name] {
			c.problem(at+"/name", "%q is the name of an earlier stage", s.Name)
		}
		names[s.Name] = true
		if s.Name == lastStage && i < len(r.Stages)-1 {
			c.problem(at+"/name", "%q is the name of the last stage, which the server adds", lastStage)
		}
		checkStage(c, at, s)
		if len(c.problems) == 0 && i < len(r.Stages)-1 && !c.next.hasStage(r, i) {
			c.warn("stage %q of rollout %q selects no cluster", s.Name, r.ID)
		}
	}
}

// checkStage checks how a stage selects clusters.
func checkStage(c *checker, at string, s *rolloutStage) {
	ways := 0
	for _, set := range []bool{len(s.ClusterIDs) > 0, s.Selector != "", s.All} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		c.problem(at, "exactly one of cluster_ids, selector (not empty) and all is required")
	}
	c.atMost(at+"/cluster_ids", len(s.ClusterIDs), maxStageClusterIDs, "clusters")
	switch {
	case s.Percent != 0 && s.Count != 0:
		c.problem(at+"/count", "set either percent or count, not both")
	case len(s.ClusterIDs) > 0 && (s.Percent != 0 || s.Count != 0):
		c.problem(at+"/cluster_ids", "cannot be combined with percent or count")
	}
	if s.Percent < 0 || s.Percent > 100 {
		c.problem(at+"/percent", "must be 1 to 100")
	}
	if s.Count < 0 {
		c.problem(at+"/count", "must be at least 1")
	}
}

// hasStage reports whether some live cluster is in a stage.
func (s *State) hasStage(r *rollout, stage int) bool {
	for _, d := range s.docs[KindCluster] {
		if !d.Deleted() && r.stageOf(d.Cluster()) == stage {
			return true
		}
	}
	return false
}

// NewRollout is the request for a rollout.
type NewRollout struct {
	ID, Description string
	Stages          []RolloutStage
	Operations      []api.Operation
}

// rolloutCreation is a rollout that a Tx creates: the change is made in a Tx of its own, whose result is stored in place of
// being committed.
type rolloutCreation struct {
	NewRollout
	change *Tx
}

// CreateRollout runs the operations of a rollout and creates it in the state proposed: the answers to all clusters stay the
// same. Finish validates the whole change, and the guard applies to its removals. The returned batch locates problems in the
// operations.
func (tx *Tx) CreateRollout(n NewRollout, past History) (*Batch, error) {
	if tx.raw(KindRollout, n.ID) != nil {
		return nil, errorf(CodeConflict, "the rollout %q exists already", n.ID)
	}
	change := tx.base.Begin()
	change.work = tx.work
	b := NewBatch(change, past)
	tx.rollout = &rolloutCreation{n, change}
	tx.recordOperation(api.RevisionOperation{Op: "create", Kind: string(KindRollout), ID: n.ID})
	_, err := b.Run(n.Operations)
	return b, err
}

// finishRollout makes the change of a new rollout without committing it, and records the rollout's document.
func (tx *Tx) finishRollout(c Commit) error {
	n := tx.rollout
	n.change.guard = tx.guard
	tx.guard = Guard{} // the creation itself removes nothing
	open := 1
	if tx.base.rollouts != nil {
		open += len(tx.base.rollouts.open)
	}
	if open > maxRollouts {
		return errorf(CodeLimitExceeded, "there would be %d rollouts that are not completed or aborted; at most %d are possible", open, maxRollouts)
	}
	if len(n.Stages) > maxRolloutStages {
		return Invalid([]Problem{{Pointer: "/stages", Detail: fmt.Sprintf("there are %d stages; at most %d are possible", len(n.Stages), maxRolloutStages)}})
	}
	res, err := n.change.Finish(c)
	if err != nil {
		return err
	}
	r := &rollout{ID: n.ID, Description: n.Description, State: rolloutProposed, Operations: res.Commit.Operations}
	if n.change.guard.PlanHash != "" {
		r.ConfirmedRemovals = res.removals.count
	}
	for _, s := range n.Stages {
		r.Stages = append(r.Stages, rolloutStage{RolloutStage: s})
	}
	if n := len(r.Stages); n == 0 || !r.Stages[n-1].All || r.Stages[n-1].Percent+r.Stages[n-1].Count > 0 {
		r.Stages = append(r.Stages, rolloutStage{RolloutStage: RolloutStage{Name: lastStage, All: true}})
	}
	if r.Changes, err = stageable(tx.base, res); err != nil {
		return err
	}
	if err := tx.base.checkDependencyChanges(r); err != nil {
		return err
	}
	if err := r.parse(); err != nil {
		return Invalid([]Problem{{Pointer: "/stages", Detail: err.Error()}})
	}
	r.setBounds(tx.base.All(KindCluster))
	doc, err := tx.kinds.newRecord(KindRollout, r.ID, r)
	if err != nil {
		return err
	}
	tx.record(KindRollout, r.ID, doc)
	for _, w := range res.Warnings {
		tx.note("%s", w)
	}
	return nil
}

// stageable returns the changes of a commit as those of a rollout. It refuses changes that cannot differ between clusters:
// CodeNotStageable, with all of them.
func stageable(base *State, res Result) ([]rolloutChange, error) {
	var changes []rolloutChange
	var problems []Problem
	size := 0
	for _, ch := range res.Commit.Changes {
		if isInternal(ch.Kind) {
			continue
		}
		if why := notStageable(base, res.State, ch); why != "" {
			noun := res.State.kinds.noun(ch.Kind)
			problems = append(problems, Problem{Kind: ch.Kind, ID: ch.ID, Detail: fmt.Sprintf("%s %q: %s", noun, ch.ID, why)})
			continue
		}
		size += len(ch.Before) + len(ch.After)
		changes = append(changes, rolloutChange(ch))
	}
	switch {
	case len(problems) > 0:
		return nil, &Error{Code: CodeNotStageable, Detail: summarizeProblems(problems), Problems: problems}
	case len(changes) == 0:
		return nil, Invalid([]Problem{{Pointer: "/operations", Detail: "the operations change nothing"}})
	case len(changes) > maxRolloutChanges:
		return nil, errorf(CodeLimitExceeded, "the rollout changes %d documents; at most %d are possible", len(changes), maxRolloutChanges)
	case size > maxRolloutBytes:
		return nil, errorf(CodeLimitExceeded, "the changed documents have %d bytes before and after; at most %d are possible", size, maxRolloutBytes)
	}
	return changes, nil
}

// notStageable returns the reason why a change cannot be delivered in stages, or "".
func notStageable(base, next *State, ch Change) string {
	switch {
	case ch.Kind == KindCluster:
		return "a rollout cannot change clusters; change a layer that matches them"
	case ch.Kind == KindResourceType:
		return "a rollout cannot change resource types, which apply to all clusters; change it before the rollout"
	case ch.Kind != KindLayer && next.kinds.descriptor(ch.Kind) == nil && base.kinds.descriptor(ch.Kind) == nil:
		return "a rollout cannot change this kind of document"
	case ch.Before == nil:
		return "a rollout cannot create documents; create it before the rollout"
	case ch.After == nil:
		return "a rollout cannot delete documents; delete it after the rollout"
	case ch.Kind == KindLayer && base.docs[KindLayer][ch.ID].layer().Priority != next.docs[KindLayer][ch.ID].layer().Priority:
		return "a rollout cannot change the priority of a layer"
	}
	return ""
}

// checkDependencyChanges refuses a second rollout that changes depends_on: each may be free of cycles, and so may both
// together, but not the second without the first.
func (s *State) checkDependencyChanges(r *rollout) error {
	changed, err := r.changesDependencies()
	if err != nil || !changed || s.rollouts == nil {
		return err
	}
	for _, d := range s.rollouts.open {
		if other, err := d.rollout().changesDependencies(); err != nil || other {
			return cmpError(err, errorf(CodeInRollout, "rollout %q changes depends_on, and only one rollout at a time can: complete or abort it first", d.ID))
		}
	}
	return nil
}

// cmpError returns the first error that is not nil.
func cmpError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// changesDependencies reports whether the rollout changes the dependencies of a component.
func (r *rollout) changesDependencies() (bool, error) {
	for _, ch := range r.Changes {
		if ch.Kind != KindComponent {
			continue
		}
		var sides [2]struct {
			DependsOn json.RawMessage `json:"depends_on"`
		}
		for i, body := range []json.RawMessage{ch.Before, ch.After} {
			if err := json.Unmarshal(body, &sides[i]); err != nil {
				return false, err
			}
		}
		if !bytes.Equal(sides[0].DependsOn, sides[1].DependsOn) {
			return true, nil
		}
	}
	return false, nil
}

// The actions on a rollout.
const (
	RolloutStart    = "start"
	RolloutPause    = "pause"
	RolloutResume   = "resume"
	RolloutSkip     = "skip"
	RolloutBack     = "back"
	RolloutAbort    = "abort"
	RolloutComplete = "complete"
)

// ChangeRollout runs an action on a rollout. stage, if not empty, must be the stage that the action starts, skips or rolls
// back. CodeConflict: the action is not possible in the rollout's state, or concerns another stage.
func (tx *Tx) ChangeRollout(id, action, stage string) (*Document, error) {
	doc, err := tx.Get(KindRollout, id)
	if err != nil {
		return nil, err
	}
	r := *doc.rollout()
	r.Stages = slices.Clone(r.Stages)
	if err := r.possible(action, stage); err != nil {
		return nil, err
	}
	switch action {
	case RolloutStart:
		r.State, r.Started = rolloutRunning, r.Started+1
	case RolloutPause:
		r.State = rolloutPaused
	case RolloutResume:
		if r.State = rolloutRunning; r.Started == 0 {
			r.State = rolloutProposed
		}
	case RolloutSkip:
		r.Stages[r.Started].Skipped = true
		r.State, r.Started = rolloutRunning, r.Started+1
	case RolloutBack:
		r.State, r.Started = rolloutPaused, r.Started-1
		r.Stages[r.Started].Skipped = false
	case RolloutAbort:
		r.State = rolloutAborted
	case RolloutComplete:
		r.State = rolloutCompleted
		if err := tx.completeRollout(&r); err != nil {
			return nil, err
		}
	}
	next, err := tx.kinds.newRecord(KindRollout, id, &r)
	if err != nil {
		return nil, err
	}
	tx.record(KindRollout, id, next)
	tx.recordOperation(api.RevisionOperation{Op: action, Kind: string(KindRollout), ID: id})
	return next, nil
}

// possible refuses an action that the state of the rollout does not allow.
func (r *rollout) possible(action, stage string) error {
	refuse := func(format string, args ...any) error {
		return errorf(CodeConflict, "rollout %q "+format, append([]any{r.ID}, args...)...)
	}
	last := len(r.Stages) - 1
	concerned := r.Started // the stage that the action concerns
	if action == RolloutBack {
		concerned--
	}
	switch {
	case !r.open():
		return refuse("is %s", r.State)
	case action == RolloutBack && r.Started == 0:
		return refuse("has no started stage")
	case action == RolloutPause && r.State == rolloutPaused, action == RolloutResume && r.State != rolloutPaused:
		return refuse("is %s", r.State)
	case (action == RolloutStart || action == RolloutSkip || action == RolloutComplete) && r.State == rolloutPaused:
		return refuse("is paused: resume it first")
	case (action == RolloutStart || action == RolloutSkip) && r.Started > last:
		return refuse("has no further stage: complete it")
	case action == RolloutSkip && r.Started == last:
		return refuse("cannot skip its last stage %q, which has all clusters that remain", r.Stages[last].Name)
	case action == RolloutComplete && r.Started <= last:
		return refuse("has not started its stage %q: start all stages first", r.Stages[r.Started].Name)
	case stage == "":
	case action != RolloutStart && action != RolloutSkip && action != RolloutBack:
		return Invalid([]Problem{{Pointer: "/stage", Detail: "is for start, skip and back"}})
	case r.Stages[concerned].Name != stage:
		return refuse("would %s its stage %q next, not %q", action, r.Stages[concerned].Name, stage)
	}
	return nil
}

// completeRollout makes the change of a rollout, which all clusters have then.
func (tx *Tx) completeRollout(r *rollout) error {
	tx.nested++ // this is part of the completion
	defer func() { tx.nested-- }()
	for _, ch := range r.Changes {
		now := tx.raw(ch.Kind, ch.ID)
		if now == nil {
			return tx.notFound(ch.Kind, ch.ID)
		}
		doc, conflicts, err := tx.kinds.variant(ch, now)
		if err == nil {
			err = inRollout(tx.kinds, r.ID, ch, conflicts)
		}
		if err != nil {
			return err
		}
		tx.record(ch.Kind, ch.ID, doc)
	}
	return nil
}

// checkDeletable refuses to delete a rollout that is open.
func (d *Document) checkDeletable() error {
	if d.Kind == KindRollout && d.rollout().open() {
		return errorf(CodeConflict, "rollout %q is %s: abort or complete it first", d.ID, d.rollout().State)
	}
	return nil
}

// pauseRollouts pauses the running rollouts after a restore: none of them advances by itself.
func (tx *Tx) pauseRollouts() (paused []*Document, err error) {
	var running []*Document
	tx.each(KindRollout, func(d *Document) {
		if d.rollout().State == rolloutRunning {
			running = append(running, d)
		}
	})
	sortDocuments(running)
	for _, d := range running {
		r := *d.rollout()
		r.State = rolloutPaused
		doc, err := tx.kinds.newRecord(KindRollout, d.ID, &r)
		if err != nil {
			return nil, err
		}
		tx.record(KindRollout, d.ID, doc)
		paused = append(paused, doc)
	}
	return paused, nil
}

// sortedRollouts returns rollouts sorted by id.
func sortedRollouts(docs map[string]*Document, keep func(*rollout) bool) []*Document {
	var out []*Document
	for _, d := range docs {
		if keep(d.rollout()) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *Document) int { return strings.Compare(a.ID, b.ID) })
	return out
}
