package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/internal/testbrowser"
)

// try executes an operation as it stands on the page, and returns the status and body that the page shows.
func try(b *testbrowser.Browser, tag, operation string) (status, body string) {
	b.T.Helper()
	block := "#operations-" + tag + "-" + operation
	b.Click(block + " .opblock-summary-control")
	b.Run(chromedp.WaitVisible(block+" .btn.try-out__btn", chromedp.ByQuery), chromedp.WaitNotPresent(block+" .btn.execute", chromedp.ByQuery))
	b.Click(block + " .btn.try-out__btn")
	b.Click(block + " .btn.execute")
	status = strings.TrimSpace(b.Text(block + " .live-responses-table tr.response td.response-col_status"))
	return status, b.Text(block + " .live-responses-table tr.response td.response-col_description .highlight-code code")
}

// Swagger UI works with our own files alone: Authorize, then Try it out on a read and on writes, with the values that the page
// fills in.
func TestSwaggerUI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	b := testbrowser.New(t)
	b.Run(chromedp.Navigate(w.http.URL+"/docs/"), chromedp.WaitVisible(".swagger-ui .opblock", chromedp.ByQuery))

	b.Click(".btn.authorize")
	const form = ".modal-ux-content .auth-container:nth-of-type(4)" // as any of them: the token goes with every request
	b.Run(chromedp.SendKeys(form+" input", writeToken, chromedp.ByQuery))
	b.Click(form + " .btn.authorize")
	b.Click(".btn-done")
	var order []string
	b.Run(chromedp.Evaluate(`[...document.querySelectorAll("[id=operations-tag-clusters] ~ * .opblock-summary-method, .opblock-tag-section:has([id=operations-tag-clusters]) .opblock-summary-method")].map(e => e.textContent)`, &order))
	require.NotEmpty(t, order)
	require.Equal(t, "GET", order[0])
	require.Less(t, slices.Index(order, "POST"), slices.Index(order, "DELETE"))
	require.NotContains(t, order[slices.Index(order, "DELETE"):], "GET", "reading comes first")

	status, body := try(b, "clusters", "ListClusters")
	require.Equal(t, "200", status, body)
	require.Contains(t, body, "demo-cluster-01")

	status, body = try(b, "namespaces", "CreateNamespace")
	require.Equal(t, "201", status, body)
	require.Contains(t, body, "team-sandbox")
	b.Screenshot("swagger.png")
	require.Contains(t, w.get("/namespaces").ids(), "team-sandbox")

	status, body = try(b, "clusters", "PatchCluster")
	require.Equal(t, "200", status, body)
	require.Equal(t, "3", at(w.get(demoCluster).json(), "patches", "podinfo", "replicaCount"))
	require.Equal(t, 3, w.revision())

	require.NotEmpty(t, b.Requested())
	for _, url := range b.Requested() {
		if !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:"+w.http.URL) {
			require.True(t, strings.HasPrefix(url, w.http.URL+"/"), "the page asked for %s", url)
		}
		require.NotContains(t, url, writeToken)
	}
	require.Empty(t, b.Complaints())
}

func TestDocsRedirect(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, "/docs/", w.do(http.MethodGet, "/docs", "").want(http.StatusMovedPermanently).header.Get("Location"))
	w.get("/docs/", "Authorization", "").want(200)
	rawGet(t, w, "/docs/nothing.js", "identity").want(404)
}

// An unknown path below /docs/ is a problem document, as everywhere else.
func TestDocsNotFound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, file := range []string{"nothing.js", "swagger-ui.css.gz.gz", "..%2fopenapi.yaml", "%2e%2e/openapi.yaml", ".", "a/b", "%00", "%ff", "openapi.json/"} {
		require.Equal(t, 404, rawPath(t, w, "/docs/"+file).status, file)
		w.get("/docs/"+file).problem(404, "not_found")
	}
	for _, file := range []string{"", "swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png", "openapi.json", "page.js", "page.css"} {
		policy := w.get("/docs/" + file).want(200).header.Get("Content-Security-Policy")
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, file != "openapi.json", strings.Contains(policy, "script-src 'self';"), file)
	}
}

// A request with the documented example of a header is answered: not every fleet has so many revisions.
func TestMinRevisionExample(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var doc struct {
		Components struct {
			Parameters map[string]struct {
				Name    string `json:"name"`
				Example any    `json:"example"`
			} `json:"parameters"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(w.get("/openapi.json").want(200).body, &doc))
	example := fmt.Sprint(doc.Components.Parameters["MinRevision"].Example)
	w.get("/clusters", "X-Fleet-Min-Revision", example).want(200)
	require.Equal(t, "application/yaml", w.get("/openapi.yaml").want(200).header.Get("Content-Type"))
}
