// Package testissuer is an OpenID Connect issuer for tests: discovery, keys that rotate, ID tokens with any claims, and failures.
package testissuer

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// Issuer is a running issuer.
type Issuer struct {
	t       testing.TB
	server  *httptest.Server
	fetches atomic.Int32

	mu       sync.Mutex
	keys     map[string]jose.SigningKey // by id
	metadata map[string]any
	person   Claims                // who signs in at each request
	codes    map[string]url.Values // queries of /authorize by code
	body     http.HandlerFunc      // instead of the keys; nil: the keys
}

// rsaKey is made once: it takes a tenth of a second.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// New starts an issuer with the RSA key "first".
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, keys: map[string]jose.SigningKey{}, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(i.metadata)
	})
	mux.HandleFunc("GET /keys", i.serveKeys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /device", i.device)
	mux.HandleFunc("POST /token", i.token)
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	i.metadata = map[string]any{
		"issuer": i.URL(), "jwks_uri": i.URL() + "/keys", "authorization_endpoint": i.URL() + "/authorize", "token_endpoint": i.URL() + "/token",
		"device_authorization_endpoint": i.URL() + "/device",
	}
	key, err := rsaKey()
	require.NoError(t, err)
	i.AddKey("first", jose.RS256, key)
	return i
}

// URL is the claim iss.
func (i *Issuer) URL() string { return i.server.URL }

// Stop ends the issuer: connections to it are refused.
func (i *Issuer) Stop() { i.server.Close() }

// Fetches is the number of requests for the keys so far.
func (i *Issuer) Fetches() int { return int(i.fetches.Load()) }

// SetMetadata changes a field of the discovery document.
func (i *Issuer) SetMetadata(field string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.metadata[field] = value
}

// ServeKeys replaces the answer to requests for the keys.
func (i *Issuer) ServeKeys(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.body = h
}

// AddKey publishes a key for an algorithm; nil makes one.
func (i *Issuer) AddKey(id string, alg jose.SignatureAlgorithm, private any) {
	i.t.Helper()
	var err error
	switch {
	case private != nil:
	case alg == jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case alg == jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	require.NoError(i.t, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{KeyID: id, Key: private, Algorithm: string(alg), Use: "sig"}}
}

// RemoveKey withdraws a key.
func (i *Issuer) RemoveKey(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.keys, id)
}

// Key returns a key by its id.
func (i *Issuer) Key(id string) jose.SigningKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[id]
}

// JWKS returns the public keys.
func (i *Issuer) JWKS() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, key := range i.keys {
		private := key.Key.(jose.JSONWebKey)
		set.Keys = append(set.Keys, private.Public())
	}
	body, err := json.Marshal(set)
	require.NoError(i.t, err)
	return body
}

func (i *Issuer) serveKeys(w http.ResponseWriter, r *http.Request) {
	i.fetches.Add(1)
	i.mu.Lock()
	body := i.body
	i.mu.Unlock()
	if body != nil {
		body(w, r)
		return
	}
	_, _ = w.Write(i.JWKS())
}

// SignIn sets the claims of the person for all later sign-ins.
func (i *Issuer) SignIn(person Claims) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.person = person
}

// authorize signs the person in, and redirects with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || !strings.Contains(q.Get("scope"), "openid") {
		http.Error(w, "not an authorization request with PKCE", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = q
	i.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL()}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (i *Issuer) device(w http.ResponseWriter, r *http.Request) {
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = url.Values{"client_id": {r.PostFormValue("client_id")}}
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": i.URL() + "/activate", "expires_in": 60, "interval": 1})
}

// token exchanges a code once, if the verifier matches its challenge.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	code := cmp.Or(r.PostFormValue("code"), r.PostFormValue("device_code"))
	i.mu.Lock()
	asked, known := i.codes[code]
	delete(i.codes, code)
	person := maps.Clone(i.person)
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if challenge := asked.Get("code_challenge"); !known || asked.Get("client_id") != r.PostFormValue("client_id") || asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") ||
		challenge != "" && challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	if nonce := asked.Get("nonce"); nonce != "" && person["nonce"] == nil {
		person["nonce"] = nonce
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "unused", "token_type": "Bearer", "id_token": i.Token(person)})
}

// Claims are the claims of a token.
type Claims map[string]any

// Token returns an ID token, signed with the key "first", with iss and the claims.
func (i *Issuer) Token(claims Claims) string { i.t.Helper(); return i.TokenOf("first", claims) }

// TokenOf is Token with another key.
func (i *Issuer) TokenOf(id string, claims Claims) string {
	i.t.Helper()
	all := Claims{"iss": i.URL()}
	maps.Copy(all, claims)
	body, err := json.Marshal(all)
	require.NoError(i.t, err)
	return Sign(i.t, i.Key(id), nil, body)
}

// Sign returns a token with any header fields and payload.
func Sign(t testing.TB, key jose.SigningKey, header map[jose.HeaderKey]any, payload []byte) string {
	t.Helper()
	options := &jose.SignerOptions{}
	for name, value := range header {
		options.WithHeader(name, value)
	}
	signer, err := jose.NewSigner(key, options)
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}
