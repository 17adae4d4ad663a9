package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// hiddenSelectors match documents that the team may not read. With missing, they match none of them.
var hiddenSelectors = []string{"team=zebra", "id=zebra", "team in (web,zebra)", "team=web,id!=zebra"}

func missing(text string) string { return strings.ReplaceAll(text, "zebra", "zebru") }

// hiddenWorld has a document zebra of each kind that the team may not read.
func hiddenWorld(t *testing.T) *world {
	t.Helper()
	w := twoTeams(t)
	w.pin("web-01", "null")
	for _, c := range [][2]string{
		{"/resource_types", `{"id":"zebra","schema":{"type":"object","additionalProperties":false,"properties":{"zebra":{"type":"string","default":"zebra"}}}}`},
		{"/resources/quotas", `{"id":"zebra","spec":{"cpu":3}}`},
		{"/resources/zebra", `{"id":"zebra","spec":{"zebra":"zebra"}}`},
		{"/platform_components", `{"id":"zebra","component_path":"zebra","oci_url":"oci://registry.example.com/zebra","component_version":"1.0.0"}`},
		{"/namespaces", `{"id":"zebra"}`},
		{"/rolebindings", `{"id":"zebra","role":"zebra","subjects":[{"kind":"Group","name":"zebra","apiGroup":"rbac.authorization.k8s.io"}]}`},
		{"/layers", `{"id":"zebra","priority":30,"selector":"team=zebra"}`},
		{"/clusters", `{"id":"zebra","cluster_dns":"zebra.example.com","environment":"qa","labels":{"team":"zebra"},"platform_components":[{"id":"zebra"}],"namespaces":[{"id":"zebra"}],"rolebindings":[{"id":"zebra"}],"resources":{"quotas":[{"id":"zebra"}],"zebra":[{"id":"zebra"}]}}`},
		{"/strategies", `{"id":"zebra","stages":[{"name":"zebra","selector":"team=zebra"}]}`},
		{"/freezes", `{"id":"zebra","reason":"zebra","selector":"team=zebra","from":"2030-01-01T00:00:00Z"}`},
		{"/rollouts", `{"id":"zebra","operations":[{"op":"patch","kind":"platform_component","id":"zebra","patch":{"component_version":"2.0.0"}}],"stages":[{"name":"zebra","selector":"team=zebra"}]}`},
		{"/tokens", `{"name":"zebra","role":"scoped"}`},
		{"/access", `{"id":"zebra","subjects":[{"token":"zebra"}],"may":["read"],"on":{"selector":"team=zebra"}}`},
	} {
		w.create(c[0], c[1])
	}
	return w
}

// teamOperations has an operation of each kind that the team may make on its documents.
var teamOperations = map[string]string{
	"create": `{"kind":"namespace","document":{"id":"new"}}`, "update": `{"kind":"namespace","id":"web-ns","document":{"id":"web-ns"}}`,
	"put":   `{"kind":"cluster","id":"web-01","document":{"cluster_name":"x"}}`,
	"patch": `{"kind":"cluster","id":"web-01","patch":{"cluster_name":"x"}}`, "delete": `{"kind":"layer","id":"web"}`,
	"restore": `{"revision":5}`, "revert": `{"revision":5}`,
	"assign_component": `{"cluster_ids":["web-01"],"component_id":"web-app"}`, "set_component": `{"cluster_ids":["web-01"],"component_id":"web-app","component_version":"3.0.0"}`,
	"unassign_component": `{"cluster_ids":["web-01"],"component_id":"web-app"}`, "patch_values": `{"cluster_ids":["web-01"],"component_id":"web-app","values":{"replicas":"5"}}`,
	"apply_values":      `{"cluster_ids":["web-01"],"component_id":"web-app","field_manager":"m","values":{"replicas":"5"}}`,
	"relinquish_values": `{"cluster_ids":["web-01"],"component_id":"web-app","field_manager":"m"}`,
	"assign_namespace":  `{"cluster_ids":["web-01"],"namespace_id":"web-ns"}`, "unassign_namespace": `{"cluster_ids":["web-01"],"namespace_id":"web-ns"}`,
	"assign_rolebinding": `{"cluster_ids":["web-01"],"rolebinding_id":"web-rb"}`, "unassign_rolebinding": `{"cluster_ids":["web-01"],"rolebinding_id":"web-rb"}`,
	"assign_resource": `{"cluster_ids":["web-01"],"type":"quotas","resource_id":"small"}`, "unassign_resource": `{"cluster_ids":["web-01"],"type":"quotas","resource_id":"small"}`,
	"set_labels": `{"cluster_ids":["web-01"],"labels":{"web-note":"x"}}`, "reconcile": `{"cluster_ids":["web-01"]}`, "adopt": `{"layers":["web"]}`,
}

// variants returns copies of a valid body, each with one hidden text in one place where its schema permits a text, also as a key.
func variants(schema *openapi3.SchemaRef, body any, field string, depth int) (out []any) {
	s := schema.Value
	if depth > 7 || s == nil {
		return nil
	}
	for _, part := range slices.Concat(s.AllOf, s.OneOf, s.AnyOf) {
		out = append(out, variants(part, body, field, depth)...)
	}
	object, isObject := body.(map[string]any)
	switch {
	case s.Type.Is("string") && len(s.Enum) == 0:
		if field == "selector" {
			for _, selector := range hiddenSelectors {
				out = append(out, selector)
			}
		}
		return append(out, "zebra")
	case s.Type.Is("array") && s.Items != nil:
		list, _ := body.([]any)
		var first any
		if len(list) > 0 {
			first = list[0]
		}
		for _, item := range variants(s.Items, first, field, depth+1) {
			out = append(out, []any{item})
			if len(list) > 0 {
				out = append(out, append(slices.Clone(list), item))
			}
		}
	case s.Type.Is("object") || len(s.Properties) > 0:
		with := func(name string, v any) map[string]any {
			c := map[string]any{}
			if isObject {
				maps.Copy(c, object)
			}
			for _, required := range s.Required {
				if _, has := c[required]; !has && required != name && s.Properties[required] != nil {
					c[required] = schemaSample(s.Properties[required].Value)
				}
			}
			c[name] = v
			return c
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			for _, v := range variants(s.Properties[name], object[name], name, depth+1) {
				out = append(out, with(name, v))
			}
		}
		if more := s.AdditionalProperties.Schema; more != nil {
			out = append(out, with("zebra", schemaSample(more.Value)))
			for _, v := range variants(more, nil, "", depth+1) {
				out = append(out, with("web-app", v), with("quotas", v), with("web-note", v))
			}
		}
	}
	return out
}

// schemaSample returns a value of a schema.
func schemaSample(s *openapi3.Schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Example != nil:
		return s.Example
	case s.Type.Is("array"):
		return []any{}
	case s.Type.Is("string"):
		return "x"
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 1
	case s.Type.Is("boolean"):
		return true
	}
	return map[string]any{}
}

// inherent are the texts of a document that must be unique in the whole fleet, so the creation of one tells that it exists.
var inherent = []string{"id", "cluster_dns", "release_name"}

// pair is a request in two forms: with a text of a document that the team may not read, and with one that no document has.
type pair struct {
	method, path, body string
	headers            []string
	// operations are those of the body, which several routes take.
	operations string
}

// sharesOf returns the pairs that each set of rights is tried with. Most pairs are of the routes that take operations, and these take the
// same ones: each set of rights has each operation on one of these routes, and the next set has it on the next route. All other pairs are
// tried with each set. With HIDDEN_IDS=all, each set has all pairs.
func sharesOf(pairs []pair, sets int) [][]pair {
	if os.Getenv("HIDDEN_IDS") == "all" {
		return slices.Repeat([][]pair{pairs}, sets)
	}
	routes, turns := map[string][]string{}, map[string]int{}
	for _, p := range pairs {
		if !slices.Contains(routes[p.operations], p.path) {
			routes[p.operations] = append(routes[p.operations], p.path)
		}
		if _, has := turns[p.operations]; !has {
			turns[p.operations] = len(turns)
		}
	}
	shares := make([][]pair, sets)
	for _, p := range pairs {
		for set := range sets {
			if of := routes[p.operations]; p.operations == "" || p.path == of[(turns[p.operations]+set)%len(of)] {
				shares[set] = append(shares[set], p)
			}
		}
	}
	return shares
}

// specPairs returns the pairs of all operations of the contract that the rights of the team permit to call.
func specPairs(t *testing.T) (pairs []pair) {
	t.Helper()
	doc, err := contract()
	require.NoError(t, err)
	names := strings.NewReplacer("demo-cluster-01", "web-01", "podinfo", "web-app", "dev-readers", "web-rb")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		item := doc.Paths.Find(path)
		methods := item.Operations()
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			op := methods[method]
			if rightsFor(method, path) == nil || slices.Equal(rightsFor(method, path), []string{"admin"}) {
				continue
			}
			add := func(path, body string, headers ...string) {
				pairs = append(pairs, pair{method: method, path: path, body: body, headers: headers})
			}
			body, visible := "", strings.ReplaceAll(fillWith(path, visibleIDs), "{action}", "start")
			if op.RequestBody != nil {
				body = names.Replace(exampleBody(t, op))
			}
			for name := range visibleIDs { // each parameter of the path
				if segment := strings.Split(path, "/")[1]; strings.HasPrefix(name, "{") && strings.Contains(path, name) || name == segment && strings.Contains(path, "{id}") {
					ids := maps.Clone(visibleIDs)
					ids[name] = "zebra"
					add(strings.ReplaceAll(fillWith(path, ids), "{action}", "start"), body)
				}
			}
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				switch {
				case p.Value.In == "query" && p.Value.Schema.Value.Type.Is("integer"), p.Value.In == "path":
				case p.Value.In == "header":
					add(visible, body, p.Value.Name, "zebra")
				case p.Value.Name == "selector":
					for _, selector := range hiddenSelectors {
						add(visible+"?selector="+url.QueryEscape(selector), body)
					}
				default:
					add(visible+"?"+p.Value.Name+"=zebra", body)
				}
			}
			for _, name := range []string{"X-Fleet-Removes-From", "X-Fleet-Override-Freeze", "X-Fleet-Override-Policy"} {
				add(visible, body, name, "zebra")
			}
			if op.RequestBody == nil {
				continue
			}
			for media, content := range op.RequestBody.Value.Content {
				if media == mergePatchType || method != http.MethodPatch {
					for _, varied := range bodiesWith(t, op.OperationID, content.Schema, body) {
						add(visible, varied.text, "Content-Type", media)
						pairs[len(pairs)-1].operations = varied.operations
					}
				}
			}
		}
	}
	return pairs
}

// body is the text of a request, and the operations in it.
type body struct{ text, operations string }

// bodiesWith returns the bodies of a request with an id or a selector in each of its texts.
func bodiesWith(t *testing.T, id string, schema *openapi3.SchemaRef, example string) (bodies []body) {
	t.Helper()
	var valid map[string]any
	require.NoError(t, json.Unmarshal([]byte(example), &valid))
	starts := []map[string]any{valid}
	if strings.HasPrefix(id, "Patch") {
		starts = append(starts, map[string]any{})
	}
	if operations := schema.Value.Properties["operations"]; operations != nil {
		starts = nil
		for _, op := range slices.Sorted(maps.Keys(teamOperations)) {
			var fields map[string]any
			require.NoError(t, json.Unmarshal([]byte(teamOperations[op]), &fields))
			fields["op"] = op
			start := map[string]any{"operations": []any{fields}}
			if id == "CreateRollout" {
				start["id"], start["stages"] = "new", []any{map[string]any{"name": "first", "selector": "team=web"}}
			}
			starts = append(starts, start)
			if fields["cluster_ids"] != nil {
				other := maps.Clone(fields)
				delete(other, "cluster_ids") // selectors and layers replace it
				second := maps.Clone(start)
				second["operations"] = []any{other}
				starts = append(starts, second)
			}
		}
	}
	for _, start := range starts {
		for _, v := range variants(schema, start, "", 0) {
			if takesID(v) {
				continue
			}
			if strings.HasPrefix(id, "Create") && slices.ContainsFunc(inherent, func(at string) bool { return fmt.Sprint(v.(map[string]any)[at]) == "zebra" }) {
				continue
			}
			text, err := json.Marshal(v)
			require.NoError(t, err)
			one := body{text: string(text)}
			if operations := v.(map[string]any)["operations"]; operations != nil {
				one.operations = fmt.Sprint(operations)
			}
			if !slices.Contains(bodies, one) {
				bodies = append(bodies, one)
			}
		}
	}
	return bodies
}

// takesID reports whether a body puts a document under a hidden id, so its creation fails: see TestPutOfHiddenID.
func takesID(body any) bool {
	ops, _ := body.(map[string]any)["operations"].([]any)
	return slices.ContainsFunc(ops, func(op any) bool {
		fields, _ := op.(map[string]any)
		return fields["op"] == "put" && fields["id"] == "zebra" && fields["if_match"] == nil
	})
}

// hashOfPlan depends on the texts of the request, and so does the id of an approval, which is made of the hashes of a plan and of its subject.
var hashOfPlan = regexp.MustCompile(`"(plan_hash|config_digest|digest)":"[^"]*"|"id":"[0-9a-f]{32}\.[0-9a-f]{16}"|Etag: .*|X-Fleet-Plan-Hash: .*`)

// TestPutOfHiddenID: a put of an id that the principal may not read is the creation of a document, with every answer of a create. It neither
// changes the hidden document nor tells whether it has the given values.
func TestPutOfHiddenID(t *testing.T) {
	t.Parallel()
	w := hiddenWorld(t)
	w.create("/access", accessFor("team", `["read","plan"]`, teamRead))
	w.create("/access", accessFor("wide", `["write","plan"]`, ""))
	as := bearer(w.issue(scopedBody).secret)
	documents := map[string]string{
		"namespace": `{}`, "platform_component": `{"component_path":"zebra","oci_url":"oci://registry.example.com/zebra","component_version":"1.0.0"}`,
		"rolebinding": `{"role":"zebra","subjects":[{"kind":"Group","name":"zebra","apiGroup":"rbac.authorization.k8s.io"}]}`,
		"layer":       `{"priority":30,"selector":"team=zebra"}`, "cluster": `{"cluster_dns":"zebra.example.com","environment":"qa"}`,
		"strategy": `{"stages":[{"name":"zebra","selector":"team=zebra"}]}`, "freeze": `{"reason":"zebra","selector":"team=zebra","from":"2030-01-01T00:00:00Z"}`,
		"resource_type": `{"schema":{"type":"object","additionalProperties":false,"properties":{"zebra":{"type":"string","default":"zebra"}}}}`,
	}
	for kind, document := range documents {
		for _, path := range []string{"/batch?dry_run=true", "/batch", "/batch?return=documents", "/plan", "/plan?return=documents"} {
			w.unchanged(func() {
				send := func(op string) string { return lasting(w.post(path, `{"operations":[`+op+`]}`, as...)) }
				create := send(`{"op":"create","kind":"` + kind + `","document":` + strings.Replace(strings.Replace(document, "{", `{"id":"zebra",`, 1), ",}", "}", 1) + `}`)
				for _, put := range []string{
					`{"op":"put","kind":"` + kind + `","id":"zebra","document":` + document + `}`, `{"op":"put","kind":"` + kind + `","id":"zebra","patch":` + document + `}`,
					`{"op":"put","kind":"` + kind + `","id":"zebra","if_absent":true,"document":` + document + `}`,
				} {
					require.Equal(t, create, send(put), "%s %s", path, put)
				}
				stale := send(`{"op":"put","kind":"` + kind + `","id":"zebra","if_match":"*","document":` + document + `}`)
				require.Equal(t, missing(stale), send(missing(`{"op":"put","kind":"`+kind+`","id":"zebra","if_match":"*","document":`+document+`}`)))
			})
		}
	}
}

// TestHiddenIDs puts ids of documents that a team may not read, and selectors of them, into each parameter, header and text of each request
// of the contract. The answers are the same as for documents that do not exist, with limits on every right and with limits only on the
// right to read.
func TestHiddenIDs(t *testing.T) {
	t.Parallel()
	sets := map[string][]string{
		"tenant": {accessFor("team", `["read","plan","write","approve","push_version","override_freeze"]`, `{"selector":"team=web","kinds":["cluster","layer","freeze"]}`)},
		"wide":   {accessFor("team", `["read","plan"]`, teamRead), accessFor("wide", `["write","plan","approve","push_version","override_freeze"]`, "")},
		"kept":   {accessFor("team", `["read","plan","write"]`, teamRead)}, // with pinned clusters
	}
	shares := sharesOf(specPairs(t), len(sets))
	for i, name := range slices.Sorted(maps.Keys(sets)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hiddenWorld(t)
			if name == "kept" {
				w.pin("web-01", `{"reason":"r"}`)
				w.patch("/clusters/web-01", `{"platform_components":[{"id":"web-app","component_version":"9.9.9"}]}`).want(200)
				w.pin("zebra-01", `{"reason":"zebra"}`)
			}
			as := bearer(w.issue(scopedBody).secret)
			for _, body := range sets[name] {
				w.create("/access", body)
			}
			different := map[string]int{}
			compared := 0
			for _, p := range shares[i] {
				path := p.path
				if p.method != http.MethodGet && path != "/plan" {
					path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "dry_run=true"
				}
				send := func(of func(string) string) string {
					headers := slices.Clone(as)
					for _, h := range p.headers {
						headers = append(headers, of(h))
					}
					if p.method == http.MethodPatch && !slices.Contains(headers, "Content-Type") {
						headers = append(headers, "Content-Type", mergePatchType)
					}
					answer := w.do(p.method, of(path), of(p.body), headers...)
					require.NotEqual(t, http.StatusInternalServerError, answer.status, "%s %s %s: %s", p.method, of(path), of(p.body), answer.body)
					return hashOfPlan.ReplaceAllString(lasting(answer), "")
				}
				hidden, none := send(func(s string) string { return s }), send(missing)
				compared++
				if missing(hidden) != none {
					key := fmt.Sprint(p.method, " ", strings.Split(p.path, "?")[0])
					if different[key]++; different[key] <= 4 {
						t.Errorf("%s %s %s %v\nhidden:  %s\nmissing: %s", p.method, path, p.body, p.headers, hidden, none)
					}
				}
			}
			t.Logf("%d pairs, %d requests with different answers: %v", compared, len(different), different)
			require.Greater(t, compared, 4000)
		})
	}
}
