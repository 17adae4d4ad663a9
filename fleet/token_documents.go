package fleet

import (
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Roles of tokens. Each includes the permissions of the ones before it, except that RolePoll is restricted to one cluster, and
// RoleScoped has the rights of the access documents that name the token.
const (
	RolePoll  = "poll"
	RoleRead  = "read"
	RoleWrite = "write"
	RoleAdmin = "admin"

	RoleScoped = "scoped"
)

// storedToken is a token in the log. The API shows it without the digests.
type storedToken struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Role        string         `json:"role"`
	ClusterID   string         `json:"cluster_id"`
	Description string         `json:"description"`
	ExpiresAt   *time.Time     `json:"expires_at,omitempty"`
	Secrets     []storedSecret `json:"secrets"`
}

// storedSecret is one secret of a token. A plain SHA-256 does not reveal a secret of 256 random bits.
type storedSecret struct {
	SHA256    string     `json:"sha256"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

var tokenKind = kindRules{
	name:      KindToken,
	noun:      "token",
	empty:     func() any { return new(storedToken) },
	normalize: func(map[string]any) {},
	check:     checkToken,
	view:      func(d *Document) any { return d.token().view(d) },
}

func (d *Document) token() *storedToken { return d.value.(*storedToken) }

// view returns the token as the API shows it.
func (t *storedToken) view(d *Document) *api.Token {
	out := &api.Token{
		ID: t.ID, Name: t.Name, Role: t.Role, ClusterID: t.ClusterID, Description: t.Description, ExpiresAt: t.ExpiresAt,
		Secrets: []api.TokenSecret{}, Revision: int64(d.Revision), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	for _, s := range t.Secrets {
		out.Secrets = append(out.Secrets, api.TokenSecret{Fingerprint: s.SHA256[:min(8, len(s.SHA256))], CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt})
	}
	return out
}

// Expired reports whether the secret has expired.
func (h *Holder) Expired(now time.Time) bool { return !h.until.IsZero() && !now.Before(h.until) }

// Until returns the time when the secret expires; false: it does not expire.
func (h *Holder) Until() (time.Time, bool) { return h.until, !h.until.IsZero() }

// Holder returns the holder of the secret with this digest, whether it has expired or not; nil if there is none.
func (s *State) Holder(secret Digest) *Holder { return s.holders[secret] }

// HasWriters reports whether there is a managed token that may change the fleet, valid or expired.
func (s *State) HasWriters() bool { return s.writers }

// HasTokens reports whether there is a managed token, valid or expired.
func (s *State) HasTokens() bool { return len(s.docs[KindToken]) > 0 }

// indexTokens builds the index behind Holder and HasWriters.
func (s *State) indexTokens() {
	s.holders, s.writers = make(map[Digest]*Holder, len(s.docs[KindToken])), false
	for id, doc := range s.docs[KindToken] {
		maps.Copy(s.holders, doc.token().holders(id))
		s.writers = s.writers || doc.token().Role != RolePoll && doc.token().Role != RoleRead
	}
}

// tokenActor is the prefix of actors that are managed tokens.
const tokenActor = "token:"

// holders returns the holders of a token's secrets.
func (t *storedToken) holders(id string) map[Digest]*Holder {
	all := make(map[Digest]*Holder, len(t.Secrets))
	for _, secret := range t.Secrets {
		var digest Digest
		if n, err := hex.Decode(digest[:], []byte(secret.SHA256)); err != nil || n != len(digest) {
			continue // another kind of digest, from a newer version: it authenticates no secret here
		}
		h := &Holder{ID: id, Name: t.Name, Role: t.Role, ClusterID: t.ClusterID, Actor: fmt.Sprintf("%s%s (%s)", tokenActor, t.Name, id)}
		if t.Role == RoleScoped {
			h.Subject = &Subject{Token: t.Name}
		}
		for _, end := range []*time.Time{t.ExpiresAt, secret.ExpiresAt} {
			if end != nil && (h.until.IsZero() || end.Before(h.until)) {
				h.until = *end
			}
		}
		all[digest] = h
	}
	return all
}

// checkToken checks a token's document.
func checkToken(c *checker, d *Document) {
	t := d.token()
	c.dnsSubdomain("/name", t.Name)
	c.text("/description", t.Description, 1024)
	c.oneOf("/role", t.Role, RolePoll, RoleRead, RoleWrite, RoleAdmin, RoleScoped)
	switch {
	case t.Role == RolePoll && t.ClusterID == "":
		c.problem("/cluster_id", "is required: a poll token is for one cluster")
	case t.Role == RolePoll && !c.next.Has(KindCluster, t.ClusterID):
		c.problem("/cluster_id", "there is no cluster %q", t.ClusterID)
	case t.Role != RolePoll && t.ClusterID != "":
		c.problem("/cluster_id", "only a poll token is for one cluster")
	}
	if t.Role != RolePoll && t.Role != RoleRead && t.ExpiresAt == nil {
		c.warn("token %q may change the fleet and never expires: give it an expires_at", t.Name)
	}
}

// SourceActor returns the actor of the commits of a source.
func SourceActor(id string) string { return "source:" + id }

// SourceOf returns the source of an actor; empty: the actor is another.
func SourceOf(actor string) string {
	id, is := strings.CutPrefix(actor, SourceActor(""))
	if !is {
		return ""
	}
	return id
}

// ActorRole returns the role of the managed token with this name in the log; empty: there is none, or it has expired.
func (s *State) ActorRole(actor string, now time.Time) string {
	if h := s.actor(actor, now); h != nil {
		return h.Role
	}
	return ""
}

// ActorSubject returns the subject of the managed token of an actor in the log; nil: the token has none, or has expired.
func (s *State) ActorSubject(actor string, now time.Time) *Subject {
	if h := s.actor(actor, now); h != nil {
		return h.Subject
	}
	if id := SourceOf(actor); id != "" && s.docs[KindSource][id] != nil {
		return &Subject{Source: id}
	}
	return nil
}

// actor returns the holder of the managed token of an actor in the log; nil: all its secrets have expired.
func (s *State) actor(actor string, now time.Time) *Holder {
	for _, h := range s.holders {
		if h.Actor == actor && !h.Expired(now) {
			return h
		}
	}
	return nil
}

// TokenRole returns the role of the managed token with a name, and whether it is valid at a time; empty: there is no such token.
func (s *State) TokenRole(name string, now time.Time) (role string, valid bool) {
	for _, d := range s.docs[KindToken] {
		if t := d.token(); t.Name == name {
			return t.Role, t.ExpiresAt == nil || now.Before(*t.ExpiresAt)
		}
	}
	return "", false
}
