package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// console is where a run stands: its environment, and what a person hears there beside the output, on standard error.
type console struct {
	env            Env
	quiet, verbose bool

	mu           sync.Mutex // guards what the client's callbacks use
	warned       map[string]bool
	repeated     int  // warnings that were not printed, because they say of another cluster what was said of one
	skipWarnings bool // what comes back says its warnings itself
}

// warn prints the server's advice, each piece once, and about one of several clusters.
func (c *console) warn(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := aboutCluster.ReplaceAllString(text, "cluster")
	if c.quiet || c.skipWarnings || c.warned[text] {
		return
	}
	c.warned[text] = true
	if kind != text && c.warned[kind] {
		c.repeated++
		return
	}
	c.warned[kind] = true
	_, _ = fmt.Fprintf(c.env.Stderr, "%s %s\n", c.color(render.Yellow, "Warning:"), render.Printable(text))
}

// silently asks for what says its warnings itself.
func (c *console) withoutWarnings(ask func() error) error {
	c.silence(true)
	defer c.silence(false)
	return ask()
}

func (c *console) silence(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipWarnings = on
}

// moreWarnings counts those that were not printed.
func (c *console) moreWarnings() {
	if c.repeated > 0 {
		c.note("The same of %s more; --plan --full shows all.", count(c.repeated, "cluster"))
	}
}

// note tells the user something about the output. Unlike a warning it is not the server's.
func (c *console) note(format string, args ...any) {
	if !c.quiet {
		_, _ = fmt.Fprintf(c.env.Stderr, format+"\n", args...)
	}
}

// trace prints one attempt of a request.
func (c *console) trace(req *http.Request, rsp *http.Response, took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "> %s %s\n", req.Method, req.URL.Redacted())
	for _, name := range []string{"Authorization", "Content-Type", "If-Match", "X-Change-Author", "X-Change-Reason", "X-Fleet-Min-Revision"} {
		if value := req.Header.Get(name); value != "" {
			if name == "Authorization" {
				value = "Bearer ***"
			}
			_, _ = fmt.Fprintf(&b, "> %s: %s\n", name, value)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(&b, "< %v (%s)\n", err, took.Round(time.Millisecond))
	} else {
		_, _ = fmt.Fprintf(&b, "< %s (%s)\n", rsp.Status, took.Round(time.Millisecond))
		for _, name := range []string{"ETag", "X-Fleet-Revision", "X-Request-Id", "Retry-After"} {
			if value := rsp.Header.Get(name); value != "" {
				_, _ = fmt.Fprintf(&b, "< %s: %s\n", name, value)
			}
		}
	}
	_, _ = io.WriteString(c.env.Stderr, b.String())
}

// colour marks text for standard error. NO_COLOR (no-color.org) switches it off.
func (c *console) color(code, text string) string {
	return c.paint(c.env.StderrTerminal, code, text)
}

// paint marks text for where it is written, if that is a terminal.
func (c *console) paint(terminal bool, code, text string) string {
	if !terminal || c.env.Getenv("NO_COLOR") != "" {
		return text
	}
	return render.Paint(code, text)
}

// interactive is true when somebody can be shown something and asked.
func (c *console) interactive() bool { return c.env.StdinTerminal && c.env.StderrTerminal }

// world is where configuration comes from.
func (c *console) environment() config.Environment {
	return config.Environment{Getenv: c.env.Getenv, Stdin: c.env.Stdin, Stderr: c.env.Stderr, Now: c.env.Now, Warn: c.warn}
}
