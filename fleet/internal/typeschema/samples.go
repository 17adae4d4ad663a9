package typeschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Samples returns specs that the schema admits, to try a template with: the schema's examples of a whole spec, one spec with
// only the required properties and defaults, and one with an entry in every list and map. If the schema has no example of a
// required text with a pattern, the last two may be missing. A nil work is replaced by a new one.
func (s *Schema) Samples(work *Work) []map[string]any {
	var out []map[string]any
	add := func(spec map[string]any) {
		if s.Complete(spec) && len(s.Check(spec, work)) == 0 {
			out = append(out, spec)
		}
	}
	examples, _ := s.text["examples"].([]any)
	for _, example := range examples[:min(len(examples), maxExamples)] {
		if spec, ok := s.filler().clone(example).(map[string]any); ok {
			add(spec)
		}
	}
	for _, full := range []bool{false, true} {
		if spec := s.sample(full, work); spec != nil {
			add(spec)
		}
	}
	return out
}

const (
	maxExamples = 16
	maxRounds   = 3 * maxExamples
)

// words are tried, in this order, for a text that has a pattern and no example.
var words = []string{"example", "a", "1", "1h", "v1", "example.com", "https://example.com", "10.0.0.1", "Example", "A", "10.0.0.0/8", ""}

// sampler builds a spec, in which it can replace values that the schema refuses.
type sampler struct {
	*filler
	full  bool
	tried map[string]int // number of refused words, by the pointer of a text
}

// sample builds one spec, and replaces values that the schema refuses until it is valid. It returns nil if that fails.
func (s *Schema) sample(full bool, work *Work) map[string]any {
	m := &sampler{filler: s.filler(), full: full, tried: map[string]int{}}
	for range maxRounds {
		m.left = maxFilled
		spec, ok := m.value(s.text, "", 0).(map[string]any)
		if !ok || !s.Complete(spec) {
			return nil
		}
		problems := s.Check(spec, work)
		if len(problems) == 0 {
			return spec
		}
		replaced := false
		for _, p := range problems {
			if n, known := m.tried[p.Pointer]; known && n+1 < len(words) {
				m.tried[p.Pointer]++
				replaced = true
			}
		}
		if !replaced {
			return nil
		}
	}
	return nil
}

// value returns a value that a schema may admit.
func (m *sampler) value(schema any, at string, depth int) any {
	const deepest = 32
	text, _ := schema.(map[string]any)
	if m.left--; m.left < 0 || depth > deepest {
		return nil
	}
	if examples, ok := text["examples"].([]any); ok && len(examples) > 0 && at != "" {
		return m.clone(examples[0])
	}
	if value, ok := text["const"]; ok {
		return m.clone(value)
	}
	if enum, ok := text["enum"].([]any); ok && len(enum) > 0 {
		return m.clone(enum[0])
	}
	if ref, ok := text["$ref"].(string); ok {
		return m.value(resolve(m.text, ref), at, depth+1)
	}
	switch m.typeOf(text) {
	case "object":
		return m.object(text, at, depth)
	case "array":
		return m.array(text, at, depth)
	case "integer", "number":
		if least, ok := text["minimum"].(json.Number); ok {
			return least
		}
		return json.Number("1")
	case "boolean":
		return m.full
	case "null":
		return nil
	}
	return m.word(text, at)
}

func (m *sampler) typeOf(text map[string]any) string {
	switch t := text["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			name, _ := t[0].(string)
			return name
		}
	}
	switch {
	case text["properties"] != nil || text["additionalProperties"] != nil:
		return "object"
	case text["items"] != nil:
		return "array"
	}
	return "string"
}

// object returns the required properties and, for a full sample, also those with a default.
func (m *sampler) object(text map[string]any, at string, depth int) any {
	out := map[string]any{}
	required, _ := text["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties(text))) {
		if fallback, has := defaultOf(properties(text)[name]); !slices.Contains(required, any(name)) && (!m.full || !has || scalar(fallback)) {
			continue
		}
		out[name] = m.value(properties(text)[name], at+pointer(name), depth+1)
	}
	if of, ok := text["additionalProperties"].(map[string]any); ok && (m.full || atLeast(text, "minProperties") > 0) {
		out["example"] = m.value(of, at+pointer("example"), depth+1)
	}
	return out
}

func (m *sampler) array(text map[string]any, at string, depth int) any {
	n := atLeast(text, "minItems")
	if m.full {
		n = max(n, 1)
	}
	out := []any{}
	for range min(n, maxExamples) {
		out = append(out, m.value(text["items"], at+pointer("0"), depth+1))
	}
	return out
}

// word returns the next text to try for a pattern.
func (m *sampler) word(text map[string]any, at string) string {
	if _, known := m.tried[at]; !known {
		m.tried[at] = 0
	}
	word := words[m.tried[at]]
	if n := atLeast(text, "minLength"); len(word) < n && n < maxFilled {
		word += strings.Repeat("a", n-len(word))
	}
	return word
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// atLeast returns the number at a keyword, or 0.
func atLeast(text map[string]any, keyword string) int {
	n, _ := text[keyword].(json.Number)
	most, err := n.Int64()
	if err != nil || most < 0 || most > maxFilled {
		return 0
	}
	return int(most)
}
