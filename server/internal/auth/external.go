package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/oidc"
	"github.com/flux-resourceset/flux-resourceset/server/internal/session"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// External tokens are ID tokens of the configured issuers, and the tokens of sessions that began with one. Polls never use them:
// verification may wait for an issuer.

// externalError is the error for a refused external token, with the reason for its holder.
type externalError struct {
	cause  error // errUnknown, errExpired or errMalformed
	reason string
}

func (e *externalError) Error() string { return e.reason }

func (e *externalError) Unwrap() error { return e.cause }

var errTwoTokens = &externalError{errMalformed, "the request has more than one Authorization header: send one"}

// errEnded is the error for a session or ID token that an admin ended after the sign-in.
var errEnded = &externalError{errExpired, "an admin ended the sessions of this person: sign in again, a minute after that or later"}

// identify is like Identify, but also accepts external tokens, if issuers are configured and the operation is not a poll.
func (a *Authenticator) identify(r *http.Request, access Access, st *fleet.State) (Principal, error) {
	caller, err := a.identifyAny(r, access, st)
	switch {
	case err != nil || caller.Method != IDToken && caller.Method != Session:
		return caller, err
	case st == nil:
		return Principal{}, store.ErrNotLoaded // the State records ended sessions
	case st.SessionEnded(caller.Subject, caller.began, caller.person):
		return Principal{Actor: caller.Actor}, errEnded
	}
	return caller, nil
}

func (a *Authenticator) identifyAny(r *http.Request, access Access, st *fleet.State) (Principal, error) {
	caller, err := a.Identify(r, st)
	if a.cfg.Issuers == nil || access.Poll {
		return caller, err
	}
	if len(r.Header.Values(echo.HeaderAuthorization)) > 1 {
		return Principal{}, errTwoTokens
	}
	token, _ := bearer(r)
	switch {
	case errors.Is(err, errLockedOut): // a token that was verified before is not a guess
		if caller, ok := a.knownExternal(token); ok {
			return caller, nil
		}
	case errors.Is(err, errUnknown) && session.IsToken(token):
		return a.openSession(token)
	case errors.Is(err, errUnknown) && isGuess(token):
		id, refused := a.cfg.Issuers.Verify(r.Context(), token)
		if refused == nil {
			return idTokenPrincipal(id), nil
		}
		return Principal{}, externalRefusal(refused)
	}
	return caller, err
}

// MayEnter reports whether a request has a credential that is known to be valid, without waiting for an issuer. Otherwise it
// counts the failure.
func (a *Authenticator) MayEnter(r *http.Request, st *fleet.State) bool {
	_, err := a.Identify(r, st)
	if token, ok := bearer(r); ok && err != nil && a.cfg.Issuers != nil {
		if _, known := a.knownExternal(token); known {
			return true
		}
	}
	if errors.Is(err, ErrUnauthenticated) {
		a.failures.recordRequest(r, err, a.cfg.Now()) // otherwise guesses here would not count
	}
	return err == nil
}

// knownExternal returns the holder of an external token, if it can be determined without waiting for an issuer.
func (a *Authenticator) knownExternal(token string) (Principal, bool) {
	if session.IsToken(token) {
		caller, err := a.openSession(token)
		return caller, err == nil
	}
	if id := a.cfg.Issuers.Cached(token); id != nil {
		return idTokenPrincipal(id), true
	}
	return Principal{}, false
}

func idTokenPrincipal(id *oidc.Identity) Principal {
	return Principal{Role: Scoped, Method: IDToken, Subject: &id.Subject, Actor: externalActor(&id.Subject), Expires: id.Expires, Identity: id, began: id.Issued, person: !id.SignedIn.IsZero()}
}

// openSession returns the holder of a session. Sessions of an issuer end when it is removed from the configuration.
func (a *Authenticator) openSession(token string) (Principal, error) {
	s, err := a.cfg.Sessions.Open(token, a.cfg.Now())
	switch {
	case errors.Is(err, session.ErrExpired):
		return Principal{Actor: externalActor(&s.Subject)}, &externalError{errExpired, err.Error()}
	case err != nil:
		return Principal{}, &externalError{errUnknown, err.Error()}
	case !a.cfg.Issuers.Has(s.Issuer):
		return Principal{}, &externalError{errUnknown, "the issuer of the session is no longer configured: sign in again"}
	}
	return Principal{Role: Scoped, Method: Session, Subject: &s.Subject, Actor: externalActor(&s.Subject), Expires: s.Expires, began: s.Started, person: true}, nil
}

func externalActor(s *fleet.Subject) string {
	return fmt.Sprintf("oidc:%s:%s (%s)", s.Issuer, ActorPart(s.User), ActorPart(s.Sub))
}

// maxActorPart is the longest part of an actor in bytes; the rest of a longer one is replaced by a hash.
const maxActorPart = 256

// ActorPart encodes a part of an actor, so that no two texts look alike, and none contains a delimiter of actors. Everything except visible
// ASCII is percent-encoded, and so are parentheses and the percent sign.
func ActorPart(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '(' || c == ')' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if b.Len() > maxActorPart {
		return fmt.Sprintf("%s…%x", b.String()[:maxActorPart-32], sha256.Sum256([]byte(text)))
	}
	return b.String()
}

// externalRefusal translates an error of [oidc.Verifier.Verify].
func externalRefusal(err error) error {
	if errors.Is(err, oidc.ErrNoKeys) {
		return &httperror.Error{
			Status: http.StatusServiceUnavailable, Code: "issuer_unavailable",
			Detail: "the ID token cannot be verified without the keys of its issuer, which did not answer or sent none that can be used: the log has the reason; try again, or use a managed token", Headers: map[string]string{"Retry-After": "60"},
		}
	}
	refused, ok := errors.AsType[*oidc.TokenError](err)
	switch {
	case !ok:
		return err
	case refused.NotAToken:
		return errUnknown // a mistyped token of another kind
	case refused.Expired:
		return &externalError{errExpired, "the ID token is refused: " + refused.Reason + "; request a new one"}
	}
	return &externalError{errUnknown, "the ID token is refused: " + refused.Reason}
}
