package ui

import (
	"cmp"
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

// sessionCipher encrypts and authenticates sessions (AES-256-GCM).
type sessionCipher struct{ aead cipher.AEAD }

// newSessionCipher derives the key from the secret; a random key if the secret is empty.
func newSessionCipher(secret string) (*sessionCipher, error) {
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
	return &sessionCipher{aead}, err
}

// encrypt returns the value of the cookie. The name is authenticated, so the value is valid only for a cookie of that name.
func (s *sessionCipher) encrypt(v session, name string) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, []byte(name))), nil
}

// decrypt is the inverse of encrypt; false for a value of another key or name.
func (s *sessionCipher) decrypt(text, name string) (v session, ok bool) {
	ciphertext, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return v, false
	}
	plain, err := s.aead.Open(nil, nil, ciphertext, []byte(name))
	if err != nil {
		return v, false
	}
	return v, json.Unmarshal(plain, &v) == nil
}

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
		Name: name, Value: value, Path: cmp.Or(p.cfg.BasePath, "/"), MaxAge: int(age.Seconds()), Secure: name != plainCookie, HttpOnly: true, SameSite: http.SameSiteStrictMode,
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
