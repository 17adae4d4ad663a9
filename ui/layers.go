package ui

import (
	"maps"
	"net/url"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxLayerClusters is the number of clusters of a layer that are named.
const maxLayerClusters = 50

type layersView struct {
	frame
	Layers []api.Layer
}

// showLayers lists the layers by priority, the highest first.
func showLayers(req *pageRequest) error {
	list, err := req.fleet.ListLayersWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	view := layersView{Layers: *list.JSON200}
	slices.SortFunc(view.Layers, func(a, b api.Layer) int { return b.Priority - a.Priority })
	view.frame = req.frame("Layers", "layers")
	return req.show("layers", view)
}

type layerView struct {
	frame
	Layer       api.Layer
	Clusters    []string // the first
	More        int
	All         string
	Overrides   []string
	Patched     []string
	Changes     []changeRow
	HistoryLink string
	Delete      string // address of the form; empty: not permitted
}

// showLayer shows one layer, its clusters and its history.
func showLayer(req *pageRequest) error {
	id := req.r.PathValue("id")
	doc, err := req.fleet.GetLayerWithResponse(req.r.Context(), id, &api.GetLayerParams{View: new("clusters")})
	if err != nil {
		return err
	}
	layer := *doc.JSON200
	view := layerView{Layer: layer, HistoryLink: historyLink("layer", id), All: prefix + "/clusters"}
	view.Clusters = layer.Clusters[:min(len(layer.Clusters), maxLayerClusters)]
	view.More = len(layer.Clusters) - len(view.Clusters)
	if layer.Selector != "" {
		view.All += "?" + url.Values{"selector": {layer.Selector}}.Encode()
	}
	view.Overrides = slices.Sorted(maps.Keys(layer.Overrides))
	view.Patched = slices.Sorted(maps.Keys(layer.Patches))
	if view.Changes, _, err = req.changes(&api.ListRevisionsParams{Kind: new("layer"), ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	if req.mayChange() {
		view.Delete = link("layers", id, "delete")
	}
	view.frame = req.frame(id, "layers")
	return req.show("layer", view)
}
