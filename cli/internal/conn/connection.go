package conn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/signin"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
	"github.com/urfave/cli/v2"
)

// Connection is the connection to the server: settings, credentials, the revisions seen and the changes made. All output goes
// through its console.
type Connection struct {
	console *Console

	Settings          config.Settings
	Conn              Client // nil until the first use
	token, writeToken string
	Seen              *apiclient.RevisionToken // the newest revision of the server; nil before the first use
	cache             *config.RevisionCache    // revisions that earlier runs saw; nil before the first use

	mu         sync.Mutex // guards the fields that the client's callbacks use
	made       bool       // a change was made
	replaced   bool       // the server's history was replaced since an earlier run
	historyErr error      // refuses changes because of that; nil: none does
	madeAt     string     // the fleet's revision after the change, if known
}

// Client connects with the settings of command line, environment and context. It sends no request.
func (l *Connection) Client(c *cli.Context) (Client, error) {
	if l.Conn != nil {
		return l.Conn, nil
	}
	set, err := l.console.Environment().Resolve(c)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := set.TLS()
	if err != nil {
		return nil, err
	}
	cfg := apiclient.Config{
		URL:       set.URL,
		UserAgent: args.Program + "/" + l.console.Env.Version,
		Timeout:   set.Timeout,
		Author:    set.Author,
		TLS:       tlsConfig,
		Seen:      l.loadSeenRevision(set),
		Warn:      l.console.Warn,
		Changed:   l.recordChange,
		Replaced:  l.onHistoryReplaced,
	}
	if c.Bool("verbose") {
		cfg.Trace = l.console.trace
	}
	api, err := apiclient.New(cfg)
	if err != nil {
		return nil, args.Error{Err: err}
	}
	l.Settings = set
	inner, ok := api.ClientInterface.(*rawclient.Client)
	if !ok {
		return nil, errors.New("the client is not of the expected kind")
	}
	inner.RequestEditors = append(inner.RequestEditors, l.authorize)
	l.Conn = inner
	return inner, nil
}

// authorize sets the token, which is read on the first use: a command that prints one may prompt for a password.
func (l *Connection) authorize(ctx context.Context, req *http.Request) error {
	// A plan, a rendering and a test of a policy change nothing, and the server accepts the token for reads. Reading tokens needs the token
	// for changes.
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead ||
		slices.ContainsFunc([]string{"/plan", "/render", "/policies/test"}, func(end string) bool { return strings.HasSuffix(req.URL.Path, end) })
	if err := l.historyError(); err != nil && !reads {
		return err
	}
	return l.SendToken(ctx, req, reads && !adminPath(l.Settings.URL, req.URL))
}

// SendToken sets the token for reads, or that for changes.
func (l *Connection) SendToken(ctx context.Context, req *http.Request, reads bool) error {
	source, cached := l.Settings.WriteToken, &l.writeToken
	if reads || l.Settings.WriteToken == l.Settings.Token {
		source, cached = l.Settings.Token, &l.token
	}
	if *cached == "" {
		token, err := source.Read(ctx, l.console.Environment())
		if source.Empty() {
			token, err = signin.Actions(ctx, l.console.Env.Getenv, strings.TrimRight(l.Settings.URL, "/"))
		}
		if err != nil {
			return err
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("the token must be one line without control characters")
		}
		*cached = token
	}
	if *cached != "" {
		req.Header.Set("Authorization", "Bearer "+*cached)
	}
	return nil
}

// loadSeenRevision starts with the newest revision of the server that earlier runs saw.
func (l *Connection) loadSeenRevision(set config.Settings) *apiclient.RevisionToken {
	l.cache, l.Seen = l.console.Environment().RevisionCache(set), &apiclient.RevisionToken{}
	l.Seen.Note(l.cache.Revision())
	return l.Seen
}

// SaveSeenRevision stores the newest revision of this run for later runs.
func (l *Connection) SaveSeenRevision() {
	if l.cache == nil {
		return
	}
	if err := l.cache.Save(l.Seen.Revision()); err != nil && l.console.Verbose {
		l.console.Note("the newest revision of the server could not be stored for the next run: %v", err)
	}
}

// onHistoryReplaced is called when the server's store lacks a revision that was seen: the revision is forgotten, and a read
// continues with a note. A change may be based on the earlier history, so it fails and can be repeated; it continues too where a
// person tries a server on the own machine, and begins anew with an empty database.
func (l *Connection) onHistoryReplaced(changed bool, have, seen int64) bool {
	trial := l.Settings.Context == "" && args.LoopbackURL(l.Settings.URL)
	l.mu.Lock()
	first := !l.replaced
	l.replaced = true
	if !trial {
		l.historyErr = WithHint(errors.New("nothing was changed: the server's history was replaced since an earlier run"), hints[apiclient.CodeUnknownRevision])
	}
	l.mu.Unlock()
	l.Seen.Forget()
	if err := l.cache.Forget(); err != nil {
		l.console.Note("the stored revision of the server cannot be removed: %v", err)
	}
	if made, _ := l.lastChange(); made || changed && !trial {
		return false
	}
	if first {
		l.console.Note("Note: the server's history was replaced, such as by a restored backup or an empty database: it has revision %d, and an earlier run saw %d.", have, seen)
	}
	return true
}

// historyError is the error of a replaced history; nil: it was not replaced.
func (l *Connection) historyError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.historyErr
}

// behindHint is the hint for a server that lacks a revision seen before.
func (l *Connection) behindHint(problem *apiclient.Error) string {
	have, asked, behind := problem.Behind()
	if !behind || problem.Problem.Error == apiclient.CodeUnknownRevision || l.cache == nil || asked > l.cache.Revision() {
		return ""
	}
	return fmt.Sprintf("nothing was changed. The server has revision %d, and an earlier run saw %d there. If that process is behind, try again in a moment. "+
		"If the server's history was replaced, such as by a restored backup or an empty database, delete %s; its entries expire after %.0f minutes.",
		have, asked, l.cache.Path(), config.SeenFor.Minutes())
}

// recordChange records that a change was made, before its response is read or shown.
func (l *Connection) recordChange(h http.Header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made, l.madeAt = true, h.Get("X-Fleet-Revision")
}

// ServerLine names the server to which the change will be sent.
func (l *Connection) ServerLine() string {
	line := "On " + l.Settings.URL
	if name := l.Settings.Context; name != "" {
		line += fmt.Sprintf(" (context %q)", name)
	}
	return render.Printable(line) + "\n"
}

// lastChange reports whether a change was made, and the fleet's revision after it, if known.
func (l *Connection) lastChange() (made bool, at string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made, l.madeAt
}

// adminPath reports whether a request concerns tokens, access documents, webhooks, sources or a backup. These need the write token even for reads.
func adminPath(base string, requested *url.URL) bool {
	if u, err := url.Parse(base); err == nil {
		rest, ok := strings.CutPrefix(requested.Path, strings.TrimRight(u.Path, "/"))
		first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		return ok && (rest == "/backup" || first == "tokens" || first == "access" || first == "webhooks" || first == "sources")
	}
	return false
}
