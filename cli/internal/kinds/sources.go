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
			plan, message := "", d.Status.Message
			if held := d.Status.Held; held != nil {
				if plan = held.PlanHash; d.Status.State == "held" && held.Approved {
					message = approvedText(held) + ": " + message
				}
			}
			message, _, _ = strings.Cut(message, "\n")
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
		if d.Status.Held.Approved {
			held.Rows = append(held.Rows, []string{approvedText(d.Status.Held)})
		}
		for line := range strings.SplitSeq(d.Status.Held.Message, "\n") {
			held.Rows = append(held.Rows, []string{line})
		}
		return []render.Table{held}, nil
	},
	List: "sources", Calls: conn.Calls{Path: "/sources", Revisions: "source"},
}

// approvedText says when an approved artifact is applied. Until then it is held, with the reasons from before the approval.
func approvedText(held *api.HeldArtifact) string {
	if held.Code == "frozen" {
		return "approved, and applied after the freeze"
	}
	return "approved, and applied at the next check"
}
