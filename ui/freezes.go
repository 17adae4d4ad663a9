package ui

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// kindFreeze is the kind of freezes in the API.
const kindFreeze = "freeze"

// freezeAll is the name of the freeze of all clusters, as the command line names it.
const freezeAll = "all"

// shownFreezes is the number of active freezes on a page.
const shownFreezes = 10

// freezeRow is a freeze that is active now.
type freezeRow struct {
	ID, Reason string
	Selection  string // all clusters, the selector, or in mode snapshot the clusters
	By         string // the author of its last change
	Until      *time.Time
	Pending    int    // clusters whose answers change when it ends
	EndRefused string // why the server cannot end it although its time is over
	History    string
	End        string // the address of the form that ends it; empty: the token may not
}

// activeFreezes returns the active freezes, of one cluster if cluster is not empty, and the number of those beyond shownFreezes.
func (req *pageRequest) activeFreezes(cluster string) (rows []freezeRow, more int, err error) {
	list, err := req.fleet.ListFreezesWithResponse(req.r.Context(), nil)
	if refused, answered := errors.AsType[*client.Error](err); answered && refused.StatusCode == http.StatusForbidden {
		return nil, 0, nil // a token of some clusters
	}
	if err != nil {
		return nil, 0, err
	}
	for _, f := range *list.JSON200 {
		if f.State != "active" {
			continue
		}
		concerned, err := req.concerns(f, cluster)
		if err != nil {
			return nil, 0, err
		}
		if !concerned {
			continue
		}
		if len(rows) == shownFreezes {
			more++
			continue
		}
		row := freezeRow{ID: f.ID, Reason: f.Reason, Selection: f.Selector, Until: f.Until, Pending: len(f.PendingClusterIds), EndRefused: f.EndRefused, History: historyLink(kindFreeze, f.ID)}
		switch {
		case f.Mode == "snapshot":
			row.Selection = strings.Join(f.ClusterIds, ", ")
		case f.All:
			row.Selection = "all clusters"
		}
		if req.mayChange(writing, kindFreeze, f.ID) {
			row.End = link("freezes", f.ID, "end")
		}
		last, _, err := req.changes(&api.ListRevisionsParams{Kind: new(kindFreeze), ID: &f.ID, Limit: new(1)})
		if err != nil {
			return nil, 0, err
		}
		if len(last) > 0 {
			row.By = last[0].By
		}
		rows = append(rows, row)
	}
	return rows, more, nil
}

// concerns reports whether a freeze includes a cluster; true if cluster is empty.
func (req *pageRequest) concerns(f api.Freeze, cluster string) (bool, error) {
	switch {
	case cluster == "":
		return true, nil
	case f.Mode == "snapshot":
		return slices.Contains(f.ClusterIds, cluster), nil
	case f.All:
		return true, nil
	}
	matching, err := req.fleet.ListClustersWithResponse(req.r.Context(), &api.ListClustersParams{Selector: new(f.Selector + ",id=" + cluster), Limit: new(1)})
	if err != nil {
		return false, err
	}
	return len(*matching.JSON200) > 0, nil
}

// offersFreezeAll reports whether a page offers the freeze of all clusters.
func (req *pageRequest) offersFreezeAll(active []freezeRow) bool {
	return req.mayChangeWhere(writing, func(on *api.AccessScope) bool {
		return on == nil || on.Selector == "" && client.InLimits(on, kindFreeze, freezeAll)
	}) && !slices.ContainsFunc(active, func(f freezeRow) bool { return f.ID == freezeAll })
}

// freezeChange creates the freeze of all clusters, or ends a freeze, in place of operations: a batch cannot.
type freezeChange struct {
	ID  string
	End bool
}

// freezeAllForm freezes all clusters.
func freezeAllForm(*pageRequest) (changeForm, error) {
	return changeForm{
		Headline: "Freeze all clusters", Button: "Freeze all", NoChange: "A freeze with the name " + freezeAll + " exists already.", NavSection: "overview",
		Notes:   []string{"Until the freeze ends, every change of what a cluster is served is refused. Clusters keep what they are served, and polls continue."},
		Command: "frs freeze --all --reason REASON", Crumbs: []pageLink{{"Overview", prefix + "/"}}, Freeze: &freezeChange{ID: freezeAll},
	}, nil
}

// endFreezeForm ends a freeze.
func endFreezeForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	return changeForm{
		Headline: "End freeze " + id, Button: "End freeze", NavSection: "overview",
		Notes:   []string{"The clusters of this freeze are served changes again. Changes that were refused are not made later."},
		Command: "frs freeze delete " + id, Crumbs: []pageLink{{"Overview", prefix + "/"}}, Freeze: &freezeChange{ID: id, End: true},
	}, nil
}

// planFreeze returns the plan of a change of a freeze.
func (req *pageRequest) planFreeze(f freezeChange) (*api.Plan, error) {
	if f.End {
		plan, err := req.fleet.PlanWithResponse(req.r.Context(), nil, api.PlanRequest{Freeze: f.ID})
		if err != nil {
			return nil, err
		}
		return plan.JSON200, nil
	}
	plan := &api.Plan{PlanHash: "new"}
	_, err := req.fleet.GetFreezeWithResponse(req.r.Context(), f.ID, nil)
	if problem, answered := errors.AsType[*client.Error](err); answered && problem.StatusCode == http.StatusNotFound {
		plan.Changes, err = []api.ChangeRef{{Kind: kindFreeze, ID: f.ID, Action: "create"}}, nil
	}
	return plan, err
}

// changeFreeze makes the change of a freeze.
func (req *pageRequest) changeFreeze(f freezeChange, hash, reason string) error {
	if f.End {
		_, err := req.fleet.DeleteFreezeWithResponse(req.r.Context(), f.ID, &api.DeleteFreezeParams{PlanHash: &hash, XChangeReason: &reason})
		return err
	}
	_, err := req.fleet.CreateFreezeWithResponse(req.r.Context(), &api.CreateFreezeParams{XChangeReason: &reason}, api.FreezeCreate{ID: f.ID, All: true, Reason: reason})
	return err
}
