package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/prompt"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
	"github.com/urfave/cli/v2"
)

// client is the API with raw responses, which are printed unchanged, with fields this program does not know.
type client = *rawclient.Client

// edit modifies a request.
type edit = apiclient.RequestEditorFn

// session is one run of the program.
type session struct {
	console
	connection connection
	root       *cli.App
	program    string // name by which it was called

	prompter prompt.Prompter // at the terminal
	line     string          // the summary of the change; empty: the response is printed
	stdout   *stdout
}

func newSession(ctx context.Context, env Env) *session {
	out := &stdout{to: env.Stdout}
	env.Stdout = out
	s := &session{console: console{env: env, stdin: prompt.Interruptible(ctx, env.Stdin), warned: map[string]bool{}}, stdout: out}
	s.connection.console = &s.console
	s.prompter = prompt.Prompter{In: s.stdin, Out: env.Stderr}
	return s
}

// answer is a successful response of the API.
type answer struct {
	body     json.RawMessage
	etag     string
	revision string
	total    int        // X-Total-Count; -1 when absent
	next     url.Values // the query of the next page; nil: it was the last
	created  bool       // the status is 201
}

// decode reads the body into v.
func (a answer) decode(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("unexpected response of the server: %w", err)
	}
	return nil
}

// receive reads a response. Its arguments are the results of a client's method.
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
		return answer{}, fmt.Errorf("%s is not this service: its response is not JSON", rsp.Request.URL.Redacted())
	}
	a := answer{body: body, etag: rsp.Header.Get("ETag"), revision: rsp.Header.Get("X-Fleet-Revision"), total: -1, created: rsp.StatusCode == http.StatusCreated}
	if n, err := strconv.Atoi(rsp.Header.Get("X-Total-Count")); err == nil {
		a.total = n
	}
	a.next = apiclient.NextPage(rsp.Header)
	return a, nil
}

// receiveAs reads a response whose body is a T. Its arguments are the results of a client's method.
func receiveAs[T any](rsp *http.Response, err error) (T, error) {
	var doc T
	a, err := receive(rsp, err)
	if err == nil {
		err = a.decode(&doc)
	}
	return doc, err
}

// query sets parameters of a request's query.
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

// writeEdits returns the edits that a command's flags make to the change of one document.
func writeEdits(c *cli.Context) []edit {
	return append(changeEdits(c), header("If-Match", c.String("if-match")))
}

// changeEdits returns the edits that a command's flags make to its changes.
func changeEdits(c *cli.Context) []edit {
	edits := []edit{header("X-Fleet-Removes-From", cmp.Or(strings.Join(c.StringSlice("confirm"), ","), "none"))}
	if names := c.StringSlice("override-freeze"); len(names) > 0 {
		edits = append(edits, header("X-Fleet-Override-Freeze", strings.Join(names, ",")))
	}
	if c.Bool("dry-run") {
		edits = append(edits, query(url.Values{"dry_run": {"true"}}))
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
