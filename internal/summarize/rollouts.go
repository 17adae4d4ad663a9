package summarize

import (
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// StageSelection describes the clusters that a stage of a rollout selects: "10% of environment=prod".
func StageSelection(s api.RolloutStageStatus) string {
	which := s.Selector
	switch {
	case s.All:
		which = "all"
	case len(s.ClusterIds) > 0:
		which = strings.Join(s.ClusterIds, ", ")
	}
	switch {
	case s.Percent > 0:
		return fmt.Sprintf("%d%% of %s", s.Percent, which)
	case s.Count > 0:
		return fmt.Sprintf("%d of %s", s.Count, which)
	}
	return which
}

// ServedClusters returns the number of clusters of a stage that are served the change of a rollout. A pin keeps it from clusters of started
// stages, and on clusters of others.
func ServedClusters(r *api.Rollout, stage int) (served int) {
	s := &r.Stages[stage]
	if stage < r.Started && r.State != "aborted" {
		served = s.Clusters
	}
	if s.Progress != nil {
		served += s.Progress.Kept - s.Progress.Pinned
	}
	return served
}

// ProposedBy describes what proposed a rollout, by its automation: "the version policy of podinfo".
func ProposedBy(automation string) string {
	name, layer, ofLayer := strings.Cut(automation, "@")
	text := "the version policy of " + name
	if group, grouped := strings.CutPrefix(name, "group/"); grouped {
		text = "the version policies of group " + group
	}
	if ofLayer {
		text += " in layer " + layer
	}
	return text
}
