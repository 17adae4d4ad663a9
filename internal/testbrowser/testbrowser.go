// Package testbrowser is a headless Chromium for tests of pages.
package testbrowser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Browser is a headless Chromium, with what its page asked for and complained about.
type Browser struct {
	T *testing.T

	ctx context.Context //nolint:containedctx // the tab, as chromedp has it

	mu         sync.Mutex
	requested  []string
	complaints []string
}

// New starts a Chromium that ends with the test. Without one the test fails, and says how to get it.
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
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // a hang is a failure with a stack; dozens of pages on a busy machine are none
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

// Run does something in the page, and fails the test when that is impossible.
func (b *Browser) Run(actions ...chromedp.Action) {
	b.T.Helper()
	err := chromedp.Run(b.ctx, actions...)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.T.Fatalf("%v\nrequested: %q\ncomplaints: %q", err, b.requested, b.complaints)
	}
}

// Click clicks what a selector names, when it can be seen.
func (b *Browser) Click(selector string) {
	b.T.Helper()
	b.Run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.ScrollIntoView(selector, chromedp.ByQuery), chromedp.Click(selector, chromedp.ByQuery))
}

// Follow clicks what a selector names, and waits until the page that this leads to is there.
func (b *Browser) Follow(selector string) {
	b.T.Helper()
	b.Run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.ScrollIntoView(selector, chromedp.ByQuery))
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(selector, chromedp.ByQuery)); err != nil {
		b.T.Fatalf("following %s: %v", selector, err)
	}
}

// At waits until an address is there, whole.
func (b *Browser) At(path string) {
	b.T.Helper()
	var at string
	for deadline := time.Now().Add(time.Minute); at != path; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.T.Fatalf("at %s, and not at %s", at, path)
		}
		// An error is that of a page that is just being left.
		_ = chromedp.Run(b.ctx, chromedp.Evaluate(`document.readyState === "complete" ? location.pathname + location.search : ""`, &at))
	}
}

// Text is the text of what a selector names, when it can be seen.
func (b *Browser) Text(selector string) string {
	b.T.Helper()
	var s string
	b.Run(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.Text(selector, &s, chromedp.ByQuery))
	return s
}

// Screenshot keeps a picture where SCREENSHOT_DIR says.
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

// Requested are the addresses that pages asked for.
func (b *Browser) Requested() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requested)
}

// Complaints are the errors and warnings of pages, violations of the content security policy among them.
func (b *Browser) Complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints)
}
