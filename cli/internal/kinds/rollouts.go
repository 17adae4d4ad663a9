package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// Rollouts are changes that reach clusters stage by stage.
var Rollouts = Kind{
	API: "rollout", Schema: "Rollout", Name: "rollout", Plural: "rollouts", Title: "rollout", Aliases: []string{"rollouts"},
	View: render.View{
		Header: []string{"ID", "STATE", "STARTED", "NEXT", "SERVED", "CHANGES", "REVISION", "DESCRIPTION", "UPDATED"},
		Narrow: 6,
		Row: render.RowOf(func(d api.Rollout) []string {
			next, served, all, changes := "-", 0, 0, make([]string, len(d.Changes))
			open := d.State != "completed" && d.State != "aborted"
			for i, s := range d.Stages {
				all, served = all+s.Clusters, served+summarize.ServedClusters(&d, i)
				if i == d.Started && open {
					next = s.Name
				}
			}
			for i, ch := range d.Changes {
				changes[i] = NameOf(ch.Kind) + "/" + ch.ID
			}
			return []string{
				d.ID, d.State, fmt.Sprintf("%d/%d", d.Started, len(d.Stages)), next, fmt.Sprintf("%d/%d", served, all), strings.Join(changes, ", "),
				strconv.FormatInt(d.Revision, 10), d.Description, render.Time(d.UpdatedAt),
			}
		}),
	},
	parts: func(document json.RawMessage) ([]render.Table, error) {
		var d api.Rollout
		if err := json.Unmarshal(document, &d); err != nil {
			return nil, fmt.Errorf("unexpected response of the server: %w", err)
		}
		stages := render.Table{Header: []string{"STAGE", "STATE", "CLUSTERS", "SELECTION", "AFFECTED", "CONFIRMED", "FAILED", "OFFLINE", "PENDING", "BEHIND", "UNKNOWN"}, Narrow: 8}
		for _, s := range d.Stages {
			state := s.State
			if s.Approval && s.State == "pending" && s.Progress != nil {
				if state = "needs approval"; s.ApprovedAt != nil {
					state = "approved"
				}
			}
			row := []string{s.Name, state, strconv.Itoa(s.Clusters), summarize.StageSelection(s)}
			if p := s.Progress; p != nil {
				for _, n := range []int{p.Affected, p.Confirmed, p.Failed, p.Offline, p.Pending, p.Behind, p.Unknown} {
					row = append(row, strconv.Itoa(n))
				}
			} else { // the rollout is not open
				row = append(row, slices.Repeat([]string{"-"}, 7)...)
			}
			stages.Rows = append(stages.Rows, row)
		}
		tables := []render.Table{stages}
		waits := render.Table{Header: []string{"WAITING", "UNTIL", "MESSAGE"}}
		if w := d.Waiting; w != nil {
			waits.Rows = [][]string{{w.Reason, render.TimeOr(w.Until, "-"), w.Message + awaitedClusters(&d)}}
		} else if d.PausedBecause != "" {
			waits.Rows = [][]string{{"paused", "-", d.PausedBecause}}
		}
		if len(waits.Rows) > 0 {
			tables = append(tables, waits)
		}
		var notes [][]string
		for _, s := range d.Stages {
			if p := s.Progress; p != nil && p.Kept > 0 {
				notes = append(notes, []string{fmt.Sprintf("stage %s: pins keep the change on %s%s", s.Name, summarize.Count(p.Kept, "cluster"), clusterNames(p.ClusterIds["kept"]))})
			}
		}
		if d.Automation != "" {
			notes = append(notes, []string{"proposed by " + summarize.ProposedBy(d.Automation)})
		}
		if d.GatesTrustSharedToken {
			notes = append(notes, []string{"gates count reports with the shared read token (GATES_TRUST_SHARED_TOKEN)"})
		}
		if len(notes) > 0 {
			tables = append(tables, render.Table{Header: []string{"NOTE"}, Rows: notes})
		}
		return tables, nil
	},
	Calls: conn.Calls{Path: "/rollouts", Revisions: "rollout"},
}

// maxAwaited is the number of clusters that are named for which a stage waits.
const maxAwaited = 5

// awaitedClusters names the clusters for which a rollout waits, as the end of a message; empty: it waits for none.
func awaitedClusters(d *api.Rollout) string {
	var ids []string
	for _, s := range d.Stages {
		if s.Name == d.Waiting.Stage && s.Progress != nil {
			for _, count := range map[string][]string{"confirmations": {"failed", "behind", "unknown", "pending"}, "pin": {"pinned"}}[d.Waiting.Reason] {
				ids = append(ids, s.Progress.ClusterIds[count]...)
			}
		}
	}
	return clusterNames(ids)
}

// clusterNames names some clusters, as the end of a message.
func clusterNames(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	text := ": " + strings.Join(ids[:min(len(ids), maxAwaited)], ", ")
	if more := len(ids) - maxAwaited; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
