package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/helmvalues"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/object"
)

// Explain says of every value of a cluster's inputs who says it and what that won over; of those of one list and one input
// where these are named, and of those at or below a pointer. It reads the documents' texts, by another way than polls go, which
// takes long where there is much to say: until stop says otherwise.
func (s *State) Explain(d *Document, list, id, pointer string, stop Stop) (api.Explanation, error) {
	out := api.Explanation{Cluster: d.ID, Layers: append([]string{}, s.Effective(d).layerIDs()...), Inputs: []api.ExplainedInput{}}
	ex := &explainer{state: s, has: s.Effective(d)}
	if err := ex.read(d); err != nil {
		return out, err
	}
	lists := s.kinds.lists
	if list != "" {
		a := s.kinds.polled[list]
		if a == nil {
			return out, errorf(CodeNotFound, "there is no list %q", list)
		}
		lists = []*assigned{a}
	}
	var only map[string]bool
	if id != "" {
		only = map[string]bool{id: true}
	}
	for _, a := range lists {
		inputs, _, err := s.inputs(ex.has, a, only)
		if err != nil {
			return out, err
		}
		if id != "" && len(inputs) == 0 {
			return out, errorf(CodeNotFound, "cluster %q has no %s %q", d.ID, a.rules.noun, id)
		}
		for _, in := range inputs {
			if err := stop.now(); err != nil {
				return out, err
			}
			explained, err := ex.input(a, in, pointer)
			if err != nil {
				return out, err
			}
			if len(explained.Values) > 0 || pointer == "" {
				out.Inputs = append(out.Inputs, explained)
			}
		}
	}
	return out, nil
}

// explainer is the documents that say what a cluster has.
type explainer struct {
	state  *State
	has    *Effective
	places []place // the cluster's own document, then its layers, the highest first
}

// place is one of them.
type place struct {
	doc *Document
	obj map[string]any
}

func (ex *explainer) read(d *Document) error {
	docs := []*Document{d}
	if st := ex.has.stack; st != nil {
		for _, l := range slices.Backward(st.layers) {
			docs = append(docs, l)
		}
	}
	for _, doc := range docs {
		obj, err := object.Decode(doc.Body)
		if err != nil {
			return unreadable(doc, err)
		}
		ex.places = append(ex.places, place{doc, obj})
	}
	return nil
}

// saying is what a document says at a pointer, by the keys on the way there; a default if there is nothing.
func (p place) saying(keys ...any) (api.Saying, bool, error) {
	at := p.doc.UpdatedAt
	out := api.Saying{Kind: string(p.doc.Kind), ID: p.doc.ID, Pointer: jsontext.Pointer(keys...), Revision: int64(p.doc.Revision), At: &at}
	var v any = p.obj
	for _, key := range keys {
		switch key := key.(type) {
		case string:
			m, _ := v.(map[string]any)
			value, there := m[key]
			if v = value; !there {
				return out, false, nil
			}
		case int:
			items, _ := v.([]any)
			if key >= len(items) {
				return out, false, nil
			}
			v = items[key]
		}
	}
	value, err := jsontext.Canonical(v)
	out.Value = nullableRaw(value)
	return out, true, err
}

// sayings collects who says a value, the highest first.
type sayings struct {
	all []api.Saying
	err error
}

func (o *sayings) add(p place, keys ...any) {
	one, there, err := p.saying(keys...)
	if err != nil {
		o.err = err
	}
	if there {
		o.all = append(o.all, one)
	}
}

// entry is where a place assigns a definition, or -1.
func (p place) entry(a *assigned, id string) int {
	return slices.IndexFunc(a.entriesIn(p.obj), object.HasID(id))
}

// inList are the keys that lead to an entry of a list, or to something in it.
func (a *assigned) inList(at int, keys ...any) []any {
	if a.typed {
		return append([]any{"resources", a.field, at}, keys...)
	}
	return append([]any{a.field, at}, keys...)
}

// input explains one input.
func (ex *explainer) input(a *assigned, in input, pointer string) (api.ExplainedInput, error) {
	out := api.ExplainedInput{List: a.endpoint, ID: in.id, Values: []api.ExplainedValue{}}
	obj, err := object.Of(in.value)
	if err != nil {
		return out, err
	}
	def := ex.state.docs[a.kind][in.id]
	body, err := object.Decode(def.Body)
	if err != nil {
		return out, unreadable(def, err)
	}
	of := &explainedInput{explainer: ex, list: a, id: in.id, definition: place{def, body}}
	if paths, ok := obj["patches"].(map[string]any); ok && a.kind == KindComponent {
		of.explainValues(obj, paths)
	}
	of.leaves("", obj)
	if of.err != nil {
		return out, of.err
	}
	for _, v := range of.values {
		if v.Pointer == pointer || pointer == "" || strings.HasPrefix(v.Pointer, pointer+"/") {
			out.Values = append(out.Values, v)
		}
	}
	slices.SortFunc(out.Values, func(a, b api.ExplainedValue) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out, nil
}

// explainedInput collects the values of one input.
type explainedInput struct {
	*explainer
	list       *assigned
	id         string
	definition place
	values     []api.ExplainedValue
	err        error
}

// leaves explains all below an object but the values of components, which go by paths.
func (of *explainedInput) leaves(at string, obj map[string]any, keys ...string) {
	for _, key := range sortedKeys(obj) {
		if at == "" && of.list.kind == KindComponent && (key == "values" || key == "patches") {
			continue
		}
		here, path := at+jsontext.Pointer(key), append(slices.Clone(keys), key)
		if below, ok := obj[key].(map[string]any); ok && len(below) > 0 && !of.list.typed {
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
func (of *explainedInput) explain(at string, value any, path []string) {
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
	case of.list.typed:
		of.entries(&who, "overrides", path[0])
		who.add(of.definition, "spec", path[0])
		of.schemaDefault(&who, path[0])
	case of.list.kind == KindComponent:
		of.component(&who, at, path, def)
	default:
		who.add(of.definition, def...)
	}
	of.told(at, value, who)
}

// component is about a component's fields but its values.
func (of *explainedInput) component(who *sayings, at string, path []string, def []any) {
	switch at {
	case "/enabled":
		if of.entries(who, "enabled"); len(who.all) == 0 { // true where nobody says it
			of.entries(who, "id")
			for i := range who.all {
				who.all[i].Pointer, who.all[i].Value = strings.TrimSuffix(who.all[i].Pointer, "/id"), nil
			}
		}
	case "/component_path", "/component_version", "/source/oci_tag", "/values_from":
		of.entries(who, path[len(path)-1])
		who.add(of.definition, path[len(path)-1])
	case "/dependencies":
		who.add(of.definition, "depends_on")
	default:
		who.add(of.definition, def[len(def)-1])
	}
}

// entries adds what places say about the definition in their lists, and layers apart from that.
func (of *explainedInput) entries(who *sayings, keys ...any) {
	for _, p := range of.places {
		if at := p.entry(of.list, of.id); at >= 0 {
			if _, said, _ := p.saying(of.list.inList(at, keys...)...); said {
				who.add(p, of.list.inList(at, keys...)...)
				continue
			}
		}
		if p.doc.Kind == KindLayer && of.list.kind == KindComponent {
			who.add(p, append([]any{"overrides", of.id}, keys...)...)
		}
	}
}

func (of *explainedInput) schemaDefault(who *sayings, property string) {
	t := of.list.of
	if t == nil {
		return
	}
	body, err := object.Decode(t.Body)
	if err != nil {
		who.err = unreadable(t, err)
		return
	}
	who.add(place{t, body}, "schema", "properties", property, "default")
}

// explainValues explains the values of a component: one for each path that somebody patches, and for each that a layer takes
// away from those below it.
func (of *explainedInput) explainValues(obj, paths map[string]any) {
	values, _ := obj["values"].(map[string]any)
	if len(paths) == 0 { // nobody says any
		of.told("/patches", paths, sayings{})
		of.told("/values", values, sayings{})
	}
	for _, path := range of.patched(paths) {
		var who sayings
		for _, p := range of.places {
			who.add(p, "patches", of.id, path)
		}
		who.add(of.definition, "patches", path)
		served := hasKey(paths, path)
		if !served && !slices.ContainsFunc(who.all, func(s api.Saying) bool { return !s.Value.IsNull() }) {
			continue // there was nothing to take away
		}
		of.told(jsontext.Pointer("patches", path), paths[path], who)
		keys := []any{path}
		if of.definition.doc.Component().Type == typeHelm {
			var err error
			if keys, err = helmvalues.Keys(path); err != nil {
				of.err = err
				return
			}
		}
		value := valueAt(values, keys)
		if !served && value != nil {
			continue // others say it by paths of their own
		}
		of.told(jsontext.Pointer(append([]any{"values"}, keys...)...), value, who)
	}
}

// patched are the paths that anybody says anything about, served or not, sorted.
func (of *explainedInput) patched(served map[string]any) []string {
	all := maps.Clone(served)
	for _, p := range of.places {
		patches, _ := p.obj["patches"].(map[string]any)
		said, _ := patches[of.id].(map[string]any)
		maps.Copy(all, said)
	}
	return sortedKeys(all)
}

func valueAt(v any, keys []any) any {
	for _, key := range keys {
		switch key := key.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			items, _ := v.([]any)
			if key >= len(items) {
				return nil
			}
			v = items[key]
		}
	}
	return v
}

// told keeps an explanation. A value that nobody says is a default of the definition.
func (of *explainedInput) told(at string, value any, who sayings) {
	encoded, err := jsontext.Canonical(value)
	if err != nil || who.err != nil {
		of.err = fmt.Errorf("%s: %w", at, firstOf([]error{who.err, err}))
		return
	}
	if len(who.all) == 0 {
		one, _, err := of.definition.saying()
		if err != nil {
			of.err = err
		}
		one.Value = nil
		who.all = []api.Saying{one}
	}
	instead := slices.DeleteFunc(slices.Clone(who.all[1:]), func(s api.Saying) bool { return s.Value.IsNull() })
	of.values = append(of.values, api.ExplainedValue{Pointer: at, Value: nullableRaw(encoded), SaidBy: who.all[0], InsteadOf: append([]api.Saying{}, instead...)})
}
