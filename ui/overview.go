package ui

import (
	"strings"

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
		n := fleet.Counts[s.State]
		view.Trouble += n
		view.Tiles = append(view.Tiles, tile{s.State, s.Label, s.Means, clustersIn(s.State), n})
	}
	if view.Changes, _, err = v.changes(&api.ListRevisionsParams{Limit: new(overviewChanges)}); err != nil {
		return err
	}
	view.frame = v.frame("Fleet", "overview")
	return v.show("overview", view)
}

// clustersIn is the page of all clusters in a state.
func clustersIn(state string) string {
	return filter{State: state}.page()
}
