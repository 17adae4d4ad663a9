package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
	"github.com/urfave/cli/v2"
)

// link is the way to the server: which one, who asks, and what was seen of it and done there. It prints nothing but what its
// console is told.
type link struct {
	console *console

	settings          config.Settings
	conn              client // nil until it is needed
	token, writeToken string
	seen              *apiclient.RevisionToken // the newest revision of the server; nil until there is a client
	memory            *config.Memory           // what earlier runs saw of it; nil until there is a client

	mu     sync.Mutex // guards what the client's callbacks use
	made   bool       // something was changed
	other  error      // the server has another history than earlier runs saw; nil: it does not
	madeAt string     // the fleet's revision then, if it is known
}

// client connects as the command line, the environment and the context say. Nothing is sent yet.
func (l *link) client(c *cli.Context) (client, error) {
	if l.conn != nil {
		return l.conn, nil
	}
	set, err := l.console.world().Resolve(c)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := set.TLS()
	if err != nil {
		return nil, err
	}
	cfg := apiclient.Config{
		URL:       set.URL,
		UserAgent: args.Program + "/" + l.console.env.Version,
		Timeout:   set.Timeout,
		Author:    set.Author,
		TLS:       tlsConfig,
		Seen:      l.recall(set),
		Warn:      l.console.warn,
		Changed:   l.changed,
		Replaced:  l.replaced,
	}
	if c.Bool("verbose") {
		cfg.Trace = l.console.trace
	}
	api, err := apiclient.New(cfg)
	if err != nil {
		return nil, args.Error{Err: err}
	}
	l.settings = set
	inner, ok := api.ClientInterface.(*rawclient.Client)
	if !ok {
		return nil, errors.New("the client is not of the expected kind")
	}
	inner.RequestEditors = append(inner.RequestEditors, l.authorize)
	l.conn = inner
	return inner, nil
}

// authorize sets the token, read when it is first needed: a command that prints one may ask for a password.
func (l *link) authorize(ctx context.Context, req *http.Request) error {
	// A plan changes nothing, and the server takes the token for reads; who may see tokens may change them.
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead || strings.HasSuffix(req.URL.Path, "/plan")
	if err := l.history(); err != nil && !reads {
		return err
	}
	return l.sendToken(ctx, req, reads && !adminPath(l.settings.URL, req.URL))
}

// sendToken sets the token that is used for reads, or that for changes.
func (l *link) sendToken(ctx context.Context, req *http.Request, reads bool) error {
	source, cached := l.settings.WriteToken, &l.writeToken
	if reads || l.settings.WriteToken == l.settings.Token {
		source, cached = l.settings.Token, &l.token
	}
	if *cached == "" {
		token, err := source.Read(ctx, l.console.world())
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

// recall starts with what earlier runs saw of the server that the settings lead to.
func (l *link) recall(set config.Settings) *apiclient.RevisionToken {
	l.memory, l.seen = l.console.world().Recall(set), &apiclient.RevisionToken{}
	l.seen.Note(l.memory.Revision())
	return l.seen
}

// remember keeps what this run saw for the next ones.
func (l *link) remember() {
	if l.memory == nil {
		return
	}
	if err := l.memory.Remember(l.seen.Revision()); err != nil && l.console.verbose {
		l.console.note("what was seen of the server is not kept for the next run: %v", err)
	}
}

// replaced is called when the server's store lacks what was seen of it: it is forgotten, and a read goes on with a note. A change may
// be meant for what was there before, so that it fails, and can be repeated.
func (l *link) replaced(change bool, have, seen int64) bool {
	l.mu.Lock()
	first := l.other == nil
	l.other = hintedError{errors.New("nothing was changed: the server was given another history since an earlier run"), hints[apiclient.CodeUnknownRevision]}
	l.mu.Unlock()
	l.seen.Forget()
	if err := l.memory.Forget(); err != nil {
		l.console.note("what was seen of the server cannot be forgotten: %v", err)
	}
	if made, _ := l.change(); made || change {
		return false
	}
	if first {
		l.console.note("Note: the server was given another history, such as a restored backup or an empty database: it has revision %d, and an earlier run saw %d.", have, seen)
	}
	return true
}

// history is the error that the server has another history than earlier runs saw; nil: it does not.
func (l *link) history() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.other
}

// behindHint says what to do when a server does not have what was seen of it before.
func (l *link) behindHint(problem *apiclient.Error) string {
	have, asked, behind := problem.Behind()
	if !behind || problem.Problem.Error == apiclient.CodeUnknownRevision || l.memory == nil || asked > l.memory.Revision() {
		return ""
	}
	return fmt.Sprintf("nothing was changed. The server has revision %d, and an earlier run saw %d there. If that process is behind, try again in a moment. "+
		"If the server was given another history, such as a restored backup or an empty database, delete %s; what it holds is forgotten after %.0f minutes anyway.",
		have, asked, l.memory.Path(), config.SeenFor.Minutes())
}

// changed notes that a change was made, which is so before its answer can be read or shown.
func (l *link) changed(h http.Header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made, l.madeAt = true, h.Get("X-Fleet-Revision")
}

// where is a line that says which server is going to be asked.
func (l *link) where() string {
	line := "On " + l.settings.URL
	if name := l.settings.Context; name != "" {
		line += fmt.Sprintf(" (context %q)", name)
	}
	return render.Printable(line) + "\n"
}

// change tells whether something was changed, and the fleet's revision then, if it is known.
func (l *link) change() (made bool, at string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made, l.madeAt
}
