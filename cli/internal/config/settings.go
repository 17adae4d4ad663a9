package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/urfave/cli/v2"
)

// DefaultURL is the server without any setting.
const DefaultURL = "http://127.0.0.1:8080"

// Settings are the settings of a connection: from flags, else the environment, else the context.
type Settings struct {
	URL                           string
	Token, WriteToken             TokenSource
	CAFile, ClientCert, ClientKey string
	Timeout                       time.Duration
	Author                        string // claimed author of the changes; empty: none
	Context                       string // name of the context in use; empty: none
}

// Resolve returns the Settings of this command line. A context named by --context is a flag, so its settings override the
// environment: otherwise an exported FLUX_API_URL would silently send a change to another server.
func (w Environment) Resolve(c *cli.Context) (Settings, error) {
	file, err := w.Load(c)
	if err != nil {
		return Settings{}, err
	}
	name, chosen := c.String("context"), c.IsSet("context")
	if name == "" {
		name, chosen = w.Getenv("FLUX_RESOURCESET_CONTEXT"), false
	}
	if name == "" {
		name = file.CurrentContext
	}
	var ctx Context
	if name != "" {
		found := file.Find(name)
		if found == nil {
			return Settings{}, args.Errorf("there is no context %q; config get-contexts lists them", name)
		}
		ctx = *found
	}
	if !ctx.Session.Empty() {
		ctx.Token, ctx.WriteToken = ctx.Session, TokenSource{}
	}
	pick := func(flag, variable, fromFile string) string {
		env := ""
		if variable != "" {
			env = w.Getenv(variable)
		}
		switch {
		case c.IsSet(flag):
			return c.String(flag)
		case chosen:
			return cmp.Or(fromFile, env)
		}
		return cmp.Or(env, fromFile)
	}
	address := cmp.Or(pick("api-url", "FLUX_API_URL", ctx.APIURL), DefaultURL)
	withheld := ctx.withhold(address)
	set := Settings{
		URL:        address,
		Token:      w.pickToken(c, "api-token", "FLUX_API_TOKEN", ctx.Token, chosen),
		WriteToken: w.pickToken(c, "write-token", "FLUX_API_WRITE_TOKEN", ctx.WriteToken, chosen),
		CAFile:     pick("ca-file", "", ctx.CAFile),
		ClientCert: pick("client-cert", "", ctx.ClientCert),
		ClientKey:  pick("client-key", "", ctx.ClientKey),
		Author:     pick("author", "FLUX_RESOURCESET_AUTHOR", ctx.Author),
		Context:    name,
	}
	if set.Timeout, err = timeout(c, ctx); err != nil {
		return Settings{}, err
	}
	if withheld && set.Token.Empty() && set.WriteToken.Empty() && w.Warn != nil {
		w.Warn(fmt.Sprintf("the tokens of context %q are for %s, and are not sent to %s: set FLUX_API_TOKEN and FLUX_API_WRITE_TOKEN, or choose a context of that server", name, ctx.APIURL, address))
	}
	if set.WriteToken.Empty() {
		set.WriteToken = set.Token
	}
	if set.Token.Empty() {
		set.Token = set.WriteToken
	}
	return set, nil
}

// withhold removes the tokens of a context when the address is not the context's: an exported FLUX_API_URL would otherwise send
// them to another server. It reports whether there were any.
func (ctx *Context) withhold(address string) bool {
	if ctx.IsFor(address) || ctx.Token.Empty() && ctx.WriteToken.Empty() {
		return false
	}
	ctx.Token, ctx.WriteToken = TokenSource{}, TokenSource{}
	return true
}

// IsFor reports whether the context's tokens may be sent to the server at an address.
func (ctx *Context) IsFor(address string) bool {
	return ctx.APIURL == "" || sameAddress(ctx.APIURL, address)
}

// sameAddress compares addresses of servers, without a slash at the end.
func sameAddress(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

func timeout(c *cli.Context, ctx Context) (time.Duration, error) {
	if c.IsSet("timeout") {
		if d := c.Duration("timeout"); d > 0 {
			return d, nil
		}
		return 0, args.Errorf("--timeout must be positive, such as 30s")
	}
	if ctx.Timeout == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(ctx.Timeout)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("context %q: the timeout %q is not a duration such as 30s", ctx.Name, ctx.Timeout)
	}
	return d, nil
}

func (w Environment) pickToken(c *cli.Context, flag, variable string, fromFile TokenSource, chosen bool) TokenSource {
	env := TokenSource{Value: w.Getenv(variable)}
	switch {
	case c.IsSet(flag):
		return TokenSource{Value: c.String(flag)}
	case env.Empty() || (chosen && !fromFile.Empty()):
		return fromFile
	}
	return env
}

// TokenSource is a token, or exactly one other source of it.
type TokenSource struct {
	Value   string `json:"value,omitempty"`
	Env     string `json:"env,omitempty"`
	File    string `json:"file,omitempty"`
	Command string `json:"command,omitempty"`
}

// Empty reports whether there is no token.
func (t TokenSource) Empty() bool { return t == TokenSource{} }

// Read returns the token. A command runs in the system's shell and may prompt the user on standard error.
func (t TokenSource) Read(ctx context.Context, w Environment) (string, error) {
	switch {
	case t.Value != "":
		return t.Value, nil
	case t.Env != "":
		if v := w.Getenv(t.Env); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the context reads the token from the variable %s, which is not set", t.Env)
	case t.File != "":
		data, err := ReadFile(t.File)
		if err != nil {
			return "", fmt.Errorf("the token: %w", err)
		}
		return nonEmptyToken(data, "the file "+t.File)
	case t.Command != "":
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		shell := []string{"sh", "-c"}
		if runtime.GOOS == "windows" {
			shell = []string{"cmd", "/C"}
		}
		cmd := exec.CommandContext(ctx, shell[0], shell[1], t.Command) //nolint:gosec // the user wrote this command for this purpose
		cmd.Stdin, cmd.Stderr = w.Stdin, w.Stderr
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("the command for the token failed: %w", err)
		}
		return nonEmptyToken(out, "the command for it")
	}
	return "", nil
}

func nonEmptyToken(data []byte, source string) (string, error) {
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("the token is empty: read from %s", source)
	}
	return token, nil
}

// TLS reads the certificates. Nil: the system's settings.
func (set Settings) TLS() (*tls.Config, error) {
	if set.CAFile == "" && set.ClientCert == "" && set.ClientKey == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if set.CAFile != "" {
		pem, err := ReadFile(set.CAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", set.CAFile)
		}
	}
	switch {
	case set.ClientCert == "" && set.ClientKey == "":
	case set.ClientCert == "" || set.ClientKey == "":
		return nil, args.Errorf("--client-cert and --client-key go together")
	default:
		pair, err := tls.LoadX509KeyPair(set.ClientCert, set.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("the client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// maxFile is the largest file or input in bytes; the server accepts 4 MiB.
const maxFile = 16 << 20

// ReadFile reads a file of at most maxFile bytes.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readAll(f, name)
}

func readAll(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxFile>>20)
	}
	return data, nil
}

// Input reads the file of a flag; "-" is standard input.
func (w Environment) Input(name string) ([]byte, error) {
	if name != "-" {
		return ReadFile(name)
	}
	if w.In == nil {
		return nil, errors.New("there is no standard input")
	}
	return readAll(w.In, "standard input")
}

// Masked hides the token and keeps its source.
func (t TokenSource) Masked() TokenSource {
	if t.Value != "" {
		t.Value = "***"
	}
	return t
}
