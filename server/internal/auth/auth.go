// Package auth authenticates requests: by a static token, a managed token, a client certificate, whose DNS names are those of
// clusters, or an ID token of a configured issuer.
//
//	request --> Identify --> Principal --> Authorize: role, and the cluster of a poll --> Principal
//	               |                          |
//	               v                          v
//	         errors of credentials --------> RefusedError --> Report: lockout.go counts failures by address --> 401, 403 or 429
//
// Identify runs for every poll: it does not wait, it does not allocate, and its time reveals nothing about a secret.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/oidc"
	"github.com/flux-resourceset/flux-resourceset/server/internal/session"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Tokens are the static bearer tokens. Previous ones are accepted too, so that clients can move to the new ones; empty ones are not
// used.
type Tokens struct {
	Read, ReadPrevious   string
	Write, WritePrevious string
	// ReadWrites: Read may also do what Write may, as long as the store has no managed token that may change the fleet.
	ReadWrites bool
}

// Any reports whether there is a static token.
func (t Tokens) Any() bool { return t.Read+t.ReadPrevious+t.Write+t.WritePrevious != "" }

// Masker returns a Masker that knows the tokens.
func (t Tokens) Masker() *redact.Masker {
	return redact.NewMasker(t.Read, t.ReadPrevious, t.Write, t.WritePrevious)
}

// Actors in the log.
const (
	actorRead  = "static-read"
	actorWrite = "static-write"
	// A certificate can only poll, so it is never the actor of a commit.
	actorCertificate = "certificate"
)

// Role is a set of permissions. From Poll on, each role includes the roles before it.
type Role uint8

// The roles.
const (
	None   Role = iota // not authenticated
	Scoped             // the rights that access documents grant to Principal.Subject
	Poll               // the Flux endpoints of one cluster
	Read               // all reads, and plans
	Write              // all changes of the fleet
	Admin              // tokens as well
)

// Method is the kind of credential, for the metric that shows whether clients still use a previous one.
type Method uint8

// Kinds of credentials.
const (
	StaticRead Method = iota
	StaticReadPrevious
	StaticWrite
	StaticWritePrevious
	ManagedToken
	Certificate
	IDToken
	Session
	// Methods is their number.
	Methods
)

// String returns the name of the kind in the API and in metrics.
func (m Method) String() string { return methodNames[m] }

var methodNames = [Methods]string{"static-read", "static-read-previous", "static-write", "static-write-previous", "token", "certificate", "id-token", "session"}

// Principal is the sender of a request. The zero value is not authenticated.
type Principal struct {
	Role    Role
	Method  Method
	Actor   string        // in the log
	Cluster string        // of a poll token: the id of its cluster
	Managed *fleet.Holder // of a managed token
	Names   []string      // of a client certificate: the DNS names of its clusters
	// Subject has the rights that access documents grant it, and its Role is Scoped; nil: all permissions of its Role.
	Subject *fleet.Subject
	// Expires is the end of an ID token or a session.
	Expires  time.Time
	Identity *oidc.Identity // of an ID token
	began    time.Time      // of a session, or of an ID token
	person   bool           // who signed in at an issuer
	static   bool           // it has a static token
	shared   bool           // with the read token, which several clusters may have
}

// ReportSource determines how a principal's polls, receipts and events count for a cluster.
type ReportSource uint8

// Sources of reports.
const (
	NoReportSource ReportSource = iota // reports are answered and not recorded
	SharedToken                        // the static read token, which any cluster may have
	OwnCredential                      // the cluster's own token or certificate
)

// ReportSource returns the source of the principal's reports. Reports with a managed token of a role other than poll, with the static
// write token and by people do not count.
func (p *Principal) ReportSource() ReportSource {
	switch {
	case p.Role == Poll:
		return OwnCredential
	case p.shared:
		return SharedToken
	}
	return NoReportSource
}

// MayPoll reports whether the principal may poll for the cluster with a DNS name, as the request spells it. cluster is nil
// when there is none: a principal that may not poll for it gets the same answer whether it exists or not.
func (p *Principal) MayPoll(cluster *fleet.Document, dns string) bool {
	if p.Role != Poll {
		return p.Role >= Read
	}
	if p.Cluster != "" {
		return cluster != nil && cluster.ID == p.Cluster
	}
	dns = fleet.NormalDNS(dns)
	return slices.ContainsFunc(p.Names, func(name string) bool { return fleet.NormalDNS(name) == dns })
}

// Access is the permission that an operation requires.
type Access struct {
	Needs Role // the lowest role that may call it; None: no credential is needed
	Poll  bool // a poll: principals of one cluster may call it for that cluster
	// Rights permit the call to a principal with access documents, if it has one of them; none: no such principal may call it.
	Rights []fleet.Right
	Self   bool // it returns only the caller's own identity: every principal may call it
}

// Public reports whether no credential is needed.
func (a Access) Public() bool { return a.Needs == None }

// mayCall reports whether the principal may call an operation; dns is the cluster that a poll names.
func (p *Principal) mayCall(a Access, st *fleet.State, dns string, now time.Time) bool {
	if p.Subject != nil {
		return a.Self || p.hasRight(a, st.Rights(p.Subject, now))
	}
	if !a.Poll {
		return p.Role >= a.Needs
	}
	var cluster *fleet.Document
	if st != nil {
		cluster, _ = st.ByDNS(dns)
	}
	return p.MayPoll(cluster, dns)
}

// hasRight reports whether rights permit an operation. Answers to changes and errors describe the fleet, so each operation also needs
// the right to read; without limits, for operations of admins.
func (p *Principal) hasRight(a Access, rights fleet.Rights) bool {
	if a.Poll || !rights.Include(fleet.RightRead) {
		return false
	}
	return slices.ContainsFunc(a.Rights, func(right fleet.Right) bool {
		switch right {
		case fleet.RightRead:
			return true
		case fleet.RightAdmin:
			return rights.Everywhere(fleet.RightRead) && rights.Everywhere(right)
		default:
			return rights.Include(right)
		}
	})
}

// RefusedError is the reason and the answer of a refused request.
type RefusedError struct {
	Principal Principal // as far as it is known
	reason    error     // nil: authenticated, but not permitted
	answer    error
}

// Error returns the text of the answer.
func (r *RefusedError) Error() string { return r.answer.Error() }

// NewRefusedError returns the refusal of a request for which [Authenticator.Identify] returned an error.
func NewRefusedError(caller Principal, err error, access Access) *RefusedError {
	if errors.Is(err, ErrUnauthenticated) {
		return &RefusedError{caller, err, unauthorized(access, err)}
	}
	return &RefusedError{caller, err, err}
}

// Config configures an Authenticator. All fields but Certificates, and Issuers with Sessions, are required.
type Config struct {
	Tokens Tokens
	// RequireClientCert requires a verified client certificate beside the token.
	RequireClientCert bool
	// Certificates reports whether a verified certificate is still trusted; nil: it is.
	Certificates interface {
		Trusts(ctx context.Context, connection *tls.ConnectionState) bool
	}
	// Holders finds the holder of a managed token by the digest of its secret; nil: there is none.
	Holders interface {
		Holder(st *fleet.State, digest [sha256.Size]byte) *fleet.Holder
	}
	// Issuers verifies ID tokens, and Sessions verifies session tokens; nil: none are accepted.
	Issuers  *oidc.Verifier
	Sessions *session.Keys
	Now      func() time.Time
}

// Authenticator identifies senders, and counts those that fail.
type Authenticator struct {
	cfg         Config
	credentials []credential
	failures    failureTracker
}

// New returns an Authenticator.
func New(cfg Config) *Authenticator {
	return &Authenticator{cfg: cfg, credentials: cfg.Tokens.credentials()}
}

// Authorize identifies the sender of a request and checks its permission in a State; st may be nil. dns is the cluster that a
// poll names.
func (a *Authenticator) Authorize(r *http.Request, access Access, dns string, st *fleet.State) (Principal, *RefusedError) {
	caller, err := a.identify(r, access, st)
	switch {
	case err != nil:
		return caller, NewRefusedError(caller, err, access)
	case caller.mayCall(access, st, dns, a.cfg.Now()):
		return caller, nil
	case caller.Subject != nil:
		return caller, &RefusedError{caller, nil, errNoRight}
	case caller.static: // as the reference implementation answers
		return caller, &RefusedError{caller, nil, unauthorized(access, errReadToken)}
	}
	return caller, &RefusedError{caller, nil, errForbidden}
}

// ErrUnauthenticated: the request has no valid credential. The others are its causes.
var (
	ErrUnauthenticated = errors.New("not authenticated")
	errMissing         = fmt.Errorf("%w: there is no token", ErrUnauthenticated)
	errMalformed       = fmt.Errorf("%w: the Authorization header is not a bearer token", ErrUnauthenticated)
	errBasic           = fmt.Errorf("%w but basic authentication", errMalformed)
	errUnknown         = fmt.Errorf("%w: the token is not known", ErrUnauthenticated)
	errExpired         = fmt.Errorf("%w: the token has expired", ErrUnauthenticated)
	errLockedOut       = fmt.Errorf("%w: too many wrong tokens came from its address", ErrUnauthenticated)
	errNoCertificate   = fmt.Errorf("%w: there is no client certificate", ErrUnauthenticated)
	errReadToken       = fmt.Errorf("%w: it is the read token", ErrUnauthenticated)
)

// tokenRoles are the roles of managed tokens. A role of a newer version has no permissions here.
var tokenRoles = map[string]Role{
	fleet.RolePoll: Poll, fleet.RoleRead: Read, fleet.RoleWrite: Write, fleet.RoleAdmin: Admin, fleet.RoleScoped: Scoped,
}

// errForbidden is the same for everything that a Principal may not do, so that it does not reveal which documents exist.
var errForbidden = &httperror.Error{
	Status: http.StatusForbidden, Code: "forbidden",
	Detail: "the token or client certificate is valid but does not permit this: use one with a higher role",
}

// errNoRight is errForbidden for principals with access documents.
var errNoRight = &httperror.Error{
	Status: http.StatusForbidden, Code: "forbidden",
	Detail: "the token is valid, but no access document permits this: GET /whoami lists your rights; each call requires the right read as well, and those of admins require it without limits",
}

// Identify returns the sender of a request: by its token if it has one, else by its client certificate. It neither allocates
// nor waits, because every poll calls it. st may be nil. The error wraps ErrUnauthenticated if the credential is missing or
// invalid; with errExpired the Principal has the actor of the token.
func (a *Authenticator) Identify(r *http.Request, st *fleet.State) (Principal, error) {
	certified := a.hasTrustedCertificate(r)
	if a.cfg.RequireClientCert && !certified {
		return Principal{}, errNoCertificate
	}
	if token, ok := bearer(r); ok {
		if a.isLockedOut(r, token) {
			return Principal{}, errLockedOut
		}
		return a.identifyToken(token, st)
	}
	if certified && len(r.TLS.PeerCertificates[0].DNSNames) > 0 {
		return Principal{Role: Poll, Method: Certificate, Actor: actorCertificate, Names: r.TLS.PeerCertificates[0].DNSNames}, nil
	}
	header := r.Header.Get(echo.HeaderAuthorization)
	if header == "" {
		return Principal{}, errMissing
	}
	if scheme, _, found := strings.Cut(header, " "); found && strings.EqualFold(scheme, "Basic") {
		return Principal{}, errBasic
	}
	return Principal{}, errMalformed
}

// hasTrustedCertificate reports whether the client presented a certificate of a trusted authority.
func (a *Authenticator) hasTrustedCertificate(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && (a.cfg.Certificates == nil || a.cfg.Certificates.Trusts(r.Context(), r.TLS))
}

// unauthorized is the answer to a request without a valid credential, or with the wrong static token.
func unauthorized(access Access, why error) error {
	detail := "a bearer token is required: send Authorization: Bearer, with the read token"
	if access.Needs >= Write {
		detail = "the write token is required: send Authorization: Bearer, with the write token"
	}
	if errors.Is(why, errNoCertificate) {
		detail = "a client certificate is required here, beside the token"
	}
	challenge := `Bearer realm="flux-resourceset"`
	external, isExternal := errors.AsType[*externalError](why)
	switch { // RFC 6750: no error code when the request has no token
	case isExternal:
		detail = external.reason
		challenge += `, error="invalid_token"`
	case errors.Is(why, errReadToken):
		detail = "this is the read token, and changes require the write token: CRUD_AUTH_TOKEN of the server, which \"make run\" shows in its examples, or a managed token"
	case errors.Is(why, errBasic):
		detail = "the header Authorization has no bearer token, and basic authentication is not supported: send Authorization: Bearer. The Secret of a ResourceSetInputProvider needs the key token, not username and password"
	case errors.Is(why, errMalformed):
		detail = "the header Authorization has no bearer token: send Authorization: Bearer, a space and the token"
	case errors.Is(why, errUnknown):
		detail = "the bearer token is unknown: it is wrong, was revoked, or belongs to another server"
		challenge += `, error="invalid_token"`
	case errors.Is(why, errExpired):
		detail = "the bearer token has expired: request a new one"
		challenge += `, error="invalid_token"`
	}
	return &httperror.Error{
		Status: http.StatusUnauthorized, Code: "unauthorized", Detail: detail,
		Headers: map[string]string{echo.HeaderWWWAuthenticate: challenge},
	}
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// credential is a static token, as its digest.
type credential struct {
	sum [sha256.Size]byte
	Principal
}

// writer is the principal of the static write token.
var writer = static(Admin, actorWrite, StaticWrite)

func static(r Role, actor string, method Method) Principal {
	return Principal{Role: r, Method: method, Actor: actor, static: true}
}

// readWrites reports whether the read token may do what the write token may.
func (a *Authenticator) readWrites(st *fleet.State) bool {
	return a.cfg.Tokens.ReadWrites && st != nil && !st.HasWriters()
}

// credentials returns the tokens that are set. The write token is last, so it counts where both are equal.
func (t Tokens) credentials() []credential {
	var out []credential
	for _, known := range []struct {
		token  string
		holder Principal
	}{
		{t.ReadPrevious, static(Read, actorRead, StaticReadPrevious)},
		{t.Read, static(Read, actorRead, StaticRead)},
		{t.WritePrevious, static(Admin, actorWrite, StaticWritePrevious)},
		{t.Write, writer},
	} {
		if known.token != "" {
			known.holder.shared = known.token == t.Read || known.token == t.ReadPrevious
			out = append(out, credential{sha256.Sum256([]byte(known.token)), known.holder})
		}
	}
	return out
}

// identifyToken returns the holder of a token. It compares every static token in constant time, whichever matched before, and
// looks managed ones up by their digest, so the time reveals nothing about a secret.
func (a *Authenticator) identifyToken(token string, st *fleet.State) (caller Principal, err error) {
	var room [128]byte // on the stack: a conversion of the string would allocate
	sum := sha256.Sum256(append(room[:0], token...))
	for i := range a.credentials {
		if subtle.ConstantTimeCompare(sum[:], a.credentials[i].sum[:]) == 1 {
			caller = a.credentials[i].Principal
		}
	}
	if caller.Method == StaticRead && caller.Role != None && a.readWrites(st) {
		caller = writer
		caller.shared = true
	}
	if caller.Role != None {
		return caller, nil
	}
	if st == nil {
		if fleet.LooksLikeSecret(token) {
			return caller, store.ErrNotLoaded // it may be valid
		}
		return caller, errUnknown
	}
	h := a.cfg.Holders.Holder(st, sum)
	switch {
	case h == nil:
		return caller, errUnknown
	case h.Expired(a.cfg.Now()):
		return Principal{Actor: h.Actor}, errExpired
	}
	return Principal{Role: tokenRoles[h.Role], Method: ManagedToken, Actor: h.Actor, Cluster: h.ClusterID, Managed: h, Subject: h.Subject}, nil
}

// MayStill reports whether an actor of the log has a role now: a static token that is configured, or a managed token that was
// neither revoked nor has expired.
func (a *Authenticator) MayStill(actor string, needs Role, st *fleet.State) bool {
	if slices.ContainsFunc(a.credentials, func(c credential) bool { return c.Actor == actor && c.Role >= needs }) {
		return true
	}
	if actor == actorWrite && a.readWrites(st) {
		return true
	}
	return tokenRoles[st.ActorRole(actor, a.cfg.Now())] >= needs
}

// RightsOf returns the rights that an actor of the log has now, if it is a managed token of role scoped; others have none.
func (a *Authenticator) RightsOf(actor string, st *fleet.State) fleet.Rights {
	return st.Rights(st.ActorSubject(actor, a.cfg.Now()), a.cfg.Now())
}

// RightsOfIdentity returns the rights that an identity has now, while its issuer is configured.
func (a *Authenticator) RightsOfIdentity(identity *fleet.Subject, st *fleet.State) fleet.Rights {
	if a.cfg.Issuers == nil || !a.cfg.Issuers.Has(identity.Issuer) {
		return fleet.Rights{}
	}
	return st.Rights(identity, a.cfg.Now())
}
