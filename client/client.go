// Package client is the Go client of flux-resourceset's API. [New] makes a [Client] from a [Config]. The client holds
// the token, retries calls that are safe to repeat, bounds time and size, never reads an older revision than it has seen
// ([RevisionToken]), and returns an [*Error] with a stable code for every status other than 2xx and 304.
//
// Each operation of the API has two forms. GetClusterWithResponse decodes the answer: the document in JSON200, its ETag
// and the fleet's revision in Headers200. GetCluster returns the *http.Response, including fields that this version does
// not know. Requests and documents use the models of gen/api.
//
// Reading order: client.go (configuration), transport_retry.go (one call, with its retries), retry.go (loops around calls), watch.go
// (new revisions), error.go, revision_token.go. Start with the examples; docs/client.md has the reference.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
)

// Client has every operation of the API. It is generated from openapi/openapi.yaml.
type Client = rawclient.ClientWithResponses

// RequestEditorFn changes a request before it is sent. Pass it after the parameters of a call.
type RequestEditorFn = rawclient.RequestEditorFn

// Defaults of [Config].
const (
	DefaultTimeout     = 30 * time.Second
	DefaultRetries     = 2
	DefaultRetryWait   = 200 * time.Millisecond
	DefaultMaxResponse = 256 << 20
)

// Config configures a client for one server. Only URL is required; every other zero value is a good default.
type Config struct {
	// URL of the server, http or https, with a path when it is served under one: "https://fleet.example.com/api".
	URL string
	// Token is the bearer token of reads. Empty: WriteToken.
	Token string
	// WriteToken is the bearer token of changes. Empty: Token.
	WriteToken string
	// Author is the person on whose behalf changes are made, if the token is not theirs. It is sent as X-Change-Author
	// with every change that does not set that header.
	Author string
	// UserAgent names your program in the server's log. Empty: this module and its version.
	UserAgent string
	// Timeout bounds one call: every attempt, the waits between them, and reading the answer. The wait
	// of a watch is added. 0: [DefaultTimeout].
	Timeout time.Duration
	// Retries is the number of repeats after a connection error or a 503, for calls that are safe to repeat. 0:
	// [DefaultRetries]; negative: none.
	Retries int
	// RetryWait is the wait before the first retry. It doubles with each further one, and is at least the answer's
	// Retry-After. 0: [DefaultRetryWait].
	RetryWait time.Duration
	// MaxResponse is the size limit of an answer, in bytes after decompression. 0: [DefaultMaxResponse].
	MaxResponse int64
	// TLS settings, for a private CA or a client certificate. Nil: the system's.
	TLS *tls.Config
	// Transport replaces the connection pool, TLS included; for tests and instrumentation.
	Transport http.RoundTripper
	// Seen is the newest revision of the fleet seen so far. Every call requires at least that revision. Clients of one
	// server that build on each other's answers must share it. Nil: the client has its own.
	Seen *RevisionToken
	// Replaced is called if the server's store does not have the revision seen before, because its history was replaced:
	// by a restored backup or an empty database. change is true if the call is a change. Return true to forget the
	// revision and repeat the call. If it is nil or returns false, the call fails with [CodeUnknownRevision]. Calls may
	// be concurrent.
	Replaced func(change bool, have, seen int64) bool
	// Warn is called with every warning of the server: advice that is not an error. Calls may be concurrent.
	Warn func(text string)
	// Changed is called with the header of a successful change, before the body is read: a later error does not undo the
	// change. It is not called for dry runs and plans. Calls may be concurrent.
	Changed func(header http.Header)
	// Trace is called after every attempt, retries included. rsp is nil if err is not. The request carries the token in
	// its Authorization header: do not log it. Calls may be concurrent.
	Trace func(req *http.Request, rsp *http.Response, took time.Duration, err error)
}

// New returns a client for one server. It is safe for concurrent use; make one and keep it.
//
// Every method returns an [*Error] (find it with errors.As) unless the status is 2xx or 304, so the fields for other
// statuses in the generated …Response types are never set. It returns an [*UnansweredError] for a change that was sent
// and not answered. Every call requires the newest revision that an earlier answer named, so it reads its own writes
// through any replica. A replica that does not reach that revision within two seconds answers 503: see [Error.Behind].
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	scheme, _, _ := strings.Cut(strings.ToLower(cfg.URL), "://")
	switch {
	case scheme != "http" && scheme != "https": // the rest may hold a password; url.Parse reads a host without a scheme as another part
		return nil, fmt.Errorf("the server's URL %q must start with http:// or https://", cfg.URL[strings.LastIndex(cfg.URL, "@")+1:])
	case err != nil:
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the URL
		}
		return nil, fmt.Errorf("the server's URL: %w", err)
	case base.User != nil:
		return nil, errors.New("the server's URL must not hold credentials; use a token")
	case base.Host == "":
		return nil, fmt.Errorf("the server's URL %q names no host", cfg.URL)
	case base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("the server's URL %q must end with its path", cfg.URL)
	}
	cfg = cfg.withDefaults()
	for _, token := range []string{cfg.Token, cfg.WriteToken} {
		if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, errors.New("a token must not contain line breaks or other control characters")
		}
	}
	return rawclient.NewClientWithResponses(base.String(), rawclient.WithHTTPClient(&transport{
		cfg:  cfg,
		base: strings.TrimSuffix(base.Path, "/"),
		client: &http.Client{
			Transport: cfg.Transport,
			// A redirected write would become a GET, and the token might go somewhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}))
}

func (cfg Config) withDefaults() Config {
	if cfg.Token == "" {
		cfg.Token = cfg.WriteToken
	}
	if cfg.WriteToken == "" {
		cfg.WriteToken = cfg.Token
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "flux-resourceset-go/" + moduleVersion()
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	switch {
	case cfg.Retries == 0:
		cfg.Retries = DefaultRetries
	case cfg.Retries < 0:
		cfg.Retries = 0
	}
	if cfg.RetryWait <= 0 {
		cfg.RetryWait = DefaultRetryWait
	}
	if cfg.MaxResponse <= 0 {
		cfg.MaxResponse = DefaultMaxResponse
	}
	if cfg.Seen == nil {
		cfg.Seen = &RevisionToken{}
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:     cfg.TLS,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
		}
	}
	return cfg
}

// moduleVersion returns the version of this module in the running program, "unknown" without build information.
func moduleVersion() string {
	const module = "github.com/flux-resourceset/flux-resourceset"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	if info.Main.Path == module && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
