package conn

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluximport"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// Env is the environment of a run.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Whether the streams are terminals. They select tables instead of JSON, prompts instead of errors, and colors.
	StdinTerminal, StdoutTerminal, StderrTerminal bool
	// Size returns the size of the terminal behind Stdout in characters; 0: unknown. Nil: unknown.
	Size func() (columns, rows int)
	// Getenv looks up an environment variable; empty when it is not set.
	Getenv func(name string) string
	// Version of the program.
	Version string
	// Now is the clock; nil: the system's.
	Now func() time.Time
	// Offline returns an empty fleet of this process, computed by the rules of the server. Nil: the program has none.
	Offline func() fluximport.Fleet
}

// Console is the environment of a run, and its messages on standard error.
type Console struct {
	Env            Env
	stdin          io.Reader // env.Stdin, whose reads end when the run is interrupted
	Quiet, Verbose bool

	mu           sync.Mutex // guards the fields that the client's callbacks use
	warned       map[string]bool
	repeated     int  // warnings left out because they repeat one about another cluster
	skipWarnings bool // the response body contains its warnings
}

// Warn prints a warning of the server once; of warnings that differ only in the cluster, one.
func (c *Console) Warn(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := planview.WarningKind(text)
	if c.Quiet || c.skipWarnings || c.warned[text] {
		return
	}
	c.warned[text] = true
	if kind != text && c.warned[kind] {
		c.repeated++
		return
	}
	c.warned[kind] = true
	_, _ = fmt.Fprintf(c.Env.Stderr, "%s %s\n", c.Color(render.Yellow, "Warning:"), render.Printable(text))
}

// WithoutWarnings makes a request whose response body contains its warnings.
func (c *Console) WithoutWarnings(ask func() error) error {
	c.silence(true)
	defer c.silence(false)
	return ask()
}

func (c *Console) silence(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipWarnings = on
}

// MoreWarnings prints the number of warnings left out.
func (c *Console) MoreWarnings() {
	if c.repeated > 0 {
		c.Note("The same of %s more; --plan --full shows all.", summarize.Count(c.repeated, "cluster"))
	}
}

// Note prints a message about the output, which is the program's own and not a warning of the server.
func (c *Console) Note(format string, args ...any) {
	if !c.Quiet {
		_, _ = fmt.Fprintf(c.Env.Stderr, format+"\n", args...)
	}
}

// trace prints one attempt of a request.
func (c *Console) trace(req *http.Request, rsp *http.Response, took time.Duration, err error) {
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
	_, _ = io.WriteString(c.Env.Stderr, b.String())
}

// Color marks text for standard error. NO_COLOR (no-color.org) disables it.
func (c *Console) Color(code, text string) string {
	return c.Paint(c.Env.StderrTerminal, code, text)
}

// Paint marks text if it is written to a terminal.
func (c *Console) Paint(terminal bool, code, text string) string {
	if !terminal || c.Env.Getenv("NO_COLOR") != "" {
		return text
	}
	return render.Paint(code, text)
}

// Interactive reports whether a person can be prompted.
func (c *Console) Interactive() bool { return c.Env.StdinTerminal && c.Env.StderrTerminal }

// Environment is the source of the configuration.
func (c *Console) Environment() config.Environment {
	return config.Environment{Getenv: c.Env.Getenv, In: c.stdin, Stdin: c.Env.Stdin, Stderr: c.Env.Stderr, Now: c.Env.Now, Warn: c.Warn}
}

// Input reads a file of documents in JSON or YAML; "-" is standard input. Half of a document could uninstall something.
func (s *Session) Input(name string) ([]byte, error) {
	data, err := s.Environment().Input(name)
	if err != nil {
		return nil, err
	}
	if strictyaml.Truncated(data) {
		return nil, args.Errorf("%s seems truncated: its last line has no newline, so nothing was read; if it is complete, add a newline", input.SourceName(name))
	}
	return data, nil
}
