// Package testbrowser runs a headless Chromium for tests of pages, and records its requests, errors and warnings.
package testbrowser

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Browser is a headless Chromium with one tab. It records the requests and the complaints of its pages.
type Browser struct {
	T *testing.T

	ctx context.Context //nolint:containedctx // chromedp keeps the tab in the context

	mu         sync.Mutex
	requested  []string
	complaints []string
}

// New starts a Chromium that ends with the test. Without an installed Chromium the test fails with an installation hint.
func New(t *testing.T) *Browser {
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
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1400, 1600), chromedp.UserDataDir(profile),
		chromedp.WSURLReadTimeout(5*time.Minute)) // a cold start beside other tests took more than the 20 s that are the default
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(func() {
		stop()
		chromedp.FromContext(allocator).Allocator.Wait()
		// The browser's helper processes write to its profile until they notice that it has ended.
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, time.Minute, 50*time.Millisecond)
	})
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // a hang fails with a stack trace; dozens of pages on a busy machine do not
	t.Cleanup(cancel)
	b := &Browser{T: t, ctx: ctx}
	chromedp.ListenTarget(ctx, b.event)
	b.Run(network.Enable(), log.Enable(), runtime.Enable())
	return b
}

func (b *Browser) event(ev any) {
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

// Run performs actions in the page; a failed action fails the test.
func (b *Browser) Run(actions ...chromedp.Action) {
	b.T.Helper()
	for _, action := range actions {
		err := chromedp.Run(b.ctx, action)
		for deadline := time.Now().Add(time.Minute); isStaleContext(err) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			err = chromedp.Run(b.ctx, action)
		}
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.T.Fatalf("%v\nrequested: %q\ncomplaints: %q", err, b.requested, b.complaints)
		}
	}
}

// isStaleContext reports whether an action did nothing, because chromedp sent it to the page before, whose successor it does not know yet.
func isStaleContext(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused) && refused.Code == -32000 && strings.HasPrefix(refused.Message, "Cannot find context")
}

// Click clicks the element of a selector once it is visible.
func (b *Browser) Click(selector string) {
	b.T.Helper()
	b.Run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.ScrollIntoView(selector, chromedp.ByQuery), chromedp.Click(selector, chromedp.ByQuery))
}

// Follow clicks the element of a selector and waits for the page that it leads to, for at most a minute, and until its scripts have run.
func (b *Browser) Follow(selector string) {
	b.T.Helper()
	b.Run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.ScrollIntoView(selector, chromedp.ByQuery))
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(selector, chromedp.ByQuery)); err != nil {
		b.T.Fatalf("following %s: %v", selector, err)
	}
	b.Run(chromedp.Poll(`document.readyState === "complete"`, nil)) // after a redirect, chromedp may not wait for it
}

// At waits until the page at path, with its query, is loaded.
func (b *Browser) At(path string) {
	b.T.Helper()
	var at string
	for deadline := time.Now().Add(time.Minute); at != path; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.T.Fatalf("at %s, and not at %s\nrequested: %q\ncomplaints: %q", at, path, b.Requested(), b.Complaints())
		}
		// The evaluation fails while the page changes.
		_ = chromedp.Run(b.ctx, chromedp.Evaluate(`document.readyState === "complete" ? location.pathname + location.search : ""`, &at))
	}
}

// Text returns the text of the element of a selector once it is visible.
func (b *Browser) Text(selector string) string {
	b.T.Helper()
	var s string
	b.Run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.Text(selector, &s, chromedp.ByQuery))
	return s
}

// Screenshot saves a picture in SCREENSHOT_DIR, if that is set.
func (b *Browser) Screenshot(name string) {
	b.T.Helper()
	dir := os.Getenv("SCREENSHOT_DIR")
	if dir == "" {
		return
	}
	var png []byte
	b.Run(chromedp.CaptureScreenshot(&png))
	require.NoError(b.T, os.WriteFile(filepath.Join(dir, name), png, 0o600))
}

// Requested returns the URLs that pages requested.
func (b *Browser) Requested() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requested)
}

// Complaints returns the errors and warnings of pages, including violations of the content security policy.
func (b *Browser) Complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints)
}
