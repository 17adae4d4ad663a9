package main

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/cli"
	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/testbrowser"
)

// sharedHost is a proxy for a program and other applications on one host: only /fleet belongs to the program.
type sharedHost struct {
	*httptest.Server
	mu      sync.Mutex
	escaped []string // requests outside /fleet
}

// newSharedHost starts a proxy that removes /fleet from requests, or keeps it.
func newSharedHost(t *testing.T, p *program, strip bool) *sharedHost {
	t.Helper()
	target, err := url.Parse(p.Base)
	require.NoError(t, err)
	h := &sharedHost{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		if strip {
			r.Out.URL.Path, r.Out.URL.RawPath = strings.TrimPrefix(r.In.URL.Path, "/fleet"), strings.TrimPrefix(r.In.URL.RawPath, "/fleet")
			r.Out.Header.Set("X-Forwarded-Prefix", "/fleet")
		}
	}}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path+"/", "/fleet/") {
			h.mu.Lock()
			h.escaped = append(h.escaped, r.Method+" "+r.RequestURI)
			h.mu.Unlock()
			http.NotFound(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// inside fails if a request was for a path outside /fleet.
func (h *sharedHost) inside(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.escaped, "requests that left /fleet")
}

// behindPath starts a server for /fleet.
func behindPath(t *testing.T, settings ...string) *program {
	t.Helper()
	return start(t, append([]string{"DATABASE_URL=sqlite::memory:", "SEED_FILE=" + demoSeed, "API_MODE=crud", "UI_CHANGES=true", "BASE_PATH=/fleet"}, settings...)...)
}

// The fleet page and Swagger UI work in a browser below a path, whether the proxy keeps the path or removes it.
func TestBasePathInABrowser(t *testing.T) {
	t.Parallel()
	for name, strip := range map[string]bool{"kept": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newSharedHost(t, behindPath(t), strip)
			b := testbrowser.New(t)
			b.Run(security.SetIgnoreCertificateErrors(true), chromedp.Navigate(h.URL+"/fleet/"))
			b.Run(chromedp.WaitVisible("#token", chromedp.ByQuery), chromedp.SendKeys("#token", writeToken+"\r", chromedp.ByQuery))
			b.At("/fleet/ui/")
			b.Run(chromedp.KeyEvent("g"), chromedp.KeyEvent("c"))
			b.At("/fleet/ui/clusters")
			b.Follow("tbody th a")
			b.Follow(`.actions a[href$="/protect"]`)
			b.Run(chromedp.SendKeys("[name=reason]", "a freeze", chromedp.ByQuery))
			b.Follow(".decide button")
			require.Contains(t, b.Text("main"), "a freeze", "a change made below the path leads to its revision")
			b.Run(chromedp.SendKeys("#q", "podinfo\r", chromedp.ByQuery))
			b.At("/fleet/ui/components/podinfo") // the first result
			// A refresh that ends after signing out would reload the page.
			b.Run(chromedp.Evaluate(`refresh()`, nil, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
			b.Follow(`form[action$="/sign-out"] button`)
			b.At("/fleet/ui/sign-in")

			b.Run(chromedp.Navigate(h.URL+"/fleet/docs"), chromedp.WaitVisible(".swagger-ui .opblock", chromedp.ByQuery))
			b.Click(".btn.authorize")
			const form = ".modal-ux-content .auth-container:nth-of-type(4)"
			b.Run(chromedp.SendKeys(form+" input", writeToken, chromedp.ByQuery))
			b.Click(form + " .btn.authorize")
			b.Click(".btn-done")
			const block = "#operations-clusters-ListClusters"
			b.Click(block + " .opblock-summary-control")
			b.Click(block + " .btn.try-out__btn")
			b.Click(block + " .btn.execute")
			require.Equal(t, "200", strings.TrimSpace(b.Text(block+" .live-responses-table tr.response td.response-col_status")))

			for _, address := range b.Requested() {
				if !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "blob:"+h.URL) {
					require.True(t, strings.HasPrefix(address, h.URL+"/fleet/") || address == h.URL+"/fleet/docs", "the browser asked for %s", address)
				}
			}
			require.Empty(t, slices.DeleteFunc(b.Complaints(), func(complaint string) bool {
				return strings.HasPrefix(complaint, "info: Autofocus processing was blocked") // typing was quicker than the page
			}))
			h.inside(t)
		})
	}
}

// request sends a form, or asks for a page when there is none, and follows redirects.
func (h *sharedHost) request(t *testing.T, browser *http.Client, path string, form url.Values) (*http.Response, string) {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	rsp, err := browser.Do(req)
	require.NoError(t, err)
	defer rsp.Body.Close()
	body, err := io.ReadAll(rsp.Body)
	require.NoError(t, err)
	return rsp, string(body)
}

var addresses = regexp.MustCompile(`(href|src|action)="([^"]*)"`)

// Every address on every page is below the path and answers.
func TestBasePathEveryLinkAnswers(t *testing.T) {
	t.Parallel()
	h := newSharedHost(t, behindPath(t), false)
	browser := h.Client()
	browser.Jar, _ = cookiejar.New(nil)
	rsp, _ := h.request(t, browser, "/fleet/ui/sign-in", url.Values{"token": {writeToken}})
	require.Equal(t, "/fleet/ui/", rsp.Request.URL.Path, "signed in")
	for _, elsewhere := range []string{"/", "/other", "/fleetwide"} {
		require.Empty(t, browser.Jar.Cookies(&url.URL{Scheme: "https", Host: rsp.Request.URL.Host, Path: elsewhere}), "other applications of the host get no session")
	}
	queue, seen := []string{"/fleet/ui/", "/fleet/docs/", "/fleet/ui//clusters", "/fleet/ui"}, map[string]bool{}
	for len(queue) > 0 {
		at := queue[0]
		if queue = queue[1:]; seen[at] || strings.Contains(at, "reveal=") {
			continue
		}
		seen[at] = true
		rsp, body := h.request(t, browser, at, nil)
		require.Equal(t, 200, rsp.StatusCode, at)
		if !strings.Contains(rsp.Header.Get("Content-Type"), "html") {
			continue
		}
		for _, found := range addresses.FindAllStringSubmatch(body, -1) {
			to, err := rsp.Request.URL.Parse(html.UnescapeString(found[2]))
			require.NoError(t, err)
			to.Fragment = ""
			require.True(t, strings.HasPrefix(to.String(), h.URL+"/fleet/"), "%s has %s", at, found[0])
			if !strings.HasSuffix(to.Path, "/sign-out") { // takes POST alone
				queue = append(queue, to.RequestURI())
			}
		}
	}
	require.Greater(t, len(seen), 30)
	h.inside(t)
}

// Programs use the API below the path. Clients that reach the process directly need no path, and the answer to a poll is
// the same.
func TestBasePathOfPrograms(t *testing.T) {
	t.Parallel()
	p := behindPath(t)
	for _, strip := range []bool{false, true} {
		h := newSharedHost(t, p, strip)
		fleet, err := client.New(client.Config{URL: h.URL + "/fleet", Token: writeToken, Transport: h.Client().Transport})
		require.NoError(t, err)
		id := "team-" + map[bool]string{false: "kept", true: "removed"}[strip]
		made, err := fleet.CreateNamespaceWithResponse(t.Context(), nil, api.NamespaceCreate{ID: id})
		require.NoError(t, err)
		require.Equal(t, "/fleet/namespaces/"+id, made.HTTPResponse.Header.Get("Location"))
		limit := 1
		page, err := fleet.ListNamespacesWithResponse(t.Context(), &api.ListNamespacesParams{Limit: &limit})
		require.NoError(t, err)
		require.Regexp(t, `^</fleet/namespaces\?.*>; rel="next"$`, page.HTTPResponse.Header.Get("Link"))
		h.inside(t)
	}
	var out, errs bytes.Buffer
	settings := map[string]string{"HOME": t.TempDir(), "FLUX_API_URL": p.Base + "/fleet/", "FLUX_API_WRITE_TOKEN": writeToken}
	code := cli.Run(t.Context(), []string{"flux-resourceset-cli", "namespace", "list", "-o", "name"}, cli.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(name string) string { return settings[name] },
	})
	require.Zero(t, code, errs.String())
	require.Contains(t, out.String(), "team-kept")

	poll := p.get(demoPolls + "namespaces")
	require.Equal(t, poll, p.get("/fleet"+demoPolls+"namespaces"))
	for _, path := range []string{"/health", "/ready", "/metrics", "/fleet/health", "/fleet/ready", "/fleet/metrics"} {
		p.get(path)
	}
	for _, path := range []string{"/fleet/fleet/ui/", "/fleet/fleet/clusters", "/fleetwide/clusters", "/other/clusters", "/%66leet/fleet/clusters"} {
		require.Equal(t, 404, p.send(http.MethodGet, path, "").status, path)
	}
	for _, path := range []string{"/openapi.json", "/docs/openapi.json"} {
		var doc struct {
			Servers []struct{ URL string } `json:"servers"`
		}
		require.NoError(t, json.Unmarshal([]byte(p.get(path)), &doc))
		require.Len(t, doc.Servers, 1)
		require.Equal(t, "/fleet", doc.Servers[0].URL)
	}
	require.Contains(t, p.get("/openapi.yaml"), "\nservers:\n  - url: /fleet\n")
}

// Behind a proxy that removes a path without BASE_PATH being set, the server serves no page with broken links.
func TestForwardedPrefixWithoutBasePath(t *testing.T) {
	t.Parallel()
	for setting, refused := range map[string][]string{"": {"/fleet", "/a, /b"}, "/fleet": {"/other"}} {
		p := start(t, "DATABASE_URL=sqlite::memory:", "API_MODE=crud", "BASE_PATH="+setting)
		for _, prefix := range refused {
			a := p.send(http.MethodGet, "/ui/sign-in", "", "X-Forwarded-Prefix", prefix)
			require.Equal(t, 400, a.status)
			require.Contains(t, a.body, "set BASE_PATH")
		}
		for _, prefix := range []string{"", "/", setting, setting + "/"} {
			require.Equal(t, 200, p.send(http.MethodGet, "/ui/sign-in", "", "X-Forwarded-Prefix", prefix).status, prefix)
		}
	}
}

func TestBasePathIsChecked(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"/", "fleet", "/fleet/", "//fleet", "/a//b", "/a/../b", "/./a", "/a%2fb", "/a b", "/a?b", "/a#b", "/ä", "https://host/fleet", "//host", "/api", "/ui/x", "/docs", "/clusters", "/ready", "/openapi.yaml", "/" + strings.Repeat("a", 200)} {
		code, _, errs := invoke(t, "--base-path", base)
		require.Equal(t, 2, code, base)
		require.Contains(t, errs, "BASE_PATH is ", base)
	}
}
