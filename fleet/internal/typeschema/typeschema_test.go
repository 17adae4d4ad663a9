package typeschema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/typeschema"
)

// decode parses JSON as the service does.
func decode(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), text)
	return v
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	v, ok := decode(t, text).(map[string]any)
	require.True(t, ok, text)
	return v
}

func parse(t testing.TB, text string) *typeschema.Schema {
	t.Helper()
	s, problems := typeschema.Parse(decode(t, text), len(text))
	require.Empty(t, problems, text)
	return s
}

// properties returns a schema with these properties, which are all required unless they have a default.
func properties(text string) string {
	return `{"type": "object", "additionalProperties": false, "properties": {` + text + `}}`
}

const quota = `{
	"type": "object", "additionalProperties": false, "required": ["namespace"],
	"properties": {
		"namespace": {"type": "string", "pattern": "^[a-z0-9-]+$"},
		"cpu": {"type": ["string", "integer"], "default": "4"},
		"limits": {"type": "object", "additionalProperties": false, "default": {},
			"properties": {"memory": {"type": "string", "default": "8Gi"}, "pods": {"$ref": "#/$defs/count", "default": 10}}},
		"rules": {"type": "array", "default": [], "items": {"$ref": "#/$defs/rule"}}
	},
	"$defs": {
		"count": {"type": "integer", "minimum": 0},
		"rule": {"type": "object", "additionalProperties": false, "required": ["port"],
			"properties": {"port": {"type": "integer", "maximum": 65535}, "protocol": {"enum": ["TCP", "UDP"], "default": "TCP"}}}
	}
}`

func TestRefusedSchemas(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { // each definition names the one before it twice
		defs := []string{`"d0": {"type": "string"}`}
		for i := 1; i <= n; i++ {
			defs = append(defs, fmt.Sprintf(`"d%d": {"anyOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, i, i-1, i-1))
		}
		return fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["a"], "properties": {"a": {"$ref": "#/$defs/d%d"}}, "$defs": {%s}}`,
			n, strings.Join(defs, ","))
	}
	for name, c := range map[string]struct {
		schema string
		want   []string // pointer, then words of the message
	}{
		"not an object":             {`[]`, []string{"", "JSON Schema of type object"}},
		"a boolean":                 {`true`, []string{"", "JSON Schema of type object"}},
		"of another type":           {`{"type": "array", "additionalProperties": false, "properties": {}}`, []string{"/type", "must be"}},
		"open":                      {`{"type": "object", "properties": {}}`, []string{"/additionalProperties", "must be false"}},
		"no properties":             {`{"type": "object", "additionalProperties": false}`, []string{"/properties", "required"}},
		"patterns at the top":       {`{"type": "object", "additionalProperties": false, "properties": {}, "patternProperties": {"^x": {}}}`, []string{"/patternProperties", "not taken"}},
		"neither required":          {properties(`"a": {"type": "string"}`), []string{"/properties/a", "required or have a default"}},
		"reserved":                  {properties(`"cluster": {"default": ""}`), []string{"/properties/cluster", "every input has"}},
		"set by Flux Operator":      {properties(`"provider": {"default": ""}`), []string{"/properties/provider", "every input has"}},
		"no name for a template":    {properties(`"a-b": {"default": ""}`), []string{"/properties/a-b", "inputs.NAME"}},
		"a digit first":             {properties(`"1a": {"default": ""}`), []string{"/properties/1a", "inputs.NAME"}},
		"remote":                    {properties(`"a": {"default": "", "$ref": "https://example.com/x"}`), []string{"/properties/a/$ref", "nothing outside"}},
		"a file":                    {properties(`"a": {"default": "", "$ref": "file:///etc/passwd"}`), []string{"/properties/a/$ref", "nothing outside"}},
		"relative":                  {properties(`"a": {"default": "", "$ref": "other.json#/a"}`), []string{"/properties/a/$ref", "nothing outside"}},
		"dangling":                  {properties(`"a": {"default": "", "$ref": "#/$defs/none"}`), []string{"/properties/a/$ref", "leads to no schema"}},
		"recursive":                 {properties(`"a": {"default": "", "$ref": "#"}`), []string{"/properties/a/$ref", "back to itself"}},
		"recursive by a way round":  {`{"type": "object", "additionalProperties": false, "properties": {"a": {"default": "", "$ref": "#/$defs/x"}}, "$defs": {"x": {"items": {"$ref": "#/$defs/y"}}, "y": {"items": {"$ref": "#/$defs/x"}}}}`, []string{"/$defs/y/items/$ref", "back to itself"}},
		"recursive to its parent":   {properties(`"a": {"default": [], "items": {"$ref": "#/properties/a"}}`), []string{"/properties/a/items/$ref", "back to itself"}},
		"an identity":               {properties(`"a": {"default": "", "$id": "https://example.com/x"}`), []string{"/properties/a/$id", "not taken"}},
		"dynamic":                   {properties(`"a": {"default": "", "$dynamicRef": "#x"}`), []string{"/properties/a/$dynamicRef", "not taken"}},
		"another draft":             {`{"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "additionalProperties": false, "properties": {}}`, []string{"/$schema", "2020-12"}},
		"explosive":                 {deep(25), []string{"", "subschemas"}},
		"no regular expression":     {properties(`"a": {"type": "string", "default": "", "pattern": "(a"}`), []string{"/properties/a/pattern", "regex"}},
		"a look-ahead":              {properties(`"a": {"type": "string", "default": "", "pattern": "^(?=.*a)"}`), []string{"/properties/a/pattern", "regex"}},
		"an expression too large":   {properties(`"a": {"type": "string", "default": "", "pattern": "((a{1,900}){1,900}){1,900}"}`), []string{"/properties/a/pattern", "regex"}},
		"wrong type of a keyword":   {properties(`"a": {"type": "strin", "default": ""}`), []string{"/properties/a/type", ""}},
		"a default of a wrong type": {properties(`"a": {"type": "integer", "default": "1"}`), []string{"/properties/a/default", "the default is not valid"}},
		"a default that lacks":      {properties(`"a": {"default": {}, "required": ["b"], "properties": {"b": {}}}`), []string{"/properties/a/default/b", "is required"}},
		"too large":                 {properties(`"a": {"default": "` + strings.Repeat("x", typeschema.MaxBytes) + `"}`), []string{"", "at most 1048576"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, problems := typeschema.Parse(decode(t, c.schema), len(c.schema))
			require.Nil(t, s)
			require.NotEmpty(t, problems)
			require.Equal(t, c.want[0], problems[0].Pointer, "%v", problems)
			require.Contains(t, problems[0].Detail, c.want[1])
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, problems := typeschema.Parse(decode(t, `{"type": "array", "properties": {"id": {}, "a b": {"$ref": "x"}}}`), 1)
	at := make([]string, len(problems))
	for i, p := range problems {
		at[i] = p.Pointer
	}
	require.ElementsMatch(t, []string{
		"/type", "/additionalProperties", "/properties/id", "/properties/id", "/properties/a b", "/properties/a b", "/properties/a b/$ref",
	}, at)
}

// Names have a place too: the library reuses the memory that holds the place.
func TestPlaceOfAName(t *testing.T) {
	t.Parallel()
	s := parse(t, properties(`"a": {"type": "object", "default": {}, "propertyNames": {"pattern": "^[a-z]+$"}},
		"deep": {"type": "object", "default": {}, "properties": {"labels": {"type": "object", "default": {}, "propertyNames": {"not": {"const": "taken"}}}}},
		"y": {"type": "string", "default": "", "allOf": [{"not": {"const": "no", "description": "yes is what there is"}}]},
		"z": {"type": "string", "default": "", "not": {"const": "no"}}`))
	for range 20 { // fields are visited in random order
		require.ElementsMatch(t, []typeschema.Problem{
			{Pointer: "/a/B", Detail: `"B" is not a name that a field may have there (propertyNames)`},
			{Pointer: "/deep/labels/taken", Detail: `"taken" is not a name that a field may have there (propertyNames)`},
			{Pointer: "/y", Detail: "is not accepted: yes is what there is"},
			{Pointer: "/z", Detail: "is a value that is not taken (not)"},
		}, s.Check(object(t, `{"a": {"B": 1}, "deep": {"labels": {"taken": {"x": 1}, "free": 1}}, "y": "no", "z": "no"}`), nil))
	}
	require.Equal(t, "", s.Check(object(t, `{"a": {"B": 1}, "deep": {"B": 1, "labels": {}}, "z": ""}`), nil)[0].Pointer)
}

// The example gives the reason why it refuses a kind, and the alternative.
func TestObjectPatchOfADeployment(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../examples/resource-types/object-patches/type.yaml")
	require.NoError(t, err)
	var example struct{ Schema map[string]any }
	require.NoError(t, yaml.Unmarshal(text, &example))
	schema, err := json.Marshal(example.Schema)
	require.NoError(t, err)
	s := parse(t, string(schema))
	check := func(kind string) []typeschema.Problem {
		return s.Check(s.Fill(object(t, `{"manifest": {"apiVersion": "v1", "kind": "`+kind+`", "metadata": {"name": "a"}}}`)), nil)
	}
	require.Empty(t, check("ConfigMap"))
	require.Equal(t, []typeschema.Problem{{Pointer: "/manifest/kind", Detail: "is not accepted: Flux cannot apply a part of such an object; set the value of its Helm chart or the variable of its Kustomization instead"}}, check("Deployment"))
	require.Contains(t, check("Secret")[0].Detail, "install it with a component instead")
}

func TestFillAndCheck(t *testing.T) {
	t.Parallel()
	s := parse(t, quota)
	require.Equal(t, []string{"cpu", "limits", "namespace", "rules"}, s.Properties())
	spec := s.Fill(object(t, `{"namespace": "a", "rules": [{"port": 1}, {"port": 2, "protocol": "UDP"}]}`))
	require.Empty(t, s.Check(spec, nil))
	require.Equal(t, object(t, `{"namespace": "a", "cpu": "4", "limits": {"memory": "8Gi", "pods": 10},
		"rules": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "UDP"}]}`), spec)

	problems := s.Check(s.Fill(object(t, `{"cpu": true, "size": 1, "limits": {"pods": -1}, "rules": [{"port": 70000}, {"protocol": "ICMP"}]}`)), nil)
	at := make([]string, len(problems))
	for i, p := range problems {
		at[i] = p.Pointer
	}
	require.Equal(t, []string{"/cpu", "/limits/pods", "/namespace", "/rules/0/port", "/rules/1/port", "/rules/1/protocol", "/size"}, at)
}

// Defaults are copied into a definition: a later change of the definition does not change the type.
func TestDefaultsAreCopied(t *testing.T) {
	t.Parallel()
	s := parse(t, quota)
	first := s.Fill(object(t, `{"namespace": "a"}`))
	first["limits"].(map[string]any)["memory"] = "1Gi"
	require.Equal(t, "8Gi", s.Fill(object(t, `{"namespace": "b"}`))["limits"].(map[string]any)["memory"])
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	s := parse(t, quota)
	spec := s.Fill(object(t, `{"namespace": "a"}`))
	require.Empty(t, s.CheckOverrides(spec, object(t, `{"cpu": 8, "limits": {"pods": 3}}`), []string{"cpu", "limits"}, nil))
	require.Equal(t, object(t, `{"namespace": "a", "cpu": "4", "limits": {"memory": "8Gi", "pods": 3}, "rules": []}`),
		s.Overlaid(spec, object(t, `{"limits": {"pods": 3}}`)))
	require.Equal(t, object(t, `{"namespace": "a", "cpu": "4", "limits": {"memory": "8Gi", "pods": 10}, "rules": []}`), spec, "the definition stays")

	problems := s.CheckOverrides(spec, object(t, `{"namespace": "b"}`), []string{"cpu"}, nil)
	require.Len(t, problems, 1)
	require.Equal(t, "/namespace", problems[0].Pointer)
	require.Contains(t, problems[0].Detail, "overridable")
	problems = s.CheckOverrides(spec, object(t, `{"cpu": null}`), []string{"cpu"}, nil)
	require.Len(t, problems, 1)
	require.Equal(t, "/cpu", problems[0].Pointer)

	require.Empty(t, s.CheckOverridable([]string{"cpu", "limits"}))
	problems = s.CheckOverridable([]string{"cpu", "memory", "cpu"})
	require.Len(t, problems, 2)
	require.Equal(t, "/1", problems[0].Pointer)
	require.Equal(t, "/2", problems[1].Pointer)
}

// FuzzParse: no schema and no spec causes a panic or a hang, and adding defaults is idempotent.
func FuzzParse(f *testing.F) {
	for _, schema := range []string{quota, properties(`"a": {"default": null}`), properties(`"a": {"allOf": [{"properties": {"b": {"default": 1}}}], "default": {}}`)} {
		f.Add([]byte(schema), []byte(`{"namespace": "a", "rules": [{"port": 1}], "limits": {}}`))
	}
	f.Fuzz(func(t *testing.T, schema, spec []byte) {
		var parsed, value any
		for text, into := range map[string]*any{string(schema): &parsed, string(spec): &value} {
			d := json.NewDecoder(bytes.NewReader([]byte(text)))
			d.UseNumber()
			if d.Decode(into) != nil {
				return
			}
		}
		s, problems := typeschema.Parse(parsed, len(schema))
		if len(problems) > 0 {
			require.Nil(t, s)
			return
		}
		object, ok := value.(map[string]any)
		if !ok {
			return
		}
		once := s.Fill(object)
		first, err := json.Marshal(once)
		require.NoError(t, err)
		again, err := json.Marshal(s.Fill(once))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
		if len(s.Check(once, nil)) == 0 {
			require.Empty(t, s.CheckOverrides(once, map[string]any{}, nil, nil))
		}
	})
}
