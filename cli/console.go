package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// console is the environment of a run, and its messages on standard error.
type console struct {
	env            Env
	stdin          io.Reader // env.Stdin, whose reads end when the run is interrupted
	quiet, verbose bool

	mu           sync.Mutex // guards the fields that the client's callbacks use
	warned       map[string]bool
	repeated     int  // warnings left out because they repeat one about another cluster
	skipWarnings bool // the response body contains its warnings
}

// warn prints a warning of the server once; of warnings that differ only in the cluster, one.
func (c *console) warn(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := planview.WarningKind(text)
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

// withoutWarnings makes a request whose response body contains its warnings.
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

// moreWarnings prints the number of warnings left out.
func (c *console) moreWarnings() {
	if c.repeated > 0 {
		c.note("The same of %s more; --plan --full shows all.", summarize.Count(c.repeated, "cluster"))
	}
}

// note prints a message about the output, which is the program's own and not a warning of the server.
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

// color marks text for standard error. NO_COLOR (no-color.org) disables it.
func (c *console) color(code, text string) string {
	return c.paint(c.env.StderrTerminal, code, text)
}

// paint marks text if it is written to a terminal.
func (c *console) paint(terminal bool, code, text string) string {
	if !terminal || c.env.Getenv("NO_COLOR") != "" {
		return text
	}
	return render.Paint(code, text)
}

// interactive reports whether a person can be prompted.
func (c *console) interactive() bool { return c.env.StdinTerminal && c.env.StderrTerminal }

// environment is the source of the configuration.
func (c *console) environment() config.Environment {
	return config.Environment{Getenv: c.env.Getenv, In: c.stdin, Stdin: c.env.Stdin, Stderr: c.env.Stderr, Now: c.env.Now, Warn: c.warn}
}
