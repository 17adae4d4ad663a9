package ui

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A session is the visitor's own token, encrypted in a cookie that only this service can open. Every page asks the API with it, so
// there is nothing to keep on the server and nothing that outlives the token.
type session struct {
	ID      string    `json:"i"` // tells sessions of one token apart
	Token   string    `json:"t"`
	Started time.Time `json:"s"`
	Seen    time.Time `json:"l"`
}

const (
	sessionIdle    = 8 * time.Hour  // without a page, a session ends
	sessionMax     = 24 * time.Hour // and in any case
	sessionRefresh = 5 * time.Minute
	maxTokenBytes  = 1024 // bytes: a cookie has room for no more
)

// session is whose request it is. One that goes on is kept for longer.
func (p *Page) session(w http.ResponseWriter, r *http.Request) (session, bool) {
	name := p.cookieName(r)
	cookie, err := r.Cookie(name)
	if err != nil {
		return session{}, false
	}
	s, ok := p.cipher.decrypt(cookie.Value, name)
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

// redirectToSignIn asks who it is, and comes back to where they wanted to go.
func (p *Page) redirectToSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Hx-Request") != "" {
		w.Header().Set("Hx-Refresh", "true") // the whole page, and not what would stand in a part of it
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// From a link in a chat, browsers release out the cookie of a strict site. From a page of ours they send it.
		p.render(w, r, http.StatusOK, "same_site", sameSiteView{frame{Title: "Fleet", Version: p.cfg.Version}, r.URL.RequestURI()})
		return
	}
	http.Redirect(w, r, prefix+"/sign-in?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

type sameSiteView struct {
	frame
	To string
}

// destination is a page of ours, whatever a link to the form says.
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
	Insecure    bool // the browser will not keep the session
}

func (p *Page) signInForm(w http.ResponseWriter, r *http.Request) {
	p.showSignIn(w, r, http.StatusOK, destination(r.URL.Query().Get("to")), "")
}

func (p *Page) showSignIn(w http.ResponseWriter, r *http.Request, status int, to, problem string) {
	insecure := r.TLS == nil && p.cookieName(r) != plainCookie && r.Header.Get("X-Forwarded-Proto") != "https"
	p.render(w, r, status, "sign-in", signInView{frame: frame{Title: "Sign in", Version: p.cfg.Version}, To: to, Problem: problem, Insecure: insecure})
}

func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.showSignIn(w, r, http.StatusBadRequest, prefix+"/", "The form could not be read.")
		return
	}
	to, token := destination(r.PostFormValue("to")), strings.TrimSpace(r.PostFormValue("token"))
	if token == "" || len(token) > maxTokenBytes || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		p.showSignIn(w, r, http.StatusBadRequest, to, "Paste a token of the API: visible characters, without spaces.")
		return
	}
	now := p.cfg.Now()
	s := session{ID: rand.Text(), Token: token, Started: now, Seen: now}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	req, err := p.newPageRequest(w, r, s)
	if err == nil {
		err = req.identify()
	}
	if err != nil {
		status, problem, known := signInProblem(w.Header(), err)
		if !known {
			p.failed(w, r, nil, err)
			return
		}
		p.showSignIn(w, r, status, to, problem)
		return
	}
	if err := p.saveSession(w, r, s); err != nil {
		p.failed(w, r, req, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	name := p.cookieName(r)
	var failed error
	if cookie, err := r.Cookie(name); err == nil {
		if s, ok := p.cipher.decrypt(cookie.Value, name); ok {
			failed = p.endSession(r.Context(), s)
		}
	}
	p.setCookie(w, name, "", -time.Second)
	if failed != nil {
		p.cfg.Logger.WarnContext(r.Context(), "a session could not be ended in other processes", "error", failed)
		p.showSignIn(w, r, http.StatusServiceUnavailable, prefix+"/", "You are signed out in this browser. The store does not answer, so a copy of the session may "+
			"go on elsewhere, for a day at most: sign in and out again later, or revoke the token.")
		return
	}
	http.Redirect(w, r, prefix+"/sign-in", http.StatusSeeOther)
}
