package ui

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// foundMost is how many clusters a search names.
const foundMost = 50

type searchView struct {
	frame
	Query      string
	Clusters   []clusterRow
	More       int
	Components []string
	Layers     []string
}

// showSearch finds clusters by id, DNS name or label, components and layers. What is meant for certain is gone to at once.
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
	status, err := v.fleet.GetStatusWithResponse(v.r.Context(), &api.GetStatusParams{Limit: new(10_000)})
	if err != nil {
		return err
	}
	view := searchView{Query: query}
	var found []api.ClusterSummary
	like := strings.ToLower(query)
	for _, cluster := range status.JSON200.Clusters {
		if cluster.ID == query {
			v.goTo(link("clusters", query))
			return nil
		}
		if strings.Contains(strings.ToLower(cluster.ID), like) {
			found = append(found, cluster)
		}
	}
	view.More = max(0, len(found)-foundMost)
	view.Clusters = clusterRows(found[:len(found)-view.More])
	components, err := v.fleet.ListPlatformComponentsWithResponse(v.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, c := range *components.JSON200 {
		if strings.Contains(strings.ToLower(c.ID), like) {
			view.Components = append(view.Components, c.ID)
		}
	}
	layers, err := v.fleet.ListLayersWithResponse(v.r.Context(), nil)
	if err != nil {
		return err
	}
	for _, l := range *layers.JSON200 {
		if strings.Contains(strings.ToLower(l.ID), like) {
			view.Layers = append(view.Layers, l.ID)
		}
	}
	switch {
	case len(found) == 1 && len(view.Components)+len(view.Layers) == 0:
		v.goTo(link("clusters", found[0].ID))
		return nil
	case len(found)+len(view.Layers) == 0 && len(view.Components) == 1:
		v.goTo(link("components", view.Components[0]))
		return nil
	}
	view.frame = v.frame("Search", "")
	return v.show("search", view)
}

func (v *visit) goTo(page string) { http.Redirect(v.w, v.r, page, http.StatusSeeOther) }
