package ui

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// prefix is the path of all pages, below the base path.
const prefix = "/ui"

// Config holds the settings of a Page. API is required.
type Config struct {
	// API serves the requests that pages make.
	API http.Handler
	// BasePath is the path of the service on its host as browsers see it, such as /fleet; empty: the root. Requests arrive
	// without it: see server.WithBasePath, which also adds it to redirects.
	BasePath string
	// SessionKey is the secret from which the encryption key of sessions is derived, the same for all replicas. Empty: a random key,
	// so sessions end with the process.
	SessionKey string
	// SessionKeyPrevious is the secret of sessions from before a rotation of SessionKey; may be empty.
	SessionKeyPrevious string
	// Issuers signs people in with OpenID Connect; nil: with tokens only.
	Issuers Issuers
	// EndedSessions shares signed-out sessions between processes. Nil: a sign-out counts only in this process.
	EndedSessions EndedSessions
	// Audit records events that the API does not see; nil: nothing does.
	Audit func(r *http.Request, e AuditEvent)
	// SignIn marks the context of the requests of a sign-in with a token, which the API then records; nil: nothing does.
	SignIn func(context.Context) context.Context
	// Changes enables change forms, for tokens that may write.
	Changes bool
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
}

// Page is an HTTP handler that serves the fleet page, and passes all other requests to the API.
type Page struct {
	cfg           Config
	cipher        *sessionCipher
	routes        *http.ServeMux
	origins       *http.CrossOriginProtection
	apiSlots      chan struct{}
	sessionLimits sessionLimits
	ended         localEndedSessions
	pages         map[string]*template.Template
}

// AuditEvent is a sign-in, a sign-out or a refusal of the page.
type AuditEvent struct {
	Type   string // one of the Audit constants
	Token  string // of the session; empty: unknown
	Issuer string // at which a sign-in failed; empty: with a token
}

// Types of AuditEvent.
const (
	AuditSignIn       = "sign_in" // with a token of the API; the API itself sees the beginning of a session of a person
	AuditSignInFailed = "sign_in_failed"
	AuditSignedOut    = "signed_out"
	AuditRefused      = "refused" // by the page itself, before a request of the API
)

func (p *Page) audit(r *http.Request, e AuditEvent) {
	if p.cfg.Audit != nil {
		p.cfg.Audit(r, e)
	}
}

// Issuers signs people in with OpenID Connect.
type Issuers interface {
	// Names returns the issuers at which people can sign in now.
	Names() []string
	// URL returns the page of the issuer.
	URL(in IssuerSignIn) (string, error)
	// IDToken returns the verified ID token for the query of the redirect from the issuer. reason is the text for the person;
	// empty: only the log gets the error.
	IDToken(ctx context.Context, in IssuerSignIn, answer url.Values) (token, reason string, err error)
}

// IssuerSignIn is a sign-in at an issuer, kept encrypted in a cookie until the issuer sends the browser back.
type IssuerSignIn struct {
	Issuer      string    `json:"i"` // its name
	RedirectURL string    `json:"r"` // of this page
	State       string    `json:"s"` // random, as Nonce and Verifier are
	Nonce       string    `json:"n"`
	Verifier    string    `json:"v"` // of PKCE
	To          string    `json:"t"` // the page to show afterwards
	Started     time.Time `json:"a"`
}

// choice is one of several links or values; On is the chosen one.
type choice struct {
	Text, Link string
	On         bool
}
