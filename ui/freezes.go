package ui

import (
	"errors"
	"net/http"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// stopPrefix begins the name of the freeze of an environment that the page makes.
const stopPrefix = "stop-"

// allClusters names what the freeze of all clusters includes.
const allClusters = "all clusters"

// shownFreezes is the number of active freezes on a page.
const shownFreezes = 10

// activeFreezes returns the active ones of some freezes except the one in the header, and the number of those beyond shownFreezes.
func (req *pageRequest) activeFreezes(freezes []api.Freeze) (rows []freezeRow, more int, err error) {
	for _, f := range freezes {
		if f.State != "active" || req.stop != nil && req.stop.ID == f.ID {
			continue
		}
		if len(rows) == shownFreezes {
			more++
			continue
		}
		row, err := req.freezeRow(f)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, row)
	}
	return rows, more, nil
}

// recurs reports whether a freeze has windows. It is no event that needs attention.
func recurs(f api.Freeze) bool { return len(f.Allow)+len(f.Block) > 0 }

// freezeRow returns the row of an active freeze.
func (req *pageRequest) freezeRow(f api.Freeze) (freezeRow, error) {
	row := freezeRow{Freeze: f, Selection: f.Selector}
	if f.All {
		row.Selection = allClusters
	}
	if req.mayChange(writing, client.KindFreeze, f.ID) {
		row.End = link("freezes", f.ID, "end")
	}
	last, _, err := req.changes(&api.ListRevisionsParams{Kind: new(client.KindFreeze), ID: &f.ID, Limit: new(1)})
	if len(last) > 0 {
		row.By, row.Since = last[0].By(), &last[0].At
	}
	return row, err
}

// freezesOf returns the freezes that include a cluster.
func (req *pageRequest) freezesOf(cluster string) (out []api.Freeze, err error) {
	for _, f := range req.freezes {
		included := f.All
		if !included {
			if included, err = req.selected(f.Selector, cluster); err != nil {
				return nil, err
			}
		}
		if included {
			out = append(out, f)
		}
	}
	return out, nil
}

// readFreezes reads the freezes, and sets the emergency stop that the header shows.
func (req *pageRequest) readFreezes() error {
	list, err := req.fleet.ListFreezesWithResponse(req.r.Context(), nil)
	if refused, answered := errors.AsType[*client.Error](err); answered && refused.StatusCode == http.StatusForbidden {
		return nil // a token of some clusters
	}
	if err != nil {
		return err
	}
	req.freezes = *list.JSON200
	if req.query("wall") != "" {
		return nil // without a header
	}
	for _, f := range req.freezes {
		if f.State == "active" && !recurs(f) && (f.All || strings.HasPrefix(f.ID, stopPrefix)) {
			stop, err := req.freezeRow(f)
			req.stop = &stop
			return err
		}
	}
	return nil
}

// stopForm freezes all clusters, or those of an environment. The name of what stops has to be typed.
func stopForm(req *pageRequest) (changeForm, error) {
	const note = "Until the freeze ends, every change of what these clusters are served is refused, and stages of rollouts do not start. Clusters keep what they are served, and polls continue."
	form := changeForm{
		Headline: "Stop all changes", Button: "Stop changes", NavSection: "overview", Destructive: true, Notes: []string{note},
		Crumbs: []pageLink{{"Overview", prefix + "/"}}, Confirm: allClusters, Freeze: &api.FreezeCreate{ID: freezeAll, All: true}, Command: "frs freeze --all --reason REASON",
	}
	environments, err := req.environments()
	if err != nil {
		return form, err
	}
	form.Choices = []choice{{allClusters, stopLink(""), true}}
	for _, e := range environments {
		on := e == req.query("environment")
		form.Choices = append(form.Choices, choice{e, stopLink(e), on})
		if on {
			form.Choices[0].On = false
			form.Headline, form.Confirm = "Stop all changes in "+e, e
			form.Freeze = &api.FreezeCreate{ID: stopPrefix + e, Selector: "environment=" + e}
			form.Command = "frs freeze create " + form.Freeze.ID + " --selector " + form.Freeze.Selector + " --reason REASON"
		}
	}
	if req.query("environment") != "" && form.Choices[0].On { // a link to one environment must not stop all
		return changeForm{}, errNotFound
	}
	form.NoChange = "A freeze with the name " + form.Freeze.ID + " exists already."
	return form, nil
}

// environments returns the environments of the clusters in promotion order.
func (req *pageRequest) environments() (names []string, err error) {
	status, err := req.fleet.GetStatusWithResponse(req.r.Context(), &api.GetStatusParams{Facets: new(true), Limit: new(1)})
	if err != nil || status.JSON200.Facets == nil {
		return nil, err
	}
	for _, f := range *status.JSON200.Facets {
		if f.Name == "environment" {
			for _, v := range f.Values {
				names = append(names, v.Value)
			}
		}
	}
	return names, nil
}

// endFreezeForm ends a freeze.
func endFreezeForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	return changeForm{
		Headline: "End freeze " + id, Button: "End freeze", NavSection: "overview",
		Notes:   []string{"The clusters of this freeze are served changes again. Changes that were refused are not made later."},
		Command: "frs unfreeze " + id, Crumbs: []pageLink{{"Overview", prefix + "/"}}, Operation: api.Operation{Op: client.OpDelete, Kind: client.KindFreeze, ID: id},
	}, nil
}
