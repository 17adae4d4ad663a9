// Package explain says of every value of an input who says it, and what that won over. It reads the texts of the documents that
// may say something, by another way than answers are made: what it finds can be held against what is served. So it knows what
// documents look like, and neither a fleet nor how layers are folded.
package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// Place is a document that may say something.
type Place struct {
	Kind, ID string
	Object   map[string]any
	// Layer: it may also say something about components that it does not assign.
	Layer bool
}

// List is the list of a cluster that an input is of.
type List struct {
	Field string // where documents have it; of a resource type: below their resources
	// Type is the document of the resource type, for its definitions; nil for all others.
	Type *Place
	// Components have values, which go by paths.
	Components bool
}

// Input is one input as a cluster polls it.
type Input struct {
	List
	ID         string
	Value      map[string]any
	Definition Place
	// Keys are those that lead to what a path of a component's patches sets in its values.
	Keys func(path string) ([]any, error)
}

// Values explains those of an input that are at or below a pointer, or all when it is empty, sorted by their pointers. places
// are the cluster's own document, then its layers, the highest first.
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

// leaves explains all below an object but the values of components.
func (of *input) leaves(at string, obj map[string]any, keys ...string) {
	for _, key := range sorted(obj) {
		if at == "" && of.Components && (key == "values" || key == "patches") {
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
	var who sayings
	def := make([]any, len(path))
	for i, key := range path {
		def[i] = key
	}
	switch {
	case path[0] == "cluster":
		who.add(of.places[0], map[string]string{"name": "cluster_name", "dns": "cluster_dns", "environment": "environment"}[path[1]])
	case path[0] == "id":
		of.entries(&who, "id")
	case of.Type != nil:
		of.entries(&who, "overrides", path[0])
		who.add(of.Definition, "spec", path[0])
		who.add(*of.Type, "schema", "properties", path[0], "default")
	case of.Components:
		of.component(&who, at, path)
	default:
		who.add(of.Definition, def...)
	}
	of.told(at, value, who)
}

// component is about a component's fields but its values.
func (of *input) component(who *sayings, at string, path []string) {
	last := path[len(path)-1]
	switch at {
	case "/enabled":
		if of.entries(who, "enabled"); len(who.all) == 0 { // true where nobody says it
			of.entries(who, "id")
			for i := range who.all {
				who.all[i].Pointer, who.all[i].Value = strings.TrimSuffix(who.all[i].Pointer, "/id"), nil
			}
		}
	case "/component_path", "/component_version", "/source/oci_tag", "/values_from":
		of.entries(who, last)
		who.add(of.Definition, last)
	case "/dependencies":
		who.add(of.Definition, "depends_on")
	default:
		who.add(of.Definition, last)
	}
}

// entries adds what places say about the definition in their lists, and layers apart from that.
func (of *input) entries(who *sayings, keys ...any) {
	for _, p := range of.places {
		if at := of.entry(p); at >= 0 {
			path := append([]any{of.Field, at}, keys...)
			if of.Type != nil {
				path = append([]any{"resources"}, path...)
			}
			if _, said, _ := p.saying(path...); said {
				who.add(p, path...)
				continue
			}
		}
		if p.Layer && of.Components {
			who.add(p, append([]any{"overrides", of.ID}, keys...)...)
		}
	}
}

// entry is where a place assigns the definition, or -1.
func (of *input) entry(p Place) int {
	holder := p.Object
	if of.Type != nil {
		holder = unstructured.NestedObject(holder, "resources")
	}
	entries, _ := holder[of.Field].([]any)
	return slices.IndexFunc(entries, unstructured.HasID(of.ID))
}

// told keeps an explanation. A value that nobody says is a default of the definition.
func (of *input) told(at string, value any, who sayings) {
	encoded, err := jsontext.Canonical(value)
	if who.err != nil {
		err = who.err
	}
	if err != nil {
		of.err = fmt.Errorf("%s: %w", at, err)
		return
	}
	if len(who.all) == 0 {
		who.all = []api.Saying{of.Definition.silent()}
	}
	instead := slices.DeleteFunc(slices.Clone(who.all[1:]), func(s api.Saying) bool { return s.Value.IsNull() })
	of.values = append(of.values, api.ExplainedValue{Pointer: at, Value: jsontext.Nullable(encoded), SaidBy: who.all[0], InsteadOf: append([]api.Saying{}, instead...)})
}
