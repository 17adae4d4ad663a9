package ui

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// rowsPerPage is the number of clusters in a page of the list.
const rowsPerPage = 50

// clusterRow is a row of a list of clusters.
type clusterRow struct {
	api.ClusterSummary

	States    []string
	Bar       stateBar // its inputs
	Confirmed int      // inputs
	Compare   string   // address of the comparison with its layers; empty: not offered
}

// clusterRows returns the rows of clusters, in the given order.
func clusterRows(clusters []api.ClusterSummary) []clusterRow {
	rows := make([]clusterRow, 0, len(clusters))
	for _, c := range clusters {
		rows = append(rows, clusterRow{ClusterSummary: c, States: statesOf(c.State, c.States), Bar: makeStateBar(c.Counts, nil), Confirmed: c.Counts["confirmed"]})
	}
	return rows
}

// statesOf returns all states of a cluster. A server of an older version returns only the first.
func statesOf(state string, all []string) []string {
	if len(all) == 0 {
		return []string{state}
	}
	return all
}

type clustersView struct {
	frame
	Filter       filter
	Filtered     bool
	WithoutCause string // address of the list without the filter by cause
	WithoutInput string // address of the list without the filter by input
	Problem      string // with the filter
	States       []filterOption
	Overrides    []filterOption
	Facets       []facet
	Hidden       []nameValue // the filters except the selector
	Columns      []filterOption
	HideClasses  string // classes that hide columns
	Complete     bool
	FirstRun     *firstRun
	MayAdd       bool // the page offers the form that adds a cluster
	Shown, Total int
	Rows         []clusterRow
	Pages        pager
}

// showClusters lists clusters by state, the worst first. An invalid filter is shown as a problem beside the form.
func showClusters(req *pageRequest) error {
	f := filter{req.query("selector"), req.query("environment"), req.query("state"), req.query("component"), req.query("component_version"), req.query("oci_tag"), req.query("layer"), req.query("overrides"), req.query("list"), req.query("input"), req.query("shared_token"), req.query("cause"), req.query("hide")}
	offset, sort := req.offset(), api.GetStatusParamsSortState
	ask := api.GetStatusParams{
		Selector: optional(f.Selector), Environment: optional(f.Environment), State: optional(f.State), Component: optional(f.Component),
		ComponentVersion: optional(f.Version), OCITag: optional(f.Tag), Layer: optional(f.Layer), List: optional(f.List), Input: optional(f.Input), Cause: optional(f.Cause), Facets: new(true),
		Sort: &sort, Limit: new(rowsPerPage), Offset: &offset,
	}
	if f.Overrides != "" {
		ask.Overrides = new(api.GetStatusParamsOverrides(f.Overrides))
	}
	if f.SharedToken != "" {
		ask.SharedToken = new(f.SharedToken == "true")
	}
	status, err := req.fleet.GetStatusWithResponse(req.r.Context(), &ask)
	view := clustersView{Filter: f, Filtered: f != filter{Hide: f.Hide}, Hidden: f.hidden(), MayAdd: req.mayAddClusters()}
	view.Columns, view.HideClasses = columnOptions(f)
	if problem, ok := errors.AsType[*client.Error](err); ok && (problem.StatusCode == http.StatusBadRequest || problem.StatusCode == http.StatusNotFound) {
		view.Problem = problem.Problem.Detail
		if all := problem.Problem.Errors; len(all) > 0 {
			details := make([]string, len(all))
			for i, one := range all {
				details[i] = one.Detail
			}
			view.Problem = strings.Join(details, "; ")
		}
		return req.show("clusters", "Clusters", "clusters", &view)
	}
	if err != nil {
		return err
	}
	fleet := *status.JSON200
	view.Complete, view.Total, view.Rows = fleet.Complete, fleet.Total, clusterRows(fleet.Clusters)
	if view.Shown, err = totalOf(status.HTTPResponse); err != nil {
		return err
	}
	if fleet.Total == 0 {
		view.FirstRun = req.firstRun(false)
	}
	view.States = stateOptions(f, fleet.Counts, fleet.Total)
	if fleet.Facets != nil {
		view.Facets, view.Overrides = makeFacets(f, *fleet.Facets), overrideOptions(f, *fleet.Facets)
	}
	for i := range view.Rows {
		if f.Overrides != "" {
			view.Rows[i].Compare = compareLink(view.Rows[i].ID, anyLayer)
		}
	}
	all := f
	all.Cause = ""
	view.WithoutCause = all.page()
	all.List, all.Input = "", ""
	view.WithoutInput = all.page()
	view.Pages = makePager(prefix+"/clusters", f.values(), rowsPerPage, offset, len(view.Rows), view.Shown)
	return req.show("clusters", "Clusters", "clusters", &view)
}

// stateOptions returns the states to filter by, with "All" first.
func stateOptions(f filter, counts api.StatusCounts, total int) []filterOption {
	link := func(state string) string {
		f.State, f.Cause = state, "" // a cause is of one state
		return f.page()
	}
	on := f.State
	out := []filterOption{{Label: "All", Count: total, Link: link(""), On: on == ""}}
	for _, s := range states {
		if n := counts[s.State]; n > 0 || on == s.State {
			out = append(out, filterOption{State: s.State, Label: s.Label, Link: link(s.State), Count: n, On: on == s.State})
		}
	}
	return out
}

// optionalColumns are the columns of the list of clusters that can be hidden, with their titles.
var optionalColumns = []nameValue{{"environment", "Environment"}, {"confirmed", "Confirmed"}, {"message", "Message"}, {"agent", "Agent"}, {"seen", "Last seen"}}

// columnOptions returns links that show or hide a column, and the classes of the hidden ones.
func columnOptions(f filter) (options []filterOption, classes string) {
	hidden := strings.Split(f.Hide, ",")
	for _, c := range optionalColumns {
		on := !slices.Contains(hidden, c.Name)
		var next []string
		for _, other := range optionalColumns { // unknown names are dropped
			if slices.Contains(hidden, other.Name) != (other.Name == c.Name) {
				next = append(next, other.Name)
			}
		}
		f.Hide = strings.Join(next, ",")
		options = append(options, filterOption{Label: c.Value, Link: f.page(), On: on})
		if !on {
			classes += " hide-" + c.Name
		}
	}
	return options, strings.TrimSpace(classes)
}
