package typeschema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// reader walks through a schema's text and collects violations of our rules. The compiler checks whether it is a JSON Schema
// at all.
type reader struct {
	root     map[string]any
	problems []Problem
	defaults []string        // pointers to properties with a default
	open     map[string]bool // the references that led to the current place
	places   map[string]int  // number of places that a reference expands to, of those already read
	visited  int             // number of schemas read
	text     int             // total length of their pointers
	rules    int             // number of rules in CEL
}

// Limits that are checked before the subschemas are counted. A long property name is part of the pointer to each subschema below it, so
// the pointers of a schema of one megabyte could take gigabytes.
const (
	maxObjects      = 30_000
	maxPointerBytes = 8 << 20
	// maxCompared limits the number of schemas multiplied by the total length of their pointers, since the compiler compares all pairs of
	// pointers.
	maxCompared = 40_000_000_000
)

// tooLarge returns why a schema is too large, or the empty string.
func tooLarge(schema any) string {
	objects, text := 0, 0
	var walk func(value any, length int)
	walk = func(value any, length int) {
		if text += length; objects > maxObjects || text > maxPointerBytes {
			return
		}
		switch v := value.(type) {
		case map[string]any:
			objects++
			for name, e := range v {
				switch e.(type) {
				case map[string]any, []any:
					walk(e, length+1+len(name))
				}
			}
		case []any:
			for _, e := range v {
				if _, ok := e.(map[string]any); ok {
					walk(e, length+2)
				}
			}
		}
	}
	walk(schema, 0)
	switch {
	case objects > maxObjects:
		return fmt.Sprintf("has more than %d objects", maxObjects)
	case text > maxPointerBytes:
		return longPointers
	}
	return ""
}

const longPointers = "has too many subschemas with long JSON pointers: use fewer or shorter property names"

func (r *reader) problem(at, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, Problem{at, fmt.Sprintf(format, args...)})
	}
}

// Keywords that hold schemas: one, a list of them, or a map of them.
var (
	ones  = []string{"items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "not", "if", "then", "else", "contains", "propertyNames"}
	lists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	named = []string{"properties", "patternProperties", "dependentSchemas"}
)

// draft is the only supported version of JSON Schema.
const draft = "https://json-schema.org/draft/2020-12/schema"

// read checks the root, then all subschemas.
func (r *reader) read() {
	if r.root["type"] != "object" {
		r.problem("/type", "must be \"object\": a spec is one")
	}
	if more, said := r.root["additionalProperties"].(bool); !said || more {
		r.problem("/additionalProperties", "must be false: a template can only show what it knows")
	}
	for _, keyword := range []string{"patternProperties", "$ref", "unevaluatedProperties"} {
		if _, has := r.root[keyword]; has {
			r.problem(pointer(keyword), "is not taken at the top: the fields of a spec are its properties")
		}
	}
	if _, ok := r.root["properties"].(map[string]any); !ok {
		r.problem("/properties", "is required")
	}
	for _, name := range slices.Sorted(maps.Keys(properties(r.root))) {
		switch {
		case slices.Contains(reserved, name):
			r.problem(pointer("properties", name), "is a field that every input has")
		case !addressable.MatchString(name):
			r.problem(pointer("properties", name), "a template reads it as inputs.NAME: letters, digits and _ only, and no digit first")
		}
		_, has := defaultOf(properties(r.root)[name])
		if required, _ := r.root["required"].([]any); !has && !slices.Contains(required, any(name)) {
			r.problem(pointer("properties", name), "must be required or have a default: Flux fails the whole list where a field of an input is missing")
		}
	}
	n := r.schema("", r.root, true)
	switch {
	case len(r.problems) > 0:
	case r.visited*r.text > maxCompared:
		r.problem("", "%s", longPointers)
	case n > maxPlaces:
		r.problem("", "comes to more than %d subschemas when its references are written out", maxPlaces)
	}
}

// schema reads one schema and returns the number of schemas that it expands to. filled: defaults are filled in there.
func (r *reader) schema(at string, value any, filled bool) int {
	text, ok := value.(map[string]any)
	if !ok {
		return 1 // true and false; the compiler refuses the rest
	}
	r.visited++
	if r.text += len(at); r.visited > maxPlaces || r.visited*r.text > maxCompared {
		return maxPlaces + 1
	}
	for _, keyword := range []string{"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "$vocabulary"} {
		if _, has := text[keyword]; has {
			r.problem(at+pointer(keyword), "is not taken: a schema refers to its own parts by JSON pointers, #/…")
		}
	}
	if s, has := text["$schema"]; has && s != draft && s != draft+"#" {
		r.problem(at+"/$schema", "must be %s", draft)
	}
	if rules, ok := text[celRules].([]any); ok {
		r.rules += len(rules)
	}
	for _, name := range slices.Sorted(maps.Keys(properties(text))) {
		if _, has := defaultOf(properties(text)[name]); has && filled {
			r.defaults = append(r.defaults, at+pointer("properties", name))
		}
	}
	n := 1
	if ref, has := text["$ref"]; has {
		n += r.reference(at+"/$ref", ref, filled)
	}
	for _, keyword := range ones {
		if sub, has := text[keyword]; has {
			n += r.schema(at+pointer(keyword), sub, filled && keyword == "items")
		}
	}
	for _, keyword := range lists {
		subs, _ := text[keyword].([]any)
		for i, sub := range subs {
			n += r.schema(at+pointer(keyword, strconv.Itoa(i)), sub, filled && (keyword == "allOf" || keyword == "prefixItems"))
		}
	}
	for _, keyword := range named {
		subs, _ := text[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(subs)) {
			n += r.schema(at+pointer(keyword, name), subs[name], filled && keyword == "properties")
		}
	}
	return min(n, maxPlaces+1)
}

// reference reads the target of a reference, once.
func (r *reader) reference(at string, value any, filled bool) int {
	ref, _ := value.(string)
	target, found := resolve(r.root, ref).(map[string]any)
	switch {
	case !strings.HasPrefix(ref, "#"):
		r.problem(at, "must be #/…: a schema refers to nothing outside itself")
		return 1
	case !found:
		r.problem(at, "%s leads to no schema", text(value))
		return 1
	case ref == "#", r.open[ref]:
		r.problem(at, "%s leads back to itself", ref)
		return 1
	}
	key := ref + strconv.FormatBool(filled)
	if n, read := r.places[key]; read {
		return n
	}
	r.open[ref] = true
	n := r.schema(strings.TrimPrefix(ref, "#"), target, filled)
	delete(r.open, ref)
	r.places[key] = n
	return n
}
