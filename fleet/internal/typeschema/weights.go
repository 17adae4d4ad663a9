package typeschema

import (
	"fmt"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// weight is the cost of one application of a subschema besides visiting others. Most have none.
type weight struct {
	values  int            // in an enum or const
	total   int            // the size of all of them
	pattern int            // instructions of the pattern's program: each may be run for each byte
	format  int            // steps for four bytes
	bounds  int            // limits of a number
	key     map[string]int // instructions of the patterns that lead to it, in patternProperties
}

// weigh returns the weights of a compiled schema and all below it.
func weigh(root *jsonschema.Schema) map[*jsonschema.Schema]weight {
	weights := map[*jsonschema.Schema]weight{}
	keys := map[*jsonschema.Schema]map[string]int{}
	seen := map[*jsonschema.Schema]bool{}
	var walk func(s *jsonschema.Schema)
	walk = func(s *jsonschema.Schema) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		if w := weightOf(s); w != nil {
			weights[s] = *w
		}
		for pattern, sub := range s.PatternProperties {
			if keys[sub] == nil {
				keys[sub] = map[string]int{}
			}
			keys[sub][pattern.String()] = instructions(pattern.String())
			walk(sub)
		}
		for _, sub := range below(s) {
			walk(sub)
		}
	}
	walk(root)
	for s, key := range keys {
		w := weights[s]
		w.key = key
		weights[s] = w
	}
	return weights
}

// below returns the subschemas of a schema, except those of patternProperties.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.Contains, s.Items2020, s.UnevaluatedProperties, s.UnevaluatedItems}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		subs = append(subs, additional)
	}
	for _, list := range [...][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		subs = append(subs, list...)
	}
	for _, named := range [...]map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, sub := range named {
			subs = append(subs, sub)
		}
	}
	return subs
}

// weightOf computes the weight of one subschema.
func weightOf(s *jsonschema.Schema) *weight {
	var w weight
	m := &meter{}
	if s.Const != nil {
		w.values, w.total = 1, m.size(*s.Const)
	}
	if s.Enum != nil {
		w.values += len(s.Enum.Values)
		for _, v := range s.Enum.Values {
			w.total += m.size(v)
		}
	}
	if s.Pattern != nil {
		w.pattern = instructions(s.Pattern.String())
	}
	if s.Format != nil {
		if w.format = 1; s.Format.Name == "regex" {
			w.format = 400 // it compiles the value: seven bytes expand to a thousand instructions
		}
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			if name == "integer" {
				w.bounds++
			}
		}
	}
	for _, has := range [...]bool{s.Minimum != nil, s.Maximum != nil, s.ExclusiveMinimum != nil, s.ExclusiveMaximum != nil, s.MultipleOf != nil} {
		if has {
			w.bounds++
		}
	}
	if s.MinLength != nil || s.MaxLength != nil {
		w.format++
	}
	if w.values+w.pattern+w.format+w.bounds == 0 {
		return nil
	}
	return &w
}

// maxInstructions is the maximum total of instructions in the patterns of a schema, each pattern counted once. x{1000} has a
// thousand: a megabyte of patterns could take gigabytes. The metaschema compiles each
// occurrence of a pattern again, so the repeated total has a limit too.
const (
	maxInstructions         = 20_000
	maxRepeatedInstructions = 10 * maxInstructions
)

// CheckPatterns returns the problems of the patterns of a schema before it is compiled: compiling large ones exhausts the
// memory of the process.
func CheckPatterns(schema any) []Problem {
	counted := map[string]int{}
	n, all := 0, 0
	add := func(pattern string) {
		if n > maxInstructions {
			return
		}
		if _, known := counted[pattern]; !known {
			counted[pattern] = instructions(pattern)
			n += counted[pattern]
		}
		all += counted[pattern]
	}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if pattern, ok := v["pattern"].(string); ok {
				add(pattern)
			}
			named, _ := v["patternProperties"].(map[string]any)
			for pattern := range named {
				add(pattern)
			}
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(schema)
	if n <= maxInstructions && all <= maxRepeatedInstructions {
		return nil
	}
	return []Problem{{Detail: fmt.Sprintf("its patterns come to more than %d instructions: use smaller repeat counts, or maxLength", maxInstructions)}}
}

// instructions estimates the number of instructions of a pattern's program.
func instructions(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // refused by the compiler
	}
	return count(parsed)
}

// count returns the number of instructions of a parsed pattern.
func count(re *syntax.Regexp) int {
	n := 1
	switch re.Op { //nolint:exhaustive // any other operation costs one step besides its operands
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/8
	case syntax.OpRepeat:
		n = max(re.Max, re.Min+1, 1)
	}
	sum := 1
	for _, sub := range re.Sub {
		sum += count(sub)
	}
	return n * sum
}
