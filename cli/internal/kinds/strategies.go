package kinds

import (
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Strategies are named stages, which rollouts copy.
var Strategies = Kind{
	API: "strategy", Schema: "Strategy", Name: "strategy", Plural: "strategies", Title: "strategy",
	View: render.View{
		Header: []string{"ID", "STAGES", "REVISION", "DESCRIPTION", "UPDATED"},
		Narrow: 3,
		Row: render.RowOf(func(d api.Strategy) []string {
			stages := make([]string, len(d.Stages))
			for i, s := range d.Stages {
				stages[i] = s.Name
			}
			return []string{d.ID, strings.Join(stages, ", "), strconv.FormatInt(d.Revision, 10), d.Description, render.Time(d.UpdatedAt)}
		}),
	},
	List: "strategies", Calls: conn.Calls{Path: "/strategies", Revisions: "strategy"},
}
