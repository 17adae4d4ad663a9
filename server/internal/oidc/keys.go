package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Limits on the keys of an issuer.
const (
	fetchTimeout    = 5 * time.Second // for the discovery document and the keys together
	refreshInterval = time.Hour       // between two fetches
	fetchInterval   = time.Minute     // after a failed fetch, and between fetches for unknown keys
	keysMaxAge      = 24 * time.Hour  // of keys while the issuer does not answer
	maxKeysBytes    = 1 << 20         // of a document of the issuer
	maxKeys         = 100             // of an issuer
	minRSABits      = 2048            // of a key
	maxKeyWaiters   = 16              // requests that wait for one fetch; more fail at once
	maxRedirects    = 3               // of a fetch
)

// Causes of failed fetches.
var (
	errMismatch = errors.New("the issuer in the discovery document differs")
	errTooLarge = fmt.Errorf("the document is larger than %d bytes", maxKeysBytes)
)

// metadata is the part of the discovery document that is used here (OpenID Connect Discovery 1.0).
type metadata struct {
	Issuer                string `json:"issuer"`
	JWKSURI               string `json:"jwks_uri"`
	AuthorizationEndpoint string `json:"authorization_endpoint"`
	TokenEndpoint         string `json:"token_endpoint"`
}

// keySet has the metadata and keys of an issuer from one fetch. It is immutable.
type keySet struct {
	Fetched  time.Time       `json:"fetched_at"` // zero: from jwks_file, valid at any age
	Metadata metadata        `json:"metadata"`
	JWKS     json.RawMessage `json:"jwks"`
	keys     []jose.JSONWebKey
}

// source fetches and keeps the keys of an issuer.
type source struct {
	Issuer
	file    string // keeps the keys across restarts; empty: they are not kept
	client  *http.Client
	logger  *slog.Logger
	now     func() time.Time
	current atomic.Pointer[keySet]
	waiters atomic.Int32

	mu        sync.Mutex // held during a fetch
	attempted time.Time  // the last fetch, successful or not
	failed    bool
}

// start loads the keys. err means that the configuration is wrong: an unreadable file, or another issuer at the URL. If the issuer
// does not answer, start returns the cause as unavailable, and uses the keys on disk.
func (s *source) start(ctx context.Context) (unavailable, err error) {
	if s.JWKSFile != "" {
		body, err := os.ReadFile(s.JWKSFile)
		if err != nil {
			return nil, fmt.Errorf("jwks_file: %w", err)
		}
		set := &keySet{JWKS: body}
		if set.keys, err = parseKeys(body); err != nil {
			return nil, fmt.Errorf("jwks_file: %w", err)
		}
		s.current.Store(set)
		return nil, nil
	}
	s.restore()
	err = s.refresh(ctx)
	if errors.Is(err, errMismatch) {
		return nil, err
	}
	return err, nil
}

// refresh fetches the keys. If that fails, it keeps the current keys.
func (s *source) refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetch(ctx)
}

func (s *source) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout) // other requests need the keys too
	defer cancel()
	s.attempted, s.failed = s.now(), true
	set := &keySet{Fetched: s.attempted}
	body, err := s.get(ctx, s.endpoint())
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	if err := json.Unmarshal(body, &set.Metadata); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	if set.Metadata.Issuer != s.URL {
		return fmt.Errorf("%w: it is %.200q, and url is %q", errMismatch, set.Metadata.Issuer, s.URL)
	}
	if err := checkURL(set.Metadata.JWKSURI); err != nil {
		return fmt.Errorf("discovery: jwks_uri %w", err)
	}
	if set.JWKS, err = s.get(ctx, set.Metadata.JWKSURI); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if set.keys, err = parseKeys(set.JWKS); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	s.failed = false
	s.current.Store(set)
	if err := s.save(set); err != nil {
		s.logger.WarnContext(ctx, "the keys of an issuer could not be stored in STATE_DIR", "issuer", s.Name, "error", err)
	}
	return nil
}

// get reads a document of the issuer.
func (s *source) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	rsp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rsp.Body.Close() }()
	if rsp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, rsp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(rsp.Body, maxKeysBytes+1))
	if err == nil && len(body) > maxKeysBytes {
		err = errTooLarge
	}
	return body, err
}

// newClient returns a client that follows redirects only to URLs that are trusted as well.
func newClient() *http.Client {
	return &http.Client{
		Timeout: fetchTimeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("too many redirects")
			}
			if !trusted(req.URL) {
				return errors.New("a redirect to plain http")
			}
			return nil
		},
	}
}

// find returns the keys that may have signed a token: the key with its key id, or all keys of its algorithm if it has no key id.
// An unknown key id causes a fetch, at most once a minute.
func (s *source) find(ctx context.Context, kid, alg string) ([]jose.JSONWebKey, error) {
	before := s.current.Load()
	keys, err := s.matching(kid, alg)
	if len(keys) == 0 && s.JWKSFile == "" && s.fetchForUnknownKey(ctx, before) {
		return s.matching(kid, alg)
	}
	return keys, err
}

// fetchForUnknownKey reports whether the keys may have changed since the caller read them.
func (s *source) fetchForUnknownKey(ctx context.Context, seen *keySet) bool {
	if s.waiters.Add(1) > maxKeyWaiters {
		s.waiters.Add(-1)
		return false
	}
	defer s.waiters.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != seen {
		return true // another request has fetched them meanwhile
	}
	if passed := s.now().Sub(s.attempted); passed >= 0 && passed < fetchInterval {
		return false
	}
	return s.fetch(ctx) == nil
}

// due reports whether the hourly fetch is due.
func (s *source) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.JWKSFile != "" {
		return false
	}
	passed := s.now().Sub(s.attempted)
	return passed >= refreshInterval || s.failed && passed >= fetchInterval
}

// matching returns the current keys that may have signed a token. ErrNoKeys: there are no current keys, or they are too old.
func (s *source) matching(kid, alg string) (keys []jose.JSONWebKey, err error) {
	set := s.current.Load()
	if set == nil || !set.Fetched.IsZero() && s.now().Sub(set.Fetched) > keysMaxAge {
		return nil, ErrNoKeys
	}
	for _, key := range set.keys {
		if (kid == "" || key.KeyID == kid) && (key.Algorithm == "" || key.Algorithm == alg) && algorithmOf(key) == alg {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// algorithmOf returns the algorithm of a public key; empty: its tokens are not accepted. Symmetric keys have none, so that the public
// key of an issuer is never used as the secret of an HMAC.
func algorithmOf(key jose.JSONWebKey) string {
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() >= minRSABits {
			return string(jose.RS256)
		}
	case *ecdsa.PublicKey:
		if public.Params().BitSize == 256 {
			return string(jose.ES256)
		}
	case ed25519.PublicKey:
		return string(jose.EdDSA)
	}
	return ""
}

// certificateFields are fields of a key that tokens are not verified with, and which some issuers fill with what cannot be read.
var certificateFields = []string{"x5c", "x5t", "x5t#S256", "x5u"}

// parseKeys reads a JSON Web Key Set. It skips keys of other algorithms, and fails if no usable key remains.
func parseKeys(body []byte) (keys []jose.JSONWebKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("not a JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys: at most %d", len(set.Keys), maxKeys)
	}
	for _, each := range set.Keys {
		var fields map[string]json.RawMessage
		if json.Unmarshal(each, &fields) != nil {
			continue
		}
		for _, field := range certificateFields {
			delete(fields, field)
		}
		text, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) == nil && key.Use != "enc" && algorithmOf(key) != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no key for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

// restore reads the keys of an earlier process.
func (s *source) restore() {
	if s.file == "" {
		return
	}
	body, err := os.ReadFile(s.file)
	if err != nil {
		return
	}
	var set keySet
	if json.Unmarshal(body, &set) != nil || set.Metadata.Issuer != s.URL || set.Fetched.IsZero() || set.Fetched.After(s.now()) {
		return
	}
	if set.keys, err = parseKeys(set.JWKS); err == nil {
		s.current.Store(&set)
	}
}

// save stores the keys for the next process. The file is replaced atomically.
func (s *source) save(set *keySet) error {
	if s.file == "" {
		return nil
	}
	body, err := json.Marshal(set)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(s.file), "."+filepath.Base(s.file)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(body)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), s.file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
