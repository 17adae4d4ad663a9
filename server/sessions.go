package server

import (
	"errors"
	"maps"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
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

// errNotSignedIn is the answer to a credential that cannot begin a session. A session that began with the short-lived token of a
// pipeline would outlive the token.
var errNotSignedIn = &httperror.Error{
	Status: http.StatusForbidden, Code: "forbidden", Detail: "a session begins with the ID token of a person who signed in with this service's client at an issuer",
}

// CreateSession exchanges the ID token of a person for the token of a session.
func (s *Server) CreateSession(c echo.Context) error {
	caller := requestOf(c).principal
	if caller.Identity == nil || caller.Identity.SignedIn.IsZero() {
		return errNotSignedIn
	}
	begun := session.Session{Subject: *caller.Subject, Started: s.cfg.Now(), Expires: caller.Identity.SignedIn.Add(session.MaxAge)}
	if began := caller.Identity.SignedIn; began.Before(begun.Started) { // the clock of the issuer may be ahead
		begun.Started = began
	}
	begun.Claims = map[string]string{"sub": caller.Subject.Sub}
	if !s.cfg.Now().Before(begun.Expires) {
		return &httperror.Error{Status: http.StatusForbidden, Code: "forbidden", Detail: "the sign-in was more than 8 hours ago: sign in again"}
	}
	named := requestOf(c).state.Rights(caller.Subject, s.cfg.Now()).Identity()
	if named != nil {
		maps.Copy(begun.Claims, named.Claims)
	}
	token, err := s.sessions.Seal(begun)
	if errors.Is(err, session.ErrTooLarge) && named != nil { // the other groups grant no rights now
		begun.Groups = named.Groups
		token, err = s.sessions.Seal(begun)
	}
	if errors.Is(err, session.ErrTooLarge) {
		return &httperror.Error{Status: http.StatusForbidden, Code: "forbidden", Detail: err.Error()}
	}
	if err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusCreated, api.Session{Token: token, Actor: caller.Actor, ExpiresAt: begun.Expires.UTC()})
}

// EndSessions ends the sessions of a person, or of all people of an issuer, that began until now.
func (s *Server) EndSessions(c echo.Context, p api.EndSessionsParams) error {
	req, err := decodeBody[api.SessionEnd](c)
	if err != nil {
		return err
	}
	if s.sessions == nil || !s.cfg.Issuers.Has(req.Issuer) {
		return fleet.Invalid([]fleet.Problem{{Pointer: "/issuer", Detail: "is not the name of an issuer in OIDC_ISSUERS"}})
	}
	ended := api.EndedSessions{Issuer: req.Issuer, Sub: value(req.Sub), NotBefore: s.commitTime()}
	if _, err := s.commit(c, fleet.KindSessionEnd, "", writeParams{nil, p.DryRun, p.XChangeReason, nil}, func(tx *fleet.Tx) error {
		return tx.EndSessions(ended.Issuer, ended.Sub, ended.NotBefore)
	}); err != nil {
		return err
	}
	return response.WriteJSON(c, http.StatusOK, ended)
}
