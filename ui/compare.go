package ui

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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
	Layer       string   // against which the left cluster is compared, or anyLayer; empty: none
	Layers      []choice // of the left cluster
	Compared    bool
	Differences []fieldChange
	Hidden      bool
	Reveal      string
	Problem     string
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
	if refused, answered := errors.AsType[*client.Error](err); answered && slices.Contains(unreadable, refused.StatusCode) {
		view.Problem = refused.Problem.Detail
	} else if err != nil {
		return err
	}
	if view.Left.Cluster != "" && view.Problem == "" {
		if err := req.layersOfCompared(&view); err != nil {
			return err
		}
	}
	view.Hidden = anyHidden(view.Differences) || strings.Contains(view.Left.YAML+view.Right.YAML, redact.ValueMask)
	return req.show("compare", "Compare", "clusters", &view)
}

// unreadable are the statuses of answers when a side cannot be read.
var unreadable = []int{http.StatusNotFound, http.StatusForbidden, http.StatusGone}

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
	was, is := inputsByName(before), inputsByName(after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, had := was[name]
		b, has := is[name]
		switch {
		case !has:
			out = append(out, fieldChange{Field: inputTitle(a), Before: inputSummary(a)})
		case !had:
			out = append(out, fieldChange{Field: inputTitle(b), After: inputSummary(b)})
		default:
			for _, field := range diffValues(a.Fields, b.Fields, reveal) {
				field.Field = inputTitle(a) + fieldSeparator + field.Field
				out = append(out, field)
			}
		}
	}
	return out, nil
}

// inputsByName returns the inputs by list and id.
func inputsByName(s served.Settings) map[string]served.Input {
	out := map[string]served.Input{}
	for _, in := range s.Inputs {
		out[in.List+"\x00"+in.ID] = in
	}
	return out
}

func inputTitle(in served.Input) string { return listTitle(in.List) + fieldSeparator + in.ID }

// inputSummary returns the version of a component, and a word for other inputs.
func inputSummary(in served.Input) string {
	version, _ := in.Fields["component_version"].(string)
	return cmp.Or(version, "assigned")
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
				field := maskedChange(value.Pointer, before, after, req.reveal())
				field.Field = listTitle(in.List) + fieldSeparator + in.ID + fieldSeparator + value.Pointer
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
	view.Layers = append(view.Layers, choice{"All layers and the catalog", compareLink(view.Left.Cluster, anyLayer), view.Layer == anyLayer})
	for _, id := range doc.JSON200.Layers {
		view.Layers = append(view.Layers, choice{"Layer " + id, compareLink(view.Left.Cluster, id), id == view.Layer})
	}
	return nil
}
