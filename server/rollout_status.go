package server

import (
	"context"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

const (
	rolloutClusters = 100 // ids of clusters for each count
	rolloutFailures = 20
)

// rolloutInputsCache keeps the inputs that open rollouts change: they depend on the State only, and the runner and the page
// request them again and again. Those of the last State make those of the next one cheaper.
type rolloutInputsCache struct {
	mu       sync.Mutex
	of       *fleet.State
	known    map[string]*fleet.RolloutInputs // by the id of the rollout
	previous map[string]*fleet.RolloutInputs // of an earlier State
}

func (c *rolloutInputsCache) get(ctx context.Context, st *fleet.State, d *fleet.Document) (*fleet.RolloutInputs, error) {
	c.mu.Lock()
	earlier := c.previous[d.ID]
	if known := c.known[d.ID]; known != nil {
		if earlier = known; c.of == st {
			c.mu.Unlock()
			return known, nil
		}
	}
	c.mu.Unlock()
	inputs, err := st.RolloutInputs(ctx, d, earlier)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != st {
		c.of, c.previous, c.known = st, c.known, map[string]*fleet.RolloutInputs{}
	}
	c.known[d.ID] = inputs
	return inputs, nil
}

// clear drops all inputs, since they keep whole States in memory.
func (c *rolloutInputsCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of, c.known, c.previous = nil, nil, nil
}

// rolloutProgress returns the progress of each stage of an open rollout, and the counts for the decision; nil for others.
func (s *Server) rolloutProgress(ctx context.Context, st *fleet.State, d *fleet.Document) ([]api.RolloutProgress, []fleet.StageCounts, error) {
	n, open := fleet.RolloutStages(d)
	if !open {
		return nil, nil, nil
	}
	inputs, err := s.rolloutInputs.get(ctx, st.Whole(), d)
	if err != nil {
		return nil, nil, err
	}
	progress, err := s.stageProgress(ctx, st, d, n, inputs.ByCluster)
	if err != nil {
		return nil, nil, err
	}
	counts := stageCounts(progress)
	for i := range counts {
		if fleet.StageNeedsApproval(d, i) {
			counts[i].Effect = inputs.StageEffect(i)
		}
	}
	return progress, counts, nil
}

// stageProgress returns the progress of n stages by the inputs that the rollout changes on each cluster.
func (s *Server) stageProgress(ctx context.Context, st *fleet.State, d *fleet.Document, n int, inputs map[string][]fleet.ChangedInput) ([]api.RolloutProgress, error) {
	out := make([]api.RolloutProgress, n)
	names := clusterstatus.NameCache{}
	for _, cluster := range st.All(fleet.KindCluster) {
		changed := inputs[cluster.ID]
		stage, reached := fleet.RolloutPlace(d, cluster)
		if len(changed) == 0 || stage >= n {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		p := &out[stage]
		p.Affected++
		if !reached && cluster.Cluster().Pinned == nil {
			continue
		}
		held, err := st.HeldBack(cluster, changed)
		if err != nil {
			return nil, err
		}
		if !reached && !held {
			p.Kept++
			addID(p, "kept", cluster.ID)
		}
		if reached && held {
			p.Pinned++
			addID(p, "pinned", cluster.ID)
		}
		if !reached || held {
			continue
		}
		yieldToPolls()
		known, err := s.progressOf(st, cluster, changed, 0, names, true)
		if err != nil {
			return nil, err
		}
		shared := !s.cfg.GatesTrustSharedToken && s.cfg.Now().Sub(known.SharedTokenAt) <= s.cfg.OfflineAfter
		addProgress(p, cluster.ID, &known, shared)
	}
	return out, nil
}

// addProgress counts a cluster that is served the change. A cluster that missed polls is behind until it is offline, even if
// it had confirmed its inputs before. shared: it polls with the shared token, which does not count here. Such a cluster is unknown, not
// offline, because the gate does not wait for offline clusters.
func addProgress(p *api.RolloutProgress, id string, known *clusterstatus.Status, shared bool) {
	inputs := 0
	for _, n := range known.Counts.Each {
		inputs += n
	}
	count, name := &p.Pending, "pending"
	switch {
	case known.Failure != nil:
		if count, name = &p.Failed, "failed"; len(p.Failures) < rolloutFailures {
			failure := failureOf(known.Failure)
			failure.List, failure.ID = known.FailedList, known.FailedID
			failure.Message = summarize.Message(failure.Message, summaryMessage)
			p.Failures = append(p.Failures, api.RolloutFailure{ClusterID: id, Failure: failure})
		}
	case known.Offline && !shared:
		count, name = &p.Offline, "offline"
	case known.State == clusterstatus.Confirmed, known.State == clusterstatus.Delivered && inputs == 0: // only removals, of lists that were polled since
		count, name = &p.Confirmed, "confirmed"
	case known.State == clusterstatus.Unknown, known.Offline:
		count, name = &p.Unknown, "unknown"
	case known.State == clusterstatus.Behind, known.State == clusterstatus.Silent:
		count, name = &p.Behind, "behind"
	}
	*count++
	addID(p, name, id)
	if shared && count != &p.Confirmed && count != &p.Failed {
		p.SharedToken++
		addID(p, "shared_token", id)
	}
}

// addID adds a cluster to the listed ids of a count, up to the limit.
func addID(p *api.RolloutProgress, name, id string) {
	if p.ClusterIds == nil {
		p.ClusterIds = map[string][]string{}
	}
	if len(p.ClusterIds[name]) < rolloutClusters {
		p.ClusterIds[name] = append(p.ClusterIds[name], id)
	}
}

// stageCounts returns the counts of progress for the decision.
func stageCounts(progress []api.RolloutProgress) []fleet.StageCounts {
	out := make([]fleet.StageCounts, len(progress))
	for i, p := range progress {
		out[i] = fleet.StageCounts{Affected: p.Affected, Confirmed: p.Confirmed, Pending: p.Pending, Behind: p.Behind, Unknown: p.Unknown, Failed: p.Failed, Offline: p.Offline, Pinned: p.Pinned, Shared: p.SharedToken}
		if len(p.Failures) > 0 {
			out[i].Failure = p.Failures[0].ClusterID + ": " + summarize.OneLine(p.Failures[0].Failure.Message, summaryMessage)
		}
	}
	return out
}

// rolloutView returns a rollout with its computed status; short: without the ids of clusters.
func (s *Server) rolloutView(ctx context.Context, st *fleet.State, d *fleet.Document, short bool) (any, error) {
	view, ok := st.RolloutView(d).(*api.Rollout)
	progress, counts, err := s.rolloutProgress(ctx, st, d)
	if err != nil || !ok || progress == nil {
		return view, err
	}
	now := s.cfg.Now()
	var step fleet.RolloutStep
	if !st.ReachesOthers(d) { // otherwise it also depends on clusters that are not visible
		if step, err = st.Whole().WaitForFreezes(ctx, d.ID, fleet.NextStep(d, counts, now), now); err != nil {
			return view, err
		}
	}
	view.Complete, view.GatesTrustSharedToken = s.tracker.Stats().Complete, s.cfg.GatesTrustSharedToken
	view.Waiting = step.Waiting()
	if wait := s.statusWait(); wait != "" && fleet.Advances(d) {
		view.Waiting = &api.RolloutWaiting{Reason: "observations", Message: wait}
	}
	for i := range progress {
		if short {
			progress[i].ClusterIds, progress[i].Failures = nil, nil
		}
		stage := &view.Stages[i]
		stage.Progress = &progress[i]
		if ended := fleet.ApprovalEnded(d, i, counts[i].Effect); ended != "" {
			if stage.ApprovedBy, stage.ApprovedAt = "", nil; !st.ReachesOthers(d) { // it names the approver
				stage.ApprovalEnded = ended
			}
		}
	}
	return view, nil
}
