package typeschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
)

// custom returns a schema whose specs have one property, of this schema, as those made of CustomResourceDefinitions.
func custom(spec string) string {
	return `{"type": "object", "additionalProperties": false, "required": ["spec"], "properties": {"spec": ` + spec + `}}`
}

func TestKeywordsOfKubernetes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, valid, invalid string }{
		"nullable":                  {`{"type": "string", "nullable": true}`, `null`, `1`},
		"not nullable":              {`{"type": "string", "nullable": false}`, `"a"`, `null`},
		"nullable in a list":        {`{"items": {"type": "object", "nullable": true}}`, `[null, {}]`, `[1]`},
		"nullable in values":        {`{"additionalProperties": {"type": "integer", "nullable": true}}`, `{"a": null}`, `{"a": "b"}`},
		"nullable in an allOf":      {`{"allOf": [{"type": "integer", "nullable": true}]}`, `null`, `"a"`},
		"nullable types":            {`{"type": ["string", "integer"], "nullable": true}`, `null`, `true`},
		"nullable by a reference":   {`{"$ref": "#/$defs/x"}`, `null`, `1`},
		"nullable enum":             {`{"type": "string", "nullable": true, "enum": ["a", null]}`, `null`, `"b"`},
		"int or string":             {`{"x-kubernetes-int-or-string": true}`, `"a"`, `true`},
		"int or string, an integer": {`{"x-kubernetes-int-or-string": true}`, `1`, `1.5`},
		"the same with a pattern":   {`{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%$"}`, `"5%"`, `"5"`},
		"nullable int or string":    {`{"x-kubernetes-int-or-string": true, "nullable": true}`, `null`, `{}`},
		"exclusive as in OpenAPI":   {`{"minimum": 1, "exclusiveMinimum": true, "maximum": 3, "exclusiveMaximum": false}`, `3`, `1`},
		"duration of Kubernetes":    {`{"type": "string", "format": "duration"}`, `"1h30m"`, `"soon"`},
		"duration of ISO":           {`{"type": "string", "format": "duration"}`, `"PT1H"`, `"Pp"`},
		"unknown fields":            {`{"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true}`, `{"b": 1}`, `{"a": 1}`},
		"no unknown fields":         {`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}`, `{}`, `{"b": 1}`},
		"an embedded resource":      {`{"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}`, `{"kind": "A"}`, `[]`},
		"formats of OpenAPI":        {`{"type": "integer", "format": "int64"}`, `1`, `"1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, strings.TrimSuffix(custom(c.schema), "}")+`, "$defs": {"x": {"type": "string", "nullable": true}}}`)
			require.Empty(t, s.Check(object(t, `{"spec": `+c.valid+`}`), nil))
			require.NotEmpty(t, s.Check(object(t, `{"spec": `+c.invalid+`}`), nil))
		})
	}
}

// TestNestedOptionalStaysAbsent: only defaults are added.
func TestNestedOptionalStaysAbsent(t *testing.T) {
	t.Parallel()
	s := parse(t, custom(`{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"},
		"c": {"type": "object", "properties": {"d": {"type": "string", "default": "y"}}}}}`))
	require.Equal(t, object(t, `{"spec": {"b": "x"}}`), s.Fill(object(t, `{"spec": {}}`)))
	require.Equal(t, object(t, `{"spec": {"b": "x", "c": {"d": "y"}}}`), s.Fill(object(t, `{"spec": {"c": {}}}`)))
	require.Equal(t, []string{"/spec/a"}, s.Optional("a"))
	require.Empty(t, s.Optional("b"), "it has a default")
	require.Empty(t, s.Optional("spec"), "it is required")
}

func TestRulesAreCounted(t *testing.T) {
	t.Parallel()
	rules := `"x-kubernetes-validations": [{"rule": "self == oldSelf"}, {"rule": "true"}]`
	require.Equal(t, 4, parse(t, custom(`{"type": "object", `+rules+`, "properties": {"a": {"type": "string", `+rules+`}}}`)).CELRules())
	require.Equal(t, 0, parse(t, quota).CELRules())
	require.Equal(t, 0, parse(t, custom(`{"type": "object", "properties": {"x-kubernetes-validations": {"type": "array"}}}`)).CELRules(), "the name of a property")
}

// TestSamplesOfCustomResources: the template is tried with what objects may have, although alternatives exclude each other and
// texts have patterns.
func TestSamplesOfCustomResources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema string
		read   []string
		want   []string
	}{
		"optional":      {`{"properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}}}`, nil, []string{`{}`, `{"a": "example", "b": [1]}`}},
		"read":          {`{"properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}}}`, []string{"a", "x"}, []string{`{}`, `{"a": "example", "b": [1]}`, `{"b": [1]}`}},
		"oneOf":         {`{"properties": {"a": {"const": 1}, "b": {"const": 2}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`, nil, []string{`{"a": 1}`, `{"a": 1}`}},
		"oneOf read":    {`{"properties": {"a": {"const": 1}, "b": {"const": 2}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}`, []string{"b"}, []string{`{"a": 1}`, `{"a": 1}`, `{"b": 2}`, `{"a": 1}`}},
		"or none":       {`{"properties": {"a": {"const": 1}}, "oneOf": [{"not": {"required": ["a"]}}, {"required": ["a"]}]}`, nil, []string{`{}`, `{"a": 1}`}},
		"one of many":   {`{"properties": {"a": {"const": 1}, "b": {"const": 2}}, "maxProperties": 1, "minProperties": 1}`, nil, []string{`{"a": 1}`, `{"a": 1}`}},
		"no word fits":  {`{"properties": {"a": {"type": "string", "pattern": "^never$"}, "b": {"const": 2}}}`, nil, []string{`{}`, `{"b": 2}`}},
		"a word fits":   {`{"properties": {"a": {"type": "string", "format": "date-time"}}}`, nil, []string{`{}`, `{"a": "2000-01-01T00:00:00Z"}`}},
		"not together":  {`{"properties": {"x": {"properties": {"a": {"const": 1}}, "not": {"required": ["a"]}}}}`, nil, []string{`{}`, `{}`}},
		"int or string": {`{"properties": {"a": {"x-kubernetes-int-or-string": true}}}`, nil, []string{`{}`, `{"a": 1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			samples := parse(t, custom(`{"type": "object", `+c.schema[1:])).Samples(nil, c.read)
			require.Len(t, samples, len(c.want), "%v", samples)
			for i, want := range c.want {
				require.Equal(t, object(t, `{"spec": `+want+`}`), samples[i].Spec)
			}
		})
	}
}

// definitions returns a schema with n definitions, none of which is used.
func definitions(n int, name string, each string) string {
	defs := make([]string, n)
	for i := range defs {
		defs[i] = fmt.Sprintf(`"%d": %s`, i, each)
	}
	return fmt.Sprintf(`{"type": "object", "additionalProperties": false, "properties": {}, "$defs": {%q: {"$defs": {%s}}}}`, name, strings.Join(defs, ", "))
}

// TestLargeSchemas: a megabyte of schema must not take gigabytes, nor minutes, each time that a process reads it.
func TestLargeSchemas(t *testing.T) {
	t.Parallel()
	chain := func(n int) string {
		defs := make([]string, n)
		for i := range defs {
			defs[i] = fmt.Sprintf(`"d%d": {"$ref": "#/$defs/d%d"}`, i, i+1)
		}
		return `{"type": "object", "additionalProperties": false, "required": ["a"], "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {` + strings.Join(defs, ",") + fmt.Sprintf(`, "d%d": {}}}`, n)
	}
	spelled := func(n int) string { // the same definition by references that differ
		parts := make([]string, n)
		for i := range parts {
			ref := []byte("#/$defs/aaaaaaaaaaaaaaaa")
			text := string(ref[:8])
			for b := range 16 {
				if i>>b&1 == 1 {
					text += "%61"
				} else {
					text += "a"
				}
			}
			parts[i] = fmt.Sprintf(`{"$ref": %q}`, text)
		}
		return `{"type": "object", "additionalProperties": false, "required": ["a"], "properties": {"a": {"allOf": [` + strings.Join(parts, ",") +
			`]}}, "$defs": {"aaaaaaaaaaaaaaaa": {"properties": {"` + strings.Repeat("n", 200_000) + `": {"default": 1}}}}}`
	}
	wide := make([]string, 20_000)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"p%d": {"type": "string"}`, i)
	}
	patterns := make([]string, 5_000)
	for i := range patterns {
		patterns[i] = fmt.Sprintf(`"p%d": {"pattern": "x{900}"}`, i)
	}
	doubled := `{}`
	for range 12 {
		doubled = `{"anyOf": [` + doubled + `, ` + doubled + `]}`
	}
	deep := `{"type": "string"}`
	for range 12 {
		deep = `{"type": "object", "properties": {"a": ` + deep + `}, "additionalProperties": ` + `{"items": {}}` + `}`
	}
	for name, c := range map[string]struct{ schema, want string }{
		"unused definitions":       {definitions(31_000, "d", "{}"), "more than 30000 objects"},
		"long names":               {definitions(9_000, strings.Repeat("n", 1_000), "{}"), "too many subschemas with long JSON pointers"},
		"one name of half a MiB":   {definitions(17, strings.Repeat("n", 500_000), "{}"), "too many subschemas with long JSON pointers"},
		"a chain":                  {chain(9_000), ""},
		"a longer chain":           {chain(16_000), "more than 15000 subschemas"},
		"references that differ":   {spelled(9_000), "too many subschemas with long JSON pointers"},
		"properties":               {custom(`{"properties": {` + strings.Join(wide, ",") + `}}`), "more than 15000 subschemas"},
		"as many as possible":      {custom(`{"properties": {` + strings.Join(wide[:9_990], ",") + `}}`), ""},
		"as many with a long name": {custom(`{"properties": {"` + strings.Repeat("n", 750) + `": {"properties": {` + strings.Join(wide[:14_980], ",") + `}}}}`), "too many subschemas with long JSON pointers"},
		"the same pattern":         {custom(`{"properties": {` + strings.Join(patterns, ",") + `}}`), "more than 20000 instructions"},
		"the same pattern, rarely": {custom(`{"properties": {` + strings.Join(patterns[:100], ",") + `}}`), ""},
		"anyOf that doubles":       {custom(doubled), ""},
		"anyOf that doubles more":  {custom(`{"allOf": [` + doubled + `, ` + doubled + `]}`), "more than 15000 subschemas"},
		"nested":                   {custom(deep), ""},
		"long descriptions":        {custom(`{"description": "` + strings.Repeat("x", 900_000) + `"}`), ""},
		"longer descriptions":      {custom(`{"description": "` + strings.Repeat("x", 1<<20) + `"}`), "at most 1048576 are taken"},
		"a long enum":              {custom(`{"enum": ` + repeated(100_000, func(i int) string { return fmt.Sprint(i) }) + `}`), ""},
		"many required":            {custom(`{"required": ` + repeated(90_000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := decode(t, c.schema)
			problems := typeschema.CheckPatterns(schema)
			if len(problems) == 0 {
				var s *typeschema.Schema
				if s, problems = typeschema.Parse(schema, len(c.schema)); s != nil {
					require.LessOrEqual(t, len(s.Samples(nil, []string{"a", "p1"})), 48)
				}
			}
			if c.want == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Contains(t, problems[0].Detail, c.want)
		})
	}
}

// TestPatternsCostTheirLength: a pattern that is applied to a long text counts its instructions for each character.
func TestPatternsCostTheirLength(t *testing.T) {
	t.Parallel()
	s := parse(t, custom(`{"type": "object", "properties": {"a": {"type": "string", "pattern": "^(x{500}|y)*$"}}}`))
	require.Empty(t, s.Check(object(t, `{"spec": {"a": "`+strings.Repeat("y", 1_000)+`"}}`), nil))
	require.Equal(t, []typeschema.Problem{typeschema.TooCostly}, s.Check(object(t, `{"spec": {"a": "`+strings.Repeat("y", 100_000)+`"}}`), nil))
}
