package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
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
	if p.cfg.SignIn != nil {
		ctx = p.cfg.SignIn(ctx)
	}
	r = r.WithContext(ctx)
	if !p.beginSession(w, r, token, to) {
		return
	}
	p.audit(r, AuditEvent{Type: AuditSignIn, Token: token})
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
			p.audit(r, AuditEvent{Type: AuditSignedOut, Token: s.Token})
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

// beginSession checks a token with the API and sets the cookie. Otherwise it answers with the problem.
func (p *Page) beginSession(w http.ResponseWriter, r *http.Request, token, to string) bool {
	now := p.cfg.Now()
	s := session{ID: rand.Text(), Token: token, Started: now, Seen: now}
	req, err := p.newPageRequest(w, r, s)
	if err == nil {
		err = req.identify()
	}
	if errors.Is(err, errMayNotRead) {
		p.audit(r, AuditEvent{Type: AuditSignInFailed, Token: token})
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
