package server

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/server/internal/session"
)

// ListIssuers answers clients that have no credential yet.
func (s *Server) ListIssuers(c echo.Context) error {
	list := []api.Issuer{}
	if s.sessions != nil {
		for _, issuer := range s.cfg.Issuers.Clients() {
			list = append(list, api.Issuer{Name: issuer.Name, URL: issuer.URL, ClientID: issuer.ClientID, Scopes: issuer.Scopes})
		}
	}
	return response.WriteJSON(c, http.StatusOK, list)
}

// errNotSignedIn is the answer to a credential from which no session can begin. A session from the short-lived token of a pipeline
// would live longer than the token.
var errNotSignedIn = &httperror.Error{
	Status: http.StatusForbidden, Code: "forbidden", Detail: "a session begins with the ID token of a person who signed in with this service's client at an issuer",
}

// CreateSession exchanges the ID token of a person for the token of a session.
func (s *Server) CreateSession(c echo.Context) error {
	caller := requestOf(c).principal
	if caller.Identity == nil || caller.Identity.SignedIn.IsZero() {
		return errNotSignedIn
	}
	begun := session.Session{Subject: *caller.Subject, Started: caller.Identity.SignedIn, Expires: caller.Identity.SignedIn.Add(session.MaxAge)}
	begun.Claims = map[string]string{"sub": caller.Subject.Sub}
	if !s.cfg.Now().Before(begun.Expires) {
		return &httperror.Error{Status: http.StatusForbidden, Code: "forbidden", Detail: "the sign-in was more than 8 hours ago: sign in again"}
	}
	token, err := s.sessions.Seal(begun)
	if errors.Is(err, session.ErrTooLarge) {
		return &httperror.Error{Status: http.StatusForbidden, Code: "forbidden", Detail: err.Error()}
	}
	if err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusCreated, api.Session{Token: token, Actor: caller.Actor, ExpiresAt: begun.Expires.UTC()})
}
