package server_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
)

// specWrite is a request of the contract that changes documents, with the body of an example.
type specWrite struct{ id, method, path, body string }

// specWrites returns a request for each operation that needs the right to write, on documents of a world of specWorld.
func specWrites(t *testing.T) (writes []specWrite) {
	t.Helper()
	doc, err := contract()
	require.NoError(t, err)
	ops, err := openapi.Load(true)
	require.NoError(t, err)
	colon := strings.NewReplacer("{", ":", "}", "")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		for method, op := range doc.Paths.Find(path).Operations() {
			if !slices.Contains(ops.Find(method, colon.Replace(path)).Rights, fleet.RightWrite) || method == http.MethodGet || announces(path) || path == "/render" {
				continue
			}
			write := specWrite{op.OperationID, method, fillPath(path), exampleBody(t, op)}
			if strings.HasPrefix(write.id, "Assign") { // of a definition that is not assigned yet
				write.path = strings.NewReplacer("/ns", "/free", "/dev-readers", "/free", "/deny", "/free").Replace(write.path)
			}
			if write.id == "DeleteRollout" {
				write.path = "/rollouts/aborted" // the other one is open
			}
			writes = append(writes, write)
		}
	}
	return writes
}

// exampleBody returns the first example of a request.
func exampleBody(t *testing.T, op *openapi3.Operation) string {
	t.Helper()
	if op.RequestBody == nil {
		return ""
	}
	for _, media := range op.RequestBody.Value.Content {
		for _, name := range slices.Sorted(maps.Keys(media.Examples)) {
			body, err := json.Marshal(media.Examples[name].Value.Value)
			require.NoError(t, err)
			return string(body)
		}
	}
	return "{}"
}

// fillPath replaces the parameters of a path by ids of documents of specWorld.
func fillPath(path string) string {
	ids := map[string]string{"clusters": "demo-cluster-01", "platform_components": "podinfo", "namespaces": "ns", "rolebindings": "dev-readers", "resource_types": "networkpolicies", "resources": "deny", "layers": "eu", "rollouts": "r", "strategies": "s", "freezes": "f", "tokens": "nobody", "access": "nobody", "webhooks": "nobody", "sources": "nobody", "policies": "nobody"}
	return strings.NewReplacer("{id}", ids[strings.Split(path, "/")[1]], "{component_id}", "podinfo", "{namespace_id}", "ns", "{rolebinding_id}", "dev-readers",
		"{type}", "networkpolicies", "{resource_id}", "deny", "{revision}", "3", "{action}", "start").Replace(path)
}

// specWorld has the documents that requests of specWrites change, and data that no principal with access documents may see.
func specWorld(t *testing.T) *world {
	t.Helper()
	w := setup(t)
	w.patch(demoCluster, `{"labels":{"team":"hidden-team"},"patches":{"podinfo":{"hidden-key":"hidden-value"}}}`).want(200)
	w.patch(demoCluster, `{"cluster_name":"hidden-name"}`).want(200)
	for _, c := range [][2]string{
		{"/namespaces", `{"id":"ns","annotations":{"a":"hidden-annotation"}}`},
		{"/resource_types", `{"id":"networkpolicies","schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","default":""},"namespace":{"type":"string","default":""},"ingress":{"type":"array","default":[],"items":{"type":"object","additionalProperties":false,"properties":{"port":{"type":"integer","default":1}}}}}},"overridable":["namespace"]}`},
		{"/resources/networkpolicies", `{"id":"deny","spec":{"a":"hidden-spec"}}`},
		{"/namespaces", `{"id":"free"}`},
		{"/rolebindings", `{"id":"free","role":"view","subjects":[{"kind":"Group","name":"g","apiGroup":"rbac.authorization.k8s.io"}]}`},
		{"/resources/networkpolicies", `{"id":"free","spec":{}}`},
		{"/layers", `{"id":"eu","priority":10,"selector":"region=hidden-region"}`},
		{"/platform_components", `{"id":"hidden-component","component_path":"p","oci_url":"https://charts.example.com"}`},
		{"/rollouts", `{"id":"aborted","operations":[{"op":"patch","kind":"platform_component","id":"hidden-component","patch":{"component_version":"2"}}]}`},
		{"/rollouts", `{"id":"r","operations":[{"op":"patch","kind":"platform_component","id":"hidden-component","patch":{"component_version":"2"}}],"stages":[{"name":"hidden-stage","selector":"team=hidden-team"}]}`},
		{"/strategies", `{"id":"s","stages":[{"name":"hidden-wave","selector":"environment=dev"}]}`},
		{"/freezes", `{"id":"f","reason":"hidden-reason","selector":"team=hidden-freeze"}`},
		{"/tokens", `{"name":"hidden-token","role":"scoped"}`},
		{"/access", `{"id":"hidden-access","subjects":[{"token":"hidden-token"},{"issuer":"hidden-issuer","groups":["hidden-group"]}],"may":["read","write"],"on":{"selector":"team=hidden-scope"}}`},
	} {
		w.create(c[0], c[1])
		if strings.Contains(c[1], "aborted") {
			w.post("/rollouts/aborted/abort", "").want(200)
		}
	}
	w.post("/platform_components/podinfo/versions/holds", `{"version":"9.9.9-held"}`).want(200)
	for _, document := range []string{demoCluster, "/layers/eu"} {
		for _, entry := range []string{"/platform_components/podinfo", "/namespaces/ns", "/rolebindings/dev-readers", "/resources/networkpolicies/deny"} {
			w.put(document+entry, "").want(200)
		}
	}
	return w
}

// send sends the request, which changes documents only if dryRun is empty.
func (r specWrite) send(w *world, dryRun string, headers ...string) *answer {
	w.t.Helper()
	if r.method == http.MethodPatch {
		headers = append([]string{"Content-Type", mergePatchType}, headers...)
	}
	path, body := r.path, r.body
	switch {
	case r.id == "Plan":
		return w.do(r.method, path, body, headers...)
	case strings.HasPrefix(r.id, "Create"): // of a document that does not exist yet
		var doc map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(body), &doc))
		doc["id"] = "new"
		if _, has := doc["cluster_dns"]; has {
			doc["cluster_dns"] = "new.example.com"
		}
		if _, has := doc["release_name"]; has {
			doc["release_name"], doc["depends_on"] = "new", []string{}
		}
		if r.id == "CreateResource" {
			doc["spec"] = map[string]any{}
		}
		text, err := json.Marshal(doc)
		require.NoError(w.t, err)
		body = string(text)
	}
	query := dryRun
	if r.method == http.MethodDelete && strings.Count(path, "/") < 4 && slices.Contains([]string{"DeletePlatformComponent", "DeleteNamespace", "DeleteRoleBinding", "DeleteResourceType", "DeleteResource"}, r.id) {
		query += "&cascade=true"
	}
	if r.id == "ReleaseComponentVersion" {
		query += "&version=9.9.9-held"
	}
	return w.do(r.method, path+"?"+strings.TrimPrefix(query, "&"), body, headers...)
}

// TestEveryWriteByRightAndScope sends each write of the contract with each right, for documents in and out of scope. Refused
// requests change nothing, also with If-Match, and their dry runs are refused as well.
func TestEveryWriteByRightAndScope(t *testing.T) {
	t.Parallel()
	w := specWorld(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("readers", `["read"]`, ""))
	w.create("/access", accessFor("one", `["read"]`, ""))
	writes := specWrites(t)
	require.Greater(t, len(writes), 55)
	for _, r := range writes {
		got := r.send(w, "dry_run=true")
		require.Less(t, got.status, 300, "%s without limits: %s", r.id, got.body)
	}
	special := map[string][]string{"revert": {"RevertRevision"}, "push_version": {"UpdatePlatformComponent", "PatchPlatformComponent", "CreateRollout", "ChangeRollout"}}
	requests := 0
	for _, right := range []string{"read", "plan", "write", "revert", "push_version", "approve", "override_freeze", "admin"} {
		w.patch("/access/one", `{"may":["`+right+`"],"on":null}`).want(200)
		w.unchanged(func() {
			for _, r := range writes {
				got := r.send(w, "dry_run=true", as...)
				requests++
				switch {
				case right == "write" || right == "plan" || slices.Contains(special[right], r.id):
					require.Less(t, got.status, 300, "%s %s: %s", right, r.id, got.body)
				default:
					require.Equal(t, 403, got.status, "%s %s: %s", right, r.id, got.body)
				}
			}
		})
		if right == "read" || right == "admin" {
			continue // they have no limits
		}
		w.patch("/access/one", `{"on":{"selector":"team=web","kinds":["cluster"]}}`).want(200)
		w.unchanged(func() {
			for _, r := range writes {
				for _, dryRun := range []string{"dry_run=true", ""} {
					for _, match := range [][]string{nil, {"If-Match", "*"}} {
						if r.method == http.MethodPost && len(match) > 0 && r.id != "ChangeRollout" {
							continue
						}
						got := r.send(w, dryRun, append(slices.Clone(match), as...)...)
						requests++
						require.Equal(t, 403, got.status, "%s %s %s: %s", right, r.id, dryRun, got.body)
						for _, hidden := range []string{"hidden-token", "hidden-access", "hidden-issuer", "hidden-group", "hidden-scope"} {
							require.NotContains(t, string(got.body), hidden, r.id)
						}
					}
				}
			}
		})
	}
	t.Logf("%d requests, %d operations", requests, len(writes))
}

// TestRefusalsShowNothing: without the right to read, answers, headers and log lines of a request contain no data of the fleet.
func TestRefusalsShowNothing(t *testing.T) {
	t.Parallel()
	w := specWorld(t)
	as := bearer(w.issue(scopedBody).secret)
	w.create("/access", accessFor("one", `["plan","write","revert","approve","push_version","override_freeze"]`, `{"selector":"team=web"}`))
	logged, answers := len(w.logs.String()), 0
	w.unchanged(func() {
		refused := func(got *answer) {
			answers++
			require.Equal(t, 403, got.status, "%s", got.body)
			var text strings.Builder
			require.NoError(t, got.header.Write(&text))
			require.NotContains(t, text.String()+string(got.body), "hidden")
		}
		for _, r := range specWrites(t) {
			refused(r.send(w, "", as...))
		}
		for path, methods := range specPaths(t) {
			if slices.Contains(methods, http.MethodGet) && rightsFor(http.MethodGet, path) != nil {
				refused(w.get(fillPath(path), as...))
			}
		}
	})
	require.Greater(t, answers, 100)
	require.NotContains(t, w.logs.String()[logged:], "hidden")
}
