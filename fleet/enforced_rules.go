package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// EnforcedRules returns the rules that may refuse a change at a time: those of the configuration, freezes, and policies.
func (s *State) EnforcedRules(at time.Time) []api.EnforcedRule {
	out := []api.EnforcedRule{{
		Kind: "built-in", ID: "removal-budget", Action: "confirm", Description: fmt.Sprintf("Removals of more than %d installed things within an hour.", s.rules.MaxRemovals),
	}}
	if len(s.rules.Protected) > 0 {
		out = append(out, api.EnforcedRule{
			Kind: "built-in", ID: "protected-environments", Action: "confirm",
			Description: "Removals from protected environments (" + strings.Join(s.rules.Protected, ", ") + ") that a request with X-Fleet-Removes-From does not name.",
		})
	}
	if s.rules.SecondPerson {
		out = append(out, api.EnforcedRule{Kind: "built-in", ID: "second-person", Action: PolicyApprove, Description: "Stages of rollouts with approval, which the author of the rollout cannot give."})
	}
	for _, d := range s.ActiveFreezes(at) {
		out = append(out, api.EnforcedRule{Kind: string(KindFreeze), ID: d.ID, Action: PolicyDeny, Description: d.freeze().Reason})
	}
	for _, d := range s.enforcedPolicies() {
		out = append(out, api.EnforcedRule{Kind: string(KindPolicy), ID: d.ID, Action: d.Policy().Action, Description: d.Policy().Description})
	}
	return out
}
