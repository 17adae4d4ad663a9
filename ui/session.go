package ui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// session is the user's token, stored encrypted in a cookie. Every page calls the API with it, so the server stores no session, and no
// session outlives its token.
type session struct {
	ID      string    `json:"i"` // distinguishes sessions of one token
	Token   string    `json:"t"`
	Started time.Time `json:"s"`
	Seen    time.Time `json:"l"`
}

const (
	sessionIdle    = 8 * time.Hour   // since the last page
	sessionMax     = 24 * time.Hour  // since the sign-in
	sessionRefresh = 5 * time.Minute // age of Seen after which the cookie is written again
	maxTokenBytes  = 1024            // bytes; cookies are limited to 4 KiB
)

// session returns the valid session of a request; false without one. It extends the session in use.
func (p *Page) session(w http.ResponseWriter, r *http.Request) (session, bool) {
	name := p.cookieName(r)
	cookie, err := r.Cookie(name)
	if err != nil {
		return session{}, false
	}
	var s session
	ok := p.cipher.decrypt(cookie.Value, name, &s)
	now := p.cfg.Now()
	if ok && p.sessionEnded(r.Context(), s) {
		return session{}, false
	}
	if !ok || now.Sub(s.Started) > sessionMax || now.Sub(s.Seen) > sessionIdle || s.Seen.After(now.Add(time.Minute)) {
		return session{}, false
	}
	if now.Sub(s.Seen) > sessionRefresh {
		s.Seen = now
		if p.saveSession(w, r, s) != nil {
			return session{}, false
		}
	}
	return s, true
}

// redirectToSignIn sends the browser to the sign-in form, which returns to the requested page.
func (p *Page) redirectToSignIn(w http.ResponseWriter, r *http.Request) {
	if isRefresh(r) {
		w.WriteHeader(http.StatusUnauthorized) // the script loads the page again
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// Browsers omit SameSite=Strict cookies after a link from another site. This page redirects from our own site, with the cookie.
		p.render(w, r, http.StatusOK, "same_site", sameSiteView{frame{Title: "Fleet", Version: p.cfg.Version}, r.URL.RequestURI()})
		return
	}
	http.Redirect(w, r, prefix+"/sign-in?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

type sameSiteView struct {
	frame
	To string
}

// destination returns the page to show after the sign-in: the given one if it is a page of this site, otherwise the overview.
func destination(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, prefix+"/") || strings.HasPrefix(u.Path, prefix+"/sign-") || strings.Contains(u.Path, "..") || strings.ContainsAny(to, "\\\r\n") {
		return prefix + "/"
	}
	return u.RequestURI()
}

type signInView struct {
	frame
	To, Problem string
	Issuers     []string // at which people can sign in
	Insecure    bool     // plain HTTP: the browser drops the cookie
}

// signInForm handles GET /ui/sign-in.
func (p *Page) signInForm(w http.ResponseWriter, r *http.Request) {
	p.showSignIn(w, r, http.StatusOK, destination(r.URL.Query().Get("to")), "")
}

// showSignIn renders the sign-in form with an optional problem.
func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request, status int, to, problem string) {
	insecure := r.TLS == nil && p.cookieName(r) != plainCookie && r.Header.Get("X-Forwarded-Proto") != "https"
	view := signInView{frame: frame{Title: "Sign in", Version: p.cfg.Version}, To: to, Problem: problem, Insecure: insecure}
	if p.cfg.Issuers != nil {
		view.Issuers = p.cfg.Issuers.Names()
	}
	p.render(w, r, status, "sign-in", view)
}

// signIn handles POST /ui/sign-in: it checks the token with the API and sets the cookie.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.showSignIn(w, r, http.StatusBadRequest, prefix+"/", "The form cannot be read.")
		return
	}
	to, token := destination(r.PostFormValue("to")), strings.TrimSpace(r.PostFormValue("token"))
	if token == "" || len(token) > maxTokenBytes || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		p.showSignIn(w, r, http.StatusBadRequest, to, "Enter an API token: visible characters, without spaces.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	if !p.beginSession(w, r, token, to) {
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// signOut handles POST /ui/sign-out: it ends the session in all processes and deletes the cookie. It reports it if the store fails.
func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	name := p.cookieName(r)
	var failed error
	if cookie, err := r.Cookie(name); err == nil {
		var s session
		if p.cipher.decrypt(cookie.Value, name, &s) {
			failed = p.endSession(r.Context(), s)
		}
	}
	p.setCookie(w, name, "", -time.Second)
	if failed != nil {
		p.cfg.Logger.WarnContext(r.Context(), "a session could not be ended in other processes", "error", failed)
		p.showSignIn(w, r, http.StatusServiceUnavailable, prefix+"/", "You are signed out in this browser. The store does not answer, so a copy of the session may "+
			"stay valid in other processes, for a day at most: sign in and out again later, or revoke the token.")
		return
	}
	http.Redirect(w, r, prefix+"/sign-in", http.StatusSeeOther)
}
