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

// sessionCipher encrypts and authenticates sessions (AES-256-GCM). The first key encrypts, all decrypt.
type sessionCipher struct{ aeads []cipher.AEAD }

// newSessionCipher derives the keys from the secrets. The first is random if its secret is empty; others are skipped then.
func newSessionCipher(secrets ...string) (*sessionCipher, error) {
	s := &sessionCipher{}
	for i, secret := range secrets {
		key := make([]byte, sha256.Size)
		_, err := rand.Read(key)
		switch {
		case secret != "":
			key, err = hkdf.Key(sha256.New, []byte(secret), nil, "flux-resourceset page sessions", sha256.Size)
		case i > 0:
			continue
		}
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s.aeads = append(s.aeads, aead)
	}
	return s, nil
}

// encrypt returns the value of the cookie. The name is authenticated, so the value is valid only for a cookie of that name.
func (s *sessionCipher) encrypt(v any, name string) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aeads[0].Seal(nil, nil, text, []byte(name))), nil
}

// decrypt is the inverse of encrypt; false for a value of another key or name.
func (s *sessionCipher) decrypt(text, name string, v any) (ok bool) {
	ciphertext, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return false
	}
	for _, aead := range s.aeads {
		if plain, err := aead.Open(nil, nil, ciphertext, []byte(name)); err == nil {
			return json.Unmarshal(plain, v) == nil
		}
	}
	return false
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
