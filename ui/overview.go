package ui

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// overviewTroubles and overviewChanges are how many of each the first page shows.
const (
	overviewTroubles = 12
	overviewChanges  = 8
)

type overviewView struct {
	frame
	Complete  bool
	Total     int
	Trouble   int // clusters that need attention
	InTrouble string
	// Progressing are the clusters whose desired state changed since their last poll, while the next one is not overdue.
	Progressing int
	InProgress  string
	Tiles       []tile
	Bar         bar
	Worst       []clusterRow
	Changes     []changeRow
	// AllSilentSince is the last poll of any cluster when all are silent: then the address of the service is the problem.
	AllSilentSince *time.Time
}

// tile is a number that is a filter.
type tile struct {
	State, Label, Means, Link string
	Count                     int
}

// showOverview answers: is anything wrong now?
func showOverview(v *visit) error {
	var trouble []string
	for _, s := range states {
		if s.Trouble {
			trouble = append(trouble, s.State)
		}
	}
	limit, sort := overviewTroubles, api.GetStatusParamsSortState
	status, err := v.fleet.GetStatusWithResponse(v.r.Context(), &api.GetStatusParams{State: optional(strings.Join(trouble, ",")), Sort: &sort, Limit: &limit})
	if err != nil {
		return err
	}
	fleet := *status.JSON200
	view := overviewView{
		Complete: fleet.Complete, Total: fleet.Total, Bar: makeBar(fleet.Counts, clustersIn), Worst: clusterRows(fleet.Clusters), InTrouble: clustersIn(strings.Join(trouble, ",")),
		Progressing: fleet.Counts["progressing"], InProgress: clustersIn("progressing"),
	}
	for _, s := range states {
		if !s.Trouble {
			continue
		}
		view.Tiles = append(view.Tiles, tile{s.State, s.Label, s.Means, clustersIn(s.State), fleet.Counts[s.State]})
	}
	if view.Trouble, err = totalOf(status.HTTPResponse); err != nil {
		return err
	}
	if view.AllSilentSince = fleet.AllSilentSince; view.AllSilentSince != nil {
		view.Worst = nil // one problem, and not one of each cluster
	}
	if view.Changes, _, err = v.changes(&api.ListRevisionsParams{Limit: new(overviewChanges)}); err != nil {
		return err
	}
	view.frame = v.frame("Fleet", "overview")
	return v.show("overview", view)
}

// totalOf is the length of a list of which the answer is one page. A cluster may be in two states, so the counts do not add up to it.
func totalOf(rsp *http.Response) (int, error) {
	total, err := strconv.Atoi(rsp.Header.Get("X-Total-Count"))
	if err != nil {
		return 0, fmt.Errorf("the length of a list: %w", err)
	}
	return total, nil
}

// clustersIn is the page of all clusters in a state.
func clustersIn(state string) string {
	return filter{State: state}.page()
}
