package ui

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// causeNames is the number of clusters that a row names.
const causeNames = 3

// causeRow has the clusters that fail for one reason, or that are in another state that needs attention.
type causeRow struct {
	State, Title, Version string
	Cause, Reason         string
	Link                  string // to the list of exactly these clusters
	Clusters, More        int
	Environments          []namedCount
	Names                 []string // the first clusters
	Since                 *time.Time
	Revision              int64  // the last one before Since that changed the input; 0: not known
	After                 string // time from Revision to Since
}

func causeRows(causes *[]api.FailureCause) (rows []causeRow) {
	if causes == nil {
		return nil
	}
	for _, c := range *causes {
		row := causeRow{
			State: c.State, Title: c.Input, Cause: c.Cause, Clusters: c.Clusters, Names: c.ClusterIds[:min(causeNames, len(c.ClusterIds))], Since: c.Since,
			Link: filter{State: c.State, Cause: c.ID}.page(), Revision: c.Revision,
		}
		if row.Title == "" {
			row.Title = stateLabel(c.State)
		}
		if c.ComponentVersion != "" {
			row.Version = versionText(c.ComponentVersion, c.OCITag)
		}
		if c.OtherCauses > 0 {
			row.Title, row.Cause = "Others", summarize.Count(c.OtherCauses, "other cause")
		}
		if row.Cause == "" {
			row.Cause = meaning(c.State)
		}
		if c.Example != nil && c.OtherCauses == 0 {
			row.Reason = c.Example.Reason
		}
		if c.State != "failed" {
			row.Since = nil // they were seen at different times
		}
		if c.Since != nil && c.RevisionAt != nil {
			row.After = duration(c.Since.Sub(*c.RevisionAt))
		}
		row.More = row.Clusters - len(row.Names)
		for _, name := range slices.SortedFunc(maps.Keys(c.Environments), func(a, b string) int {
			return cmp.Or(c.Environments[b]-c.Environments[a], cmp.Compare(a, b))
		}) {
			row.Environments = append(row.Environments, namedCount{name, c.Environments[name]})
		}
		rows = append(rows, row)
	}
	return rows
}
