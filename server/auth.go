package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
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
)

const actorKey = "actor"

// actor is who sent the request.
func actor(c echo.Context) string {
	name, _ := c.Get(actorKey).(string)
	return name
}

// authenticate finds out who sent the request and whether they may do this.
func (s *Server) authenticate(c echo.Context, op *operation) error {
	if op.public {
		return nil
	}
	if token, ok := bearer(c.Request()); ok {
		name := s.actorOf(token)
		switch {
		case name == "" || op.write && name != actorWrite:
			return unauthorized(op)
		case !op.poll: // nobody asks who polled, and polls are many
			c.Set(actorKey, name)
		}
		return nil
	}
	if op.poll && certifiedFor(c.Request(), c.Param("cluster_dns")) {
		return nil
	}
	return unauthorized(op)
}

func unauthorized(op *operation) error {
	detail := "a bearer token is required: send Authorization: Bearer, with the read token"
	if op.write {
		detail = "the write token is required: send Authorization: Bearer, with the write token"
	}
	return &publicError{
		status: http.StatusUnauthorized, code: "unauthorized", detail: detail,
		headers: map[string]string{echo.HeaderWWWAuthenticate: `Bearer realm="flux-resourceset"`},
	}
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

// credential is a configured token, as it is compared.
type credential struct {
	sum   [sha256.Size]byte
	actor string
}

// credentials are the tokens that are set. The write token comes last: where both are the same, it counts.
func (t Tokens) credentials() []credential {
	var out []credential
	for _, known := range []struct{ token, actor string }{
		{t.ReadPrevious, actorRead}, {t.Read, actorRead}, {t.WritePrevious, actorWrite}, {t.Write, actorWrite},
	} {
		if known.token != "" {
			out = append(out, credential{sha256.Sum256([]byte(known.token)), known.actor})
		}
	}
	return out
}

// actorOf is whose token it is, empty for nobody's. Every credential is compared, in constant time, whatever matched
// before.
func (s *Server) actorOf(token string) string {
	name := ""
	sum := sha256.Sum256([]byte(token))
	for i := range s.credentials {
		if subtle.ConstantTimeCompare(sum[:], s.credentials[i].sum[:]) == 1 {
			name = s.credentials[i].actor
		}
	}
	return name
}

// certifiedFor tells whether the client presented a verified certificate with this DNS name: that is the cluster's own
// identity, good for its own polls.
func certifiedFor(r *http.Request, dns string) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || dns == "" {
		return false
	}
	dns = strings.TrimSuffix(dns, ".")
	return slices.ContainsFunc(r.TLS.PeerCertificates[0].DNSNames, func(san string) bool { return strings.EqualFold(san, dns) })
}
