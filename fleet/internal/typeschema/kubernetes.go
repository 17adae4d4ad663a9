package typeschema

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Keywords in the schemas of CustomResourceDefinitions that JSON Schema lacks and that change which values are valid. The others, such as
// x-kubernetes-preserve-unknown-fields, need no translation: an object without additionalProperties accepts any field.
const (
	nullable    = "nullable"
	intOrString = "x-kubernetes-int-or-string"
	celRules    = "x-kubernetes-validations"
)

// toJSONSchema returns a schema in JSON Schema. Each part keeps its place, so that pointers to it stay valid.
func toJSONSchema(schema any) any {
	text, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	out := maps.Clone(text)
	for _, keyword := range ones {
		if part, has := text[keyword]; has {
			out[keyword] = toJSONSchema(part)
		}
	}
	for _, keyword := range lists {
		if parts, ok := text[keyword].([]any); ok {
			copied := slices.Clone(parts)
			for i, part := range parts {
				copied[i] = toJSONSchema(part)
			}
			out[keyword] = copied
		}
	}
	for _, keyword := range append([]string{"$defs", "definitions"}, named...) {
		if parts, ok := text[keyword].(map[string]any); ok {
			copied := maps.Clone(parts)
			for name, part := range parts {
				copied[name] = toJSONSchema(part)
			}
			out[keyword] = copied
		}
	}
	if types := typesOf(text); types != nil {
		out["type"] = types
	}
	for bound, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		if is, ok := text[exclusive].(bool); ok { // as in OpenAPI 3.0
			delete(out, exclusive)
			if value, has := text[bound]; has && is {
				out[exclusive] = value
				delete(out, bound)
			}
		}
	}
	return out
}

// typesOf returns the types of a schema if keywords of Kubernetes change them, else nil.
func typesOf(text map[string]any) any {
	types, several := text["type"].([]any)
	if one, ok := text["type"].(string); ok {
		types = []any{one}
	}
	changed := false
	if _, has := text["type"]; !has && isTrue(text, intOrString) {
		types, changed = []any{"integer", "string"}, true
	}
	if isTrue(text, nullable) && len(types) > 0 && !slices.Contains(types, any("null")) {
		types, changed = append(slices.Clone(types), "null"), true
	}
	if !changed || several && len(types) == 0 {
		return nil
	}
	return types
}

func isTrue(text map[string]any, keyword string) bool {
	value, _ := text[keyword].(bool)
	return value
}

// patternCache compiles each pattern of a schema once, until it is closed.
type patternCache struct{ compiled map[string]*regexp.Regexp }

func (p *patternCache) compile(pattern string) (jsonschema.Regexp, error) {
	if known := p.compiled[pattern]; known != nil {
		return known, nil
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err //nolint:wrapcheck // the library adds the place
	}
	if p.compiled != nil {
		p.compiled[pattern] = compiled
	}
	return compiled, nil
}

// close disables the cache, which is not safe for concurrent use: validations of the format "regex" may run concurrently and compile
// strings of specs.
func (p *patternCache) close() { p.compiled = nil }

// kubernetesDuration matches what Kubernetes accepts for the format "duration", such as 1h30m or 2 days. JSON Schema accepts durations of
// ISO 8601 instead, such as P1D. Both are valid here.
var kubernetesDuration = regexp.MustCompile(`^[-+]?(0|([0-9]*\.?[0-9]+ ?[A-Za-zµ]+ ?)+)$`)

var isoDuration = sync.OnceValue(func() *jsonschema.Schema {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(address, map[string]any{"format": "duration"}); err != nil {
		panic(err)
	}
	return compiler.MustCompile(address)
})

func validateDuration(value any) error {
	text, ok := value.(string)
	if ok && !strings.HasPrefix(text, "P") && kubernetesDuration.MatchString(text) {
		return nil
	}
	if err := isoDuration().Validate(value); err != nil {
		return errors.New("must be a duration, such as 1h30m or PT1H30M")
	}
	return nil
}
