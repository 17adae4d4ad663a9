// Package oidc verifies the ID tokens of people, pipelines and workloads, from OpenID Connect issuers.
//
//	ID token --> cache by SHA-256 --> Identity
//	    |                                ^
//	    v                                |
//	iss: which issuer --> key by kid --> signature --> aud, exp, nbf --> names and groups
//	                        ^
//	                        |
//	discovery document and keys: at the start, once an hour, for an unknown kid; STATE_DIR for 24 hours without the issuer
//
// Polls of clusters never use this package.
package oidc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Limits on tokens.
const (
	maxTokenBytes   = 16 << 10
	maxSubjectBytes = 512
	maxUserBytes    = 128
	clockSkew       = time.Minute // accepted for exp and nbf
	maxCached       = 10_000      // verified tokens
)

// Identity is the verified sender of a token. It is never changed.
type Identity struct {
	fleet.Subject
	// SignedIn is the time at which a person signed in with this service's client; zero: the token is of a workload, or of another client.
	SignedIn time.Time
	// Issued is iat, less the difference of clocks that is accepted: by the clock of this server, the token may have been issued as early.
	// Zero: it has no iat.
	Issued  time.Time
	Expires time.Time
}

// TokenError is the reason for refusing a token, for its holder and for the log.
type TokenError struct {
	Reason    string
	Expired   bool
	NotAToken bool // it does not have the form of a signed token, and may be another kind of credential
}

// Error returns the reason.
func (e *TokenError) Error() string { return e.Reason }

func refuse(format string, args ...any) error {
	return &TokenError{Reason: fmt.Sprintf(format, args...)}
}

// ErrNoKeys means that the token cannot be verified now, because its issuer did not answer for too long, or sent no usable key.
var ErrNoKeys = errors.New("the keys of the token's issuer are not available: the issuer does not answer, or sends no usable key")

// Config configures a Verifier. StateDir may be empty; all others are required.
type Config struct {
	Issuers  []Issuer
	StateDir string // keeps keys across restarts
	Logger   *slog.Logger
	Now      func() time.Time
}

// Verifier verifies ID tokens.
type Verifier struct {
	cfg     Config
	sources map[string]*source // by URL
	mu      sync.Mutex
	cache   map[[sha256.Size]byte]*Identity

	exchanges atomic.Int32 // requests of sign-ins that run now
}

// New loads the keys of all issuers at once. It fails if an issuer is configured wrongly. An issuer that does not answer is only
// logged, because the tokens of others remain valid.
func New(ctx context.Context, cfg Config) (*Verifier, error) {
	v := &Verifier{cfg: cfg, sources: map[string]*source{}, cache: map[[sha256.Size]byte]*Identity{}}
	var starts sync.WaitGroup
	problems := make([]error, len(cfg.Issuers))
	for i, issuer := range cfg.Issuers {
		s := &source{Issuer: issuer, client: newClient(), logger: cfg.Logger, now: cfg.Now}
		if cfg.StateDir != "" {
			s.file = filepath.Join(cfg.StateDir, "oidc-"+issuer.Name+".json")
		}
		v.sources[issuer.URL] = s
		starts.Go(func() {
			unavailable, err := s.start(ctx)
			if err != nil {
				problems[i] = fmt.Errorf("issuer %q: %w", issuer.Name, err)
			}
			if unavailable != nil {
				cfg.Logger.WarnContext(ctx, "the keys of an issuer could not be fetched", "issuer", issuer.Name, "error", unavailable)
			}
		})
	}
	starts.Wait()
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("OIDC_ISSUERS: %w", err)
	}
	return v, nil
}

// Has reports whether an issuer is configured, by its name.
func (v *Verifier) Has(name string) bool {
	return slices.ContainsFunc(v.cfg.Issuers, func(is Issuer) bool { return is.Name == name })
}

// Clients returns the issuers at which people sign in.
func (v *Verifier) Clients() (list []Issuer) {
	for _, issuer := range v.cfg.Issuers {
		if issuer.ClientID != "" {
			if len(issuer.Scopes) == 0 {
				issuer.Scopes = []string{"openid", "profile", "email"}
			}
			list = append(list, issuer)
		}
	}
	return list
}

// Run fetches the keys once an hour, and once a minute after a failure, until ctx ends.
func (v *Verifier) Run(ctx context.Context) {
	ticker := time.NewTicker(fetchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			v.refresh(ctx)
		}
	}
}

// refresh fetches the keys that are due.
func (v *Verifier) refresh(ctx context.Context) {
	for _, s := range v.sources {
		if !s.due() {
			continue
		}
		if err := s.refresh(ctx); err != nil {
			v.cfg.Logger.WarnContext(ctx, "the keys of an issuer could not be fetched", "issuer", s.Name, "error", err)
		}
	}
}

// Cached returns the identity of a token that was verified before; nil: it was not. It does not wait.
func (v *Verifier) Cached(token string) *Identity {
	return v.cached(sha256.Sum256([]byte(token)))
}

func (v *Verifier) cached(sum [sha256.Size]byte) *Identity {
	v.mu.Lock()
	defer v.mu.Unlock()
	id := v.cache[sum]
	if id != nil && !v.cfg.Now().Before(id.Expires.Add(clockSkew)) {
		delete(v.cache, sum)
		return nil
	}
	return id
}

// remember caches a verified token. A full cache drops an arbitrary token: all tokens in it are verified.
func (v *Verifier) remember(sum [sha256.Size]byte, id *Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.cache) >= maxCached {
		for other := range v.cache {
			delete(v.cache, other)
			break
		}
	}
	v.cache[sum] = id
}

// Verify returns the identity of an ID token. The error is a *TokenError, or ErrNoKeys if the token may be valid.
func (v *Verifier) Verify(ctx context.Context, token string) (*Identity, error) {
	if len(token) > maxTokenBytes {
		return nil, refuse("the token is longer than %d bytes", maxTokenBytes)
	}
	sum := sha256.Sum256([]byte(token))
	if id := v.cached(sum); id != nil {
		return id, nil
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil {
		return nil, &TokenError{Reason: "it is not a JSON Web Token signed with RS256, ES256 or EdDSA", NotAToken: strings.Count(token, ".") != 2}
	}
	header := signed.Signatures[0].Header
	if typ, ok := header.ExtraHeaders[jose.HeaderType]; ok && typ != "JWT" {
		return nil, refuse("it is not an ID token: its header typ is %.40q", fmt.Sprint(typ))
	}
	c, err := parseClaims(signed.UnsafePayloadWithoutVerification()) // only to find the issuer, with whose keys the signature is verified
	if err != nil {
		return nil, err
	}
	s := v.sources[c.text("iss")]
	if s == nil {
		return nil, refuse("its issuer (iss) is not configured here")
	}
	if err := s.checkSignature(ctx, signed, header); err != nil {
		return nil, err
	}
	// Only the holder of a token with a valid signature gets a more detailed reason.
	id, err := s.identify(c, v.cfg.Now())
	if err == nil {
		v.remember(sum, id)
	}
	return id, err
}

// checkSignature verifies the token with the issuer's keys.
func (s *source) checkSignature(ctx context.Context, signed *jose.JSONWebSignature, header jose.Header) error {
	keys, err := s.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return refuse("issuer %q has no key for it: its header kid names none of the issuer's keys", s.Name)
	}
	if !slices.ContainsFunc(keys, func(key jose.JSONWebKey) bool {
		_, err := signed.Verify(key.Key)
		return err == nil
	}) {
		return refuse("its signature is not one of issuer %q", s.Name)
	}
	return nil
}

// claims are the claims of an ID token. Names are compared exactly, unlike in a struct of package json: a provider may let its
// customers add a claim named AUD.
type claims map[string]any

func parseClaims(payload []byte) (c claims, err error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber() // ids may be large
	if decoder.Decode(&c) != nil || c == nil {
		return nil, refuse("its content is not the claims of an ID token")
	}
	return c, nil
}

func (c claims) text(name string) string {
	text, _ := c[name].(string)
	return text
}

// list returns a claim that is a string or a list of strings. Not ok: it has another type.
func (c claims) list(name string) (list []string, ok bool) {
	switch value := c[name].(type) {
	case nil:
		return nil, true
	case string:
		return []string{value}, true
	case []any:
		for _, each := range value {
			text, ok := each.(string)
			if !ok {
				return nil, false
			}
			list = append(list, text)
		}
		return list, true
	}
	return nil, false
}

// maxSeconds is the end of the year 9999.
const maxSeconds = 253402300799

// time returns a claim in seconds since 1970. Not present: it is missing or no number.
func (c claims) time(name string) (at time.Time, present bool) {
	number, _ := c[name].(json.Number)
	seconds, err := number.Float64()
	return time.Unix(int64(max(0, min(seconds, maxSeconds))), 0), err == nil
}

// scalars returns the claims with a single value, which access documents can compare.
func (c claims) scalars() map[string]string {
	out := map[string]string{}
	for name, value := range c {
		switch value := value.(type) {
		case string:
			out[name] = value
		case bool:
			out[name] = strconv.FormatBool(value)
		case json.Number:
			out[name] = value.String()
		}
	}
	return out
}

// identify checks the claims of a token with a valid signature.
func (s *source) identify(c claims, now time.Time) (*Identity, error) {
	audience, ok := c.list("aud")
	if !ok || !s.accepts(audience) {
		return nil, refuse("it is for another service: its audience (aud) is %.200q", strings.Join(audience, ", "))
	}
	// Otherwise any application of the provider could use a token that it received here.
	if party, present := c["azp"]; present && !s.isAudience(c.text("azp")) {
		return nil, refuse("it was issued to another client: its authorized party (azp) is %.200q", fmt.Sprint(party))
	}
	expires, ok := c.time("exp")
	if !ok {
		return nil, refuse("it does not expire: exp is missing")
	}
	if past := now.Sub(expires); past >= clockSkew {
		return nil, &TokenError{Expired: true, Reason: fmt.Sprintf("it expired %s ago by the clock of this server", past.Round(time.Second))}
	}
	for _, name := range []string{"nbf", "iat"} {
		from, present := c.time(name)
		if name == "nbf" && !present && c[name] != nil {
			return nil, refuse("its claim nbf is not a number of seconds")
		}
		if early := from.Sub(now); present && early > clockSkew {
			return nil, refuse("it becomes valid in %s by the clock of this server (%s): the clocks of the issuer and of this server differ", early.Round(time.Second), name)
		}
	}
	subject := c.text("sub")
	if subject == "" || len(subject) > maxSubjectBytes || strings.ContainsFunc(subject, unicode.IsControl) {
		return nil, refuse("its subject (sub) is missing, longer than %d bytes, or has control characters", maxSubjectBytes)
	}
	groups, err := s.groups(c)
	if err != nil {
		return nil, err
	}
	id := &Identity{Subject: fleet.Subject{Issuer: s.Name, User: s.user(c), Sub: subject, Groups: groups, Claims: c.scalars()}, Expires: expires}
	issued, present := c.time("iat")
	if present {
		id.Issued = issued.Add(-clockSkew)
	}
	if s.ClientID == "" || !slices.Contains(audience, s.ClientID) {
		return id, nil
	}
	if !present {
		return nil, refuse("its claim iat is missing, or not a number of seconds")
	}
	if party := c.text("azp"); party == "" || party == s.ClientID { // otherwise it is of a workload with a client of its own
		id.SignedIn = issued
	}
	return id, nil
}

// user returns the name for readers of the log. A provider may let people choose their names, so it returns the subject unless the
// name is verified and cannot be mistaken for another part of an actor.
func (s *source) user(c claims) string {
	name := c.text(s.UserClaim)
	verified, known := c["email_verified"] // some providers write the string "false"
	unverified := s.UserClaim == "email" && known && fmt.Sprint(verified) != "true"
	odd := strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '(' || r == ')' })
	if name == "" || len(name) > maxUserBytes || unverified || odd {
		return c.text("sub")
	}
	return name
}

// groups returns the groups of a token. Entra ID omits them if a person has too many (_claim_names, or hasgroups): such a token is
// refused, since it would look like a token of a person without groups.
func (s *source) groups(c claims) ([]string, error) {
	if s.GroupsClaim == "" {
		return nil, nil
	}
	names, _ := c["_claim_names"].(map[string]any)
	_, elsewhere := names[s.GroupsClaim]
	if omitted := elsewhere || s.GroupsClaim == "groups" && fmt.Sprint(c["hasgroups"]) == "true"; omitted && c[s.GroupsClaim] == nil {
		return nil, refuse("it omits the claim %q because of too many groups (_claim_names or hasgroups): let the provider send only groups assigned to the application, or app roles with groups_claim: roles", s.GroupsClaim)
	}
	groups, ok := c.list(s.GroupsClaim)
	if !ok {
		return nil, refuse("its claim %q is not a list of names", s.GroupsClaim)
	}
	return groups, nil
}
