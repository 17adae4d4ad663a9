package typeschema_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
)

// repeated is a JSON list of n texts made of their numbers.
func repeated(n int, text func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = text(i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// constant returns a list of n equal texts.
func constant(n int, text string) string { return repeated(n, func(int) string { return text }) }

// stall is a schema for property "a", its definitions, and a value for it, which together take minutes or more.
type stall struct{ name, schema, defs, value string }

func stalls() []stall {
	doubling := func(keyword string) (defs string) {
		for i := range 11 {
			next := fmt.Sprintf(`{"$ref": "#/$defs/d%d"}`, i+1)
			defs += fmt.Sprintf(`"d%d": {%q: [%s, %s]}, `, i, keyword, next, next)
		}
		return defs + `"d11": {"type": "integer"}`
	}
	chain := func() (defs string) {
		for i := range 1500 {
			defs += fmt.Sprintf(`"d%d": {"$ref": "#/$defs/d%d"}, `, i, i+1)
		}
		return defs + `"d1500": {}`
	}
	objects := func(i int) string { return fmt.Sprintf(`{"k":%d}`, i) }
	names := func(i int) string { return fmt.Sprintf(`"n%06d":0`, i) }
	object := func(n int) string { return "{" + strings.Trim(repeated(n, names), "[]") + "}" }
	return []stall{
		{"enum of objects", `{"type": "array", "items": {"enum": ` + repeated(4000, objects) + `}}`, ``, constant(90_000, `{"k":4001}`)},
		{"enum of numbers", `{"items": {"enum": ` + repeated(9000, func(i int) string { return fmt.Sprint(i) }) + `}}`, ``, constant(90_000, `9001`)},
		{"const", `{"items": {"const": ` + constant(9000, "1") + `}}`, ``, constant(90, constant(9000, "1"))},
		{"uniqueItems of objects", `{"uniqueItems": true}`, ``, repeated(90_000, objects)},
		{"uniqueItems at every level", `{"$ref": "#/$defs/l0"}`, nested(10), constant(5, constant(5, constant(5, constant(5, constant(5, constant(5, "[]"))))))},
		{"anyOf that doubles", `{"items": {"$ref": "#/$defs/d0"}}`, doubling("anyOf"), constant(10_000, `"x"`)},
		{"allOf that doubles", `{"items": {"$ref": "#/$defs/d0"}}`, doubling("allOf"), constant(10_000, `1`)},
		{"oneOf that doubles", `{"items": {"$ref": "#/$defs/d0"}}`, doubling("oneOf"), constant(10_000, `"x"`)},
		{"a chain of references", `{"items": {"$ref": "#/$defs/d0"}}`, chain(), constant(90_000, `1`)},
		{"a pattern on a long text", `{"pattern": "^(a?){400}(a{400}|b)*$"}`, ``, `"` + strings.Repeat("a", 1<<20) + `"`},
		{"patternProperties", `{"patternProperties": {` + strings.Trim(repeated(2000, func(i int) string { return fmt.Sprintf(`"^.*%d.*x$": true`, i) }), "[]") + `}}`, ``, object(90_000)},
		{"propertyNames", `{"propertyNames": {"anyOf": ` + repeated(2000, func(i int) string { return fmt.Sprintf(`{"const": "%d"}`, i) }) + `}}`, ``, object(90_000)},
		{"contains", `{"contains": {"enum": ` + repeated(4000, objects) + `}}`, ``, constant(90_000, `{"k":4001}`)},
		{"dependentSchemas", `{"items": {"dependentSchemas": {` + strings.Trim(repeated(2000, func(i int) string { return fmt.Sprintf(`"n%06d": {"required": ["x"]}`, i) }), "[]") + `}}}`, ``, constant(100, object(2000))},
		{"required", `{"items": {"required": ` + repeated(9000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `}}`, ``, constant(90_000, `{}`)},
		{"unevaluatedItems", `{"unevaluatedItems": false, "allOf": ` + constant(3000, `{"items": true}`) + `}`, ``, constant(90_000, `1`)},
		{"not", `{"not": {"items": {"enum": ` + repeated(4000, objects) + `}}}`, ``, constant(90_000, `{"k":4001}`)},
		{"if", `{"if": {"items": {"enum": ` + repeated(4000, objects) + `}}}`, ``, constant(90_000, `{"k":4001}`)},
		{"a format that compiles", `{"format": "regex"}`, ``, `"` + strings.Repeat("x{1000}", 50_000) + `"`},
	}
}

// nested returns definitions of lists in lists whose items are unique, each also referenced indirectly.
func nested(levels int) (defs string) {
	for i := range levels {
		defs += fmt.Sprintf(`"l%d": {"uniqueItems": true, "items": {"allOf": [{"$ref": "#/$defs/l%d"}, {"$ref": "#/$defs/l%d"}]}}, `, i, i+1, i+1)
	}
	return defs + fmt.Sprintf(`"l%d": {}`, levels)
}

// TestStallsAreRefused: the validator cannot be interrupted, so a validation that would take minutes is refused before it
// starts.
func TestStallsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range stalls() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, `{"type": "object", "additionalProperties": false, "required": ["a"], "properties": {"a": `+c.schema+`}, "$defs": {`+c.defs+`}}`)
			require.Equal(t, []typeschema.Problem{typeschema.TooCostly}, s.Check(object(t, `{"a": `+c.value+`}`), nil))
		})
	}
}

// TestLargeSpecsAreAccepted: specs that people write are far below the limit.
func TestLargeSpecsAreAccepted(t *testing.T) {
	t.Parallel()
	s := parse(t, properties(`"rules": {"type": "array", "default": [], "uniqueItems": true, "items": {
		"type": "object", "additionalProperties": false, "required": ["host", "port", "protocol"], "properties": {
			"host": {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"},
			"port": {"type": "integer", "minimum": 1, "maximum": 65535}, "protocol": {"enum": ["TCP", "UDP", "SCTP"]}}}},
		"hosts": {"type": "array", "default": [], "items": {"type": "string", "format": "hostname", "enum": `+repeated(300, func(i int) string { return fmt.Sprintf(`"h-%d"`, i) })+`}}`))
	spec := object(t, `{"rules": `+repeated(1000, func(i int) string {
		return fmt.Sprintf(`{"host": "service-%d.example.com", "port": 443, "protocol": "TCP"}`, i)
	})+`, "hosts": `+repeated(5000, func(i int) string { return fmt.Sprintf(`"h-%d"`, i%300) })+`}`)
	require.Empty(t, s.Check(spec, nil))
}

// TestWorkEnds: all validations of a change end with it, and share one limit.
func TestWorkEnds(t *testing.T) {
	t.Parallel()
	s := parse(t, properties(`"a": {"type": "array", "default": [], "items": {"type": "string"}}`))
	spec := object(t, `{"a": `+constant(100_000, `"x"`)+`}`)

	ctx, cancel := context.WithCancelCause(t.Context())
	work := typeschema.NewWork(ctx)
	require.Empty(t, s.Check(spec, work))
	require.NoError(t, work.Err())
	gone := errors.New("the client is gone")
	cancel(gone)
	require.Empty(t, s.Check(spec, work))
	require.ErrorIs(t, work.Err(), gone)

	costly := parse(t, properties(`"a": {"type": "array", "default": [], "items": {"enum": `+constant(100, `[1]`)+`}}`))
	spec = object(t, `{"a": `+constant(20_000, `[1]`)+`}`)
	work = typeschema.NewWork(t.Context())
	checks := 0
	for ; work.Err() == nil; checks++ {
		costly.Check(spec, work)
		require.Less(t, checks, 100)
	}
	require.ErrorIs(t, work.Err(), typeschema.ErrTooMuchWork)
	require.Greater(t, checks, 10)
}

// TestSlowSchemas: a type is read by every process when it starts.
func TestSlowSchemas(t *testing.T) {
	t.Parallel()
	var patterns []string
	for i := range 100 {
		patterns = append(patterns, fmt.Sprintf(`"p%d": {"type": "string", "default": "", "pattern": "x{1000}|%d"}`, i, i))
	}
	require.Len(t, typeschema.CheckPatterns(decode(t, properties(strings.Join(patterns, ",")))), 1)
	require.Empty(t, typeschema.CheckPatterns(decode(t, quota)))

	var defaults []string
	for i := range 100 {
		defaults = append(defaults, fmt.Sprintf(`"d%d": {"type": "array", "items": {"enum": %s}, "default": %s}`, i, repeated(60, func(i int) string { return fmt.Sprint(i) }), constant(100, "59")))
	}
	require.Len(t, parse(t, properties(strings.Join(defaults, ","))).Costly(), 1)
	require.Empty(t, parse(t, quota).Costly())
}

// TestLongTextsAreNotFilledIn: defaults would expand a spec of 300 KiB to gigabytes.
func TestLongTextsAreNotFilledIn(t *testing.T) {
	t.Parallel()
	s := parse(t, properties(`"a": {"type": "array", "default": [], "items": {"type": "object", "additionalProperties": false,
		"properties": {"b": {"type": "string", "default": "`+strings.Repeat("x", 50_000)+`"}}}}`))
	require.False(t, s.Complete(object(t, `{"a": `+constant(50_000, "{}")+`}`)))
	require.True(t, s.Complete(object(t, `{"a": `+constant(10, "{}")+`}`)))
}
