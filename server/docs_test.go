package server_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium, with what its page asked for and complained about.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	requested  []string
	complaints []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	require.NotEmpty(t, path, "this test needs a browser; on Debian and Ubuntu: apt-get install -y chromium")
	profile := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1400, 1600), chromedp.UserDataDir(profile))
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(func() {
		stop()
		chromedp.FromContext(allocator).Allocator.Wait()
		// The browser's helpers write to its profile until they have noticed that it is gone.
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, time.Minute, 50*time.Millisecond)
	})
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // a hang is a failure with a stack
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, b.event)
	b.run(network.Enable(), log.Enable(), runtime.Enable())
	return b
}

func (b *browser) event(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requested = append(b.requested, ev.Request.URL)
	case *log.EventEntryAdded: // violations of the content security policy come this way
		b.complaints = append(b.complaints, ev.Entry.Level.String()+": "+ev.Entry.Text)
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, ev.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeWarning {
			for _, arg := range ev.Args {
				b.complaints = append(b.complaints, string(arg.Value))
			}
		}
	}
}

func (b *browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	err := chromedp.Run(b.ctx, actions...)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("%v\nrequested: %q\ncomplaints: %q", err, b.requested, b.complaints)
	}
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.ScrollIntoView(selector, chromedp.ByQuery), chromedp.Click(selector, chromedp.ByQuery))
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	var s string
	b.run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.Text(selector, &s, chromedp.ByQuery))
	return s
}

// screenshot keeps a picture where SCREENSHOT_DIR says.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("SCREENSHOT_DIR")
	if dir == "" {
		return
	}
	var png []byte
	b.run(chromedp.CaptureScreenshot(&png))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name), png, 0o600))
}

// try executes an operation as it stands on the page, and returns the status and body that the page shows.
func (b *browser) try(tag, operation string) (status, body string) {
	b.t.Helper()
	block := "#operations-" + tag + "-" + operation
	b.click(block + " .opblock-summary-control")
	b.run(chromedp.WaitVisible(block+" .btn.try-out__btn", chromedp.ByQuery), chromedp.WaitNotPresent(block+" .btn.execute", chromedp.ByQuery))
	b.click(block + " .btn.try-out__btn")
	b.click(block + " .btn.execute")
	status = strings.TrimSpace(b.text(block + " .live-responses-table tr.response td.response-col_status"))
	return status, b.text(block + " .live-responses-table tr.response td.response-col_description .highlight-code code")
}

// Swagger UI works from our own files alone: Authorize, then Try it out on a read and on writes, with what the page
// fills in by itself.
func TestSwaggerUI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	b := newBrowser(t)
	b.run(chromedp.Navigate(w.http.URL+"/docs/"), chromedp.WaitVisible(".swagger-ui .opblock", chromedp.ByQuery))

	b.click(".btn.authorize")
	const form = ".modal-ux-content .auth-container:nth-of-type(4)" // as any of them: the token goes with every request
	b.run(chromedp.SendKeys(form+" input", writeToken, chromedp.ByQuery))
	b.click(form + " .btn.authorize")
	b.click(".btn-done")
	var order []string
	b.run(chromedp.Evaluate(`[...document.querySelectorAll("[id=operations-tag-clusters] ~ * .opblock-summary-method, .opblock-tag-section:has([id=operations-tag-clusters]) .opblock-summary-method")].map(e => e.textContent)`, &order))
	require.NotEmpty(t, order)
	require.Equal(t, "GET", order[0])
	require.Less(t, slices.Index(order, "POST"), slices.Index(order, "DELETE"))
	require.NotContains(t, order[slices.Index(order, "DELETE"):], "GET", "reading comes first")

	status, body := b.try("clusters", "ListClusters")
	require.Equal(t, "200", status, body)
	require.Contains(t, body, "demo-cluster-01")

	status, body = b.try("namespaces", "CreateNamespace")
	require.Equal(t, "201", status, body)
	require.Contains(t, body, "team-sandbox")
	b.screenshot("swagger.png")
	require.Contains(t, w.get("/namespaces").ids(), "team-sandbox")

	status, body = b.try("clusters", "PatchCluster")
	require.Equal(t, "200", status, body)
	require.Equal(t, "3", at(w.get(demoCluster).json(), "patches", "podinfo", "replicaCount"))
	require.Equal(t, 3, w.revision())

	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(t, b.requested)
	for _, url := range b.requested {
		if !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:"+w.http.URL) {
			require.True(t, strings.HasPrefix(url, w.http.URL+"/"), "the page asked for %s", url)
		}
		require.NotContains(t, url, writeToken)
	}
	require.Empty(t, b.complaints)
}

func TestDocsRedirect(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, "/docs/", w.do(http.MethodGet, "/docs", "").want(http.StatusMovedPermanently).header.Get("Location"))
	w.get("/docs/", "Authorization", "").want(200)
	rawGet(t, w, "/docs/nothing.js", "identity").want(404)
}

// What is not there is a problem under /docs/ as everywhere else.
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
