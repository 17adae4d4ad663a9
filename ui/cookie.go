package ui

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Names of the cookie. Browsers accept the first two over HTTPS only. The first belongs to one host and all of its paths; below a
// base path the second is used, because a browser sends it to that path alone and not to other applications of the host.
const (
	hostCookie  = "__Host-fleet-session"
	pathCookie  = "__Secure-fleet-session"
	plainCookie = "fleet-session"
)

// saveSession sets the cookie of a session.
func (p *Page) saveSession(w http.ResponseWriter, r *http.Request, s session) error {
	name := p.cookieName(r)
	value, err := p.cipher.encrypt(s, name)
	if err != nil {
		return err
	}
	p.setCookie(w, name, value, sessionIdle)
	return nil
}

// setCookie sets a cookie, or deletes it if age is negative.
func (p *Page) setCookie(w http.ResponseWriter, name, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: cmp.Or(p.cfg.BasePath, "/"), MaxAge: int(age.Seconds()), Secure: !strings.HasPrefix(name, plainCookie), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// cookieName returns the name of the cookie for a request. Only a browser on the same machine gets a cookie for plain HTTP.
func (p *Page) cookieName(r *http.Request) string {
	switch {
	case r.TLS == nil && loopback(r.Host) && loopback(r.RemoteAddr) && !proxied(r.Header):
		return plainCookie
	case p.cfg.BasePath != "":
		return pathCookie
	}
	return hostCookie
}

// proxied reports whether a proxy forwarded the request: plain HTTP here may be HTTPS in front of the proxy.
func proxied(h http.Header) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Via"} {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

// loopback reports whether a host, with or without a port, is the machine itself.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// endSession ends a session and all copies of its cookie, in every process.
func (p *Page) endSession(ctx context.Context, s session) error {
	until := s.Started.Add(sessionMax)
	p.ended.add(s.ID, until, p.cfg.Now())
	if p.cfg.EndedSessions == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout) // the browser may be closed at once
	defer cancel()
	return p.cfg.EndedSessions.EndSession(ctx, s.ID, until)
}

// auditRefusal reports a request that the page itself refused.
func (p *Page) auditRefusal(r *http.Request) {
	var s session
	if cookie, err := r.Cookie(p.cookieName(r)); err == nil {
		p.cipher.decrypt(cookie.Value, cookie.Name, &s) // without a session, the sender is unknown
	}
	p.audit(r, AuditEvent{Type: AuditRefused, Token: s.Token})
}

// sessionEnded reports whether a session was ended. While the store fails, it knows only the sessions ended in this process, just as
// pages and tokens then come from memory.
func (p *Page) sessionEnded(ctx context.Context, s session) bool {
	if p.ended.has(s.ID) {
		return true
	}
	if p.cfg.EndedSessions == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, sessionEndedTimeout)
	defer cancel()
	ended, err := p.cfg.EndedSessions.SessionEnded(ctx, s.ID)
	return err == nil && ended
}

// sessionEndedTimeout limits the wait for the store when a page checks its session.
const sessionEndedTimeout = time.Second
