package kinds

import (
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Policies are rules about the effect of changes.
var Policies = Kind{
	API: "policy", Schema: "Policy", Name: "policy", Plural: "policies", Title: "policy",
	View: render.View{
		Header: []string{"ID", "ACTION", "SUSPENDED", "MATCH", "DESCRIPTION", "RULE", "UPDATED"}, Narrow: 5,
		Row: render.RowOf(func(d api.Policy) []string {
			suspended := ""
			if d.Suspended {
				suspended = "yes"
			}
			return []string{d.ID, d.Action, suspended, matchOf(d.Match), d.Description, strings.Join(strings.Fields(d.Rule), " "), render.Time(d.UpdatedAt)}
		}),
	},
	List: "policies", Calls: conn.Calls{Path: "/policies", Revisions: "policy"},
}

// matchOf returns the clusters of a policy as one selector; * for all.
func matchOf(m *api.PolicyMatch) string {
	if m == nil {
		return "*"
	}
	var parts []string
	if len(m.Environments) > 0 {
		parts = append(parts, "environment in ("+strings.Join(m.Environments, ",")+")")
	}
	if m.Selector != "" {
		parts = append(parts, m.Selector)
	}
	return strings.Join(parts, ",")
}
