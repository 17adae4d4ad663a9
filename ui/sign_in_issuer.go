package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"
)

const (
	signInPath   = prefix + "/sign-in/issuer"
	callbackPath = prefix + "/sign-in/callback"
	signInMax    = 10 * time.Minute // for the person to sign in
)

// signInCookie returns the name of the cookie of a sign-in at an issuer.
func (p *Page) signInCookie(r *http.Request) string { return p.cookieName(r) + "-issuer" }

// startIssuerSignIn handles GET /ui/sign-in/issuer: it sends the browser to the issuer.
func (p *Page) startIssuerSignIn(w http.ResponseWriter, r *http.Request) {
	scheme := "https"
	if p.cookieName(r) == plainCookie {
		scheme = "http"
	}
	in := IssuerSignIn{
		Issuer: r.URL.Query().Get("name"), RedirectURL: scheme + "://" + r.Host + p.cfg.BasePath + callbackPath,
		State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), To: destination(r.URL.Query().Get("to")), Started: p.cfg.Now(),
	}
	address, err := p.cfg.Issuers.URL(in)
	if err != nil {
		p.showSignIn(w, r, http.StatusServiceUnavailable, in.To, "This identity provider cannot be reached. Try again later, or use a token.")
		return
	}
	name := p.signInCookie(r)
	value, err := p.cipher.encrypt(in, name)
	if err != nil {
		p.failed(w, r, nil, err)
		return
	}
	// The issuer sends the browser back from its own site, so the cookie cannot be SameSite=Strict.
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: cmp.Or(p.cfg.BasePath, "/"), MaxAge: int(signInMax.Seconds()), Secure: !strings.HasPrefix(name, plainCookie), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// finishIssuerSignIn handles GET /ui/sign-in/callback: it begins a session of the person who signed in at the issuer.
func (p *Page) finishIssuerSignIn(w http.ResponseWriter, r *http.Request) {
	name, answer := p.signInCookie(r), r.URL.Query()
	var in IssuerSignIn
	cookie, err := r.Cookie(name)
	p.setCookie(w, name, "", -time.Second)
	if err != nil || !p.cipher.decrypt(cookie.Value, name, &in) || subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(in.State)) != 1 || p.cfg.Now().Sub(in.Started) > signInMax {
		p.showSignIn(w, r, http.StatusBadRequest, prefix+"/", "This sign-in was not started in this browser, or took more than 10 minutes. Try again.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	idToken, reason, err := p.cfg.Issuers.IDToken(ctx, in, answer)
	if err != nil {
		p.cfg.Logger.WarnContext(ctx, "a sign-in at an issuer failed", "issuer", in.Issuer, "error", err)
		p.audit(r, AuditEvent{Type: AuditSignInFailed, Issuer: in.Issuer})
		status := http.StatusForbidden
		if reason == "" {
			status, reason = http.StatusBadGateway, "the identity provider returned no usable answer"
		}
		p.showSignIn(w, r, status, in.To, "Sign-in failed: "+reason+".")
		return
	}
	token, err := p.exchange(w, r, idToken)
	if err != nil {
		status, problem, known := signInProblem(w.Header(), err)
		if !known {
			p.failed(w, r, nil, err)
			return
		}
		p.showSignIn(w, r, status, in.To, problem)
		return
	}
	if !p.beginSession(w, r, token, in.To) {
		return
	}
	// Browsers send the new cookie, which is SameSite=Strict, only from a page of this site.
	p.render(w, r, http.StatusOK, "same_site", sameSiteView{frame{Title: "Fleet", Version: p.cfg.Version}, in.To})
}

// exchange returns the token of a session for an ID token.
func (p *Page) exchange(w http.ResponseWriter, r *http.Request, idToken string) (string, error) {
	req, err := p.newPageRequest(w, r, session{Token: idToken})
	if err != nil {
		return "", err
	}
	begun, err := req.fleet.CreateSessionWithResponse(r.Context())
	if err != nil {
		return "", err
	}
	if begun.JSON201 == nil {
		return "", errors.New("the API returned no session")
	}
	return begun.JSON201.Token, nil
}
