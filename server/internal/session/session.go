// Package session makes the tokens of people who signed in with an issuer: frss_ and an encrypted identity. The server stores no
// session, so every process with the same key accepts them.
package session

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// prefix starts every session token, so that secret scanners find it.
const prefix = "frss_"

// Limits.
const (
	// MaxAge is the time from the sign-in at the issuer to the end of a session.
	MaxAge = 8 * time.Hour
	// MaxGroups is the number of groups of a session.
	MaxGroups = 64
	// maxBytes limits the size of a token: the fleet page encrypts it again, and stores it in a cookie of at most 4 KiB.
	maxBytes = 2700
)

// Errors of Open and Seal.
var (
	ErrUnknown  = errors.New("the session token is wrong, or the key of the server was replaced: sign in again")
	ErrExpired  = errors.New("the session has expired: sign in again")
	ErrTooLarge = fmt.Errorf("the groups and claims do not fit into a session: at most %d groups that access documents name, with short names", MaxGroups)
)

// Session is the content of a token: an identity, and its times.
type Session struct {
	fleet.Subject
	Started, Expires time.Time
}

// content is the encrypted part of a token.
type content struct {
	Issuer  string            `json:"i"`
	User    string            `json:"u"`
	Sub     string            `json:"s"`
	Groups  []string          `json:"g,omitempty"`
	Claims  map[string]string `json:"c,omitempty"`
	Started int64             `json:"t"` // seconds since 1970
	Expires int64             `json:"x"`
}

// Keys encrypt and decrypt tokens.
type Keys struct {
	aeads []cipher.AEAD // the first encrypts
}

// NewKeys derives keys from secrets. The first encrypts, all decrypt; empty ones are skipped. Without any, the key is random, and
// sessions end with the process.
func NewKeys(secrets ...string) (*Keys, error) {
	k := &Keys{}
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "flux-resourceset session tokens", sha256.Size)
		if err != nil {
			return nil, err
		}
		if err := k.add(key); err != nil {
			return nil, err
		}
	}
	if len(k.aeads) > 0 {
		return k, nil
	}
	key := make([]byte, sha256.Size)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	return k, k.add(key)
}

func (k *Keys) add(key []byte) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	k.aeads = append(k.aeads, aead)
	return err
}

// Seal returns the token of a session. ErrTooLarge if it does not fit into a cookie.
func (k *Keys) Seal(s Session) (string, error) {
	text, err := json.Marshal(content{s.Issuer, s.User, s.Sub, s.Groups, s.Claims, s.Started.Unix(), s.Expires.Unix()})
	if err != nil {
		return "", err
	}
	token := prefix + base64.RawURLEncoding.EncodeToString(k.aeads[0].Seal(nil, nil, text, []byte(prefix)))
	if len(s.Groups) > MaxGroups || len(token) > maxBytes {
		return "", ErrTooLarge
	}
	return token, nil
}

// IsToken reports whether a text has the form of a session's token.
func IsToken(text string) bool { return strings.HasPrefix(text, prefix) }

// Open is the inverse of Seal. The error is ErrUnknown, or ErrExpired with the identity.
func (k *Keys) Open(token string, now time.Time) (Session, error) {
	encoded, ok := strings.CutPrefix(token, prefix)
	if !ok || len(token) > maxBytes {
		return Session{}, ErrUnknown
	}
	ciphertext, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Session{}, ErrUnknown
	}
	for _, aead := range k.aeads {
		text, err := aead.Open(nil, nil, ciphertext, []byte(prefix))
		if err != nil {
			continue
		}
		var c content
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields() // fields of a newer version may limit the session
		if err := decoder.Decode(&c); err != nil {
			return Session{}, ErrUnknown
		}
		s := Session{fleet.Subject{Issuer: c.Issuer, User: c.User, Sub: c.Sub, Groups: c.Groups, Claims: c.Claims}, time.Unix(c.Started, 0), time.Unix(c.Expires, 0)}
		if !now.Before(s.Expires) {
			return s, ErrExpired
		}
		return s, nil
	}
	return Session{}, ErrUnknown
}
