package typeschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Sample is a spec that a template is executed with when a type is written.
type Sample struct {
	Spec map[string]any
	// Without is the name of the optional properties that the spec omits while it sets all others; empty if it omits none.
	Without string
}

// Samples returns specs that the schema admits, to try a template with: the schema's examples of a whole spec, one spec with
// only the required properties and defaults, one with everything set and an entry in every list and map, and for each optional
// property of a nested object whose name is in read, the same without it. Properties that the schema refuses beside other ones are
// omitted. If the schema has no example of a required text with a pattern, all but the examples may be missing.
func (s *Schema) Samples(work *Work, read []string) []Sample {
	var out []Sample
	add := func(spec map[string]any, without string) {
		if s.Complete(spec) && len(s.Check(spec, work)) == 0 {
			out = append(out, Sample{spec, without})
		}
	}
	examples, _ := s.text["examples"].([]any)
	for _, example := range examples[:min(len(examples), maxExamples)] {
		if spec, ok := s.filler().clone(example).(map[string]any); ok {
			add(spec, "")
		}
	}
	m := &sampler{filler: s.filler(), tried: map[string]int{}, omitted: map[string]bool{}, choices: map[string]bool{}}
	if spec := m.sample(work); spec != nil {
		add(spec, "")
	}
	m.full = true
	for i, name := range append([]string{""}, read...) {
		if m.chosen, m.without = name, ""; i > 0 && !m.choices[name] {
			continue
		}
		spec := m.sample(work)
		if spec == nil {
			continue
		}
		add(spec, "")
		for _, absent := range slices.DeleteFunc(slices.Clone(read), func(name string) bool { return !m.named[name] }) {
			if m.without = absent; len(out) < maxSamples {
				if spec := m.sample(work); spec != nil {
					add(spec, absent)
				}
			}
		}
	}
	return out
}

const (
	maxExamples = 16
	maxSamples  = 2 * maxExamples
	maxRounds   = 3 * maxExamples
)

// words are tried, in this order, for a text that has a pattern and no example.
var words = []string{
	"example", "a", "1", "1h", "v1", "example.com", "https://example.com", "10.0.0.1", "Example", "A", "10.0.0.0/8", "",
	"2000-01-01T00:00:00Z",
}

// sampler builds specs, in which it can replace or omit values that the schema refuses.
type sampler struct {
	*filler
	full    bool
	without string          // the name of optional properties to omit
	chosen  string          // the name of a property whose alternative is taken
	tried   map[string]int  // number of refused words, by the pointer of a text
	omitted map[string]bool // pointers of optional properties that the schema refuses

	optional map[string]bool // pointers of the optional properties that the spec has
	named    map[string]bool // names of properties below the top that it has and that may be absent
	choices  map[string]bool // names of the properties that alternatives require
}

// sample builds one spec, and replaces or omits values that the schema refuses until it is valid. It returns nil if that
// fails.
func (m *sampler) sample(work *Work) map[string]any {
	for range maxRounds {
		m.left, m.bytes = maxFilled, maxFilledBytes
		m.optional, m.named = map[string]bool{}, map[string]bool{}
		spec, ok := m.value(m.text, "", 0).(map[string]any)
		if !ok || !m.Complete(spec) {
			return nil
		}
		problems := m.Check(spec, work)
		if len(problems) == 0 {
			return spec
		}
		replaced := false
		for _, p := range problems {
			replaced = m.replace(p.Pointer) || replaced
		}
		if !replaced {
			return nil
		}
	}
	return nil
}

// replace replaces the text at a pointer by another word, or omits the optional property there or around it. It reports
// whether it could.
func (m *sampler) replace(at string) bool {
	if n, known := m.tried[at]; known && n+1 < len(words) {
		m.tried[at]++
		return true
	}
	for ; at != ""; at = at[:strings.LastIndexByte(at, '/')] {
		if m.optional[at] {
			m.omitted[at] = true
			return true
		}
	}
	return false
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
	case isTrue(text, intOrString):
		return "integer"
	}
	return "string"
}

// object returns the required properties and, for a full sample, also the optional ones and those whose default is an object or a list.
func (m *sampler) object(text map[string]any, at string, depth int) any {
	out := map[string]any{}
	always, required, excluded := m.alternative(text)
	most := maxFilled
	if _, limited := text["maxProperties"]; limited {
		most = max(atLeast(text, "maxProperties"), len(required))
	}
	add := func(name string) {
		if at != "" && !always[name] && !hasDefault(properties(text)[name]) {
			m.named[name] = true
		}
		out[name] = m.value(properties(text)[name], at+pointer(name), depth+1)
	}
	names := slices.Sorted(maps.Keys(properties(text)))
	for _, name := range names {
		if required[name] {
			add(name)
		}
	}
	for _, name := range names {
		place := at + pointer(name)
		fallback, has := defaultOf(properties(text)[name])
		few := len(out) < atLeast(text, "minProperties")
		switch {
		case required[name] || excluded[name] || m.omitted[place] || len(out) >= most:
		case !few && (!m.full || has && scalar(fallback) || at != "" && name == m.without):
		default:
			m.optional[place] = true
			add(name)
		}
	}
	if of, ok := text["additionalProperties"].(map[string]any); ok && len(out) < most && (m.full || atLeast(text, "minProperties") > len(out)) {
		out["example"] = m.value(of, at+pointer("example"), depth+1)
	}
	return out
}

// Optional returns pointers into a spec, to at most three optional properties of a name in nested objects. "*" stands for an item of a
// list or a value of a map.
func (s *Schema) Optional(name string) []string {
	const most = 3
	var found []string
	left := maxPlaces
	var walk func(schema any, at string)
	walk = func(schema any, at string) {
		text, ok := schema.(map[string]any)
		if left--; !ok || left < 0 || len(found) == most {
			return
		}
		if ref, ok := text["$ref"].(string); ok {
			walk(resolve(s.text, ref), at)
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			parts, _ := text[keyword].([]any)
			for _, part := range parts {
				walk(part, at)
			}
		}
		required, _ := text["required"].([]any)
		_, has := defaultOf(properties(text)[name])
		if place := at + pointer(name); at != "" && properties(text)[name] != nil && !has && !slices.Contains(required, any(name)) && !slices.Contains(found, place) {
			found = append(found, place)
		}
		for _, property := range slices.Sorted(maps.Keys(properties(text))) {
			walk(properties(text)[property], at+pointer(property))
		}
		walk(text["items"], at+"/*")
		walk(text["additionalProperties"], at+"/*")
	}
	walk(s.text, "")
	return found[:min(len(found), most)]
}

// alternative chooses one alternative of anyOf and of oneOf. It returns the names of the properties that the schema always requires, those
// that it requires together with the chosen alternatives, and those that belong to the other alternatives of oneOf. A full sample chooses
// an alternative that requires properties.
func (m *sampler) alternative(text map[string]any) (always, required, excluded map[string]bool) {
	always, excluded = requiredBy(text), map[string]bool{}
	required = maps.Clone(always)
	for _, keyword := range []string{"anyOf", "oneOf"} {
		parts, _ := text[keyword].([]any)
		chosen := -1
		for i, part := range parts {
			names := requiredBy(part)
			maps.Copy(m.choices, names)
			switch {
			case names[m.without]:
			case names[m.chosen]:
				chosen = i
			case chosen < 0, (len(names) > 0) == m.full && (len(requiredBy(parts[chosen])) > 0) != m.full:
				chosen = i
			}
		}
		for i, part := range parts {
			switch {
			case i == chosen:
				maps.Copy(required, requiredBy(part))
			case keyword == "oneOf":
				maps.Copy(excluded, requiredBy(part))
			}
		}
	}
	return always, required, excluded
}

// requiredBy returns the names of the properties that a schema requires itself.
func requiredBy(schema any) map[string]bool {
	text, _ := schema.(map[string]any)
	names, _ := text["required"].([]any)
	out := make(map[string]bool, len(names))
	for _, name := range names {
		if name, ok := name.(string); ok {
			out[name] = true
		}
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
		if m.bytes -= n; m.bytes < 0 {
			m.left = -1
			return ""
		}
		word += strings.Repeat("a", n-len(word))
	}
	return word
}

func hasDefault(property any) bool {
	_, has := defaultOf(property)
	return has
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
