package auth

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/oidc"
)

// External tokens are ID tokens of the configured issuers. Polls never use them: verification may wait for an issuer.

// externalError is the refusal of an external token, with the reason for its holder.
type externalError struct {
	cause  error // errUnknown, errExpired or errMalformed
	reason string
}

func (e *externalError) Error() string { return e.reason }

func (e *externalError) Unwrap() error { return e.cause }

var errTwoTokens = &externalError{errMalformed, "the request has more than one Authorization header: send one"}

// identify is Identify, and accepts external tokens as well, where issuers are configured and for operations other than polls.
func (a *Authenticator) identify(r *http.Request, access Access, st *fleet.State) (Principal, error) {
	caller, err := a.Identify(r, st)
	if a.cfg.Issuers == nil || access.Poll {
		return caller, err
	}
	if len(r.Header.Values(echo.HeaderAuthorization)) > 1 {
		return Principal{}, errTwoTokens
	}
	token, _ := bearer(r)
	switch {
	case errors.Is(err, errLockedOut): // a verified token is not a guess
		if id := a.cfg.Issuers.Cached(token); id != nil {
			return externalPrincipal(id), nil
		}
	case errors.Is(err, errUnknown) && isGuess(token):
		id, refused := a.cfg.Issuers.Verify(r.Context(), token)
		if refused == nil {
			return externalPrincipal(id), nil
		}
		return Principal{}, externalRefusal(refused)
	}
	return caller, err
}

// MayEnter reports whether a request has a credential that is known to be valid, without waiting for an issuer. Otherwise it
// counts the failure.
func (a *Authenticator) MayEnter(r *http.Request, st *fleet.State) bool {
	_, err := a.Identify(r, st)
	if token, ok := bearer(r); ok && err != nil && a.cfg.Issuers != nil && a.cfg.Issuers.Cached(token) != nil {
		return true
	}
	if errors.Is(err, ErrUnauthenticated) {
		a.failures.recordRequest(r, err, a.cfg.Now()) // otherwise tokens could be guessed here without being counted
	}
	return err == nil
}

func externalPrincipal(id *oidc.Identity) Principal {
	return Principal{
		Role: Scoped, Method: IDToken, Subject: &id.Subject, Actor: fmt.Sprintf("oidc:%s:%s (%s)", id.Issuer, id.User, id.Sub), Expires: id.Expires,
	}
}

// externalRefusal translates an error of [oidc.Verifier.Verify].
func externalRefusal(err error) error {
	if errors.Is(err, oidc.ErrNoKeys) {
		return &httperror.Error{
			Status: http.StatusServiceUnavailable, Code: "issuer_unavailable",
			Detail: "the ID token cannot be verified: its issuer did not answer for too long; try again, or use a managed token", Headers: map[string]string{"Retry-After": "60"},
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
