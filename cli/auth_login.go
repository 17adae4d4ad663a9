package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/config"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/signin"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// loginTimeout limits the time that a person has to sign in.
const loginTimeout = 10 * time.Minute

func (s authCommands) loginCommand() *cli.Command {
	return &cli.Command{
		Name: "login", Usage: "Sign in with an identity provider",
		Description: "Signs in with an OpenID Connect issuer of the server, in a browser on this machine, or with --device on any other, and stores the\n" +
			"session in the context, where it replaces the context's tokens until auth logout. It lasts 8 hours. Tokens of flags and\n" +
			"environment take precedence over it.\n\n" + args.ExampleText("auth login", "auth login --issuer corp --device"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "issuer", Usage: "`NAME` of the issuer, if the server has more than one"},
			&cli.BoolFlag{Name: "device", Usage: "show a code to enter in a browser on another machine"},
			&cli.BoolFlag{Name: "no-browser", Usage: "show the URL, and open no browser"},
		},
		Action: s.Connected(func(c *cli.Context, client conn.Client, _ []string) error { return s.login(c, client) }),
	}
}

func (s authCommands) login(c *cli.Context, client conn.Client) error {
	issuers, err := conn.ReceiveAs[[]api.Issuer](client.ListIssuers(c.Context, removeToken))
	if err != nil {
		return err
	}
	issuer, err := selectIssuer(issuers, c.String("issuer"))
	if err != nil {
		return err
	}
	idToken, err := s.idToken(c, issuer)
	if err != nil {
		return err
	}
	session, err := conn.ReceiveAs[api.Session](client.CreateSession(c.Context, func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+idToken)
		return nil
	}))
	if err != nil {
		return err
	}
	name, err := s.storeSession(c, config.TokenSource{Value: session.Token})
	if err != nil {
		return err
	}
	s.Note("Signed in as %s until %s, in context %q.", render.Printable(session.Actor), session.ExpiresAt.Local().Format(time.DateTime), name)
	return nil
}

// removeToken removes a token that may have expired.
func removeToken(_ context.Context, req *http.Request) error {
	req.Header.Del("Authorization")
	return nil
}

func selectIssuer(issuers []api.Issuer, name string) (api.Issuer, error) {
	if len(issuers) == 0 {
		return api.Issuer{}, errors.New("the server has no issuer to sign in with: use a token (config set-context --api-token)")
	}
	names := make([]string, len(issuers))
	for i, issuer := range issuers {
		if issuer.Name == name || name == "" && len(issuers) == 1 {
			return issuer, nil
		}
		names[i] = issuer.Name
	}
	return api.Issuer{}, args.Errorf("--issuer must be one of %s", render.Printable(args.ListOf(names)))
}

// idToken lets the person sign in, and returns the ID token.
func (s authCommands) idToken(c *cli.Context, issuer api.Issuer) (string, error) {
	ctx, cancel := context.WithTimeout(c.Context, loginTimeout)
	defer cancel()
	provider, err := signin.Discover(ctx, signin.Issuer{URL: issuer.URL, ClientID: issuer.ClientID, Scopes: issuer.Scopes})
	if err != nil {
		return "", err
	}
	if c.Bool("device") {
		return provider.Device(ctx, func(url, code string) {
			s.Note("Open %s in a browser, and enter the code %s", render.Printable(url), render.Printable(code))
		})
	}
	return provider.Browser(ctx, func(url string) {
		s.Note("Sign in with a browser on this machine: %s", render.Printable(url))
		if !c.Bool("no-browser") {
			openBrowser(ctx, url)
		}
	})
}

// openBrowser opens a URL, if the system has a browser. Otherwise the person can copy the URL.
func openBrowser(ctx context.Context, address string) {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], address)...) //nolint:gosec // no shell, and signin requires https
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}

// storeSession stores a session in the current context, or in a new one for the server. With an empty session it removes the
// stored one.
func (s authCommands) storeSession(c *cli.Context, session config.TokenSource) (name string, err error) {
	file, err := s.Environment().Load(c)
	if err != nil {
		return "", err
	}
	set := s.Connection.Settings
	name = set.Context
	if name == "" {
		if u, err := url.Parse(set.URL); err == nil {
			name = u.Host
		}
	}
	name = cmp.Or(name, "default")
	found := file.Find(name)
	switch {
	case found == nil && session.Empty():
		return name, nil
	case found == nil:
		file.Contexts = append(file.Contexts, config.Context{Name: name, APIURL: set.URL})
		found = &file.Contexts[len(file.Contexts)-1]
		file.CurrentContext = cmp.Or(file.CurrentContext, name)
	}
	if !found.IsFor(set.URL) {
		return "", fmt.Errorf("context %q is for %s: choose a context of %s with --context", name, found.APIURL, set.URL)
	}
	found.Session = session
	return name, s.Environment().Save(c, file)
}

func (s authCommands) logoutCommand() *cli.Command {
	return &cli.Command{
		Name: "logout", Usage: "Remove the session of auth login from the context",
		Description: "The session itself lasts until its end, unless an admin ends it: auth end-sessions.\n\n" + args.ExampleText("auth logout"),
		Action: s.Connected(func(c *cli.Context, _ conn.Client, _ []string) error {
			name, err := s.storeSession(c, config.TokenSource{})
			if err == nil {
				s.Note("Signed out of context %q.", name)
			}
			return err
		}),
	}
}

func (s authCommands) endSessionsCommand() *cli.Command {
	return &cli.Command{
		Name: "end-sessions", Usage: "End the sessions of a person, or of all people of an issuer, that began until now", ArgsUsage: "ISSUER",
		Description: "Every server refuses them within a second. People can sign in again: remove their rights first where they must not.\n\n" +
			args.ExampleText("auth end-sessions corp --sub 00u1a2 --reason 'lost laptop'", "auth end-sessions corp"),
		Flags: slices.Concat([]cli.Flag{&cli.StringFlag{Name: "sub", Usage: "`SUBJECT` of the person, in parentheses in the history"}}, change.WriteFlags()),
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			body := map[string]any{"issuer": operands[0]}
			if sub := c.String("sub"); sub != "" {
				body["sub"] = sub
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			a, err := conn.Receive(conn.Send(c.Context, client, http.MethodPost, "/access/sessions/end", body, change.WriteEdits(c)))
			if err != nil {
				return err
			}
			var ended api.EndedSessions
			if err := a.Decode(&ended); err != nil {
				return err
			}
			if c.Bool("dry-run") {
				s.Note("Nothing was changed: --dry-run.")
				return nil
			}
			s.Note("Ended the sessions of %s that began until %s.", render.Printable(cmp.Or(ended.Sub, "all people of "+ended.Issuer)), ended.NotBefore.Local().Format(time.DateTime))
			return nil
		}),
	}
}
