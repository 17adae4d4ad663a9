package kinds

import (
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Freezes are times at which the answers to some clusters must not change.
var Freezes = Kind{
	API: "freeze", Schema: "Freeze", Name: "freeze", Plural: "freezes", Title: "freeze",
	View: render.View{
		Header: []string{"ID", "STATE", "CLUSTERS", "SELECTOR", "FROM", "UNTIL", "REASON"},
		Row: render.RowOf(func(d api.Freeze) []string {
			selector := d.Selector
			if d.All {
				selector = "*"
			}
			return []string{d.ID, d.State, strconv.Itoa(d.Clusters), selector, optionalTime(d.From), optionalTime(d.Until), d.Reason}
		}),
	},
	List: "freezes", Calls: conn.Calls{Path: "/freezes", Revisions: "freeze"},
}

func optionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return render.Time(*t)
}
