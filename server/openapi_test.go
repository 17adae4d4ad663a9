package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/openapi"
	"github.com/flux-resourceset/flux-resourceset/server"
)

// operations is openapi.yaml as a router, loaded once.
var operations = sync.OnceValues(func() (routers.Router, error) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(openapi.YAML)
	if err != nil {
		return nil, err
	}
	// A schema without a type allows null (https://spec.openapis.org/oas/v3.0.3#schema-object); this validator requires `nullable`.
	for _, schema := range doc.Components.Schemas {
		for _, p := range schema.Value.Properties {
			if p.Value.Extensions["x-go-type"] == "nullable.Nullable[json.RawMessage]" {
				p.Value.Nullable = true
			}
		}
	}
	return legacy.NewRouter(doc)
})

// contractTransport validates every exchange: the OpenAPI document must describe each answer, and allow each request that is
// carried out.
type contractTransport struct {
	t     *testing.T
	next  http.RoundTripper
	audit *auditTrail // of the world; nil: it is not checked
}

// RoundTrip implements http.RoundTripper.
func (c *contractTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil && req.ContentLength > 0 {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if err := res.Body.Close(); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err := conforms(req, sent, res, body, c.audit); err != nil {
		c.t.Errorf("%s %s answered %d: %v\n%.500s", req.Method, req.URL.RequestURI(), res.StatusCode, err, body)
	}
	return res, nil
}

func conforms(req *http.Request, sent []byte, res *http.Response, body []byte, audit *auditTrail) error {
	if res.StatusCode >= http.StatusBadRequest {
		if err := wellFormedProblem(req, res, body); err != nil {
			return err
		}
	}
	router, err := operations()
	if err != nil {
		return err
	}
	find := req.Clone(req.Context())
	find.URL = &url.URL{Path: req.URL.Path, RawQuery: req.URL.RawQuery}
	find.Body = io.NopCloser(bytes.NewReader(sent))
	if find.Method == http.MethodHead {
		find.Method = http.MethodGet
	}
	route, params, err := router.FindRoute(find)
	if err == nil && strings.HasSuffix(find.URL.Path, "/") {
		err = errors.New("that router forgives a slash at the end; ours does not")
	}
	if err != nil {
		if res.StatusCode < 300 && !strings.HasPrefix(req.URL.Path, "/docs") {
			return fmt.Errorf("the contract has no such operation: %w", err)
		}
		return nil
	}
	audit.answered(route, req, res, body)
	// readOnly fields may be sent back; the server ignores them.
	input := &openapi3filter.RequestValidationInput{Request: find, Route: route, PathParams: params, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true, IncludeResponseStatus: true,
		ExcludeReadOnlyValidations: true, SkipSettingDefaults: true,
	}}
	if res.StatusCode < 300 && req.ContentLength >= 0 { // a stream is not kept
		if err := openapi3filter.ValidateRequest(req.Context(), input); err != nil {
			return fmt.Errorf("the request is not one that the contract allows: %w", err)
		}
	}
	if req.Method == http.MethodHead {
		return nil
	}
	if res.StatusCode == http.StatusNotModified {
		if len(body) > 0 {
			return fmt.Errorf("a 304 has no body")
		}
		return nil
	}
	// The validator would parse YAML; the contract means the text.
	input.Options.ExcludeResponseBody = req.URL.Path == "/openapi.yaml"
	if err := openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)), Options: input.Options,
	}); err != nil {
		return err
	}
	sometimes := []string{"Warning", "Link", "Retry-After", "X-Fleet-Managed-By"}
	if res.StatusCode == http.StatusPreconditionFailed {
		sometimes = append(sometimes, "ETag") // a plan that is stale is of no one document
	}
	for name := range route.Operation.Responses.Status(res.StatusCode).Value.Headers {
		if len(res.Header.Values(name)) == 0 && !slices.Contains(sometimes, name) {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	return nil
}

// wellFormedProblem requires an error as RFC 9457 and the reference's clients expect it.
func wellFormedProblem(req *http.Request, res *http.Response, body []byte) error {
	if req.URL.Path == "/ready" || req.Method == http.MethodHead {
		return nil
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		return fmt.Errorf("an error of type %q", got)
	}
	var p struct {
		Type, Title, Detail, Instance, Error, Message string
		Status                                        int
		Errors                                        []struct{ Pointer, Detail string }
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if p.Status != res.StatusCode || p.Type == "" || p.Title == "" || p.Detail == "" || p.Error == "" || p.Message != p.Detail || p.Instance != req.URL.EscapedPath() && !strings.Contains(p.Instance, "***") {
		return fmt.Errorf("an incomplete problem: %+v", p)
	}
	if res.Header.Get("X-Request-Id") == "" {
		return fmt.Errorf("an error without a request id")
	}
	for _, e := range p.Errors {
		if e.Detail == "" || e.Pointer != "" && !strings.HasPrefix(e.Pointer, "/") {
			return fmt.Errorf("an incomplete entry of errors: %+v", e)
		}
	}
	return nil
}

func TestEveryRouteInSpec(t *testing.T) {
	t.Parallel()
	w := setup(t)
	handler, ok := w.http.Config.Handler.(*server.Server)
	require.True(t, ok)
	doc, err := contract()
	require.NoError(t, err)
	want := []string{"GET /docs", "GET /docs/*", "GET /docs/openapi.json", "HEAD /docs", "HEAD /docs/*", "HEAD /docs/openapi.json"} // a page for people, no operation
	for path, item := range doc.Paths.Map() {
		path = strings.NewReplacer("{", ":", "}", "").Replace(path)
		for method := range item.Operations() {
			want = append(want, method+" "+path)
			if method == http.MethodGet {
				want = append(want, "HEAD "+path)
			}
		}
	}
	var got []string
	for _, r := range handler.Routes() {
		if r.Method != echo.RouteNotFound {
			got = append(got, r.Method+" "+r.Path)
		}
	}
	require.ElementsMatch(t, want, got)
}

func TestSpecServed(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{server.ModeCRUD, server.ModeReadOnly} {
		w := setupWith(t, options{mode: mode})
		yaml := w.get("/openapi.yaml", "Authorization", "").want(200)
		require.Equal(t, "application/yaml", yaml.header.Get("Content-Type"))
		require.Equal(t, string(openapi.YAML), string(yaml.body))
		json := w.get("/openapi.json", "Authorization", "").want(200)
		fromYAML, err := openapi3.NewLoader().LoadFromData(yaml.body)
		require.NoError(t, err)
		fromJSON, err := openapi3.NewLoader().LoadFromData(json.body)
		require.NoError(t, err)
		a, err := fromYAML.MarshalJSON()
		require.NoError(t, err)
		b, err := fromJSON.MarshalJSON()
		require.NoError(t, err)
		require.JSONEq(t, string(a), string(b))
	}
	w := setupWith(t, options{configure: func(c *server.Config) { c.Spec = []byte("openapi: 3.0.3\ninfo: {title: other}\n") }})
	require.Equal(t, "openapi: 3.0.3\ninfo: {title: other}\n", string(w.get("/openapi.yaml").want(200).body))
	require.JSONEq(t, `{"openapi":"3.0.3","info":{"title":"other"}}`, string(w.get("/openapi.json").want(200).body))
}
