package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/internal/served"
)

// comparedSide is one side of a comparison: a cluster, now or at a revision, or the layers of a cluster.
type comparedSide struct {
	Cluster, Revision, Title, YAML string
}

type compareView struct {
	frame
	Left, Right comparedSide
	Layer       string      // against which the left cluster is compared, or anyLayer; empty: none
	Layers      []layerLink // of the left cluster
	Compared    bool
	Differences []fieldChange
	Hidden      bool
	Reveal      string
	Problem     string
}

type layerLink struct {
	Text, Link string
	On         bool
}

// showCompare compares what two clusters are served, or one cluster at two revisions, or a cluster with a layer. Without a second side it
// shows the form only.
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
		if view.Problem = comparisonProblem(err); view.Problem == "" {
			return err
		}
	}
	if view.Left.Cluster != "" && view.Problem == "" {
		if err := req.layersOfCompared(&view); err != nil {
			return err
		}
	}
	view.Hidden = strings.Contains(view.Left.YAML+view.Right.YAML, redact.ValueMask)
	for _, f := range view.Differences {
		view.Hidden = view.Hidden || f.Hidden
	}
	view.frame = req.frame("Compare", "clusters")
	return req.show("compare", view)
}

// comparisonProblem returns why a side cannot be read; empty for errors of another cause.
func comparisonProblem(err error) string {
	refused, answered := errors.AsType[*client.Error](err)
	if answered && slices.Contains([]int{http.StatusNotFound, http.StatusForbidden, http.StatusGone}, refused.StatusCode) {
		return refused.Problem.Detail
	}
	return ""
}

// compareClusters sets the differences of what two sides are served.
func (req *pageRequest) compareClusters(view *compareView) error {
	var sides [2]served.Settings
	for i, side := range []*comparedSide{&view.Left, &view.Right} {
		var err error
		if sides[i], err = req.servedSettings(side); err != nil {
			return err
		}
		if side.YAML, err = servedYAML(sides[i], req.reveal()); err != nil {
			return err
		}
	}
	var err error
	view.Differences, err = differences(sides[0].WithoutRepetitions(), sides[1].WithoutRepetitions(), req.reveal())
	view.Compared = true
	return err
}

// servedSettings returns what a cluster is served, now or at a revision. It sets the title of the side.
func (req *pageRequest) servedSettings(side *comparedSide) (out served.Settings, err error) {
	side.Title = side.Cluster
	var at *int64
	if side.Revision != "" {
		side.Title += " at revision " + side.Revision
		revision, err := strconv.ParseInt(side.Revision, 10, 64)
		if err != nil || revision < 1 {
			return out, &client.Error{StatusCode: http.StatusNotFound, Problem: api.Problem{Detail: fmt.Sprintf("there is no revision %q", side.Revision)}}
		}
		at = &revision
	}
	explained, err := req.fleet.ExplainClusterWithResponse(req.r.Context(), side.Cluster, &api.ExplainClusterParams{Revision: at})
	if err != nil {
		return out, err
	}
	document, err := req.document(client.KindCluster, side.Cluster, at)
	if err != nil {
		return out, err
	}
	return served.Of(explained.JSON200, document)
}

// servedYAML returns the settings and the inputs by list and id.
func servedYAML(s served.Settings, reveal bool) (string, error) {
	all, err := s.Document()
	if err != nil {
		return "", err
	}
	return yamlText(maskSecrets(all, reveal)), nil
}

// differences returns the fields that differ. An input that only one side has is one of them.
func differences(before, after served.Settings, reveal bool) ([]fieldChange, error) {
	out, err := diff(before.Cluster, after.Cluster, reveal)
	if err != nil {
		return nil, err
	}
	type name struct{ list, id string }
	is := map[name]served.Input{}
	for _, in := range after.Inputs {
		is[name{in.List, in.ID}] = in
	}
	changed := map[name][]fieldChange{}
	for _, in := range before.Inputs {
		key := name{in.List, in.ID}
		now, stays := is[key]
		delete(is, key)
		if !stays {
			changed[key] = []fieldChange{{Field: inputTitle(in), Before: inputSummary(in)}}
			continue
		}
		if changed[key], err = inputDifferences(in, now, reveal); err != nil {
			return nil, err
		}
	}
	for key, in := range is {
		changed[key] = []fieldChange{{Field: inputTitle(in), After: inputSummary(in)}}
	}
	names := make([]name, 0, len(changed))
	for key := range changed {
		names = append(names, key)
	}
	slices.SortFunc(names, func(a, b name) int { return cmp.Or(cmp.Compare(a.list, b.list), cmp.Compare(a.id, b.id)) })
	for _, key := range names {
		out = append(out, changed[key]...)
	}
	return out, nil
}

func inputTitle(in served.Input) string { return listTitle(in.List) + " › " + in.ID }

// inputSummary returns the version of a component, and a word for other inputs.
func inputSummary(in served.Input) string {
	version, _ := in.Fields["component_version"].(string)
	return cmp.Or(version, "assigned")
}

func inputDifferences(before, after served.Input, reveal bool) ([]fieldChange, error) {
	var sides [2]json.RawMessage
	for i, in := range []served.Input{before, after} {
		var err error
		if sides[i], err = json.Marshal(in.Fields); err != nil {
			return nil, err
		}
	}
	out, err := diff(sides[0], sides[1], reveal)
	for i := range out {
		out[i].Field = inputTitle(before) + " › " + out[i].Field
	}
	return out, err
}

// compareWithLayer sets the values of the left cluster's inputs that override those of a layer.
func (req *pageRequest) compareWithLayer(view *compareView) error {
	explained, err := req.fleet.ExplainClusterWithResponse(req.r.Context(), view.Left.Cluster, nil)
	if err != nil {
		return err
	}
	view.Compared, view.Left.Title, view.Right.Title = true, "Layer "+view.Layer, view.Left.Cluster
	if view.Layer == anyLayer {
		view.Left.Title = "Layers and catalog"
	}
	for _, in := range explained.JSON200.Inputs {
		for _, value := range in.Values {
			for i, source := range value.InsteadOf {
				if view.Layer == anyLayer && (i > 0 || value.SetBy.Kind != client.KindCluster) || view.Layer != anyLayer && (source.Kind != client.KindLayer || source.ID != view.Layer) {
					continue // the first one is what the cluster would have without its own value
				}
				before, after := valueText(source.Value), valueText(value.Value)
				if before == after {
					continue
				}
				field := fieldChange{Field: listTitle(in.List) + " › " + in.ID + " › " + value.Pointer}
				var was, is bool
				field.Before, was = redact.JSON(value.Pointer, before, req.reveal())
				field.After, is = redact.JSON(value.Pointer, after, req.reveal())
				field.Hidden = was || is
				view.Differences = append(view.Differences, field)
			}
		}
	}
	settings, err := served.Of(explained.JSON200, nil)
	if err != nil {
		return err
	}
	view.Right.YAML, err = servedYAML(settings, req.reveal())
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
	view.Layers = append(view.Layers, layerLink{"All layers and the catalog", compareLink(view.Left.Cluster, anyLayer), view.Layer == anyLayer})
	for _, id := range doc.JSON200.Layers {
		view.Layers = append(view.Layers, layerLink{"Layer " + id, compareLink(view.Left.Cluster, id), id == view.Layer})
	}
	return nil
}
