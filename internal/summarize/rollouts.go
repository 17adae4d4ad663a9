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
