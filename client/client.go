// Package client is the Go client of flux-resourceset's API. [New] makes one from a [Config]; it holds the token, retries what
// can be repeated without harm, bounds time and size, asks every replica for at least what was seen before ([RevisionToken]), and
// turns every answer that is no success into an [*Error] with a stable code.
//
// A [Client] has each operation of the API in two forms. GetClusterWithResponse decodes the answer: the document in JSON200,
// its ETag and the fleet's revision in Headers200. GetCluster hands out the *http.Response, with fields that this version
// does not know. Requests and documents are the models of gen/api.
//
// Start with the examples; docs/client.md says more.
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

// Client has every operation of the API. It is generated from the contract.
type Client = rawclient.ClientWithResponses

// RequestEditorFn changes a request before it is sent: one of a call, behind its parameters.
type RequestEditorFn = rawclient.RequestEditorFn

// Defaults of [Config].
const (
	DefaultTimeout     = 30 * time.Second
	DefaultRetries     = 2
	DefaultRetryWait   = 200 * time.Millisecond
	DefaultMaxResponse = 256 << 20
)

// Config says which server to talk to and how. Only URL is required; every other zero value is a good default.
type Config struct {
	// URL of the server, http or https, with a path when it is served under one: "https://fleet.example.com/api".
	URL string
	// Token is the bearer token of reads. Empty: WriteToken.
	Token string
	// WriteToken is the bearer token of changes. Empty: Token.
	WriteToken string
	// Author is who stands behind the changes, where that is not whose token it is: X-Change-Author of every change that
	// does not name another one.
	Author string
	// UserAgent names your program in the server's log. Empty: this module and its version.
	UserAgent string
	// Timeout bounds one call: every attempt, the waits between them, and reading the answer. 0: [DefaultTimeout].
	Timeout time.Duration
	// Retries is how often a call is repeated after a connection error or a 503. Only calls that can be repeated
	// without harm are. 0: [DefaultRetries]; negative: none.
	Retries int
	// RetryWait is the wait before the first retry, doubled for each further one, unless the answer's Retry-After
	// says longer. 0: [DefaultRetryWait].
	RetryWait time.Duration
	// MaxResponse is the largest answer that is read, in bytes after decompression. 0: [DefaultMaxResponse].
	MaxResponse int64
	// TLS settings, for a private CA or a client certificate. Nil: the system's.
	TLS *tls.Config
	// Transport replaces the connection pool, TLS included; for tests and instrumentation.
	Transport http.RoundTripper
	// Seen is the newest revision of the fleet that was seen, which every call asks for, so that it is never answered from
	// less. Give clients of one server the same one when they build on each other's answers. Nil: the client's own.
	Seen *RevisionToken
	// Replaced is called when the server's store does not have the revision that was seen of it, because it was given another
	// history: a restored backup, an empty database. change tells whether the call is a change. True: forget what was seen, and
	// repeat the call. Nil, or false: the call fails with [CodeUnknownRevision]. Calls may be concurrent.
	Replaced func(change bool, have, seen int64) bool
	// Warn is called with every warning of the server: advice that is not an error. Calls may be concurrent.
	Warn func(text string)
	// Changed is called with the header of a change's answer when it was made, before the rest of the answer is read: what
	// goes wrong after that does not undo it. Not for dry runs and plans. Calls may be concurrent.
	Changed func(header http.Header)
	// Trace is called after every attempt, retries included. Response is nil when err is not. The request carries
	// the token in its Authorization header: do not log that. Calls may be concurrent.
	Trace func(req *http.Request, rsp *http.Response, took time.Duration, err error)
}

// New makes a client for one server. It is safe for concurrent use; make one and keep it.
//
// Every method of the client answers with an [*Error] (find it with errors.As) unless the status is 2xx or 304, so the
// fields for other statuses in the generated …Response types are never set. A change that was sent and not answered is an
// [*UnansweredError]. Every call asks for the newest revision that
// an answer to this client named, so that it builds on what was seen, through any replica of the server; a replica that
// does not have it within two seconds answers 503: see [Error.Behind].
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the server's URL: %w", err)
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("the server's URL %q must start with http:// or https://", cfg.URL)
	case base.Host == "":
		return nil, fmt.Errorf("the server's URL %q names no host", cfg.URL)
	case base.User != nil:
		return nil, errors.New("the server's URL must not hold credentials; use a token")
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
		plan: strings.TrimSuffix(base.Path, "/") + "/plan",
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

// moduleVersion is the version of this module in the program it is built into.
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
