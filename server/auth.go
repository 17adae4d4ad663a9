package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Tokens are the static bearer tokens. Read must not be empty. Previous ones are accepted too, so that clients can move to the
// new ones; empty ones are not used.
type Tokens struct {
	Read, ReadPrevious   string
	Write, WritePrevious string
}

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

// role is a set of permissions. Each role includes those before it.
type role uint8

const (
	roleNone  role = iota // not authenticated
	rolePoll              // the Flux endpoints of one cluster
	roleRead              // all reads, and plans
	roleWrite             // all changes of the fleet
	roleAdmin             // tokens as well
)

// authMethod is the kind of credential, for the metric that shows whether clients still use a previous one.
type authMethod uint8

const (
	byRead authMethod = iota
	byReadPrevious
	byWrite
	byWritePrevious
	byToken
	byCertificate
	authMethods
)

var authMethodNames = [authMethods]string{"static-read", "static-read-previous", "static-write", "static-write-previous", "token", "certificate"}

// principal is the sender of a request. The zero value is not authenticated.
type principal struct {
	role    role
	method  authMethod
	actor   string        // in the log
	static  bool          // it has a static token
	cluster string        // of a poll token: the id of its cluster
	managed *fleet.Holder // of a managed token
	names   []string      // of a client certificate: the DNS names of its clusters
}

// mayPoll reports whether the principal may poll for the cluster with a DNS name, as the request spells it. cluster is nil
// when there is none: a principal that may not poll for it gets the same answer whether it exists or not.
func (p *principal) mayPoll(cluster *fleet.Document, dns string) bool {
	if p.role != rolePoll {
		return p.role >= roleRead
	}
	if p.cluster != "" {
		return cluster != nil && cluster.ID == p.cluster
	}
	dns = fleet.NormalDNS(dns)
	return slices.ContainsFunc(p.names, func(name string) bool { return fleet.NormalDNS(name) == dns })
}

// mayCall reports whether the principal may call an operation; dns is the cluster that a poll names.
func (p *principal) mayCall(op *operation, st *fleet.State, dns string) bool {
	if !op.poll {
		return p.role >= op.needs
	}
	var cluster *fleet.Document
	if st != nil {
		cluster, _ = st.ByDNS(dns)
	}
	return p.mayPoll(cluster, dns)
}

// refusal is the reason and the answer of a refused request.
type refusal struct {
	principal principal // as far as it is known
	reason    error     // nil: authenticated, but not permitted
	answer    error
}

// Error returns the text of the answer.
func (r *refusal) Error() string { return r.answer.Error() }

// authorize identifies the sender of a request and checks its permission in a State; st may be nil.
func (s *Server) authorize(r *request, st *fleet.State) (principal, *refusal) {
	caller, err := s.identify(r.Request(), st)
	switch {
	case errors.Is(err, errUnauthenticated):
		return caller, &refusal{caller, err, unauthorized(r.op, err)}
	case err != nil:
		return caller, &refusal{caller, err, err}
	case caller.mayCall(r.op, st, r.Param("cluster_dns")):
		return caller, nil
	case caller.static: // as the reference implementation answers
		return caller, &refusal{caller, nil, unauthorized(r.op, errReadToken)}
	}
	return caller, &refusal{caller, nil, errForbidden}
}

// authenticate authorizes the request in the newest State, and stores both in it. It does nothing when the request was
// authorized in the same State before.
func (s *Server) authenticate(r *request) error {
	if r.op.public() {
		return nil
	}
	read := s.cfg.Replica.StateForReads
	if !r.op.crudOnly { // the endpoints for clusters
		read = s.cfg.Replica.StateForPolls
	}
	st, age, unfit := read()
	r.age, r.unfit = age, unfit
	if r.principal.role != roleNone && st == r.state {
		return nil
	}
	caller, refusal := s.authorize(r, st)
	if refusal != nil {
		return s.reportRefusal(r, refusal)
	}
	if r.principal.role == roleNone {
		s.metrics.identified[caller.method].Inc()
	}
	r.state, r.principal = st, caller
	s.releasePreauth(r)
	markAuthenticated(r.Request().Context())
	return nil
}

// errUnauthenticated: the request has no valid credential. The others are its causes.
var (
	errUnauthenticated = errors.New("not authenticated")
	errMissing         = fmt.Errorf("%w: there is no token", errUnauthenticated)
	errMalformed       = fmt.Errorf("%w: the Authorization header is not a bearer token", errUnauthenticated)
	errUnknown         = fmt.Errorf("%w: the token is not known", errUnauthenticated)
	errExpired         = fmt.Errorf("%w: the token has expired", errUnauthenticated)
	errLockedOut       = fmt.Errorf("%w: too many wrong tokens came from its address", errUnauthenticated)
	errNoCertificate   = fmt.Errorf("%w: there is no client certificate", errUnauthenticated)
	errReadToken       = fmt.Errorf("%w: it is the read token", errUnauthenticated)
)

// tokenRoles are the roles of managed tokens. A role of a newer version has no permissions here.
var tokenRoles = map[string]role{
	fleet.RolePoll: rolePoll, fleet.RoleRead: roleRead, fleet.RoleWrite: roleWrite, fleet.RoleAdmin: roleAdmin,
}

// errForbidden is the same for everything that a principal may not do, so that it does not reveal which documents exist.
var errForbidden = &httperror.Error{
	Status: http.StatusForbidden, Code: "forbidden",
	Detail: "the token or client certificate is valid but does not permit this: use one with a higher role",
}

// identify returns the sender of a request: by its token if it has one, else by its client certificate. It neither allocates
// nor waits, because every poll calls it. st may be nil. The error wraps errUnauthenticated if the credential is missing or
// invalid; with errExpired the principal has the actor of the token.
func (s *Server) identify(r *http.Request, st *fleet.State) (principal, error) {
	certified := s.hasTrustedCertificate(r)
	if s.cfg.RequireClientCert && !certified {
		return principal{}, errNoCertificate
	}
	if token, ok := bearer(r); ok {
		if s.isLockedOut(r, token) {
			return principal{}, errLockedOut
		}
		return s.identifyToken(token, st)
	}
	if certified && len(r.TLS.PeerCertificates[0].DNSNames) > 0 {
		return principal{role: rolePoll, method: byCertificate, actor: actorCertificate, names: r.TLS.PeerCertificates[0].DNSNames}, nil
	}
	if r.Header.Get(echo.HeaderAuthorization) != "" {
		return principal{}, errMalformed
	}
	return principal{}, errMissing
}

// hasTrustedCertificate reports whether the client presented a certificate of a trusted authority.
func (s *Server) hasTrustedCertificate(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && (s.cfg.TLS == nil || s.cfg.TLS.trusts(r.Context(), r.TLS))
}

// unauthorized is the answer to a request without a valid credential, or with the wrong static token.
func unauthorized(op *operation, why error) error {
	detail := "a bearer token is required: send Authorization: Bearer, with the read token"
	if op.needs >= roleWrite {
		detail = "the write token is required: send Authorization: Bearer, with the write token"
	}
	if errors.Is(why, errNoCertificate) {
		detail = "a client certificate is required here, beside the token"
	}
	challenge := `Bearer realm="flux-resourceset"`
	switch { // RFC 6750: no error code when the request has no token
	case errors.Is(why, errReadToken):
		detail = "this is the read token, and changes require the write token: CRUD_AUTH_TOKEN of the server, which \"make run\" shows in its examples"
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
	sum       [sha256.Size]byte
	principal principal
}

// credentials returns the tokens that are set. The write token is last, so it counts where both are equal.
func (t Tokens) credentials() []credential {
	static := func(r role, actor string, method authMethod) principal {
		return principal{role: r, method: method, actor: actor, static: true}
	}
	var out []credential
	for _, known := range []struct {
		token  string
		holder principal
	}{
		{t.ReadPrevious, static(roleRead, actorRead, byReadPrevious)},
		{t.Read, static(roleRead, actorRead, byRead)},
		{t.WritePrevious, static(roleAdmin, actorWrite, byWritePrevious)},
		{t.Write, static(roleAdmin, actorWrite, byWrite)},
	} {
		if known.token != "" {
			out = append(out, credential{sha256.Sum256([]byte(known.token)), known.holder})
		}
	}
	return out
}

// identifyToken returns the holder of a token. It compares every static token in constant time, whichever matched before, and
// looks managed ones up by their digest, so the time reveals nothing about a secret.
func (s *Server) identifyToken(token string, st *fleet.State) (caller principal, err error) {
	var room [128]byte // on the stack: a conversion of the string would allocate
	sum := sha256.Sum256(append(room[:0], token...))
	for i := range s.credentials {
		if subtle.ConstantTimeCompare(sum[:], s.credentials[i].sum[:]) == 1 {
			caller = s.credentials[i].principal
		}
	}
	if caller.role != roleNone {
		return caller, nil
	}
	if st == nil {
		if fleet.LooksLikeSecret(token) {
			return caller, store.ErrNotLoaded // it may be valid
		}
		return caller, errUnknown
	}
	h := s.cfg.Replica.Holder(st, sum)
	switch {
	case h == nil:
		return caller, errUnknown
	case h.Expired(s.cfg.Now()):
		return principal{actor: h.Actor}, errExpired
	}
	return principal{role: tokenRoles[h.Role], method: byToken, actor: h.Actor, cluster: h.ClusterID, managed: h}, nil
}
