package history

import (
	"context"
	"encoding/json"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/explain"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Explain returns, for every value of a cluster's inputs, the document that sets it and those that it overrides. list, id
// and pointer restrict it to one list, to one input, and to values at or below a pointer. [Blame] adds the revisions.
// It parses the documents and shares no code with polls. With many values it takes long, and it ends with ctx.
func Explain(ctx context.Context, st *fleet.State, d *fleet.Document, list, id, pointer string) (api.Explanation, error) {
	out := api.Explanation{Cluster: d.ID, Layers: append([]string{}, st.LayerIDs(d)...), Inputs: []api.ExplainedInput{}}
	out.Pinned = st.Has(fleet.KindPin, d.ID)
	origins, err := st.Origins(d)
	if err != nil {
		return out, err
	}
	places := placesOf(origins)
	for in, err := range st.BuiltInputs(d, list, id) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return out, err
		}
		values, err := explainInput(in, places, pointer)
		if err != nil {
			return out, err
		}
		for i := range values {
			values[i].References = references(st, d, &values[i].SetBy)
		}
		one := api.ExplainedInput{List: in.List, ID: in.ID, Values: values}
		if pointer == "" {
			if one.Input, err = json.Marshal(in.Value); err != nil {
				return out, err
			}
		}
		if len(values) > 0 || pointer == "" {
			out.Inputs = append(out.Inputs, one)
		}
	}
	return out, nil
}

// explainInput explains the values of one input.
func explainInput(in fleet.BuiltInput, places []explain.Place, pointer string) ([]api.ExplainedValue, error) {
	obj, err := unstructured.FromValue(in.Value)
	if err != nil {
		return nil, err
	}
	of := explain.List{Field: in.Field, Components: in.Definition.Kind == fleet.KindComponent}
	if in.Type != nil {
		place := placeOf(*in.Type)
		of.Type = &place
	}
	keys := func(path string) ([]any, error) { return []any{path}, nil }
	if of.Components && in.Definition.Component().Type == fleet.TypeHelm {
		keys = helmvalues.Keys
	}
	return explain.Values(explain.Input{List: of, ID: in.ID, Value: obj, Definition: placeOf(in.Definition), Keys: keys}, places, pointer)
}

func placesOf(origins []fleet.Origin) []explain.Place {
	places := make([]explain.Place, len(origins))
	for i := range origins {
		places[i] = placeOf(origins[i])
	}
	return places
}

// placeOf returns a document in the form that package explain reads.
func placeOf(o fleet.Origin) explain.Place {
	place := explain.Place{Kind: string(o.Kind), ID: o.ID, Object: o.Object, Layer: o.Kind == fleet.KindLayer, Stored: o.Stored}
	for _, r := range o.Rollouts {
		place.Rollouts = append(place.Rollouts, explain.Rollout(r))
	}
	return place
}

// references explains the references in the text that sets a value.
func references(st *fleet.State, d *fleet.Document, source *api.ValueSource) (out []api.ExplainedReference) {
	text, err := source.Value.Get()
	if err != nil {
		return nil // a default has no text
	}
	for _, r := range st.ReferencesIn(d, string(text)) {
		out = append(out, api.ExplainedReference{Reference: r.Reference, Value: r.Value, SetBy: explain.Source(string(r.Kind), r.ID, r.Pointer, r.Text)})
	}
	return out
}
