package ui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// foundMost is how many clusters a search names, and how many definitions of a kind. searchedRevisions is how many of the newest revisions
// it looks at.
const (
	foundMost         = 50
	searchedRevisions = 500
)

type searchView struct {
	frame
	Query       string
	Clusters    []clusterRow
	More        int
	Definitions []foundDefinition
	Changes     []changeRow
	MoreChanges int
	Searched    int // revisions
}

// foundDefinition is a definition that a search found, with its page.
type foundDefinition struct{ Kind, ID, Link string }

// showSearch finds clusters by id, DNS name, label and error text, definitions by id and version, and revisions by number, summary,
// reason and author. It redirects to a page that is the only one found, or whose name is the query.
func showSearch(v *visit) error {
	query := v.query("q")
	if query == "" {
		v.goTo(prefix + "/clusters")
		return nil
	}
	if strings.ContainsAny(query, "=!,()") {
		v.goTo(prefix + "/clusters?" + url.Values{"selector": {query}}.Encode())
		return nil
	}
	named, err := v.fleet.ListClustersWithResponse(v.r.Context(), &api.ListClustersParams{ClusterDNS: &query, Limit: new(1)})
	if err == nil && len(*named.JSON200) == 1 {
		v.goTo(link("clusters", (*named.JSON200)[0].ID))
		return nil
	}
	if number, err := strconv.ParseInt(query, 10, 64); err == nil && number > 0 && strconv.FormatInt(number, 10) == query {
		_, err := v.fleet.GetRevisionWithResponse(v.r.Context(), number, &api.GetRevisionParams{Limit: new(1)})
		if err == nil {
			v.goTo(link("changes", query))
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
	status, err := v.fleet.GetStatusWithResponse(v.r.Context(), &api.GetStatusParams{Limit: new(10_000)})
	if err != nil {
		return err
	}
	var clusters []api.ClusterSummary
	for _, cluster := range status.JSON200.Clusters {
		if cluster.ID == query {
			v.goTo(link("clusters", query))
			return nil
		}
		if f := cluster.Failure; contains(cluster.ID) || f != nil && contains(f.Message, f.Reason, f.Object) {
			clusters, only = append(clusters, cluster), link("clusters", cluster.ID)
		}
	}
	view.More = max(0, len(clusters)-foundMost)
	view.Clusters = clusterRows(clusters[:len(clusters)-view.More])
	if err := v.findDefinitions(&view, contains); err != nil {
		return err
	}
	exact := slices.DeleteFunc(slices.Clone(view.Definitions), func(found foundDefinition) bool { return found.ID != query })
	if len(exact) == 1 {
		v.goTo(exact[0].Link)
		return nil
	}
	if len(view.Definitions) > 0 {
		only = view.Definitions[0].Link
	}
	changes, _, err := v.changes(&api.ListRevisionsParams{Limit: new(searchedRevisions)})
	if err != nil {
		return err
	}
	view.Searched = len(changes)
	for _, change := range changes {
		if contains(change.Summary, change.Reason, change.By, change.RequestID) {
			view.Changes = append(view.Changes, change)
		}
	}
	if len(clusters)+len(view.Definitions) == 1 { // revisions that name it do not make it less certain
		v.goTo(only)
		return nil
	}
	view.MoreChanges = max(0, len(view.Changes)-foundMost)
	view.Changes = view.Changes[:len(view.Changes)-view.MoreChanges]
	view.frame = v.frame("Search", "")
	return v.show("search", view)
}

// findDefinitions finds components by id and version of the catalog, and all other definitions by id.
func (v *visit) findDefinitions(view *searchView, contains func(...string) bool) error {
	components, err := v.fleet.ListPlatformComponentsWithResponse(v.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, c := range *components.JSON200 {
		if contains(c.ID, c.ComponentVersion, c.OCITag) {
			view.Definitions = append(view.Definitions, foundDefinition{client.KindPlatformComponent, c.ID, link("components", c.ID)})
		}
	}
	if len(view.Clusters)+len(view.Definitions) == 0 && strings.ContainsAny(view.Query, "0123456789") {
		if err := v.findVersions(view, *components.JSON200, contains); err != nil {
			return err
		}
	}
	layers, err := v.fleet.ListLayersWithResponse(v.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, l := range *layers.JSON200 {
		if contains(l.ID) {
			view.Definitions = append(view.Definitions, foundDefinition{client.KindLayer, l.ID, link("layers", l.ID)})
		}
	}
	lists, err := v.definitionLists()
	if err != nil {
		return err
	}
	for _, list := range lists {
		found := slices.DeleteFunc(list.IDs, func(id string) bool { return !contains(id) })
		for _, id := range found[:min(len(found), foundMost)] {
			view.Definitions = append(view.Definitions, foundDefinition{definitionKind(list.List), id, link("definitions", list.List, id)})
		}
	}
	return nil
}

// findVersions finds the versions of components that clusters are served instead of the catalog's. Each component takes a look at all
// clusters, so only the first ones are searched.
func (v *visit) findVersions(view *searchView, components []api.PlatformComponent, contains func(...string) bool) error {
	for _, c := range components[:min(len(components), foundMost)] {
		status, err := v.fleet.GetPlatformComponentStatusWithResponse(v.r.Context(), c.ID, nil)
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

func (v *visit) goTo(page string) { http.Redirect(v.w, v.r, page, http.StatusSeeOther) }
