// Package explain finds, for every value of an input, the document that sets it and the documents that it overrides. It
// reads the text of the documents and shares no code with the answers to polls, so that tests can compare the two. It knows
// the structure of documents, but neither a fleet nor the code that merges layers.
package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Place is a document that may set values.
type Place struct {
	Kind, ID string
	Object   map[string]any
	// Layer: it may also set values of components that it does not assign.
	Layer bool
	// Stored is the stored document, if Object is the version that a cluster has because of the Rollouts; nil: it is Object.
	Stored   map[string]any
	Rollouts []Rollout
}

// Rollout is a change of a document that applies to some clusters only.
type Rollout struct {
	ID            string
	Before, After map[string]any
}

// List is the list of a cluster that an input is of.
type List struct {
	Field string // the field in documents; for a resource type, below their resources
	// Type is the document of the resource type that the definitions belong to; nil for all other lists.
	Type *Place
	// Components have values, which are addressed by paths.
	Components bool
}

// Input is one input as a cluster polls it.
type Input struct {
	List
	ID         string
	Value      map[string]any
	Definition Place
	// Keys returns the keys that lead to the value that a path of a component's patches sets.
	Keys func(path string) ([]any, error)
}

// Values explains the values of an input at or below a pointer, or all values if it is empty, sorted by pointer. places are
// the cluster's own document, then its layers, the highest first.
func Values(in Input, places []Place, pointer string) ([]api.ExplainedValue, error) {
	of := &input{Input: in, places: places}
	if paths, ok := in.Value["patches"].(map[string]any); ok && in.Components {
		of.explainValues(paths)
	}
	of.leaves("", in.Value)
	if of.err != nil {
		return nil, of.err
	}
	out := []api.ExplainedValue{}
	for _, v := range of.values {
		if v.Pointer == pointer || pointer == "" || strings.HasPrefix(v.Pointer, pointer+"/") {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b api.ExplainedValue) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out, nil
}

// input collects the values of one input.
type input struct {
	Input
	places []Place
	values []api.ExplainedValue
	err    error
}

// leaves explains all values below an object except the values of components.
func (of *input) leaves(at string, obj map[string]any, keys ...string) {
	for _, key := range sorted(obj) {
		if at == "" && of.Components && (key == "values" || key == "values_json" || key == "patches") {
			continue
		}
		here, path := at+jsontext.Pointer(key), append(slices.Clone(keys), key)
		if below, ok := obj[key].(map[string]any); ok && len(below) > 0 && of.Type == nil {
			of.leaves(here, below, path...)
			continue
		} else if ok && key == "cluster" {
			of.leaves(here, below, path...)
			continue
		}
		of.explain(here, obj[key], path)
	}
}

// explain explains one value.
func (of *input) explain(at string, value any, path []string) {
	var found sources
	def := make([]any, len(path))
	for i, key := range path {
		def[i] = key
	}
	switch {
	case path[0] == "cluster":
		found.add(of.places[0], map[string]string{"name": "cluster_name", "dns": "cluster_dns", "environment": "environment", "reconcile_requested_at": "reconcile_requested_at"}[path[1]])
	case path[0] == "id":
		of.entries(&found, "id")
	case of.Type != nil:
		of.entries(&found, "overrides", path[0])
		found.add(of.Definition, "spec", path[0])
		found.add(*of.Type, "schema", "properties", path[0], "default")
	case of.Components:
		of.component(&found, at, path)
	default:
		found.add(of.Definition, def...)
	}
	of.add(at, value, found)
}

// component explains the fields of a component, except its values.
func (of *input) component(found *sources, at string, path []string) {
	last := path[len(path)-1]
	if path[0] == "flux" {
		keys := make([]any, len(path))
		for i, key := range path {
			keys[i] = key
		}
		of.entries(found, keys...)
		found.add(of.Definition, keys...)
		return
	}
	switch at {
	case "/enabled":
		if of.entries(found, "enabled"); len(found.all) == 0 { // true if no document sets it
			of.entries(found, "id")
			for i := range found.all {
				found.all[i].Pointer, found.all[i].Value = strings.TrimSuffix(found.all[i].Pointer, "/id"), nil
			}
		}
	case "/component_path", "/component_version", "/source/oci_tag", "/source/oci_digest", "/values_from", "/images":
		of.entries(found, last)
		found.add(of.Definition, last)
	case "/override_namespace":
		found.add(of.Definition, "target_namespace")
	case "/dependencies":
		found.add(of.Definition, "depends_on")
	default:
		found.add(of.Definition, last)
	}
}

// entries adds the settings of the definition: from the lists of all places, and from the overrides of layers.
func (of *input) entries(found *sources, keys ...any) {
	for _, p := range of.places {
		if at := of.entry(p); at >= 0 {
			path := append([]any{of.Field, at}, keys...)
			if of.Type != nil {
				path = append([]any{"resources"}, path...)
			}
			if _, set, _ := p.valueAt(path...); set {
				found.add(p, path...)
				continue
			}
		}
		if p.Layer && of.Components {
			found.add(p, append([]any{"overrides", of.ID}, keys...)...)
		}
	}
}

// entry returns the index at which a place assigns the definition, or -1.
func (of *input) entry(p Place) int {
	holder := p.Object
	if of.Type != nil {
		holder = unstructured.NestedObject(holder, "resources")
	}
	entries, _ := holder[of.Field].([]any)
	return slices.IndexFunc(entries, unstructured.HasID(of.ID))
}

// add adds an explanation. A value that no document sets is a default of the definition.
func (of *input) add(at string, value any, found sources) {
	encoded, err := jsontext.Canonical(value)
	if found.err != nil {
		err = found.err
	}
	if err != nil {
		of.err = fmt.Errorf("%s: %w", at, err)
		return
	}
	if len(found.all) == 0 {
		found.all = []api.ValueSource{of.Definition.source()}
	}
	instead := slices.DeleteFunc(slices.Clone(found.all[1:]), func(s api.ValueSource) bool { return s.Value.IsNull() })
	of.values = append(of.values, api.ExplainedValue{Pointer: at, Value: jsontext.Nullable(encoded), SetBy: found.all[0], InsteadOf: append([]api.ValueSource{}, instead...)})
}

// Source returns a document that sets a value at a pointer.
func Source(kind, id, pointer string, value json.RawMessage) api.ValueSource {
	return api.ValueSource{Kind: kind, ID: id, Pointer: pointer, Value: jsontext.Nullable(value)}
}
