package kinds

import (
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/windows"
)

// Freezes are times at which the answers to some clusters must not change.
var Freezes = Kind{
	API: "freeze", Schema: "Freeze", Name: "freeze", Plural: "freezes", Title: "freeze",
	View: render.View{
		Header: []string{"ID", "STATE", "CLUSTERS", "FROZEN", "SELECTOR", "FROM", "UNTIL", "WINDOWS", "REASON"},
		Row: render.RowOf(func(d api.Freeze) []string {
			selector := d.Selector
			if d.All {
				selector = "*"
			}
			return []string{d.ID, d.State, strconv.Itoa(d.Clusters), strconv.Itoa(d.Frozen), selector, optionalTime(d.From), optionalTime(d.Until), windowsOf(d), d.Reason}
		}),
	},
	List: "freezes", Calls: conn.Calls{Path: "/freezes", Revisions: "freeze"},
}

// windowsOf returns the windows of a freeze as text.
func windowsOf(d api.Freeze) string {
	text := windows.Text(d.Allow)
	if len(d.Block) > 0 {
		text += " not " + windows.Text(d.Block)
	}
	return strings.TrimSpace(text)
}

func optionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return render.Time(*t)
}
