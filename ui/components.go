package ui

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// componentsPerPage is the number of rows a page. Each row makes an API request that reads every cluster.
const componentsPerPage = 25

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

// versionCell is a desired version of a component, with the numbers of clusters.
type versionCell struct {
	Version, Tag, Link  string
	Clusters, Confirmed int
	Pinned              bool // differs from the catalog's version
	Bar                 stateBar
}

// showComponents shows the desired versions of each component.
func showComponents(req *pageRequest) error {
	offset := req.offset()
	list, err := req.fleet.ListPlatformComponentsWithResponse(req.r.Context(), &api.ListPlatformComponentsParams{Limit: new(componentsPerPage), Offset: &offset})
	if err != nil {
		return err
	}
	var view componentsView
	for _, c := range *list.JSON200 {
		status, err := req.fleet.GetPlatformComponentStatusWithResponse(req.r.Context(), c.ID, nil)
		if err != nil {
			return err
		}
		view.Rows = append(view.Rows, makeComponentRow(c, *status.JSON200))
	}
	all := offset + len(view.Rows)
	if list.Headers200 != nil && list.Headers200.XTotalCount != nil {
		all = *list.Headers200.XTotalCount
	}
	view.Pages = makePager(prefix+"/components", url.Values{}, componentsPerPage, offset, len(view.Rows), all)
	view.frame = req.frame("Components", "components")
	return req.show("components", view)
}

// makeComponentRow returns the row of a component from its catalog entry and its status.
func makeComponentRow(c api.PlatformComponent, status api.ComponentStatus) componentRow {
	row := componentRow{
		ID: c.ID, Default: versionText(c.ComponentVersion, c.OCITag), Type: c.Type, Clusters: status.Clusters, Bar: makeStateBar(status.Counts, componentClusters(c.ID)),
	}
	tags := map[string]int{} // a version with several tags is shown with the tag
	for _, one := range status.Versions {
		tags[one.ComponentVersion]++
	}
	for _, one := range status.Versions {
		cell := versionCell{
			Version: versionText(one.ComponentVersion, one.OCITag), Clusters: one.Clusters, Confirmed: one.Counts["confirmed"], Bar: makeStateBar(one.Counts, nil),
			Link: filter{Component: c.ID, Version: one.ComponentVersion, Tag: one.OCITag}.page(),
		}
		if tags[one.ComponentVersion] > 1 && cell.Version != one.OCITag {
			cell.Tag = one.OCITag
		}
		cell.Pinned = one.ComponentVersion != c.ComponentVersion || one.OCITag != c.OCITag
		row.Versions = append(row.Versions, cell)
	}
	return row
}

// componentClusters returns a function that returns the address of the clusters on which a component is in a state.
func componentClusters(id string) func(state string) string {
	return func(state string) string {
		return filter{Component: id, State: state}.page()
	}
}

type componentView struct {
	frame
	Component api.PlatformComponent
	Row       componentRow
	Variants  []variantRow
	Disabled  int
	Changes   []changeRow
	More      string
	Older     string // not empty: older changes have not been searched
	Delete    string // address of the form; empty: not permitted
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
	view := componentView{Component: *doc.JSON200, Row: makeComponentRow(*doc.JSON200, *status.JSON200), Disabled: usage.JSON200.Disabled, More: historyLink("platform_component", id)}
	for _, variant := range usage.JSON200.Variants {
		row := variantRow{ComponentVariant: variant, Version: versionText(variant.ComponentVersion, variant.OCITag), Link: filter{Component: id, Version: variant.ComponentVersion, Tag: variant.OCITag}.page()}
		for name, n := range variant.Environments {
			row.Environments = append(row.Environments, namedCount{name, n})
		}
		slices.SortFunc(row.Environments, func(a, b namedCount) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Name, b.Name)) })
		row.Clusters = variant.ClusterIds[:min(len(variant.ClusterIds), maxVariantClusters)]
		row.More = variant.Clusters - len(row.Clusters)
		view.Variants = append(view.Variants, row)
	}
	if view.Changes, view.Older, err = req.changes(&api.ListRevisionsParams{Kind: new("platform_component"), ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	if req.mayChange(writing, client.KindPlatformComponent, id) {
		view.Delete = link("components", id, "delete")
	}
	view.frame = req.frame(id, "components")
	return req.show("component", view)
}
