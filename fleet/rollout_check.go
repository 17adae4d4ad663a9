package fleet

import (
	"encoding/json"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
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
