package ui

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// changeRow is a row of a list of revisions.
type changeRow struct {
	api.RevisionSummary

	UndoneBy     int64  // the revision that reverted it; 0: none
	Compare      string // compares what the cluster was served before and after it; empty: the list is not of a cluster
	ChangedAgain int64  // the revision that changed all of its documents again; 0: none, or not known
	Served       string // the inputs and fields that it changed; empty: none, or the list is not of a cluster or a component
}

// By returns the author, or else the token.
func (r changeRow) By() string { return cmp.Or(r.Author, r.Actor) }

// changes returns revisions, the newest first, and the cursor of the next page.
func (req *pageRequest) changes(p *api.ListRevisionsParams) (rows []changeRow, next string, err error) {
	revisions, header, err := req.revisions(p)
	if err != nil {
		return nil, "", err
	}
	undone := map[int64]int64{}
	for _, rev := range revisions {
		for _, reverted := range rev.Reverts {
			if undone[reverted] == 0 {
				undone[reverted] = rev.Revision
			}
		}
		row := changeRow{RevisionSummary: rev, UndoneBy: undone[rev.Revision]}
		if len(rev.Effect) > 0 {
			row.Served = summarize.Served(rev)
		}
		rows = append(rows, row)
	}
	return rows, client.NextPage(header).Get("cursor"), nil
}

// changesInput reports whether the revision changed an input of the cluster whose history has it.
func (r changeRow) changesInput(list, id string) bool {
	effect := r.Effect[list]
	return slices.ContainsFunc(effect.Changed, func(ch api.InputChange) bool { return ch.ID == id }) || slices.ContainsFunc(effect.Added, func(added json.RawMessage) bool {
		var in struct{ ID string }
		return json.Unmarshal(added, &in) == nil && in.ID == id
	})
}

// revisions reads a page of revisions. For a cluster or component, they include the revisions of other documents that changed its
// inputs.
func (req *pageRequest) revisions(p *api.ListRevisionsParams) ([]api.RevisionSummary, http.Header, error) {
	if p.Kind != nil && p.ID != nil && p.Actor == nil {
		switch *p.Kind {
		case client.KindCluster:
			list, err := req.fleet.GetClusterHistoryWithResponse(req.r.Context(), *p.ID, &api.GetClusterHistoryParams{View: new("effective"), Since: p.Since, Until: p.Until, Limit: p.Limit, Cursor: p.Cursor})
			if err != nil {
				return nil, nil, err
			}
			return *list.JSON200, list.HTTPResponse.Header, nil
		case client.KindPlatformComponent:
			list, err := req.fleet.GetPlatformComponentHistoryWithResponse(req.r.Context(), *p.ID, &api.GetPlatformComponentHistoryParams{View: new("effective"), Since: p.Since, Until: p.Until, Limit: p.Limit, Cursor: p.Cursor})
			if err != nil {
				return nil, nil, err
			}
			return *list.JSON200, list.HTTPResponse.Header, nil
		}
	}
	list, err := req.fleet.ListRevisionsWithResponse(req.r.Context(), p)
	if err != nil {
		return nil, nil, err
	}
	return *list.JSON200, list.HTTPResponse.Header, nil
}
