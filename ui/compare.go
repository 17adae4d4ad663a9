package ui

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
)

// comparedSide is one side of a comparison: a cluster, now or at a revision, or the layers of a cluster.
type comparedSide struct {
	Cluster, Revision, Title, YAML string
}

type compareView struct {
	frame
	Left, Right comparedSide
	Layer       string      // against which the left cluster is compared; empty: none
	Layers      []layerLink // of the left cluster
	Compared    bool
	Differences []fieldChange
	Hidden      bool
	Reveal      string
	Problem     string
}

// identityFields differ between any two clusters.
var identityFields = map[string]bool{"id": true, "cluster_dns": true, "cluster_name": true}

type layerLink struct {
	ID, Link string
	On       bool
}

// showCompare compares the settings of two clusters, of one cluster at two revisions, or of a cluster and a layer. Without a second side
// it shows the form only.
func showCompare(req *pageRequest) error {
	view := compareView{
		Left:  comparedSide{Cluster: req.query("left"), Revision: req.query("left_revision")},
		Right: comparedSide{Cluster: req.query("right"), Revision: req.query("right_revision")},
		Layer: req.query("layer"), Reveal: req.revealLink(),
	}
	var err error
	switch {
	case view.Left.Cluster == "":
	case view.Layer != "":
		err = req.compareWithLayer(&view)
	case view.Right.Cluster != "" || view.Right.Revision != "" || view.Left.Revision != "":
		if view.Right.Cluster == "" {
			view.Right.Cluster = view.Left.Cluster
		}
		err = req.compareClusters(&view)
	}
	if err != nil {
		return err
	}
	if view.Left.Cluster != "" && view.Problem == "" {
		if err := req.layersOfCompared(&view); err != nil {
			return err
		}
	}
	for _, f := range view.Differences {
		view.Hidden = view.Hidden || f.Hidden
	}
	view.frame = req.frame("Compare", "clusters")
	return req.show("compare", view)
}

// compareLink returns the address of the comparison of a cluster with a layer, or of the form if layer is empty.
func compareLink(cluster, layer string) string {
	query := url.Values{"left": {cluster}}
	if layer != "" {
		query.Set("layer", layer)
	}
	return prefix + "/compare?" + query.Encode()
}

// compareClusters sets the differences of two clusters. If one side is at a revision, both are the documents without their layers: the
// history has no settings that were merged.
func (req *pageRequest) compareClusters(view *compareView) error {
	merged := view.Left.Revision == "" && view.Right.Revision == ""
	var documents [2]json.RawMessage
	for i, side := range []*comparedSide{&view.Left, &view.Right} {
		document, err := req.comparedDocument(side, merged)
		if err != nil {
			return err
		}
		if document == nil {
			view.Problem = fmt.Sprintf("There is no cluster %s.", side.Title)
			return nil
		}
		documents[i] = document
		if side.YAML, err = yamlOf(document, req.reveal()); err != nil {
			return err
		}
	}
	var err error
	view.Differences, err = diff(documents[0], documents[1], req.reveal())
	view.Differences = slices.DeleteFunc(view.Differences, func(f fieldChange) bool { return view.Left.Cluster != view.Right.Cluster && identityFields[f.Field] })
	view.Compared = true
	return err
}

// comparedDocument returns a cluster's settings, merged with its layers or not; nil if it does not exist. It sets the title.
func (req *pageRequest) comparedDocument(side *comparedSide, merged bool) (json.RawMessage, error) {
	side.Title = side.Cluster
	if merged {
		doc, err := req.fleet.GetClusterWithResponse(req.r.Context(), side.Cluster, &api.GetClusterParams{View: new("effective")})
		if client.ErrorCode(err) == client.CodeNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return doc.Body, nil
	}
	if side.Revision == "" {
		return req.document(client.KindCluster, side.Cluster, nil)
	}
	side.Title += " at revision " + side.Revision
	revision, _ := strconv.ParseInt(side.Revision, 10, 64)
	if revision < 1 {
		return nil, nil // it is no number
	}
	return req.document(client.KindCluster, side.Cluster, &revision)
}

// compareWithLayer sets the values of the left cluster's inputs that override those of a layer.
func (req *pageRequest) compareWithLayer(view *compareView) error {
	explained, err := req.fleet.ExplainClusterWithResponse(req.r.Context(), view.Left.Cluster, nil)
	if err != nil {
		return err
	}
	view.Compared, view.Left.Title, view.Right.Title = true, "Layer "+view.Layer, view.Left.Cluster
	for _, in := range explained.JSON200.Inputs {
		for _, value := range in.Values {
			for _, source := range value.InsteadOf {
				if source.Kind != client.KindLayer || source.ID != view.Layer {
					continue
				}
				before, after := valueText(source.Value), valueText(value.Value)
				if before == after {
					continue
				}
				field := fieldChange{Field: kindOfList(in.List).title + " › " + in.ID + " › " + value.Pointer}
				var was, is bool
				field.Before, was = redact.JSON(value.Pointer, before, req.reveal())
				field.After, is = redact.JSON(value.Pointer, after, req.reveal())
				field.Hidden = was || is
				view.Differences = append(view.Differences, field)
			}
		}
	}
	document, err := req.comparedDocument(&comparedSide{Cluster: view.Left.Cluster}, true)
	if err != nil {
		return err
	}
	view.Right.YAML, err = yamlOf(document, req.reveal())
	return err
}

// layersOfCompared sets the links that compare the left cluster with each of its layers.
func (req *pageRequest) layersOfCompared(view *compareView) error {
	doc, err := req.fleet.GetClusterWithResponse(req.r.Context(), view.Left.Cluster, &api.GetClusterParams{View: new("effective")})
	if client.ErrorCode(err) == client.CodeNotFound {
		return nil // it is deleted, and may be compared at revisions
	}
	if err != nil {
		return err
	}
	for _, id := range doc.JSON200.Layers {
		view.Layers = append(view.Layers, layerLink{id, compareLink(view.Left.Cluster, id), id == view.Layer})
	}
	return nil
}
