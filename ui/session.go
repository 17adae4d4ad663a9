package ui

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// A session is the visitor's own token, sealed in a cookie that only this service can open. Every page asks the API with it, so
// there is nothing to keep on the server and nothing that outlives the token.
type session struct {
	ID      string    `json:"i"` // tells sessions of one token apart
	Token   string    `json:"t"`
	Started time.Time `json:"s"`
	Seen    time.Time `json:"l"`
}

const (
	sessionIdle = 8 * time.Hour  // without a page, a session ends
	sessionMost = 24 * time.Hour // and in any case
	sessionStep = 5 * time.Minute
	maxToken    = 1024 // bytes: a cookie has room for no more
)

// Names of the cookie. Browsers accept the first two over HTTPS only. The first belongs to one host and all of its paths; below a
// base path the second is used, because a browser sends it to that path alone and not to other applications of the host.
const (
	hostCookie  = "__Host-fleet-session"
	pathCookie  = "__Secure-fleet-session"
	plainCookie = "fleet-session"
)

// seal encrypts sessions, and knows its own.
type seal struct{ aead cipher.AEAD }

func newSeal(secret string) (*seal, error) {
	key := make([]byte, sha256.Size)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	if secret != "" {
		var err error
		if key, err = hkdf.Key(sha256.New, []byte(secret), nil, "flux-resourceset page sessions", sha256.Size); err != nil {
			return nil, err
		}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &seal{aead}, err
}

func (s *seal) close(v session, name string) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, []byte(name))), nil
}

func (s *seal) open(text, name string) (v session, ok bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return v, false
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return v, false
	}
	return v, json.Unmarshal(plain, &v) == nil
}

// session is whose request it is. One that goes on is kept for longer.
func (p *Page) session(w http.ResponseWriter, r *http.Request) (session, bool) {
	name := p.cookieName(r)
	cookie, err := r.Cookie(name)
	if err != nil {
		return session{}, false
	}
	s, ok := p.seal.open(cookie.Value, name)
	now := p.cfg.Now()
	if ok && p.hasEnded(r.Context(), s) {
		return session{}, false
	}
	if !ok || now.Sub(s.Started) > sessionMost || now.Sub(s.Seen) > sessionIdle || s.Seen.After(now.Add(time.Minute)) {
		return session{}, false
	}
	if now.Sub(s.Seen) > sessionStep {
		s.Seen = now
		if p.keep(w, r, s) != nil {
			return session{}, false
		}
	}
	return s, true
}

func (p *Page) keep(w http.ResponseWriter, r *http.Request, s session) error {
	name := p.cookieName(r)
	value, err := p.seal.close(s, name)
	if err != nil {
		return err
	}
	p.setCookie(w, name, value, sessionIdle)
	return nil
}

func (p *Page) setCookie(w http.ResponseWriter, name, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: cmp.Or(p.cfg.BasePath, "/"), MaxAge: int(age.Seconds()), Secure: name != plainCookie, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// cookieName is of the cookie for the way this request came: in plain text only from a browser on the same machine.
func (p *Page) cookieName(r *http.Request) string {
	switch {
	case r.TLS == nil && loopback(r.Host) && loopback(r.RemoteAddr) && !proxied(r.Header):
		return plainCookie
	case p.cfg.BasePath != "":
		return pathCookie
	}
	return hostCookie
}

// proxied tells whether a request came through a proxy that says so: what is plain here may be HTTPS there.
func proxied(h http.Header) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Via"} {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// toSignIn asks who it is, and comes back to where they wanted to go.
func (p *Page) toSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Hx-Request") != "" {
		w.Header().Set("Hx-Refresh", "true") // the whole page, and not what would stand in a part of it
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// From a link in a chat, browsers leave out the cookie of a strict site. From a page of ours they send it.
		p.render(w, r, http.StatusOK, "arrival", arrivalView{frame{Title: "Fleet", Version: p.cfg.Version}, r.URL.RequestURI()})
		return
	}
	http.Redirect(w, r, prefix+"/sign-in?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

type arrivalView struct {
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
	p.askWho(w, r, http.StatusOK, destination(r.URL.Query().Get("to")), "")
}

func (p *Page) askWho(w http.ResponseWriter, r *http.Request, status int, to, problem string) {
	insecure := r.TLS == nil && p.cookieName(r) != plainCookie && r.Header.Get("X-Forwarded-Proto") != "https"
	p.render(w, r, status, "sign-in", signInView{frame: frame{Title: "Sign in", Version: p.cfg.Version}, To: to, Problem: problem, Insecure: insecure})
}

func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.askWho(w, r, http.StatusBadRequest, prefix+"/", "The form could not be read.")
		return
	}
	to, token := destination(r.PostFormValue("to")), strings.TrimSpace(r.PostFormValue("token"))
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		p.askWho(w, r, http.StatusBadRequest, to, "Paste a token of the API: visible characters, without spaces.")
		return
	}
	now := p.cfg.Now()
	s := session{ID: rand.Text(), Token: token, Started: now, Seen: now}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	v, err := p.newVisit(w, r, s)
	if err == nil {
		err = v.identify()
	}
	if err != nil {
		status, problem, known := reasonNotIn(w.Header(), err)
		if !known {
			p.failed(w, r, nil, err)
			return
		}
		p.askWho(w, r, status, to, problem)
		return
	}
	if err := p.keep(w, r, s); err != nil {
		p.failed(w, r, v, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	name := p.cookieName(r)
	var failed error
	if cookie, err := r.Cookie(name); err == nil {
		if s, ok := p.seal.open(cookie.Value, name); ok {
			failed = p.end(r.Context(), s)
		}
	}
	p.setCookie(w, name, "", -time.Second)
	if failed != nil {
		p.cfg.Logger.WarnContext(r.Context(), "a session could not be ended in other processes", "error", failed)
		p.askWho(w, r, http.StatusServiceUnavailable, prefix+"/", "You are signed out in this browser. The store does not answer, so a copy of the session may "+
			"go on elsewhere, for a day at most: sign in and out again later, or revoke the token.")
		return
	}
	http.Redirect(w, r, prefix+"/sign-in", http.StatusSeeOther)
}
