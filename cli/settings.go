package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/urfave/cli/v2"
)

const defaultURL = "http://127.0.0.1:8080"

// Categories group the flags in help and documentation, besides [argv.SettingCategory].
const (
	outputCategory = "Output"
	serverCategory = "Server"
)

func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Category: outputCategory, Usage: "`FORMAT`: table, wide, json, yaml or name (default: table on a terminal, else json)"},
		&cli.BoolFlag{Name: "no-headers", Category: outputCategory, Usage: "tables without their first line"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Category: outputCategory, Usage: "print nothing after a change, and no warnings; errors still are"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Category: outputCategory, Usage: "show the requests on standard error, without tokens"},
		&cli.BoolFlag{Name: "version", Category: outputCategory, Usage: "print the version"},
		&cli.StringFlag{Name: "api-url", Category: serverCategory, Usage: "`URL` of the server (FLUX_API_URL; default: " + defaultURL + ")"},
		&cli.StringFlag{Name: "api-token", Category: serverCategory, Usage: "bearer `TOKEN` for reads (FLUX_API_TOKEN); prefer the variable: others on this machine can see arguments"},
		&cli.StringFlag{Name: "write-token", Category: serverCategory, Usage: "bearer `TOKEN` for changes (FLUX_API_WRITE_TOKEN; default: the one for reads)"},
		&cli.StringFlag{Name: "ca-file", Category: serverCategory, Usage: "PEM `FILE` with the only authorities to trust"},
		&cli.StringFlag{Name: "client-cert", Category: serverCategory, Usage: "PEM `FILE` with the client certificate"},
		&cli.StringFlag{Name: "client-key", Category: serverCategory, Usage: "PEM `FILE` with its key"},
		&cli.DurationFlag{Name: "timeout", Category: serverCategory, Usage: "how long a request may take, retries included, such as 30s (default: 30s)"},
		&cli.StringFlag{Name: "context", Category: serverCategory, Usage: "`NAME` of a context of the configuration file; wins over the environment (FLUX_RESOURCESET_CONTEXT)"},
		&cli.StringFlag{Name: "config", Category: serverCategory, Usage: "configuration `FILE` (FLUX_RESOURCESET_CONFIG; default: flux-resourceset/config.yaml in $XDG_CONFIG_HOME or the system's place)"},
		&cli.StringFlag{Name: "reason", Category: serverCategory, Usage: "why; kept with the change, see revision list"},
		&cli.StringFlag{Name: "author", Category: serverCategory, Usage: "`WHO` stands behind the change; kept with it as claimed (FLUX_RESOURCESET_AUTHOR)"},
	}
}

// settings says how to reach the server: flags, else the environment, else the context.
type settings struct {
	url                           string
	token, writeToken             tokenSource
	caFile, clientCert, clientKey string
	timeout                       time.Duration
	author                        string // who stands behind the changes; empty: not said
	context                       string // name of the context in use; empty for none
}

// resolve finds the settings of this command line. A context named by --context is itself a flag, so what it says
// wins over the environment: otherwise an exported FLUX_API_URL would silently send a change to another server.
func (s *session) resolve(c *cli.Context) (settings, error) {
	file, err := s.loadConfig(c)
	if err != nil {
		return settings{}, err
	}
	name, chosen := c.String("context"), c.IsSet("context")
	if name == "" {
		name, chosen = s.env.Getenv("FLUX_RESOURCESET_CONTEXT"), false
	}
	if name == "" {
		name = file.CurrentContext
	}
	var ctx fileContext
	if name != "" {
		found := file.find(name)
		if found == nil {
			return settings{}, argv.Errorf("there is no context %q; config get-contexts lists them", name)
		}
		ctx = *found
	}
	pick := func(flag, variable, fromFile string) string {
		env := ""
		if variable != "" {
			env = s.env.Getenv(variable)
		}
		switch {
		case c.IsSet(flag):
			return c.String(flag)
		case chosen:
			return first(fromFile, env)
		}
		return first(env, fromFile)
	}
	set := settings{
		url:        first(pick("api-url", "FLUX_API_URL", ctx.APIURL), defaultURL),
		token:      s.pickToken(c, "api-token", "FLUX_API_TOKEN", ctx.Token, chosen),
		writeToken: s.pickToken(c, "write-token", "FLUX_API_WRITE_TOKEN", ctx.WriteToken, chosen),
		caFile:     pick("ca-file", "", ctx.CAFile),
		clientCert: pick("client-cert", "", ctx.ClientCert),
		clientKey:  pick("client-key", "", ctx.ClientKey),
		author:     pick("author", "FLUX_RESOURCESET_AUTHOR", ctx.Author),
		context:    name,
	}
	if set.timeout, err = timeout(c, ctx); err != nil {
		return settings{}, err
	}
	if set.writeToken.empty() {
		set.writeToken = set.token
	}
	if set.token.empty() {
		set.token = set.writeToken
	}
	return set, nil
}

func timeout(c *cli.Context, ctx fileContext) (time.Duration, error) {
	if c.IsSet("timeout") {
		if d := c.Duration("timeout"); d > 0 {
			return d, nil
		}
		return 0, argv.Errorf("--timeout must be positive, such as 30s")
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

func (s *session) pickToken(c *cli.Context, flag, variable string, fromFile tokenSource, chosen bool) tokenSource {
	env := tokenSource{Value: s.env.Getenv(variable)}
	switch {
	case c.IsSet(flag):
		return tokenSource{Value: c.String(flag)}
	case env.empty() || (chosen && !fromFile.empty()):
		return fromFile
	}
	return env
}

// tokenSource is where a token comes from: itself, or exactly one other place.
type tokenSource struct {
	Value   string `json:"value,omitempty"`
	Env     string `json:"env,omitempty"`
	File    string `json:"file,omitempty"`
	Command string `json:"command,omitempty"`
}

func (t tokenSource) empty() bool { return t == tokenSource{} }

// read fetches the token. A command runs in the system's shell and may talk to the user on standard error.
func (t tokenSource) read(ctx context.Context, env Env) (string, error) {
	switch {
	case t.Value != "":
		return t.Value, nil
	case t.Env != "":
		if v := env.Getenv(t.Env); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the context takes the token from the variable %s, which is not set", t.Env)
	case t.File != "":
		data, err := readFile(t.File)
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
		cmd.Stdin, cmd.Stderr = env.Stdin, env.Stderr
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
		return "", fmt.Errorf("the token is empty: %s gave nothing", source)
	}
	return token, nil
}

// tlsConfig reads the certificates. Nil: the system's settings.
func (set settings) tlsConfig() (*tls.Config, error) {
	if set.caFile == "" && set.clientCert == "" && set.clientKey == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if set.caFile != "" {
		pem, err := readFile(set.caFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no PEM certificate", set.caFile)
		}
	}
	switch {
	case set.clientCert == "" && set.clientKey == "":
	case set.clientCert == "" || set.clientKey == "":
		return nil, argv.Errorf("--client-cert and --client-key go together")
	default:
		pair, err := tls.LoadX509KeyPair(set.clientCert, set.clientKey)
		if err != nil {
			return nil, fmt.Errorf("the client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// maxFile is the largest file or input read, in bytes; the server takes 4 MiB.
const maxFile = 16 << 20

func readFile(name string) ([]byte, error) {
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

// fileOrStdin reads the file a flag names; "-" is standard input.
func (s *session) fileOrStdin(name string) ([]byte, error) {
	if name != "-" {
		return readFile(name)
	}
	if s.env.Stdin == nil {
		return nil, errors.New("there is no standard input")
	}
	return readAll(s.env.Stdin, "standard input")
}

// authorize sets the token, read when it is first needed: a command that prints one may ask for a password.
func (s *session) authorize(ctx context.Context, req *http.Request) error {
	source, cached := s.settings.writeToken, &s.writeToken
	// A plan changes nothing, and the server takes the token for reads; who may see tokens may change them.
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead || strings.HasSuffix(req.URL.Path, "/plan")
	reads = reads && !adminPath(s.settings.url, req.URL)
	if reads || s.settings.writeToken == s.settings.token {
		source, cached = s.settings.token, &s.token
	}
	if *cached == "" {
		token, err := source.read(ctx, s.env)
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

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
