package ui

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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
