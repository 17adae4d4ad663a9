package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxFound and maxSuggested are the numbers of results of each kind on the page of a search, and below the field while typing. The
// list below the field has at most maxOptions.
const (
	maxFound     = 50
	maxSuggested = 6
	maxOptions   = 12
)

// Kinds of results that are no documents.
const (
	kindChange = "change"
	kindLabel  = "label"
)

type searchView struct {
	frame
	Query   string
	Results []searchResult
	More    bool
	All     string // address of the page with all results
}

// searchResult is a result with the address of its page.
type searchResult struct {
	Kind, Text, Link string
	Details          []string
	States           []string // of a cluster
	exact            bool
}

// isSelector reports whether a query selects clusters by labels.
func isSelector(query string) bool { return strings.ContainsAny(query, "=!,()") }

// selectorResult is the list of the clusters that a selector matches.
func selectorResult(selector string) searchResult {
	return searchResult{Kind: "selector", Text: "Clusters that match " + selector, Link: filter{Selector: selector}.page()}
}

// find returns the results of a search, the best first.
func (req *pageRequest) find(query string, limit int) (view searchView, err error) {
	found, err := req.fleet.SearchWithResponse(req.r.Context(), &api.SearchParams{Q: query, Limit: &limit})
	if err != nil {
		return view, err
	}
	view = searchView{Query: query, More: found.JSON200.More, All: prefix + "/search?" + url.Values{"q": {query}}.Encode()}
	for i := range found.JSON200.Results {
		view.Results = append(view.Results, makeSearchResult(&found.JSON200.Results[i]))
	}
	return view, nil
}

func makeSearchResult(r *api.SearchResult) searchResult {
	out := searchResult{Kind: kindName(r.Kind), Text: cmp.Or(r.Name, r.ID), exact: r.Exact}
	switch r.Kind {
	case kindLabel:
		out.Details, out.Link, out.exact = []string{plural(r.Clusters, "cluster")}, filter{Selector: r.ID}.page(), false // the document of this name is better
	case "version":
		out.Text, out.Link = r.ID+" "+versionText(r.ComponentVersion, r.OCITag), filter{Component: r.ID, Version: r.ComponentVersion, Tag: r.OCITag}.page()
	case "revision":
		out.Kind, out.Text, out.Link = kindChange, "Revision "+r.ID, link("changes", r.ID)
		if rev := r.Revision; rev != nil {
			out.Details = []string{truncate(rev.Summary, 120), truncate(rev.Reason, 120), cmp.Or(rev.Author, rev.Actor)}
		}
	default:
		out.Link, out.Details = linkTo(r.Kind, r.ID), []string{r.ComponentVersion}
		if c := r.Cluster; c != nil {
			if out.States = statesOf(c.State, c.States); c.Failure != nil {
				out.Details = []string{c.Failure.ID, c.Failure.Reason, truncate(c.Failure.Message, 160)}
			}
		}
	}
	out.Details = slices.DeleteFunc(out.Details, func(text string) bool { return text == "" })
	return out
}

// showSearch finds everything with a name, a number or a text. It redirects to the only result other than revisions, and to a result whose
// name is the query.
func showSearch(req *pageRequest) error {
	query := req.query("q")
	switch {
	case query == "":
		req.redirect(prefix + "/clusters")
		return nil
	case isSelector(query):
		req.redirect(selectorResult(query).Link)
		return nil
	}
	view, err := req.find(query, maxFound)
	if err != nil {
		return err
	}
	for _, better := range []func(searchResult) bool{
		func(r searchResult) bool { return r.exact },
		func(r searchResult) bool { return r.Kind != kindChange && r.Kind != kindLabel },
	} {
		best := slices.DeleteFunc(slices.Clone(view.Results), func(r searchResult) bool { return !better(r) })
		if len(best) == 1 {
			req.redirect(best[0].Link)
			return nil
		}
	}
	return req.show("search", "Search", "", &view)
}

// showSuggestions answers the script of the search field with the list of the best results.
func showSuggestions(req *pageRequest) error {
	query := req.query("q")
	if query == "" {
		return errNotFound
	}
	view, err := req.find(query, maxSuggested)
	if err != nil {
		return err
	}
	if isSelector(query) {
		view.Results = slices.Insert(view.Results, 0, selectorResult(query))
	}
	if len(view.Results) > maxOptions {
		view.Results, view.More = view.Results[:maxOptions], true
	}
	req.page.renderPart(req.w, req.r, http.StatusOK, "search", "suggestions", view)
	return nil
}

// redirect answers with a redirect to a page of this site, without the base path.
func (req *pageRequest) redirect(page string) { http.Redirect(req.w, req.r, page, http.StatusSeeOther) }
