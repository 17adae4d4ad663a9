// Package typeschema checks the schemas of resource types, and specs against them: JSON Schema 2020-12 with the keywords of
// Kubernetes, so that it accepts the schemas of CustomResourceDefinitions, and beyond it the needs of an input. Flux fails a
// whole list where a field of an input is missing, so every property of a spec must exist: required, or with a default that is
// filled in. Properties of nested objects may be absent. A schema is untrusted and applies to every definition, so it cannot
// read external references, and its cost is limited.
package typeschema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits on a schema.
const (
	MaxBytes = 1 << 20 // of its encoding; other limits bound the cost of validation
	// maxPlaces is the number of subschemas after all references are expanded: the most that one value can be validated
	// against.
	maxPlaces   = 15_000
	maxProblems = 100
	// maxFilled is the number of values that defaults may add to one spec. A small spec and a small schema can expand to
	// gigabytes.
	maxFilled = 100_000
	// maxFilledBytes is the number of bytes of text that defaults may add to one spec. No answer to a cluster has a tenth of
	// that size.
	maxFilledBytes = 16 << 20
)

// reserved are names of input fields that the service sets, and the one that Flux Operator replaces by a reference to the provider.
var reserved = []string{"id", "cluster", "receipt", "provider"}

// Problem is one problem of a schema or a spec: its place, as a JSON pointer, and a description.
type Problem struct{ Pointer, Detail string }

// Schema is a valid schema.
type Schema struct {
	text     map[string]any
	compiled *jsonschema.Schema
	weights  map[*jsonschema.Schema]weight
	costly   []Problem
	rules    int
}

const address = "schema:///spec"

// Parse compiles a schema, or returns its problems. value is the schema as [encoding/json] decodes it with UseNumber; the
// result refers to it, so the caller must not change it afterwards. size is the length of the schema's JSON text in bytes.
func Parse(value any, size int) (*Schema, []Problem) {
	text, ok := value.(map[string]any)
	switch {
	case !ok:
		return nil, []Problem{{Detail: "must be a JSON Schema of type object"}}
	case size > MaxBytes:
		return nil, []Problem{{Detail: fmt.Sprintf("is %d bytes; at most %d are taken", size, MaxBytes)}}
	}
	if reason := tooLarge(text); reason != "" {
		return nil, []Problem{{Detail: reason}}
	}
	r := &reader{root: text, open: map[string]bool{}, places: map[string]int{}}
	r.read()
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noReferences{})
	compiler.AssertFormat()
	compiler.RegisterFormat(&jsonschema.Format{Name: "duration", Validate: validateDuration})
	patterns := &patternCache{map[string]*regexp.Regexp{}}
	defer patterns.close()
	compiler.UseRegexpEngine(patterns.compile)
	if err := compiler.AddResource(address, toJSONSchema(text)); err != nil {
		return nil, []Problem{{Detail: err.Error()}}
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		return nil, compileProblems(err)
	}
	s := &Schema{text: text, compiled: compiled, weights: weigh(compiled), rules: r.rules}
	if problems := s.checkDefaults(compiler, r.defaults); len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// noReferences is a loader that refuses every reference.
type noReferences struct{}

var errRemote = errors.New("a schema refers to nothing outside itself")

func (noReferences) Load(string) (any, error) { return nil, errRemote }

// compileProblems converts an error of the schema compiler.
func compileProblems(err error) []Problem {
	var invalid *jsonschema.SchemaValidationError
	var details *jsonschema.ValidationError
	switch {
	case errors.As(err, &invalid) && errors.As(invalid.Err, &details):
		return problemsOf(details, nil, nil)
	}
	return []Problem{{Detail: "is not a JSON Schema: " + err.Error()}}
}

// Properties are the names of a spec's fields, sorted.
func (s *Schema) Properties() []string {
	return slices.Sorted(maps.Keys(properties(s.text)))
}

// Costly returns the problems of a schema that takes too long to check. Such a schema, if stored already, remains in use.
func (s *Schema) Costly() []Problem { return s.costly }

// CELRules returns the number of rules in CEL, which only Kubernetes evaluates.
func (s *Schema) CELRules() int { return s.rules }

// Check returns all problems of a spec. It returns none if the work has ended, see [Work.Err]; the spec is then unchecked.
// Nil work has no end.
func (s *Schema) Check(spec any, work *Work) []Problem {
	if work == nil {
		work = NewWork(context.Background())
	}
	steps := s.cost(work.ctx, s.compiled, spec)
	work.left.Add(-int64(steps))
	switch {
	case work.Err() != nil:
		return nil
	case steps > MaxSteps:
		return []Problem{TooCostly}
	}
	return validate(s.compiled, s.text, spec)
}

// validate returns the problems that the validator finds.
func validate(compiled *jsonschema.Schema, text map[string]any, value any) []Problem {
	err := compiled.Validate(value)
	var details *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &details):
		return problemsOf(details, text, value)
	}
	return []Problem{{Detail: err.Error()}}
}

// Fill adds defaults for the missing properties of a spec, in nested objects and lists too, and returns the spec. Values of
// a wrong type are left for Check.
func (s *Schema) Fill(spec map[string]any) map[string]any {
	s.Complete(spec)
	return spec
}

// Complete is Fill, and reports whether it finished: some defaults expand a small spec to gigabytes.
func (s *Schema) Complete(spec map[string]any) bool {
	f := s.filler()
	f.fill(s.text, spec)
	return f.left >= 0
}

// Endless is the problem of a spec that Complete did not finish.
var Endless = Problem{Detail: fmt.Sprintf("comes to more than %d values, or %d MiB, with the defaults in it", maxFilled, maxFilledBytes>>20)}

// filler adds defaults to one value, up to a limit.
type filler struct {
	*Schema
	left  int // number of values that may still be added or visited
	bytes int // number of bytes that may still be added
}

func (s *Schema) filler() *filler { return &filler{s, maxFilled, maxFilledBytes} }

// fill adds defaults to a value, and below it.
func (s *filler) fill(schema, value any) {
	text, ok := schema.(map[string]any)
	if s.left--; !ok || s.left < 0 {
		return
	}
	if ref, ok := text["$ref"].(string); ok {
		s.fill(resolve(s.text, ref), value)
	}
	all, _ := text["allOf"].([]any)
	for _, part := range all {
		s.fill(part, value)
	}
	switch value := value.(type) {
	case map[string]any:
		for name, property := range properties(text) {
			_, has := value[name]
			if fallback, ok := defaultOf(property); ok && !has && s.left > 0 {
				value[name] = s.clone(fallback)
			}
			s.fill(property, value[name])
		}
	case []any:
		prefix, _ := text["prefixItems"].([]any)
		for i, item := range value {
			if i < len(prefix) {
				s.fill(prefix[i], item)
			} else {
				s.fill(text["items"], item)
			}
		}
	}
}

func properties(schema map[string]any) map[string]any {
	found, _ := schema["properties"].(map[string]any)
	return found
}

func defaultOf(property any) (any, bool) {
	text, _ := property.(map[string]any)
	value, has := text["default"]
	return value, has
}

// clone copies a default, and counts its values and bytes.
func (s *filler) clone(v any) any {
	s.left--
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = s.clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = s.clone(e)
		}
		return out
	case string:
		if s.bytes -= len(v); s.bytes < 0 {
			s.left = -1
		}
	}
	return v
}

// maxDefaultSteps limits the steps to check the defaults of a schema: every process does that when it starts.
const maxDefaultSteps = 2_000_000

// checkDefaults checks that the defaults satisfy the schema themselves.
func (s *Schema) checkDefaults(compiler *jsonschema.Compiler, at []string) []Problem {
	var found []Problem
	left := maxDefaultSteps
	for _, place := range at {
		text, _ := resolve(s.text, "#"+place).(map[string]any)
		compiled, err := compiler.Compile((&url.URL{Scheme: "schema", Path: "/spec", Fragment: place}).String())
		if err != nil {
			found = append(found, Problem{place, err.Error()})
			continue
		}
		f := s.filler()
		value := f.clone(text["default"])
		f.fill(text, value)
		if f.left < 0 {
			found = append(found, Problem{place + "/default", Endless.Detail})
			continue
		}
		left -= maxFilled - f.left + s.cost(context.Background(), compiled, value)
		if left < 0 { // at most one more than a default may take
			s.costly = []Problem{{Detail: fmt.Sprintf("its defaults take more than %d steps to check: use fewer or smaller ones", maxDefaultSteps)}}
			return found
		}
		for _, p := range validate(compiled, s.text, value) {
			found = append(found, Problem{place + "/default" + p.Pointer, "the default is not valid: " + p.Detail})
		}
	}
	return found
}

// CheckOverrides returns all problems of a cluster's overrides of a definition's spec: only the properties in overridable
// are allowed, and the resulting spec must be valid.
func (s *Schema) CheckOverrides(spec, overrides map[string]any, overridable []string, work *Work) []Problem {
	var found []Problem
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if !slices.Contains(overridable, name) {
			found = append(found, Problem{pointer(name), "may not be set otherwise for a cluster: the type does not list it as overridable"})
		}
	}
	if len(found) > 0 {
		return found
	}
	overlaid, complete := s.overlaid(spec, overrides)
	if !complete {
		return []Problem{Endless}
	}
	return s.Check(overlaid, work)
}

// Overlaid returns a spec with a cluster's overrides applied, property by property, and with the defaults of their missing
// properties.
func (s *Schema) Overlaid(spec, overrides map[string]any) map[string]any {
	out, _ := s.overlaid(spec, overrides)
	return out
}

// overlaid is Overlaid, and reports whether the defaults stay below the limit.
func (s *Schema) overlaid(spec, overrides map[string]any) (map[string]any, bool) {
	out := maps.Clone(spec)
	f := s.filler()
	for name, value := range overrides {
		value = f.clone(value)
		f.fill(properties(s.text)[name], value)
		out[name] = value
	}
	return out, f.left >= 0
}

// CheckOverridable returns the problems of the list of properties that clusters may override.
func (s *Schema) CheckOverridable(names []string) []Problem {
	var found []Problem
	for i, name := range names {
		switch _, has := properties(s.text)[name]; {
		case !has:
			found = append(found, Problem{pointer(strconv.Itoa(i)), fmt.Sprintf("the schema has no property %q", name)})
		case slices.Contains(names[:i], name):
			found = append(found, Problem{pointer(strconv.Itoa(i)), fmt.Sprintf("%q is listed twice", name)})
		}
	}
	return found
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(keys ...string) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(k))
	}
	return b.String()
}

// resolve returns the target of a local reference, or nil.
func resolve(root any, ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if ok {
		decoded, err := url.PathUnescape(path)
		ok = err == nil
		path = decoded
	}
	if !ok || path != "" && !strings.HasPrefix(path, "/") {
		return nil
	}
	at := root
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		key = pointerUnescape.Replace(key)
		switch v := at.(type) {
		case map[string]any:
			at = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

var addressable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// text returns a JSON value for messages.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}
