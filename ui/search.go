package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxFound is the number of clusters, of revisions and of definitions of each kind that a search shows. maxSearchedRevisions is the number
// of newest revisions that it searches.
const (
	maxFound             = 50
	maxSearchedRevisions = 500
)

type searchView struct {
	frame
	Query       string
	Clusters    []clusterRow
	More        int
	Definitions []foundDefinition
	Changes     []changeRow
	MoreChanges int
	Searched    int      // revisions
	First       pageLink // the first result: it has the focus, so Enter opens it
}

// foundDefinition is a result of a search, with the address of its page.
type foundDefinition struct{ Kind, ID, Link string }

// showSearch finds clusters by id, DNS name, label and error text, definitions by id and version, and revisions by number, summary,
// reason and author. It redirects to the only result, and to a result whose id is the query.
func showSearch(req *pageRequest) error {
	query := req.query("q")
	if query == "" {
		req.redirect(prefix + "/clusters")
		return nil
	}
	if strings.ContainsAny(query, "=!,()") {
		req.redirect(prefix + "/clusters?" + url.Values{"selector": {query}}.Encode())
		return nil
	}
	named, err := req.fleet.ListClustersWithResponse(req.r.Context(), &api.ListClustersParams{ClusterDNS: &query, Limit: new(1)})
	if err == nil && len(*named.JSON200) == 1 {
		req.redirect(link("clusters", (*named.JSON200)[0].ID))
		return nil
	}
	if number, err := strconv.ParseInt(query, 10, 64); err == nil && number > 0 && strconv.FormatInt(number, 10) == query {
		_, err := req.fleet.GetRevisionWithResponse(req.r.Context(), number, &api.GetRevisionParams{Limit: new(1)})
		if err == nil {
			req.redirect(link("changes", query))
			return nil
		}
		if problem, answered := errors.AsType[*client.Error](err); !answered || problem.StatusCode != http.StatusNotFound && problem.StatusCode != http.StatusGone {
			return err
		}
	}
	view, only := searchView{Query: query}, ""
	contains := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(query)) })
	}
	status, err := req.fleet.GetStatusWithResponse(req.r.Context(), &api.GetStatusParams{Limit: new(10_000)})
	if err != nil {
		return err
	}
	var clusters []api.ClusterSummary
	for _, cluster := range status.JSON200.Clusters {
		if cluster.ID == query {
			req.redirect(link("clusters", query))
			return nil
		}
		if f := cluster.Failure; contains(cluster.ID) || f != nil && contains(f.Message, f.Reason, f.Object) {
			clusters, only = append(clusters, cluster), link("clusters", cluster.ID)
		}
	}
	view.More = max(0, len(clusters)-maxFound)
	view.Clusters = clusterRows(clusters[:len(clusters)-view.More])
	if err := req.findDefinitions(&view, contains); err != nil {
		return err
	}
	exact := slices.DeleteFunc(slices.Clone(view.Definitions), func(found foundDefinition) bool { return found.ID != query })
	if len(exact) == 1 {
		req.redirect(exact[0].Link)
		return nil
	}
	if len(view.Definitions) > 0 {
		only = view.Definitions[0].Link
	}
	changes, _, err := req.changes(&api.ListRevisionsParams{Limit: new(maxSearchedRevisions)})
	if err != nil {
		return err
	}
	view.Searched = len(changes)
	for _, change := range changes {
		if contains(change.Summary, change.Reason, change.By, change.RequestID) {
			view.Changes = append(view.Changes, change)
		}
	}
	if len(clusters)+len(view.Definitions) == 1 { // also with matching revisions
		req.redirect(only)
		return nil
	}
	view.MoreChanges = max(0, len(view.Changes)-maxFound)
	view.Changes = view.Changes[:len(view.Changes)-view.MoreChanges]
	switch {
	case len(view.Definitions) > 0:
		view.First = pageLink{view.Definitions[0].ID, view.Definitions[0].Link}
	case len(view.Clusters) > 0:
		view.First = pageLink{view.Clusters[0].ID, link("clusters", view.Clusters[0].ID)}
	case len(view.Changes) > 0:
		view.First = pageLink{fmt.Sprintf("Revision %d", view.Changes[0].Revision), link("changes", fmt.Sprint(view.Changes[0].Revision))}
	}
	view.frame = req.frame("Search", "")
	return req.show("search", view)
}

// findDefinitions finds components by id and version of the catalog, and all other definitions by id.
func (req *pageRequest) findDefinitions(view *searchView, contains func(...string) bool) error {
	components, err := req.fleet.ListPlatformComponentsWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, c := range *components.JSON200 {
		if contains(c.ID, c.ComponentVersion, c.OCITag) {
			view.Definitions = append(view.Definitions, foundDefinition{client.KindPlatformComponent, c.ID, link("components", c.ID)})
		}
	}
	if len(view.Clusters)+len(view.Definitions) == 0 && strings.ContainsAny(view.Query, "0123456789") {
		if err := req.findVersions(view, *components.JSON200, contains); err != nil {
			return err
		}
	}
	layers, err := req.fleet.ListLayersWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, l := range *layers.JSON200 {
		if contains(l.ID) {
			view.Definitions = append(view.Definitions, foundDefinition{client.KindLayer, l.ID, link("layers", l.ID)})
		}
	}
	lists, err := req.definitionLists()
	if err != nil {
		return err
	}
	for _, list := range lists {
		found := slices.DeleteFunc(list.Items, func(one pageLink) bool { return !contains(one.Text) })
		for _, one := range found[:min(len(found), maxFound)] {
			view.Definitions = append(view.Definitions, foundDefinition{kindOfList(list.List).name, one.Text, one.Link})
		}
	}
	return nil
}

// findVersions finds the versions of components that clusters are served instead of the catalog's. Each component needs an API
// request that reads all clusters, so only the first maxFound components are searched.
func (req *pageRequest) findVersions(view *searchView, components []api.PlatformComponent, contains func(...string) bool) error {
	for _, c := range components[:min(len(components), maxFound)] {
		status, err := req.fleet.GetPlatformComponentStatusWithResponse(req.r.Context(), c.ID, nil)
		if err != nil {
			return err
		}
		for _, cell := range makeComponentRow(c, *status.JSON200).Versions {
			if contains(cell.Version, cell.Tag) {
				view.Definitions = append(view.Definitions, foundDefinition{client.KindPlatformComponent, c.ID + " " + cell.Version, cell.Link})
			}
		}
	}
	return nil
}

// redirect answers with a redirect to a page of this site, without the base path.
func (req *pageRequest) redirect(page string) { http.Redirect(req.w, req.r, page, http.StatusSeeOther) }
