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
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Tokens are the static bearer tokens. Read must not be empty. Previous ones are still accepted while clients are
// moved to the new ones; empty ones are not used.
type Tokens struct {
	Read, ReadPrevious   string
	Write, WritePrevious string
}

// Actors, as the log names them.
const (
	actorRead  = "static-read"
	actorWrite = "static-write"
	// A certificate only polls, so it is never the actor of a commit.
	actorCertificate = "certificate"
)

// role is what an identity may do. Each may do what those before it may.
type role uint8

const (
	roleNone  role = iota // nobody
	rolePoll              // the Flux endpoints of one cluster
	roleRead              // every read, and plans
	roleWrite             // every change of the fleet
	roleAdmin             // tokens as well
)

// authMethod is how a principal was known, for the metric: whoever moves clients from one to another wants to see it.
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

// principal is who sent a request. The zero value is nobody.
type principal struct {
	role    role
	method  authMethod
	actor   string        // as the log names it
	static  bool          // a token of the configuration
	cluster string        // of a poll token: the id of the cluster it may poll for
	managed *fleet.Holder // of a managed token: what its secret stands for
	names   []string      // of a client certificate: the DNS names of the clusters it may poll for
}

// mayPoll tells whether the principal may poll for the cluster that dns, as the request spells it, names. cluster is nil
// where there is none: who may not poll for a cluster is told the same whether it exists or not.
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

// may tells whether the principal may do this; dns is the cluster that a poll names.
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

// refusal is why a request is not let through, and what it is answered.
type refusal struct {
	principal principal // as far as they are known
	reason    error     // nil: they are known, and may not do this
	answer    error
}

// Error says why.
func (r *refusal) Error() string { return r.answer.Error() }

// judge finds out who sent the request and whether they may do this, by what a State says; st may be nil.
func (s *Server) authorize(r *request, st *fleet.State) (principal, *refusal) {
	who, err := s.identify(r.Request(), st)
	switch {
	case errors.Is(err, errUnauthenticated):
		return who, &refusal{who, err, unauthorized(r.op, err)}
	case err != nil:
		return who, &refusal{who, err, err}
	case who.mayCall(r.op, st, r.Param("cluster_dns")):
		return who, nil
	case who.static: // as the reference answers
		return who, &refusal{who, nil, unauthorized(r.op, errReadToken)}
	}
	return who, &refusal{who, nil, errForbidden}
}

// authenticate judges the request by the newest State, unless it has been already, and keeps both.
func (s *Server) authenticate(r *request) error {
	if r.op.public() {
		return nil
	}
	read := s.cfg.Replica.StateForReads
	if !r.op.crudOnly { // the answer is for clusters
		read = s.cfg.Replica.StateForPolls
	}
	st, age, unfit := read()
	r.age, r.unfit = age, unfit
	if r.principal.role != roleNone && st == r.state {
		return nil
	}
	who, refusal := s.authorize(r, st)
	if refusal != nil {
		return s.reportRefusal(r, refusal)
	}
	if r.principal.role == roleNone {
		s.metrics.identified[who.method].Inc()
	}
	r.state, r.principal = st, who
	s.releasePreauth(r)
	markAuthenticated(r.Request().Context())
	return nil
}

// errNobody: the request does not say who sent it, or not in a way that is good here. The others say which.
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

// tokenRoles are the roles of managed tokens. One that a newer version has added may do nothing here.
var tokenRoles = map[string]role{
	fleet.RolePoll: rolePoll, fleet.RoleRead: roleRead, fleet.RoleWrite: roleWrite, fleet.RoleAdmin: roleAdmin,
}

// errForbidden is the same for everything that a principal may not do, so that it tells nothing about what is there.
var errForbidden = &publicError{
	status: http.StatusForbidden, code: "forbidden",
	detail: "the token or client certificate is valid, but not for this: ask for one with another role",
}

// find finds out who sent a request: by its token if it has one, else by its client certificate. It neither
// allocates nor waits, since every poll passes here. st may be nil. errNobody when it is nobody known; with errExpired
// the principal's actor says whose token it was.
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

// certified tells whether the client presented a certificate of an authority that is trusted here.
func (s *Server) hasTrustedCertificate(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && (s.cfg.TLS == nil || s.cfg.TLS.trusts(r.Context(), r.TLS))
}

// unauthorized is the answer to who is not known, or is known and needs another of the static tokens.
func unauthorized(op *operation, why error) error {
	detail := "a bearer token is required: send Authorization: Bearer, with the read token"
	if op.needs >= roleWrite {
		detail = "the write token is required: send Authorization: Bearer, with the write token"
	}
	if errors.Is(why, errNoCertificate) {
		detail = "a client certificate is required here, beside the token"
	}
	challenge := `Bearer realm="flux-resourceset"`
	switch { // RFC 6750: who has sent none is not told of an error
	case errors.Is(why, errReadToken):
		detail = "this is the read token, and changes need the write token: CRUD_AUTH_TOKEN of the server, which \"make run\" shows in its examples"
	case errors.Is(why, errUnknown):
		detail = "this server does not know the bearer token: it is wrong, was revoked, or is another server's"
		challenge += `, error="invalid_token"`
	case errors.Is(why, errExpired):
		detail = "the bearer token has expired: ask for a new one"
		challenge += `, error="invalid_token"`
	}
	return &publicError{
		status: http.StatusUnauthorized, code: "unauthorized", detail: detail,
		headers: map[string]string{echo.HeaderWWWAuthenticate: challenge},
	}
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// credential is a configured token, as it is compared.
type credential struct {
	sum       [sha256.Size]byte
	principal principal
}

// credentials are the tokens that are set. The write token comes last: where both are the same, it counts.
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

// holder is whose token it is. Every static token is compared, in constant time, whatever matched before; managed ones
// are looked up by their digest, which tells nothing about the secret to whoever times it.
func (s *Server) identifyToken(token string, st *fleet.State) (who principal, err error) {
	var room [128]byte // on the stack: a conversion of the string would be copied to the heap
	sum := sha256.Sum256(append(room[:0], token...))
	for i := range s.credentials {
		if subtle.ConstantTimeCompare(sum[:], s.credentials[i].sum[:]) == 1 {
			who = s.credentials[i].principal
		}
	}
	if who.role != roleNone {
		return who, nil
	}
	if st == nil {
		if fleet.LooksLikeSecret(token) {
			return who, store.ErrNotLoaded // it may well be good
		}
		return who, errUnknown
	}
	h := s.cfg.Replica.Holder(st, sum)
	switch {
	case h == nil:
		return who, errUnknown
	case h.Expired(s.cfg.Now()):
		return principal{actor: h.Actor}, errExpired
	}
	return principal{role: tokenRoles[h.Role], method: byToken, actor: h.Actor, cluster: h.ClusterID, managed: h}, nil
}
