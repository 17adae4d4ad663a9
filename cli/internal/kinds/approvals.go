package kinds

import (
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Approvals permit one person to make one change.
var Approvals = Kind{
	API: "approval", Schema: "Approval", Name: "approval", Plural: "approvals", Title: "approval",
	View: render.View{
		Header: []string{"ID", "SUBJECT", "BY", "EXPIRES", "REASON"}, Narrow: 4,
		Row: render.RowOf(func(d api.Approval) []string {
			return []string{d.ID, d.Subject, d.By, render.Time(d.ExpiresAt), d.Reason}
		}),
	},
	Calls: conn.Calls{Path: "/approvals"},
}
