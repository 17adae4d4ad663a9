package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxLayerClusters is the number of clusters of a layer that are named.
const maxLayerClusters = 50

type layersView struct {
	frame
	Layers []layerRow
}

type layerRow struct {
	api.Layer

	Clusters int
}

// showLayers lists the layers by priority, the highest first.
func showLayers(req *pageRequest) error {
	list, err := req.fleet.ListLayersWithResponse(req.r.Context(), &api.ListLayersParams{View: new("counts")})
	if err != nil {
		return err
	}
	var view layersView
	for _, l := range *list.JSON200 {
		view.Layers = append(view.Layers, layerRow{l, *l.ClusterCount})
	}
	slices.SortFunc(view.Layers, func(a, b layerRow) int { return b.Priority - a.Priority })
	return req.show("layers", "Layers", "layers", &view)
}

type layerView struct {
	frame
	Managed     managed
	Layer       api.Layer
	Lists       []layerList
	Components  []layerComponent
	Clusters    []string // the first
	Count, More int      // of all, and of those not named
	All         string
	Fields      []fieldChange // the settings and values, in After
	Hidden      bool
	Reveal      string
	Changes     []changeRow
	Delete      pageLink
}

// layerComponent is a component that a layer assigns or overrides.
type layerComponent struct {
	ID, Version string // Version is empty if the layer sets none
	Change      string // the address of the form that changes it; empty: the visitor may not
}

// layerComponents returns the components that a layer assigns or overrides.
func (req *pageRequest) layerComponents(layer api.Layer) (out []layerComponent) {
	may := req.mayChange(runningRollout, client.KindLayer, layer.ID)
	add := func(id, version, tag string) {
		c := layerComponent{ID: id, Version: cmp.Or(version, tag)}
		if may {
			c.Change = versionAddress(id, client.KindLayer, layer.ID)
		}
		out = append(out, c)
	}
	for _, c := range layer.PlatformComponents {
		add(c.ID, c.ComponentVersion, c.OCITag)
	}
	for _, id := range slices.Sorted(maps.Keys(layer.Overrides)) {
		add(id, layer.Overrides[id].ComponentVersion, layer.Overrides[id].OCITag)
	}
	return out
}

// layerList holds the entries of one kind in a layer.
type layerList struct {
	Title   string
	Entries []pageLink
}

// layerLists returns the lists of a layer's document: those of all kinds, and those of resource types with entries.
func layerLists(document []byte) (lists []layerList, err error) {
	type entry struct {
		ID string `json:"id"`
	}
	var fields map[string]json.RawMessage
	var resources struct {
		Resources map[string][]entry `json:"resources"`
	}
	if err := errors.Join(json.Unmarshal(document, &fields), json.Unmarshal(document, &resources)); err != nil {
		return nil, err
	}
	add := func(k kind, entries []entry) {
		list := layerList{Title: k.title}
		for _, e := range entries {
			list.Entries = append(list.Entries, pageLink{e.ID, k.page(e.ID)})
		}
		lists = append(lists, list)
	}
	for _, k := range kinds {
		raw, assigned := fields[strings.ReplaceAll(k.list, "-", "_")]
		if !assigned {
			continue
		}
		var entries []entry
		if err := json.Unmarshal(raw, &entries); err != nil {
			return nil, err
		}
		add(k, entries)
	}
	for _, typeID := range slices.Sorted(maps.Keys(resources.Resources)) {
		add(resourceKind(typeID), resources.Resources[typeID])
	}
	return lists, nil
}

// layerFacts are the fields of a layer that the page shows apart from its settings.
var layerFacts = []string{"id", "description", "priority", "selector", "all", "clusters"}

// layerSettings returns what a layer sets: the settings of its entries, overrides and values, without the ids of the entries.
func layerSettings(document []byte, reveal bool) ([]fieldChange, error) {
	var settings map[string]any
	if err := decodeNumbers(document, &settings); err != nil {
		return nil, err
	}
	for _, fact := range layerFacts { // ten thousand clusters among them
		delete(settings, fact)
	}
	return slices.DeleteFunc(diffValues(nil, settings, reveal), func(f fieldChange) bool {
		return strings.HasSuffix(f.Field, fieldSeparator+"id") || isEmptyContainer(f.After)
	}), nil
}

// showLayer shows one layer, its clusters and its history.
func showLayer(req *pageRequest) error {
	id := req.r.PathValue("id")
	doc, err := req.fleet.GetLayerWithResponse(req.r.Context(), id, &api.GetLayerParams{View: new("clusters")})
	if err != nil {
		return err
	}
	layer := *doc.JSON200
	view := layerView{Layer: layer, Managed: req.managedBy(doc.HTTPResponse), All: address(prefix+"/clusters", map[string]string{"selector": layer.Selector})}
	view.Clusters = layer.Clusters[:min(len(layer.Clusters), maxLayerClusters)]
	view.Count, view.More = len(layer.Clusters), len(layer.Clusters)-len(view.Clusters)
	if view.Lists, err = layerLists(doc.Body); err != nil {
		return err
	}
	if view.Fields, err = layerSettings(doc.Body, req.reveal()); err != nil {
		return err
	}
	view.Components = req.layerComponents(layer)
	view.Lists = slices.DeleteFunc(view.Lists, func(l layerList) bool { return l.Title == listTitle(componentList) })
	view.Reveal, view.Hidden = req.revealLink(), anyHidden(view.Fields)
	if view.Changes, _, err = req.changes(&api.ListRevisionsParams{Kind: new("layer"), ID: &id, Limit: new(overviewChanges)}); err != nil {
		return err
	}
	view.Delete = req.deleteLink(client.KindLayer, id, link("layers", id, "delete"))
	return req.show("layer", id, "layers", &view)
}
