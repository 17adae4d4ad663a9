package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// exampleTypes returns the documented resource types: those of examples/ and of docs/resource-types.md.
func exampleTypes(t *testing.T) map[string][]byte {
	t.Helper()
	types := map[string][]byte{}
	for _, name := range []string{"network-policies", "resource-quotas", "external-secrets", "object-patches"} {
		text, err := os.ReadFile(filepath.Join("..", "examples", "resource-types", name, "type.yaml"))
		require.NoError(t, err)
		types[name] = text
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "resource-types.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "cat >type.yaml <<'END'\n")
	require.True(t, found)
	documented, _, found := strings.Cut(rest, "\nEND\n")
	require.True(t, found)
	types["documented"] = []byte(documented)
	for name, text := range types {
		var obj map[string]any
		require.NoError(t, yaml.Unmarshal(text, &obj), name)
		delete(obj, "kind")
		types[name], err = json.Marshal(obj)
		require.NoError(t, err)
	}
	return types
}

// typeOf returns a resource type with one property, a list of texts, and a template.
func typeOf(id, template string) string {
	body, err := json.Marshal(map[string]any{"id": id, "template": template, "schema": map[string]any{
		"type": "object", "additionalProperties": false, "properties": map[string]any{
			"list": map[string]any{"type": "array", "default": []any{}, "items": map[string]any{"type": "string"}},
			"name": map[string]any{"type": "string", "default": "x"},
		},
	}})
	if err != nil {
		panic(err)
	}
	return string(body)
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: << inputs.name | quote >>, namespace: ns}\n"

func TestExampleTypesAreTaken(t *testing.T) {
	t.Parallel()
	for name, body := range exampleTypes(t) {
		w := newWorld(t)
		res := w.must(create(KindResourceType, string(body)))
		require.Empty(t, res.Warnings, name)
		doc := w.state.All(KindResourceType)[0]
		require.GreaterOrEqual(t, len(doc.value.(*resourceType).schema.Samples(nil, nil)), 2, "%s: it is tried with more than nothing", name)
	}
}

// TestTemplatesAreTried: a template that would stop a cluster's ResourceSet, or that breaks on an empty list, is refused
// when it is written.
func TestTemplatesAreTried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ template, want string }{
		"no template":            {"<< if >>", "cannot be parsed"},
		"an unknown function":    {"<< nothing >>", "cannot be parsed"},
		"a field of no schema":   {configMap + "data: {a: << inputs.missing | quote >>}", "missing"},
		"a field of an item":     {configMap + "data: {<< range $x := inputs.list >>a: << $x.port >><< end >>}", "port"},
		"no YAML":                {configMap + "data: [", "no YAML"},
		"no object":              {"- a", "no YAML of an object"},
		"no name":                {"apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: ns}", "metadata.name"},
		"a null item":            {configMap + "data:\n  - << range $x := inputs.list >><< $x >><< end >>\n", "null in a list"},
		"null in an item":        {configMap + "spec:\n  ingress:\n    - from:\n<< range $x := inputs.list >>      - a: << $x | quote >>\n<< end >>", "ConfigMap ns/x: .spec.ingress[0].from"},
		"it never ends":          {configMap + "<< range 1000000000 >><< end >>", "more work than is allowed"},
		"a receipt of nothing":   {configMap + `<< template "receipt" (dict "list" "things") >>`, "objects"},
		"of the nested set":      {"apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: x, namespace: flux-system}\nspec:\n  resourcesTemplate: << \"<< nothing >>\" | quote >>", "nothing"},
		"a set's name too large": {"apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: " + strings.Repeat("x", 60) + ", namespace: flux-system}\nspec: {resources: []}", "at most 59"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.refused(CodeInvalid, create(KindResourceType, typeOf("things", c.template)))
			require.Equal(t, CodeInvalid, e.Code)
			require.Equal(t, "/template", e.Problems[0].Pointer)
			require.Contains(t, e.Problems[0].Detail, c.want)
			// A type must not become like that either.
			w.must(create(KindResourceType, typeOf("things", configMap)))
			body, err := json.Marshal(map[string]any{"template": c.template})
			require.NoError(t, err)
			e = w.refused(CodeInvalid, patch(KindResourceType, "things", string(body)))
			require.Equal(t, "/template", e.Problems[0].Pointer)
		})
	}
}

// TestOrderOfMapsIsTried: Flux Operator returns the keys and values of maps in any order, so objects must not depend on it.
func TestOrderOfMapsIsTried(t *testing.T) {
	t.Parallel()
	typeBody := func(template string) string {
		body, err := json.Marshal(map[string]any{"id": "things", "template": template, "schema": map[string]any{
			"type": "object", "additionalProperties": false, "properties": map[string]any{
				"m": map[string]any{"type": "object", "default": map[string]any{}, "additionalProperties": map[string]any{"type": "string"}},
			},
		}})
		require.NoError(t, err)
		return string(body)
	}
	definition := create(ResourceKind("things"), `{"id":"a","spec":{"m":{"x":"1","y":"2"}}}`)
	named := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'c-<< VALUE | join \"-\" >>', namespace: ns}\n"
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: ns}\ndata: {a: '<< VALUE | join \"-\" >>'}\n"
	for name, c := range map[string]struct {
		template, value string
		refused, warned bool
	}{
		"names of values":       {named, "values inputs.m", true, false},
		"names of keys":         {named, "keys inputs.m", true, false},
		"names of sorted keys":  {named, "keys inputs.m | sortAlpha", false, false},
		"contents of values":    {held, "values inputs.m", false, true},
		"contents of a range":   {held, `list (dict "values" inputs.m)`, false, false},
		"contents, sorted keys": {held, "keys inputs.m | sortAlpha", false, false},
		"order of objects":      {"<<- range keys inputs.m >>\n---\n" + strings.Replace(named, "VALUE", "list .", 1) + "<< end >>", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(create(KindResourceType, typeBody(strings.Replace(c.template, "VALUE", c.value, 1))))
			if c.refused {
				e := w.refused(CodeInvalid, definition)
				require.Equal(t, "/spec", e.Problems[0].Pointer)
				require.Contains(t, e.Problems[0].Detail, "sortAlpha")
				return
			}
			warnings := strings.Join(w.must(definition).Warnings, "\n")
			require.Equal(t, c.warned, strings.Contains(warnings, "in another order of maps"), warnings)
		})
	}
}

// TestTemplateReadsTheCluster: only a cluster knows its settings and its environment, so a template that needs them is not refused.
func TestTemplateReadsTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, template := range map[string]string{
		"settings":    configMap + "data: {a: << inputs.settings.zone | quote >>}",
		"environment": configMap + `<< $sizes := dict "prod" (dict "n" 3) >>data: {a: << (index $sizes inputs.cluster.environment).n | quote >>}`,
	} {
		w.must(create(KindResourceType, typeOf(id, template)))
		definition := create(ResourceKind(id), `{"id":"one"}`)
		require.Contains(t, strings.Join(w.plan(definition).Warnings, "\n"), "fails with placeholders")
		w.must(definition)
	}
	e := w.refused(CodeInvalid, create(KindResourceType, typeOf("endless", configMap+"# settings\n<< range 1000000000 >><< end >>")))
	require.Contains(t, e.Problems[0].Detail, "more work than is allowed")
}

// TestDefinitionsAreTried: definitions are checked with the template, when they are written and when the type changes, since
// the examples of a schema may not cover them.
func TestDefinitionsAreTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(create(KindResourceType, typeOf("things", configMap+`<< if eq inputs.name "bad" >><< fail "not this name" >><< end >>`)))
	kind := ResourceKind("things")
	w.must(create(kind, `{"id":"a"}`))
	e := w.refused(CodeInvalid, create(kind, `{"id":"b","spec":{"name":"bad"}}`))
	require.Equal(t, "/spec", e.Problems[0].Pointer)
	require.Contains(t, e.Problems[0].Detail, "not this name")
	body, err := json.Marshal(map[string]any{"template": configMap + `<< if eq inputs.id "a" >><< fail "not this id" >><< end >>`})
	require.NoError(t, err)
	e = w.refused(CodeInvalid, patch(KindResourceType, "things", string(body)))
	require.Contains(t, e.Detail, `"a": spec: the template of the type does not fit it`)
}

// TestIDsOfObjectPatches: the rendered ResourceSet has the name of the definition.
func TestIDsOfObjectPatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(create(KindResourceType, string(exampleTypes(t)["object-patches"])))
	definition := func(n int) string {
		return `{"id":"` + strings.Repeat("x", n) + `","spec":{"manifest":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}}}`
	}
	w.must(create(ResourceKind("object-patches"), definition(52)))
	e := w.refused(CodeInvalid, create(ResourceKind("object-patches"), definition(53)))
	require.Contains(t, e.Detail, "whose name has 60 characters; at most 59 are possible")
}

// TestObjectsOfADefinition: including those of nested ResourceSets, with defaults and with overrides of a cluster.
func TestObjectsOfADefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(create(KindResourceType, string(exampleTypes(t)["object-patches"])))
	kind := ResourceKind("object-patches")
	w.must(create(kind, `{"id":"a","spec":{"manifest":{"apiVersion":"apps.example.com/v1","kind":"Thing","metadata":{"name":"t","namespace":"n"}}}}`))
	doc, _ := w.state.Get(kind, "a")
	r := doc.value.(*resource)
	want := []rendering.Object{{Group: rendering.FluxGroup, Kind: rendering.KindResourceSet, Namespace: rendering.FluxNamespace, Name: "object-a"}, {Group: "apps.example.com", Kind: "Thing", Namespace: "n", Name: "t"}}
	require.Equal(t, want, r.rendered(nil, work{}).Objects)
	require.Equal(t, want, r.rendered(map[string]json.RawMessage{"state": json.RawMessage(`"absent"`)}, work{}).Objects)
	require.Equal(t, want, r.renderOn(api.FluxCluster{Name: "k"}, nil).Objects)
}

// TestPropertySettings: a property of this name has precedence over the settings of the cluster, as in Flux Operator.
func TestPropertySettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, string(KindResourceType), `{"id":"a","template":"`+strings.ReplaceAll(strings.ReplaceAll(configMap, "inputs.name", "inputs.settings.name"), "\n", `\n`)+`","schema":{"type":"object",
		"additionalProperties":false,"required":["settings"],"properties":{"settings":{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1}}}}}}`)
	w.must(create(ResourceKind("a"), `{"id":"r","spec":{"settings":{"name":"x"}}}`))
	doc, _ := w.state.Get(ResourceKind("a"), "r")
	made := doc.value.(*resource).rendered(nil, work{})
	require.NoError(t, made.Err)
	require.Equal(t, []rendering.Object{{Kind: "ConfigMap", Namespace: "ns", Name: "x"}}, made.Objects)
}

// TestTemplatesThatStall: a template cannot exhaust a processor or the memory either.
func TestTemplatesThatStall(t *testing.T) {
	t.Parallel()
	set := func(resource string) string {
		return "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: x, namespace: ns}\nspec:\n  resourcesTemplate: |\n    " + resource
	}
	for name, c := range map[string]struct{ template, want string }{
		"aliases of a long text": {
			configMap + "data:\n  a: &a << repeat 100000 \"x\" >>\n  b: [<< repeat 100000 \"*a,\" >>]\n",
			"with its aliases resolved",
		},
		"an alias of itself": {configMap + "data: &a [*a]\n", "with its aliases resolved"},
		"nested templates": {
			"<< range until 3000 >>---\n" + set("<< \"<< range until 90000 >> << end >>\" >>") + "\n<< end >>",
			"the template does more work than is allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := resourceType{ResourceType: api.ResourceType{ID: "stall", Template: c.template}}
			rt.compile()
			require.NoError(t, rt.uncompiled)
			made := rt.render("x", map[string]any{"name": "x"}, placeholderCluster, Receipt{})
			require.ErrorContains(t, made.Err, c.want)
		})
	}
}

// TestRenderingAgainIsWork: rendering with more overrides than are cached is executed each time, and charged to the change
// that needs it.
func TestRenderingAgainIsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(create(KindResourceType, typeWith(t, "things", configMap, map[string]any{"overridable": []string{"name"}})))
	w.must(create(ResourceKind("things"), `{"id":"a"}`))
	r := w.state.docs[ResourceKind("things")]["a"].value.(*resource)
	spent := w.state.newWork(t.Context())
	variant := func(n int) map[string]json.RawMessage {
		return map[string]json.RawMessage{"name": json.RawMessage(fmt.Sprintf(`"n%d"`, n))}
	}
	for n := range maxRenderings - 1 { // one has no overrides
		r.rendered(variant(n), spent)
	}
	r.rendered(nil, spent)
	spent.templates.Spend("things", spent.templates.Left())
	r.rendered(variant(0), spent)
	require.NoError(t, spent.stopped())
	r.rendered(variant(maxRenderings), spent)
	var e *Error
	require.ErrorAs(t, spent.stopped(), &e)
	require.Equal(t, CodeLimitExceeded, e.Code)
}
