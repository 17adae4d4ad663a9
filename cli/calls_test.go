package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
	"github.com/flux-resourceset/flux-resourceset/openapi"
	"sigs.k8s.io/yaml"
)

// TestCallsInSpec: every request of every kind is an operation of the OpenAPI document, with its content type, below the path of the
// server's URL. Ids are escaped.
func TestCallsInSpec(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]any `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
	}
	if err := yaml.Unmarshal(openapi.YAML, &doc); err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\\\{[^}]*\}`)
	find := func(method, path string) (content map[string]any, ok bool) {
		for template, operations := range doc.Paths {
			pattern := "^" + parameter.ReplaceAllString(regexp.QuoteMeta(template), "[^/]+") + "$"
			operation, has := operations[strings.ToLower(method)]
			if has && regexp.MustCompile(pattern).MatchString(path) {
				return operation.RequestBody.Content, true
			}
		}
		return nil, false
	}
	var requests []*http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests = append(requests, r) }))
	t.Cleanup(srv.Close)
	c, err := rawclient.NewClient(srv.URL + "/base")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, n := range kinds.All(kinds.ResourcesOfID("network-policies")) {
		requests = nil
		k := n.Calls
		results := func(rsp *http.Response, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			_ = rsp.Body.Close()
		}
		results(k.List(ctx, c))
		results(k.Get(ctx, c, "a/b"))
		results(k.History(ctx, c, "a/b"))
		results(k.Create(ctx, c, []byte("{}")))
		for _, r := range requests {
			path, based := strings.CutPrefix(r.URL.EscapedPath(), "/base")
			content, ok := find(r.Method, path)
			if !ok || !based {
				t.Errorf("%s: the document has no %s %s", n.Name, r.Method, path)
			}
			_, accepted := content[r.Header.Get("Content-Type")]
			if accepted != (len(content) > 0) || accepted != (r.ContentLength > 0) {
				t.Errorf("%s: %s %s is sent as %q with %d bytes", n.Name, r.Method, path, r.Header.Get("Content-Type"), r.ContentLength)
			}
		}
	}
}
