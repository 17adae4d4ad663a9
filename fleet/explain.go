package fleet

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/explain"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// hiddenRollout replaces the id of a rollout that is not visible. No rollout has this id.
const hiddenRollout = "(hidden)"

// Explain returns, for every value of a cluster's inputs, the document that sets it and those that it overrides. list, id
// and pointer restrict it to one list, to one input, and to values at or below a pointer. [State.Blame] adds the revisions.
// It parses the documents and shares no code with polls. With many values it takes long, and it ends with ctx.
func (s *State) Explain(ctx context.Context, d *Document, list, id, pointer string) (api.Explanation, error) {
	out := api.Explanation{Cluster: d.ID, Layers: append([]string{}, s.Effective(d).layerIDs()...), Inputs: []api.ExplainedInput{}}
	out.Pinned = s.pinned[d.ID] != nil
	has := s.Effective(d)
	places, err := s.places(d)
	if err != nil {
		return out, err
	}
	lists := s.kinds.lists
	if list != "" {
		a := s.kinds.byEndpoint[list]
		if a == nil {
			return out, errorf(CodeNotFound, "there is no list %q", list)
		}
		lists = []*descriptor{a}
	}
	var only map[string]bool
	if id != "" {
		only = map[string]bool{id: true}
	}
	for _, a := range lists {
		inputs, _, err := s.resolveInputs(has, a, only)
		if err != nil {
			return out, err
		}
		if id != "" && len(inputs) == 0 {
			return out, errorf(CodeNotFound, "cluster %q has no %s %q", d.ID, a.rules.noun, id)
		}
		of, err := a.explainList()
		if err != nil {
			return out, err
		}
		for _, in := range inputs {
			if err := context.Cause(ctx); err != nil {
				return out, err
			}
			doc, _ := s.definition(has, a.kind, in.id) // the input was built from it
			def, err := s.placeOn(has, doc)
			if err != nil {
				return out, err
			}
			values, err := explainInput(of, doc, def, in, places, pointer)
			if err != nil {
				return out, err
			}
			one := api.ExplainedInput{List: a.endpoint, ID: in.id, Values: values}
			if pointer == "" {
				if one.Input, err = json.Marshal(in.value); err != nil {
					return out, err
				}
			}
			if len(values) > 0 || pointer == "" {
				out.Inputs = append(out.Inputs, one)
			}
		}
	}
	return out, nil
}

// places returns the documents that determine a cluster's configuration: its own, then its layers, the highest first.
func (s *State) places(d *Document) ([]explain.Place, error) {
	if p := s.pinned[d.ID]; p != nil {
		d = p.settings
	}
	docs := []*Document{d}
	if st := s.Effective(d).chain; st != nil {
		for _, l := range slices.Backward(st.layers) {
			docs = append(docs, l)
		}
	}
	places := make([]explain.Place, len(docs))
	for i, doc := range docs {
		var err error
		if places[i], err = s.placeOn(s.Effective(d), doc); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// placeOn returns a document as a cluster has it in the form that package explain reads.
func (s *State) placeOn(has *Effective, doc *Document) (explain.Place, error) {
	place, err := doc.place()
	stored, exists := s.docs[doc.Kind][doc.ID]
	if err != nil || !exists || len(has.rolloutsOn()) == 0 || has.chain == nil || has.chain.overlay.get(doc.Kind, doc.ID) == nil {
		return place, err
	}
	if place.Stored, err = unstructured.Decode(stored.Body); err != nil {
		return place, errUnreadable(stored, err)
	}
	for _, d := range has.rolloutsOn() {
		for _, ch := range d.rollout().Changes {
			if ch.Kind != doc.Kind || ch.ID != doc.ID {
				continue
			}
			r := explain.Rollout{ID: d.ID}
			if s.docs[KindRollout][d.ID] == nil {
				r.ID = hiddenRollout
			}
			if r.Before, err = unstructured.Decode(ch.Before); err == nil {
				r.After, err = unstructured.Decode(ch.After)
			}
			if err != nil {
				return place, errUnreadable(d, err)
			}
			place.Rollouts = append(place.Rollouts, r)
		}
	}
	return place, nil
}

// place returns the document in the form that package explain reads.
func (d *Document) place() (explain.Place, error) {
	obj, err := unstructured.Decode(d.Body)
	if err != nil {
		return explain.Place{}, errUnreadable(d, err)
	}
	return explain.Place{Kind: string(d.Kind), ID: d.ID, Object: obj, Layer: d.Kind == KindLayer}, nil
}

// explainList describes the list to package explain.
func (a *descriptor) explainList() (explain.List, error) {
	out := explain.List{Field: a.field, Components: a.kind == KindComponent}
	if a.typed {
		of, err := a.typeDoc.place()
		if err != nil {
			return out, err
		}
		out.Type = &of
	}
	return out, nil
}

// explainInput explains the values of one input, which was built from a definition.
func explainInput(of explain.List, doc *Document, def explain.Place, in input, places []explain.Place, pointer string) ([]api.ExplainedValue, error) {
	obj, err := unstructured.FromValue(in.value)
	if err != nil {
		return nil, err
	}
	keys := func(path string) ([]any, error) { return []any{path}, nil }
	if of.Components && doc.Component().Type == typeHelm {
		keys = helmvalues.Keys
	}
	return explain.Values(explain.Input{List: of, ID: in.id, Value: obj, Definition: def, Keys: keys}, places, pointer)
}
