package ui

import (
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

type overviewView struct {
	frame
	Complete       bool
	Total          int
	NeedsAttention int    // clusters that need attention
	Attention      string // the states that need attention
	// Progressing are the clusters whose desired state changed since their last poll, while the next one is not overdue.
	Progressing int
	// SharedTokens are the clusters that polled with a shared token within an hour.
	SharedTokens     int
	SharedTokensLink string
	ExpiringTokens   int // of tokens that expire soon, for administrators
	ExpiringLink     string
	Approvals        int          // that are needed, for a visitor who may approve
	MayAdd           bool         // the page offers the form that adds a cluster
	FirstRun         *firstRun    // until the first cluster has polled
	Tiles            []barSegment // of states that need attention and have clusters
	Bar              stateBar
	Strip            *strip       // nil: none
	Rollouts         []rolloutRow // that need attention
	OtherRollouts    []rolloutRow // that are open
	Freezes          []freezeRow  // that are active
	ActiveFreezes    int          // includes freezes that are not shown
	MoreFreezes      int
	Pins             []pinRow
	MorePins         int
	Causes           []causeRow
	MoreCauses       int
	Changes          []changeRow
	// AllSilentSince is the last poll of any cluster when all are silent: then the address of the service is the problem.
	AllSilentSince *time.Time
}

// showOverview shows whether any cluster needs attention, and the newest changes.
func showOverview(req *pageRequest) error {
	var trouble []string
	for _, s := range states {
		if s.NeedsAttention {
			trouble = append(trouble, s.State)
		}
	}
	limit, group := overviewCauses, api.GetStatusParamsGroupCause
	status, err := req.fleet.GetStatusWithResponse(req.r.Context(), &api.GetStatusParams{State: optional(strings.Join(trouble, ",")), Group: &group, Limit: &limit})
	if err != nil {
		return err
	}
	fleet := *status.JSON200
	view := overviewView{
		Complete: fleet.Complete, Total: fleet.Total, Bar: makeStateBar(fleet.Counts, clustersLink), Causes: causeRows(fleet.Causes), Attention: strings.Join(trouble, ","),
		Progressing: fleet.Counts["progressing"], SharedTokens: fleet.SharedTokens, SharedTokensLink: filter{SharedToken: "true"}.page(), MayAdd: req.mayAddClusters(),
	}
	if fleet.Total == fleet.Counts["never"] && fleet.Total <= 1 {
		view.FirstRun = req.firstRun(fleet.Total > 0)
	}
	view.Tiles = slices.DeleteFunc(slices.Clone(view.Bar.Segments), func(s barSegment) bool { return !stateOf(s.State).NeedsAttention })
	causes, err := totalOf(status.HTTPResponse)
	if err != nil {
		return err
	}
	view.NeedsAttention, view.MoreCauses = fleet.Selected, causes-len(view.Causes)
	if view.AllSilentSince = fleet.AllSilentSince; view.AllSilentSince != nil {
		view.Causes, view.MoreCauses = nil, 0 // one problem of the service, not of each cluster
	}
	var starts []stripMark
	if view.Rollouts, view.OtherRollouts, starts, err = req.openRollouts(); err != nil {
		return err
	}
	revisions, _, err := req.changes(&api.ListRevisionsParams{Limit: new(stripRevisions)})
	if err != nil {
		return err
	}
	view.Changes = revisions[:min(len(revisions), overviewChanges)]
	if view.Strip, err = req.makeStrip(stripSource{marks: append(starts, revisionMarks(revisions)...), freezes: req.freezes}); err != nil {
		return err
	}
	if view.Freezes, view.MoreFreezes, err = req.activeFreezes(slices.DeleteFunc(slices.Clone(req.freezes), recurs)); err != nil {
		return err
	}
	if view.ActiveFreezes = len(view.Freezes) + view.MoreFreezes; req.stop != nil {
		view.ActiveFreezes++
	}
	if view.Pins, view.MorePins, err = req.pinnedClusters(); err != nil {
		return err
	}
	if view.Approvals, err = req.countApprovals(); err != nil {
		return err
	}
	if req.may("admin") {
		if view.ExpiringTokens, err = req.countExpiringTokens(); err != nil {
			return err
		}
		view.ExpiringLink = expiringTokens
	}
	return req.show("overview", "Fleet", "overview", &view)
}
