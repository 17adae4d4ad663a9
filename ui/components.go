package ui

import (
	"net/url"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// componentsPerPage is the number of rows a page.
const componentsPerPage = 50

type componentsView struct {
	frame
	Rows  []componentRow
	Pages pager
}

// componentRow is a component with its desired versions.
type componentRow struct {
	ID, Default, Type string
	Clusters          int
	Bar               stateBar
	Versions          []versionCell
}

// showComponents shows the desired versions of each component.
func showComponents(req *pageRequest) error {
	offset := req.offset()
	status, err := req.fleet.GetComponentMatrixWithResponse(req.r.Context(), &api.GetComponentMatrixParams{Limit: new(componentsPerPage), Offset: &offset})
	if err != nil {
		return err
	}
	var view componentsView
	for _, c := range status.JSON200.Rows {
		row := componentRow{ID: c.ID, Default: versionText(c.ComponentVersion, c.OCITag), Type: c.Type}
		for _, cell := range c.Cells { // at most one
			row.Clusters, row.Bar = cell.Clusters, makeStateBar(cell.Counts, nil)
			row.Versions = versionCells(cell.Versions, filter{Component: c.ID}, c.ComponentVersion, c.OCITag)
		}
		view.Rows = append(view.Rows, row)
	}
	all, err := totalOf(status.HTTPResponse)
	if err != nil {
		return err
	}
	view.Pages = makePager(prefix+"/components", url.Values{}, componentsPerPage, offset, len(view.Rows), all)
	return req.show("components", "Components", "components", &view)
}

type componentView struct {
	frame
	Managed   managed
	Component api.PlatformComponent
	Catalog   string // its version in the catalog
	Clusters  int
	Bar       stateBar
	Variants  []variantRow
	Disabled  int
	New       *versionsView // nil: there are neither policies nor known or held versions
	Strip     *strip        // nil: none
	Rollouts  []rolloutRow  // open ones that change it
	Changes   []changeRow
	Older     string // not empty: older changes have not been searched
	Delete    pageLink
	Change    string // the address of the form that changes its version; empty: the token may not
}

type variantRow struct {
	api.ComponentVariant

	Version, Link string
	Environments  []namedCount
	Clusters      []string // the first
	More          int
}

type namedCount struct {
	Name  string
	Count int
}

// maxVariantClusters is the number of clusters that are named for each version.
const maxVariantClusters = 12

// showComponent shows one component: its versions, overrides and history.
func showComponent(req *pageRequest) error {
	id := req.r.PathValue("id")
	doc, err := req.fleet.GetPlatformComponentWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return err
	}
	status, err := req.fleet.GetPlatformComponentStatusWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return err
	}
	usage, err := req.fleet.GetPlatformComponentUsageWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return err
	}
	view := componentView{
		Component: *doc.JSON200, Managed: req.managedBy(doc.HTTPResponse), Catalog: versionText(doc.JSON200.ComponentVersion, doc.JSON200.OCITag), Disabled: usage.JSON200.Disabled,
		Clusters: status.JSON200.Clusters, Bar: makeStateBar(status.JSON200.Counts, func(state string) string { return filter{Component: id, State: state}.page() }),
	}
	for _, variant := range usage.JSON200.Variants {
		row := variantRow{ComponentVariant: variant, Version: versionText(variant.ComponentVersion, variant.OCITag), Link: filter{Component: id, Version: variant.ComponentVersion, Tag: variant.OCITag}.page()}
		for _, name := range usage.JSON200.Environments {
			if n := variant.Environments[name]; n > 0 {
				row.Environments = append(row.Environments, namedCount{name, n})
			}
		}
		row.Clusters = variant.ClusterIds[:min(len(variant.ClusterIds), maxVariantClusters)]
		row.More = variant.Clusters - len(row.Clusters)
		view.Variants = append(view.Variants, row)
	}
	if view.New, err = req.knownVersions(view.Component); err != nil {
		return err
	}
	if view.Changes, view.Older, err = req.changes(&api.ListRevisionsParams{Kind: new("platform_component"), ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	if view.Strip, err = req.makeStrip(stripSource{of: api.GetStatusHistoryParams{Component: &id}, marks: revisionMarks(view.Changes), freezes: req.freezes}); err != nil {
		return err
	}
	attention, others, _, err := req.openRollouts()
	if err != nil {
		return err
	}
	for _, row := range slices.Concat(attention, others) {
		if slices.Contains(row.Components, id) {
			view.Rollouts = append(view.Rollouts, row)
		}
	}
	view.Delete = req.deleteLink(client.KindPlatformComponent, id, link("components", id, "delete"))
	view.Change = req.versionLink(id, client.KindPlatformComponent, id)
	return req.show("component", id, "components", &view)
}
