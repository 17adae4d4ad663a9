package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/ask"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
	"github.com/urfave/cli/v2"
)

// client is the API as the commands use it: the answers come as they are, so that they are printed as they are, with
// fields this program does not know.
type client = rawclient.ClientInterface

// edit adds to a request.
type edit = apiclient.RequestEditorFn

// session is one run of the program.
type session struct {
	env  Env
	root *cli.App

	settings          config.Settings
	conn              client // nil until it is needed
	token, writeToken string
	quiet, verbose    bool
	seen              *apiclient.Seen // the newest revision of the server; nil until there is a client
	memory            *config.Memory  // what earlier runs saw of it; nil until there is a client
	person            ask.Person      // at the terminal
	line              string          // what a person is told of the change that was made; empty: what it answered

	stdout *stdout

	mu     sync.Mutex // guards what the client's callbacks use
	warned map[string]bool
	alike  int    // warnings that were not printed, because they say of another cluster what was said of one
	silent bool   // what comes back says its warnings itself
	made   bool   // something was changed
	madeAt string // the fleet's revision then, if it is known
}

// client connects as the command line, the environment and the context say. Nothing is sent yet.
func (s *session) client(c *cli.Context) (client, error) {
	if s.conn != nil {
		return s.conn, nil
	}
	set, err := s.world().Resolve(c)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := set.TLS()
	if err != nil {
		return nil, err
	}
	cfg := apiclient.Config{
		URL:       set.URL,
		UserAgent: argv.Program + "/" + s.env.Version,
		Timeout:   set.Timeout,
		Author:    set.Author,
		TLS:       tlsConfig,
		Seen:      s.recall(set),
		Warn:      s.warn,
		Changed:   s.changed,
	}
	if c.Bool("verbose") {
		cfg.Trace = s.trace
	}
	api, err := apiclient.New(cfg)
	if err != nil {
		return nil, argv.Error{Err: err}
	}
	s.settings = set
	inner, ok := api.ClientInterface.(*rawclient.Client)
	if !ok {
		return nil, errors.New("the client is not of the expected kind")
	}
	inner.RequestEditors = append(inner.RequestEditors, s.authorize)
	s.conn = inner
	return inner, nil
}

// world is where configuration comes from.
func (s *session) world() config.World {
	return config.World{Getenv: s.env.Getenv, Stdin: s.env.Stdin, Stderr: s.env.Stderr, Now: s.env.Now, Warn: s.warn}
}

// warn prints the server's advice, each piece once, and about one of several clusters.
func (s *session) warn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := aboutCluster.ReplaceAllString(text, "cluster")
	if s.quiet || s.silent || s.warned[text] {
		return
	}
	s.warned[text] = true
	if kind != text && s.warned[kind] {
		s.alike++
		return
	}
	s.warned[kind] = true
	_, _ = fmt.Fprintf(s.env.Stderr, "%s %s\n", s.colour(render.Yellow, "Warning:"), render.Printable(text))
}

// silently asks for what says its warnings itself.
func (s *session) silently(ask func() error) error {
	s.silence(true)
	defer s.silence(false)
	return ask()
}

func (s *session) silence(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = on
}

// moreWarnings counts those that were not printed.
func (s *session) moreWarnings() {
	if s.alike > 0 {
		s.note("The same of %s more; --plan --full shows all.", count(s.alike, "cluster"))
	}
}

// note tells the user something about the output. Unlike a warning it is not the server's.
func (s *session) note(format string, args ...any) {
	if !s.quiet {
		_, _ = fmt.Fprintf(s.env.Stderr, format+"\n", args...)
	}
}

// changed notes that a change was made, which is so before its answer can be read or shown.
func (s *session) changed(h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made, s.madeAt = true, h.Get("X-Fleet-Revision")
}

// trace prints one attempt of a request.
func (s *session) trace(req *http.Request, rsp *http.Response, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	_, _ = io.WriteString(s.env.Stderr, b.String())
}

// answer is a successful answer of the API.
type answer struct {
	body     json.RawMessage
	etag     string
	revision string
	total    int        // X-Total-Count; -1 when absent
	next     url.Values // the query of the next page; nil when there is none
}

// decode reads the body into v.
func (a answer) decode(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("the server's answer is not as expected: %w", err)
	}
	return nil
}

// receive reads an answer. It takes the results of a client's method.
func receive(rsp *http.Response, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = rsp.Body.Close() }()
	body, err := io.ReadAll(rsp.Body)
	if err != nil {
		return answer{}, err
	}
	body = bytes.TrimSpace(body)
	if !json.Valid(body) {
		return answer{}, fmt.Errorf("what answers at %s is not this service: its answer is not JSON", rsp.Request.URL.Redacted())
	}
	a := answer{body: body, etag: rsp.Header.Get("ETag"), revision: rsp.Header.Get("X-Fleet-Revision"), total: -1}
	if n, err := strconv.Atoi(rsp.Header.Get("X-Total-Count")); err == nil {
		a.total = n
	}
	a.next = apiclient.NextPage(rsp.Header)
	return a, nil
}

// query adds to a request's query, replacing what has the same name.
func query(values url.Values) edit {
	return func(_ context.Context, req *http.Request) error {
		q := req.URL.Query()
		maps.Copy(q, values)
		req.URL.RawQuery = q.Encode()
		return nil
	}
}

func header(name, value string) edit {
	return func(_ context.Context, req *http.Request) error {
		if value != "" {
			req.Header.Set(name, value)
		}
		return nil
	}
}

// writeEdits are what the flags of a command add to its changes.
func writeEdits(c *cli.Context) []edit {
	edits := []edit{header("X-Fleet-Removes-From", first(strings.Join(c.StringSlice("confirm"), ","), "none"))}
	if c.Bool("dry-run") {
		edits = append(edits, query(url.Values{"dry_run": {"true"}}))
	}
	if tag := c.String("if-match"); tag != "" {
		edits = append(edits, header("If-Match", tag))
	}
	if reason := c.String("reason"); reason != "" {
		edits = append(edits, header("X-Change-Reason", reason))
	}
	return edits
}

// planned ties a change to the plan with this hash; empty: to none.
func planned(hash string) edit {
	if hash == "" {
		return func(context.Context, *http.Request) error { return nil }
	}
	return query(url.Values{"plan_hash": {hash}})
}

// colour marks text for standard error. NO_COLOR (no-color.org) switches it off.
func (s *session) colour(code, text string) string {
	return s.paint(s.env.StderrTerminal, code, text)
}

// paint marks text for where it is written, if that is a terminal.
func (s *session) paint(terminal bool, code, text string) string {
	if !terminal || s.env.Getenv("NO_COLOR") != "" {
		return text
	}
	return render.Paint(code, text)
}
