package oidc

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testissuer"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// clock stands still until a test moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// env is a Verifier with one issuer.
type env struct {
	*Verifier
	issuer *testissuer.Issuer
	clock  *clock
}

func setup(t *testing.T, change ...func(*Issuer)) *env {
	t.Helper()
	e := &env{issuer: testissuer.New(t), clock: &clock{now: start}}
	cfg := Issuer{Name: "corp", URL: e.issuer.URL(), ClientID: "fleet", Audiences: []string{"https://fleet.example.com"}, GroupsClaim: "groups", UserClaim: "email"}
	for _, each := range change {
		each(&cfg)
	}
	var err error
	e.Verifier, err = New(t.Context(), Config{Issuers: []Issuer{cfg}, Logger: slog.New(slog.DiscardHandler), Now: e.clock.Now})
	require.NoError(t, err)
	return e
}

// valid are the claims of a valid token, with changes; a nil value removes a claim.
func valid(changes ...testissuer.Claims) testissuer.Claims {
	claims := testissuer.Claims{
		"aud": "fleet", "sub": "00u1", "exp": start.Add(time.Hour).Unix(), "iat": start.Unix(), "email": "ann@example.com", "groups": []string{"team-web", "all"},
	}
	for _, change := range changes {
		maps.Copy(claims, change)
	}
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

func TestVerify(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id, err := e.Verify(t.Context(), e.issuer.Token(valid(testissuer.Claims{"repository_id": 9007199254740993, "admin": true})))
	require.NoError(t, err)
	require.Equal(t, start.Add(time.Hour), id.Expires.UTC())
	require.Equal(t, fleet.Subject{
		Issuer: "corp", User: "ann@example.com", Sub: "00u1", Groups: []string{"team-web", "all"},
		Claims: map[string]string{
			"iss": e.issuer.URL(), "aud": "fleet", "sub": "00u1", "email": "ann@example.com", "exp": fmt.Sprint(start.Add(time.Hour).Unix()), "iat": fmt.Sprint(start.Unix()),
			"repository_id": "9007199254740993", "admin": "true",
		},
	}, id.Subject)
	for _, alg := range []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA} {
		e.issuer.AddKey(string(alg), alg, nil)
	}
	e.clock.advance(fetchInterval)
	for name, token := range map[string]string{
		"ES256":                    e.issuer.TokenOf("ES256", valid()),
		"EdDSA":                    e.issuer.TokenOf("EdDSA", valid()),
		"an audience of the list":  e.issuer.Token(valid(testissuer.Claims{"aud": []string{"other", "https://fleet.example.com"}})),
		"our client of a list":     e.issuer.Token(valid(testissuer.Claims{"aud": []string{"other", "fleet"}, "azp": "fleet"})),
		"a workload of the list":   e.issuer.Token(valid(testissuer.Claims{"aud": "fleet", "azp": "https://fleet.example.com"})),
		"a clock 59 seconds ahead": e.issuer.Token(valid(testissuer.Claims{"nbf": start.Add(119 * time.Second).Unix()})),
		"expired 59 seconds ago":   e.issuer.Token(valid(testissuer.Claims{"exp": start.Add(1 * time.Second).Unix()})),
		"a fraction of a second":   e.issuer.Token(valid(testissuer.Claims{"exp": float64(start.Add(time.Hour).Unix()) + .5})),
		"without kid":              withoutKID(t, e.issuer, valid()),
	} {
		_, err := e.Verify(t.Context(), token)
		require.NoError(t, err, name)
	}
}

func withoutKID(t *testing.T, issuer *testissuer.Issuer, claims testissuer.Claims) string {
	t.Helper()
	key := issuer.Key("first")
	claims["iss"] = issuer.URL()
	body, err := json.Marshal(claims)
	require.NoError(t, err)
	return testissuer.Sign(t, jose.SigningKey{Algorithm: key.Algorithm, Key: key.Key.(jose.JSONWebKey).Key}, nil, body)
}

// TestRefuse is the adversarial list: each token is refused, with its reason, and none of them is cached.
func TestRefuse(t *testing.T) {
	t.Parallel()
	e := setup(t)
	other := testissuer.New(t)
	claims := func(changes ...testissuer.Claims) []byte {
		body, err := json.Marshal(valid(append(changes, testissuer.Claims{"iss": e.issuer.URL()})...))
		require.NoError(t, err)
		return body
	}
	key := e.issuer.Key("first").Key.(jose.JSONWebKey)
	der, err := x509.MarshalPKIXPublicKey(key.Public().Key)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	good := e.issuer.Token(valid())
	parts := strings.Split(good, ".")
	hmac := func(secret []byte) string {
		return testissuer.Sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{KeyID: "first", Key: secret}}, nil, claims())
	}
	named := func(kid string) string {
		return testissuer.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{KeyID: kid, Key: key.Key}}, nil, claims())
	}
	header := func(name jose.HeaderKey, value any) string {
		return testissuer.Sign(t, e.issuer.Key("first"), map[jose.HeaderKey]any{name: value}, claims())
	}
	token := func(changes testissuer.Claims) string { return e.issuer.Token(valid(changes)) }
	for name, test := range map[string]struct{ token, reason string }{
		"alg none":                        {part(`{"alg":"none"}`) + "." + parts[1] + ".", "not a JSON Web Token signed with"},
		"alg none with a signature":       {part(`{"alg":"none","kid":"first"}`) + "." + parts[1] + "." + parts[2], "not a JSON Web Token signed with"},
		"alg None":                        {part(`{"alg":"None"}`) + "." + parts[1] + ".", "not a JSON Web Token signed with"},
		"no signature":                    {parts[0] + "." + parts[1] + ".", "signature"},
		"the public key as HMAC secret":   {hmac(public), "not a JSON Web Token signed with"},
		"its DER form as HMAC secret":     {hmac(der), "not a JSON Web Token signed with"},
		"RS512":                           {testissuer.Sign(t, jose.SigningKey{Algorithm: jose.RS512, Key: key}, nil, claims()), "not a JSON Web Token signed with"},
		"another algorithm of the header": {part(`{"alg":"ES256","kid":"first"}`) + "." + parts[1] + "." + parts[2], "names none of the issuer's keys"},
		"changed claims":                  {parts[0] + "." + part(string(claims(testissuer.Claims{"sub": "admin"}))) + "." + parts[2], "signature"},
		"signed by another issuer":        {testissuer.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{KeyID: "first", Key: newKey(t)}}, nil, claims()), "signature"},
		"another issuer":                  {other.Token(valid()), "not configured"},
		"the issuer with a slash":         {token(testissuer.Claims{"iss": e.issuer.URL() + "/"}), "not configured"},
		"no issuer":                       {token(testissuer.Claims{"iss": ""}), "not configured"},
		"a kid with a path":               {named("../../../../etc/passwd"), "names none of the issuer's keys"},
		"a kid with a URL":                {named("https://evil.example.com/keys"), "names none of the issuer's keys"},
		"a kid with SQL":                  {named("' OR 1=1 --"), "names none of the issuer's keys"},
		"a key in the header":             {header("jwk", key.Public()), ""},
		"a URL of keys in the header":     {header("jku", e.issuer.URL()+"/keys"), ""},
		"a URL of certificates":           {header("x5u", "https://evil.example.com/"), ""},
		"an unknown critical header":      {header("crit", []string{"exp"}), "signature"},
		"an access token":                 {header("typ", "at+jwt"), "not an ID token"},
		"a logout token":                  {header("typ", "logout+jwt"), "not an ID token"},
		"another audience":                {token(testissuer.Claims{"aud": "other"}), `its audience (aud) is "other"`},
		"other audiences":                 {token(testissuer.Claims{"aud": []string{"other", "fleet2", "FLEET"}}), "its audience (aud)"},
		"an audience in an object":        {token(testissuer.Claims{"aud": testissuer.Claims{"fleet": true}}), "its audience (aud)"},
		"no audience":                     {token(testissuer.Claims{"aud": nil}), "its audience (aud)"},
		"an audience in upper-case name":  {token(testissuer.Claims{"aud": "other", "AUD": "fleet"}), "its audience (aud)"},
		"another client's token for us":   {token(testissuer.Claims{"aud": []string{"other", "fleet"}, "azp": "other"}), "its authorized party (azp)"},
		"another client's for a workload": {token(testissuer.Claims{"aud": "https://fleet.example.com", "azp": "other"}), "its authorized party (azp)"},
		"several authorized parties":      {token(testissuer.Claims{"aud": "fleet", "azp": []string{"fleet", "other"}}), "its authorized party (azp)"},
		"no exp":                          {token(testissuer.Claims{"exp": nil}), "exp is missing"},
		"exp as text":                     {token(testissuer.Claims{"exp": "9999999999"}), "exp is missing"},
		"exp in upper case":               {token(testissuer.Claims{"exp": nil, "EXP": start.Add(time.Hour).Unix()}), "exp is missing"},
		"expired":                         {token(testissuer.Claims{"exp": start.Add(-5 * time.Minute).Unix()}), "it expired 5m0s ago"},
		"expired long ago":                {token(testissuer.Claims{"exp": -1e300}), "expired"},
		"a clock 5 minutes ahead":         {token(testissuer.Claims{"nbf": start.Add(5 * time.Minute).Unix()}), "in 5m0s by the clock of this server (nbf)"},
		"nbf as text":                     {token(testissuer.Claims{"nbf": "9999999999"}), "nbf is not a number"},
		"nbf as an object":                {token(testissuer.Claims{"nbf": testissuer.Claims{}}), "nbf is not a number"},
		"issued in 5 minutes":             {token(testissuer.Claims{"iat": start.Add(5 * time.Minute).Unix()}), "in 5m0s by the clock of this server (iat)"},
		"no subject":                      {token(testissuer.Claims{"sub": nil}), "subject (sub)"},
		"a long subject":                  {token(testissuer.Claims{"sub": strings.Repeat("x", 600)}), "subject (sub)"},
		"a subject with a line":           {token(testissuer.Claims{"sub": "ann\nactor=root"}), "subject (sub)"},
		"groups elsewhere":                {token(testissuer.Claims{"groups": nil, "_claim_names": testissuer.Claims{"groups": "src1"}}), "_claim_names"},
		"groups omitted":                  {token(testissuer.Claims{"groups": nil, "hasgroups": true}), "hasgroups"},
		"groups omitted, as text":         {token(testissuer.Claims{"groups": nil, "hasgroups": "true", "roles": []string{"team-web"}}), "groups_claim: roles"},
		"groups as an object":             {token(testissuer.Claims{"groups": testissuer.Claims{"a": 1}}), "not a list"},
		"groups as numbers":               {token(testissuer.Claims{"groups": []int{1}}), "not a list"},
		"a nested token":                  {testissuer.Sign(t, e.issuer.Key("first"), map[jose.HeaderKey]any{"cty": "JWT"}, []byte(good)), "not the claims"},
		"claims as a list":                {testissuer.Sign(t, e.issuer.Key("first"), nil, []byte(`[]`)), "not the claims"},
		"claims as null":                  {testissuer.Sign(t, e.issuer.Key("first"), nil, []byte(`null`)), "not the claims"},
		"longer than 16 KiB":              {token(testissuer.Claims{"x": strings.Repeat("x", 13<<10)}), "longer than 16384 bytes"},
		"JSON serialization":              {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, "not a JSON Web Token"},
		"four parts":                      {good + ".x", "not a JSON Web Token"},
		"padding":                         {good + "=", "not a JSON Web Token"},
		"a space":                         {good + " ", "not a JSON Web Token"},
		"empty":                           {"", "not a JSON Web Token"},
		"encrypted":                       {part(`{"alg":"RSA-OAEP","enc":"A256GCM"}`) + "." + strings.Repeat(part("x")+".", 3) + part("x"), "not a JSON Web Token"},
	} {
		id, err := e.Verify(t.Context(), test.token)
		if test.reason == "" { // the header is ignored, and the token is verified with the issuer's key
			require.NoError(t, err, name)
			continue
		}
		require.Nil(t, id, name)
		var refused *TokenError
		require.ErrorAs(t, err, &refused, name)
		require.Contains(t, refused.Reason, test.reason, name)
		require.Equal(t, strings.HasPrefix(name, "expired"), refused.Expired, name)
		require.Nil(t, e.Cached(test.token), name)
	}
	require.Equal(t, 1, e.issuer.Fetches(), "no header makes the server fetch anything")
}

func newKey(t *testing.T) any {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key
}

// TestUnknownKeys: a flood of key ids causes one fetch a minute, and a rotation is noticed by then.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	e := setup(t)
	require.Equal(t, 1, e.issuer.Fetches())
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iss":%q}`, e.issuer.URL()))
	forged := func(kid int) string {
		return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"EdDSA","kid":"%d"}`, kid)) + "." + claims + "." + claims
	}
	flood := func() {
		var all sync.WaitGroup
		for worker := range 10 {
			all.Go(func() {
				for i := range 1000 {
					_, err := e.Verify(t.Context(), forged(worker*1000+i))
					require.ErrorContains(t, err, "names none of the issuer's keys")
				}
			})
		}
		all.Wait()
	}
	flood()
	require.Equal(t, 1, e.issuer.Fetches(), "less than a minute after the last fetch")
	e.clock.advance(fetchInterval)
	flood()
	require.Equal(t, 2, e.issuer.Fetches())

	e.issuer.AddKey("second", jose.ES256, nil)
	e.issuer.RemoveKey("first")
	rotated := e.issuer.TokenOf("second", valid())
	_, err := e.Verify(t.Context(), rotated)
	require.ErrorContains(t, err, "names none of the issuer's keys")
	e.clock.advance(fetchInterval)
	_, err = e.Verify(t.Context(), rotated)
	require.NoError(t, err)
	require.Equal(t, 3, e.issuer.Fetches())
}

var edKey = sync.OnceValue(func() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) })

// TestKeysWithCertificates: the key of an entry counts, whatever its certificates are: nothing is verified with them.
func TestKeysWithCertificates(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{`"x5c":["AAAA"]`, `"x5c":[7]`, `"x5c":"x"`, `"x5t":"x"`, `"x5t#S256":"AAAA"`, `"x5u":"::"`, `"x5u":7,"x5t":{}`} {
		e := setup(t)
		keys := bytes.Replace(e.issuer.JWKS(), []byte(`"kty"`), []byte(fields+`,"kty"`), 1)
		require.Contains(t, string(keys), fields)
		e.issuer.ServeKeys(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) })
		for _, s := range e.sources {
			require.NoError(t, s.refresh(t.Context()), fields)
		}
		_, err := e.Verify(t.Context(), e.issuer.Token(valid()))
		require.NoError(t, err, fields)
	}
}

// TestBadKeys: answers of the issuer that cannot be used keep the keys from before.
func TestBadKeys(t *testing.T) {
	t.Parallel()
	e := setup(t)
	sent := make(chan int, 1)
	for name, answer := range map[string]http.HandlerFunc{
		"100 MB": func(w http.ResponseWriter, r *http.Request) {
			chunk, n := bytes.Repeat([]byte(" "), 1<<20), 0
			for n < 100 && r.Context().Err() == nil {
				if _, err := w.Write(chunk); err != nil {
					break
				}
				n++
			}
			sent <- n
		},
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"HTML":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"no keys":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"a secret": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"first"}]}`))
		},
		"keys for encryption": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.ReplaceAll(e.issuer.JWKS(), []byte(`"sig"`), []byte(`"enc"`)))
		},
		"a redirect to plain http": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://keys.example.com/", http.StatusFound)
		},
		"too many keys": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(`{},`, maxKeys) + `{}]}`))
		},
	} {
		e.issuer.ServeKeys(answer)
		for _, s := range e.sources {
			require.Error(t, s.refresh(t.Context()), name)
		}
		_, err := e.Verify(t.Context(), e.issuer.Token(valid(testissuer.Claims{"jti": name})))
		require.NoError(t, err, name)
	}
	require.Less(t, <-sent, 50, "the fetch ends at its limit, and not after 100 MB")
}

// TestOutage: keys are used for 24 hours while the issuer does not answer, also by the next process, and not longer.
func TestOutage(t *testing.T) {
	t.Parallel()
	dir, issuer, clock := filepath.Join(t.TempDir(), "state"), testissuer.New(t), &clock{now: start}
	cfg := Config{Issuers: []Issuer{{Name: "corp", URL: issuer.URL(), ClientID: "fleet"}}, StateDir: dir, Logger: slog.New(slog.DiscardHandler), Now: clock.Now}
	first, err := New(t.Context(), cfg)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "oidc-corp.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	issuer.Stop()
	lasting := valid(testissuer.Claims{"exp": start.Add(100 * time.Hour).Unix()})
	next, err := New(t.Context(), cfg)
	require.NoError(t, err, "an issuer that does not answer prevents no start")
	cached := issuer.Token(lasting)
	clock.advance(keysMaxAge)
	for _, v := range []*Verifier{first, next} {
		v.refresh(t.Context())
		_, err = v.Verify(t.Context(), cached)
		require.NoError(t, err)
	}
	clock.advance(time.Second)
	_, err = next.Verify(t.Context(), issuer.Token(valid(lasting, testissuer.Claims{"jti": "new"})))
	require.ErrorIs(t, err, ErrNoKeys)
	_, err = next.Verify(t.Context(), cached)
	require.NoError(t, err, "a token that was verified before")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "oidc-corp.json"), []byte(`{"fetched_at":"2026-01-03T03:04:05Z","metadata":{"issuer":"https://other.example.com"},"jwks":{}}`), 0o600))
	other, err := New(t.Context(), cfg)
	require.NoError(t, err)
	_, err = other.Verify(t.Context(), issuer.Token(valid()))
	require.ErrorIs(t, err, ErrNoKeys, "keys of another issuer")
}

// TestRefresh: keys are fetched once an hour, and once a minute after a failure.
func TestRefresh(t *testing.T) {
	t.Parallel()
	e := setup(t)
	after := func(d time.Duration, fetches int) {
		t.Helper()
		e.clock.advance(d)
		e.refresh(t.Context())
		require.Equal(t, fetches, e.issuer.Fetches())
	}
	after(refreshInterval-time.Second, 1)
	e.issuer.ServeKeys(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	after(time.Second, 2)
	after(fetchInterval-time.Second, 2)
	after(time.Second, 3)
	e.issuer.ServeKeys(nil)
	after(fetchInterval, 4)
	after(refreshInterval-time.Second, 4)
	after(time.Second, 5)
}

// TestAppRoles: with app roles of Entra ID as groups, a token that omits the groups is accepted with its roles, and has none without the
// claim.
func TestAppRoles(t *testing.T) {
	t.Parallel()
	e := setup(t, func(is *Issuer) { is.GroupsClaim = "roles" })
	omitted := testissuer.Claims{"groups": nil, "hasgroups": true, "_claim_names": testissuer.Claims{"groups": "src1"}, "_claim_sources": testissuer.Claims{"src1": testissuer.Claims{"endpoint": e.issuer.URL() + "/keys"}}}
	for _, roles := range [][]string{{"Fleet.Admin", "Fleet Reader"}, nil} {
		claims := valid(omitted)
		if roles != nil {
			claims["roles"] = roles
		}
		id, err := e.Verify(t.Context(), e.issuer.Token(claims))
		require.NoError(t, err)
		require.Equal(t, roles, id.Groups)
	}
	require.Equal(t, 1, e.issuer.Fetches(), "the endpoint in the token is never requested")
}

func TestJWKSFile(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(file, issuer.JWKS(), 0o600))
	issuer.Stop()
	cfg := Config{Issuers: []Issuer{{Name: "k8s", URL: issuer.URL(), Audiences: []string{"fleet"}, JWKSFile: file}}, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return start }}
	v, err := New(t.Context(), cfg)
	require.NoError(t, err)
	id, err := v.Verify(t.Context(), issuer.Token(valid(testissuer.Claims{"sub": "system:serviceaccount:ci:deploy"})))
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:ci:deploy", id.User, "without user_claim")
	require.Empty(t, id.Groups, "without groups_claim")
	for _, content := range []string{"", "{}", `{"keys":[]}`} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err = New(t.Context(), cfg)
		require.ErrorContains(t, err, `issuer "k8s": jwks_file`)
	}
	require.NoError(t, os.Remove(file))
	_, err = New(t.Context(), cfg)
	require.ErrorContains(t, err, `issuer "k8s": jwks_file`)
}

func TestDiscoveryMismatch(t *testing.T) {
	t.Parallel()
	issuer := testissuer.New(t)
	issuer.SetMetadata("issuer", "https://evil.example.com")
	_, err := New(t.Context(), Config{Issuers: []Issuer{{Name: "corp", URL: issuer.URL(), ClientID: "fleet"}}, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return start }})
	require.ErrorContains(t, err, `OIDC_ISSUERS: issuer "corp": the issuer in the discovery document differs: it is "https://evil.example.com"`)
}

// TestUserNames: a name that a person chose cannot look like another actor.
func TestUserNames(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for name, changes := range map[string]testissuer.Claims{
		"with a subject":        {"email": "root@example.com (00u0)"},
		"with a space":          {"email": "ann smith"},
		"not verified":          {"email_verified": false},
		"not verified, as text": {"email_verified": "false"},
		"no text":               {"email": 1},
		"none":                  {"email": nil},
		"lines":                 {"email": "a\nb"},
		"long":                  {"email": strings.Repeat("x", maxUserBytes+1)},
		"not ASCII":             {"email": "аnn@example.com"},
	} {
		id, err := e.Verify(t.Context(), e.issuer.Token(valid(changes)))
		require.NoError(t, err, name)
		require.Equal(t, "00u1", id.User, name)
	}
}

// TestCache: a token is verified once, no longer than it is valid, and the number of tokens is limited.
func TestCache(t *testing.T) {
	t.Parallel()
	e := setup(t)
	token := e.issuer.Token(valid())
	first, err := e.Verify(t.Context(), token)
	require.NoError(t, err)
	again, err := e.Verify(t.Context(), token)
	require.NoError(t, err)
	require.Same(t, first, again)
	for i := range 2 * maxCached {
		e.remember(sha256.Sum256(fmt.Append(nil, i)), &Identity{Expires: start.Add(time.Hour)})
	}
	require.Len(t, e.cache, maxCached)
	_, err = e.Verify(t.Context(), token)
	require.NoError(t, err)
	e.clock.advance(time.Hour + clockSkew)
	require.Nil(t, e.Cached(token))
	_, err = e.Verify(t.Context(), token)
	require.ErrorContains(t, err, "expired")
}

func TestParseIssuers(t *testing.T) {
	t.Parallel()
	issuers, problems := ParseIssuers(`[{name: corp, url: "https://login.example.com", client_id: fleet, groups_claim: groups, user_claim: email},
		{"name":"github","url":"https://token.actions.githubusercontent.com","audiences":["https://fleet.example.com"]},
		{name: k8s, url: "http://127.0.0.1:1", jwks_file: /keys/prod.json, audiences: [fleet]}]`)
	require.Empty(t, problems)
	require.Len(t, issuers, 3)
	issuers, problems = ParseIssuers(" ")
	require.Empty(t, issuers)
	require.Empty(t, problems)
	for text, want := range map[string]string{
		"x":                         "must be a list",
		"{name: corp}":              "must be a list",
		"[{name: corp, secret: x}]": "unknown field",
		"[{name: Corp, url: 'https://a', client_id: f}]":                                         "name must be",
		"[{name: ../x, url: 'https://a', client_id: f}]":                                         "name must be",
		"[{name: a, url: 'http://a', client_id: f}]":                                             "must start with https://",
		"[{name: a, url: 'http://127.0.0.1.evil.com', client_id: f}]":                            "must start with https://",
		"[{name: a, url: 'https://u:p@a', client_id: f}]":                                        "must be a URL",
		"[{name: a, url: 'https://a?x=y', client_id: f}]":                                        "must be a URL",
		"[{name: a, url: '', client_id: f}]":                                                     "must be a URL",
		"[{name: a, url: 'https://a'}]":                                                          "needs client_id or audiences",
		"[{name: a, url: 'https://a', audiences: ['']}]":                                         "is empty",
		"[{name: a, url: 'https://a', client_id: f}, {name: a, url: 'https://b', client_id: f}]": "two issuers have this name",
		"[{name: a, url: 'https://a', client_id: f}, {name: b, url: 'https://a', client_id: f}]": `same url as issuer "a"`,
	} {
		_, problems := ParseIssuers(text)
		require.Contains(t, strings.Join(problems, "\n"), want, text)
	}
	_, problems = ParseIssuers("[{name: A, url: 'http://a'}, {name: B, url: 'http://b'}]")
	require.Len(t, problems, 6, "all problems at once")
}

// FuzzVerify: no text is accepted that the issuer did not sign.
func FuzzVerify(f *testing.F) {
	for _, seed := range []string{"", "..", "e30.e30.", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJSUzI1NiJ9.e30.AA", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2EifQ.AA"} {
		f.Add(seed)
	}
	v := &Verifier{cfg: Config{Now: func() time.Time { return start }}, cache: map[[sha256.Size]byte]*Identity{}}
	s := &source{Issuer: Issuer{Name: "a", URL: "https://a", ClientID: "fleet", JWKSFile: "-"}, now: v.cfg.Now}
	s.current.Store(&keySet{keys: []jose.JSONWebKey{{Key: edKey().Public(), KeyID: "k"}}})
	v.sources = map[string]*source{"https://a": s}
	f.Fuzz(func(t *testing.T, token string) {
		_, err := v.Verify(t.Context(), token)
		require.Error(t, err)
	})
}
