package openapi_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/openapi"
)

func setup(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.YAML)
	require.NoError(t, err)
	return doc
}

// operation is one operation of the contract with what it inherits.
type operation struct {
	*openapi3.Operation
	method, path string
	security     openapi3.SecurityRequirements
}

func operations(doc *openapi3.T) []operation {
	var out []operation
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			security := doc.Security
			if op.Security != nil {
				security = *op.Security
			}
			out = append(out, operation{op, method, path, security})
		}
	}
	return out
}

func (o operation) name() string { return o.method + " " + o.path }

func (o operation) has(status string) bool { return o.Responses.Value(status) != nil }

func (o operation) takes(in, name string) bool {
	return slices.ContainsFunc(o.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.In == in && p.Value.Name == name })
}

func (o operation) write() bool {
	return o.method != "GET" && o.OperationID != checkAccess && o.OperationID != testWebhook && o.OperationID != reconcile && !slices.Contains(observing, o.OperationID) && slices.ContainsFunc(o.security, func(r openapi3.SecurityRequirement) bool {
		return r["writeToken"] != nil || r["adminToken"] != nil
	})
}

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	doc := setup(t)
	require.NoError(t, doc.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaDefaultsValidation(),
		openapi3.EnableSchemaFormatValidation()))
	require.Equal(t, "3.0.3", doc.OpenAPI)
}

// Whoever reads the contract is not led to parts that nothing uses.
func TestEveryComponentIsUsed(t *testing.T) {
	t.Parallel()
	doc := setup(t)
	text := string(openapi.YAML)
	for kind, names := range map[string][]string{
		"schemas": slices.Collect(maps.Keys(doc.Components.Schemas)), "parameters": slices.Collect(maps.Keys(doc.Components.Parameters)),
		"responses": slices.Collect(maps.Keys(doc.Components.Responses)), "headers": slices.Collect(maps.Keys(doc.Components.Headers)),
		"examples": slices.Collect(maps.Keys(doc.Components.Examples)), "requestBodies": slices.Collect(maps.Keys(doc.Components.RequestBodies)),
	} {
		for _, name := range names {
			ref := regexp.MustCompile(`#/components/` + kind + `/` + regexp.QuoteMeta(name) + `([^A-Za-z0-9_-]|$)`)
			require.True(t, ref.MatchString(text), "%s %s is used nowhere", kind, name)
		}
	}
	used := map[string]bool{}
	for _, op := range operations(doc) {
		for _, tag := range op.Tags {
			used[tag] = true
		}
		for _, r := range op.security {
			for scheme := range r {
				require.Contains(t, doc.Components.SecuritySchemes, scheme, op.name())
				used[scheme] = true
			}
		}
	}
	for scheme := range doc.Components.SecuritySchemes {
		require.True(t, used[scheme], "security scheme %s is used nowhere", scheme)
	}
	seen := map[string]bool{}
	for _, tag := range doc.Tags {
		require.NotEmpty(t, tag.Description, tag.Name)
		require.True(t, used[tag.Name], "tag %s is used nowhere", tag.Name)
		require.False(t, seen[tag.Name], "tag %s is listed twice", tag.Name)
		seen[tag.Name] = true
	}
}

// A router, and a reader, can tell from a path alone which operation it means.
func TestPathsAreNotAmbiguous(t *testing.T) {
	t.Parallel()
	paths := slices.Sorted(maps.Keys(setup(t).Paths.Map()))
	for i, a := range paths {
		require.NotContains(t, a, "?")
		require.False(t, len(a) > 1 && strings.HasSuffix(a, "/"), a)
		for _, b := range paths[i+1:] {
			require.False(t, ambiguous(strings.Split(a, "/"), strings.Split(b, "/")), "%s and %s can be the same path", a, b)
		}
	}
}

// ambiguous tells whether one path can fit both templates, and neither is the more concrete one.
func ambiguous(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	moreA, moreB := false, false
	for i := range a {
		variableA, variableB := strings.HasPrefix(a[i], "{"), strings.HasPrefix(b[i], "{")
		switch {
		case !variableA && !variableB && a[i] != b[i]:
			return false
		case variableA && !variableB:
			moreB = true
		case variableB && !variableA:
			moreA = true
		}
	}
	return moreA == moreB
}

func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	doc := setup(t)
	ids := map[string]bool{}
	for _, op := range operations(doc) {
		require.Regexp(t, `^[A-Za-z][A-Za-z0-9]+$`, op.OperationID, op.name())
		require.False(t, ids[op.OperationID], "%s is used twice", op.OperationID)
		ids[op.OperationID] = true
		require.NotEmpty(t, op.Summary, op.name())
		require.Len(t, op.Tags, 1, op.name())
		require.NotNil(t, doc.Tags.Get(op.Tags[0]), op.name())
		if op.RequestBody != nil {
			requireExamples(t, op.name()+" request", op.RequestBody.Value.Content)
		}
		for status, res := range op.Responses.Map() {
			require.NotEmpty(t, *res.Value.Description, "%s %s", op.name(), status)
			if status != "304" && status != "202" {
				require.NotEmpty(t, res.Value.Content, "%s %s", op.name(), status)
			}
			requireExamples(t, op.name()+" "+status, res.Value.Content)
		}
		for _, p := range op.Parameters {
			require.NotEmpty(t, p.Value.Description, "%s %s", op.name(), p.Value.Name)
			require.NotNil(t, p.Value.Example, "%s %s", op.name(), p.Value.Name)
		}
	}
}

func requireExamples(t *testing.T, where string, content openapi3.Content) {
	t.Helper()
	for media, c := range content {
		require.NotNil(t, c.Schema, "%s %s", where, media)
		require.True(t, c.Example != nil || len(c.Examples) > 0, "%s %s has no example", where, media)
	}
}

// Operations with a token that change nothing of the fleet, and read nothing of it.
const (
	sendEvent     = "SendEvent"
	createSession = "CreateSession"
	testWebhook   = "TestWebhook"     // changes nothing
	reconcile     = "ReconcileSource" // the source makes the change
)

// observing are operations that record observations, and change no document.
var observing = []string{"PushComponentVersion", "RefreshComponentVersions"}

// checkAccess is for admins, but changes nothing.
const checkAccess = "CheckAccess"

// endSessions is a POST that creates no document.
const endSessions = "EndSessions"

// Every operation lists every error that its kind of operation can give.
func TestEveryErrorIsDescribed(t *testing.T) {
	t.Parallel()
	for _, op := range operations(setup(t)) {
		var want []string
		service := len(op.security) == 0
		_, id := op.pathParameters()
		switch {
		case service && op.path == "/ready":
			want = []string{"200", "503"}
		case service:
			want = []string{"200", "500"}
		case op.OperationID == sendEvent:
			want = []string{"202", "400", "401", "403", "404", "413", "415", "422", "429", "500", "503"}
		case slices.Contains(observing, op.OperationID):
			want = []string{"202", "400", "401", "403", "404", "405", "409", "422", "429", "500", "503"}
		case op.OperationID == createSession:
			want = []string{"201", "400", "401", "403", "404", "429", "500", "503"}
		case op.write():
			want = []string{"200", "400", "401", "403", "404", "405", "409", "422", "429", "500", "503"}
			if op.RequestBody != nil {
				want = append(want, "413", "415")
			}
			if op.method == "POST" && !id && op.Tags[0] != "changes" && op.OperationID != endSessions {
				want = append(want, "201")
			}
			if id {
				want = append(want, "412")
			}
		default:
			want = []string{"200", "400", "401", "403", "429", "500", "503"}
			if op.Tags[0] == "flux" {
				want = append(want, "422")
			}
			if id || op.Tags[0] != "flux" { // in mode read-only everything but polls is 404
				want = append(want, "404")
			}
			if op.takes("header", "If-None-Match") {
				want = append(want, "304")
			}
		}
		for _, status := range want {
			require.True(t, op.has(status), "%s does not describe %s", op.name(), status)
		}
		for status, res := range op.Responses.Map() {
			if status >= "400" && op.path != "/ready" {
				require.NotNil(t, res.Value.Content["application/problem+json"], "%s %s", op.name(), status)
			}
		}
	}
}

// pathParameters returns the names in the path and whether one of them names a document; a type names a collection.
func (o operation) pathParameters() (names []string, some bool) {
	for part := range strings.SplitSeq(o.path, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{}"))
		}
	}
	return names, slices.ContainsFunc(names, func(name string) bool { return name != "type" })
}

func TestEveryOperationTakesWhatItsKindTakes(t *testing.T) {
	t.Parallel()
	for _, op := range operations(setup(t)) {
		names, id := op.pathParameters()
		for _, name := range names {
			require.True(t, op.takes("path", name), "%s: %s", op.name(), name)
		}
		if op.write() {
			require.True(t, op.takes("query", "dry_run"), op.name())
			require.True(t, op.takes("header", "X-Change-Reason"), op.name())
			require.True(t, op.takes("header", "X-Change-Author"), op.name())
			require.Equal(t, id && op.Tags[0] != "changes", op.takes("header", "If-Match"), op.name())
			require.NotNil(t, op.Responses.Value("200").Value.Headers["Warning"], op.name())
		}
		if op.method == "PATCH" {
			require.NotNil(t, op.RequestBody.Value.Content["application/merge-patch+json"], op.name())
			require.NotNil(t, op.RequestBody.Value.Content["application/json"], op.name())
		}
		if len(op.security) > 0 && op.OperationID != sendEvent && op.OperationID != createSession {
			success := "200"
			if slices.Contains(observing, op.OperationID) {
				success = "202"
			}
			require.NotNil(t, op.Responses.Value(success).Value.Headers["X-Fleet-Revision"], op.name())
			require.NotNil(t, op.Responses.Value("401").Value.Headers["WWW-Authenticate"], op.name())
		}
	}
}

// Every schema and every property has a description, of its own or of the one schema that it refers to.
func TestEverySchemaIsDescribed(t *testing.T) {
	t.Parallel()
	var describe func(where string, ref *openapi3.SchemaRef)
	describe = func(where string, ref *openapi3.SchemaRef) {
		schema := ref.Value
		one := len(schema.AllOf) == 1 && schema.AllOf[0].Value.Description != ""
		require.True(t, one || strings.TrimSpace(schema.Description) != "", "%s has no description", where)
		if ref.Ref != "" {
			return
		}
		for schema.Properties == nil {
			if schema.Items != nil && schema.Items.Ref == "" {
				schema = schema.Items.Value
			} else if more := schema.AdditionalProperties.Schema; more != nil && more.Ref == "" {
				schema = more.Value
			} else {
				return
			}
		}
		for name, p := range schema.Properties {
			describe(where+"."+name, p)
		}
	}
	for name, schema := range setup(t).Components.Schemas {
		describe(name, schema)
	}
}

// Generators for languages in which all constants of a package share their names can read the document.
func TestEnumNamesAreUnique(t *testing.T) {
	t.Parallel()
	users := map[string]string{}
	for name, schema := range setup(t).Components.Schemas {
		names := schema.Value.Enum
		if more, ok := schema.Value.Extensions["x-enum-varnames"].([]any); ok {
			require.Len(t, more, len(names), name)
			names = more
		}
		for _, constant := range names {
			key := strings.ToUpper(constant.(string))
			require.Empty(t, users[key], "%s and %s both name a constant %s: give one of them x-enum-varnames", users[key], name, key)
			users[key] = name
		}
	}
}

// Generators that read examples as they are written fail at an alias.
func TestExamplesHaveNoAliases(t *testing.T) {
	t.Parallel()
	_, examples, found := strings.Cut(string(openapi.YAML), "\n  examples:\n")
	require.True(t, found)
	require.NotRegexp(t, `[\[ ][&*][a-z]+[\] ]`, examples)
}

// What is stored has plain fields: nothing optional that is not marked so, nothing nullable.
func TestStoredSchemasArePlain(t *testing.T) {
	t.Parallel()
	doc := setup(t)
	optional := map[string][]string{
		"FluxPlatformComponent": {"images", "override_namespace", "values_json", "flux"},
		"FluxRoleBinding":       {"role", "namespace", "namespace_role", "labels", "annotations"},
	}
	for _, name := range []string{"Cluster", "PlatformComponent", "Namespace", "RoleBinding", "FluxPlatformComponent", "FluxNamespace", "FluxRoleBinding", "FluxClusterEntry"} {
		schema := doc.Components.Schemas[name].Value
		for field, p := range schema.Properties {
			require.False(t, p.Value.Nullable, "%s.%s", name, field)
			// A receipt is of the answer, and not of what it is made of. The others are newer than answers that must not change.
			if strings.HasPrefix(name, "Flux") && !slices.Contains(optional[name], field) && field != "receipt" {
				require.Contains(t, schema.Required, field, "%s: every field of an input is always present", name)
			}
		}
	}
}

// Callers of the Go client get errors as *client.Error; the overlay keeps every one of them out of the generated code.
func TestClientOverlayNamesEveryError(t *testing.T) {
	t.Parallel()
	overlay, err := os.ReadFile("rawclient.overlay.yaml")
	require.NoError(t, err)
	for _, op := range operations(setup(t)) {
		for status := range op.Responses.Map() {
			if status >= "400" {
				require.Contains(t, string(overlay), "'"+status+"'", "%s answers %s, which openapi/rawclient.overlay.yaml does not name", op.name(), status)
			}
		}
	}
}
