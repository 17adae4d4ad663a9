package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

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

// beginSession checks a token with the API and sets the cookie. Otherwise it answers with the problem.
func (p *Page) beginSession(w http.ResponseWriter, r *http.Request, token, to string) bool {
	now := p.cfg.Now()
	s := session{ID: rand.Text(), Token: token, Started: now, Seen: now}
	req, err := p.newPageRequest(w, r, s)
	if err == nil {
		err = req.identify()
	}
	if err != nil {
		if status, problem, known := signInProblem(w.Header(), err); known {
			p.showSignIn(w, r, status, to, problem)
		} else {
			p.failed(w, r, nil, err)
		}
		return false
	}
	if err := p.saveSession(w, r, s); err != nil {
		p.failed(w, r, req, err)
		return false
	}
	return true
}

// sendsOtherToken reports whether a request has a session and a different bearer token, so that its sender is ambiguous. Without
// issuers the header is ignored.
func (p *Page) sendsOtherToken(r *http.Request, s session) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return p.cfg.Issuers != nil && strings.EqualFold(scheme, "Bearer") && token != s.Token
}
