package kinds

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Sources are artifacts that the server follows.
var Sources = Kind{
	API: "source", Schema: "Source", Name: "source", Plural: "sources", Title: "source",
	View: render.View{
		Header: []string{"ID", "STATE", "REVISION", "DOCUMENTS", "DRIFTED", "APPLIED", "URL", "DIGEST", "PLAN", "MESSAGE"}, Narrow: 7,
		Row: render.RowOf(func(d api.Source) []string {
			plan := ""
			if d.Status.Held != nil {
				plan = d.Status.Held.PlanHash
			}
			message, _, _ := strings.Cut(d.Status.Message, "\n")
			return []string{
				d.ID, d.Status.State, d.Status.ArtifactRevision, strconv.Itoa(d.Status.Documents), strconv.Itoa(len(d.Status.Drifted)), optionalTime(d.Status.AppliedAt),
				d.URL, d.Status.Digest, plan, message,
			}
		}),
	},
	parts: func(document json.RawMessage) ([]render.Table, error) {
		var d api.Source
		if err := json.Unmarshal(document, &d); err != nil {
			return nil, fmt.Errorf("unexpected response of the server: %w", err)
		}
		if d.Status.Held == nil {
			return nil, nil
		}
		held := render.Table{Header: []string{"HELD " + d.Status.Held.Digest}}
		for line := range strings.SplitSeq(d.Status.Held.Message, "\n") {
			held.Rows = append(held.Rows, []string{line})
		}
		return []render.Table{held}, nil
	},
	List: "sources", Calls: conn.Calls{Path: "/sources", Revisions: "source"},
}
