package fleet

import (
	"encoding/json"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

var rolloutKind = kindRules{
	name:       KindRollout,
	noun:       "rollout",
	collection: "rollouts",
	empty:      func() any { return new(rollout) },
	normalize:  func(map[string]any) {},
	complete:   func(value any, _ json.RawMessage) error { return value.(*rollout).parse() },
	check:      func(c *checker, d *Document) { checkRollout(c, d.rollout()) },
}

var strategyKind = kindRules{
	name:       KindStrategy,
	noun:       "strategy",
	collection: "strategies",
	empty:      func() any { return new(strategy) },
	normalize:  normalizeStrategy,
	check: func(c *checker, d *Document) {
		s := d.value.(*strategy)
		c.dnsSubdomain("/id", s.ID)
		c.text("/description", s.Description, 1024)
		if len(s.Stages) == 0 || len(s.Stages) > maxRolloutStages {
			c.problem("/stages", "there must be 1 to %d stages", maxRolloutStages)
		}
		checkStages(c, s.Stages)
		checkSettings(c, &RolloutSettings{Gate: s.Gate}, s.Stages)
		if len(c.problems) == 0 {
			warnOfEmptyStages(c, s)
		}
	},
	view: func(d *Document) any {
		s := d.value.(*strategy)
		view := api.Strategy{Gate: s.Gate, ID: s.ID, Description: s.Description, Revision: int64(d.Revision), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt}
		for _, st := range s.Stages {
			view.Stages = append(view.Stages, api.RolloutStage{Name: st.Name, ClusterIds: st.ClusterIDs, Selector: st.Selector, All: st.All, Percent: st.Percent, Count: st.Count, Gate: st.Gate, Approval: st.Approval})
		}
		return &view
	},
}

// warnOfEmptyStages warns of selectors that match no cluster, often because of a typing error.
func warnOfEmptyStages(c *checker, s *strategy) {
	for _, stage := range s.Stages {
		if selector, err := ParseSelector(stage.Selector); stage.Selector != "" && err == nil && !c.next.hasCluster(selector.Matches) {
			c.warn("stage %q of strategy %q selects no cluster", stage.Name, s.ID)
		}
	}
}

// normalizeStrategy omits fields with their default values, which the API shows or a person writes into a file.
func normalizeStrategy(obj map[string]any) {
	unstructured.DropEmpty(obj, "description")
	stages, _ := obj["stages"].([]any)
	for _, stage := range stages {
		if stage, ok := stage.(map[string]any); ok {
			unstructured.DropFalse(stage)
			unstructured.DropEmptyList(stage, "cluster_ids")
		}
	}
}

// checkRollout checks a rollout's document.
func checkRollout(c *checker, r *rollout) {
	checkRolloutFields(c, r)
	if len(c.problems) > 0 {
		return
	}
	sizes := c.next.stageSizes(r)
	for i := range r.Stages[:max(0, len(r.Stages)-1)] {
		if sizes[i] == 0 {
			c.warn("stage %q of rollout %q selects no cluster", r.Stages[i].Name, r.ID)
		}
	}
}

// checkRolloutFields checks what a request sets directly.
func checkRolloutFields(c *checker, r *rollout) {
	c.dnsSubdomain("/id", r.ID)
	c.text("/description", r.Description, 1024)
	checkStages(c, r.Stages)
	checkSettings(c, &r.RolloutSettings, r.Stages)
}

// checkStages checks the stages of a rollout or a strategy.
func checkStages(c *checker, stages []rolloutStage) {
	names := map[string]bool{}
	for i := range stages {
		if c.full() {
			return
		}
		s, at := &stages[i], jsontext.Pointer("stages", i)
		c.dnsLabel(at+"/name", s.Name)
		if names[s.Name] {
			c.problem(at+"/name", "%q is the name of an earlier stage", s.Name)
		}
		names[s.Name] = true
		if s.Name == lastStage && (i < len(stages)-1 || !s.All || s.Percent+s.Count > 0) {
			c.problem(at+"/name", "%q is the name of the last stage, which the server adds", lastStage)
		}
		checkStage(c, at, s)
	}
}

// checkStage checks how a stage selects clusters.
func checkStage(c *checker, at string, s *rolloutStage) {
	ways := 0
	selector, err := ParseSelector(s.Selector)
	for _, set := range []bool{len(s.ClusterIDs) > 0, s.Selector != "", s.All} {
		if set {
			ways++
		}
	}
	if ways != 1 || err == nil && s.Selector != "" && selector.selector.Empty() { // blank selectors select every cluster
		c.problem(at, "exactly one of cluster_ids, selector (not empty) and all is required")
	}
	if err != nil {
		c.problem(at+"/selector", "%v", err)
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

// stageSizes returns the number of live clusters in each stage.
func (s *State) stageSizes(r *rollout) []int {
	sizes := make([]int, len(r.Stages)+1) // the last: see stageOf
	for _, d := range s.docs[KindCluster] {
		if !d.Deleted() {
			sizes[r.stageOf(d.Cluster())]++
		}
	}
	return sizes
}
