package fleet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// MaxOverlap is the maximum time for which secrets from before a rotation remain valid.
const MaxOverlap = 30 * 24 * time.Hour

// maxSecrets is the maximum number of secrets of a token while rotations overlap.
const maxSecrets = 5

// Tokens returns the managed tokens, sorted by id.
func (s *State) Tokens(keep func(name, clusterID string, expires *time.Time) bool) []*Document {
	return s.sorted(KindToken, func(d *Document) bool {
		t := d.token()
		return keep(t.Name, t.ClusterID, t.ExpiresAt)
	})
}

// NewToken is a token to create. The caller provides ID and Secret, since they are random.
type NewToken struct {
	ID          string
	Secret      Digest
	Name        string
	Role        string
	ClusterID   string
	Description string
	ExpiresAt   *time.Time
}

// CreateToken adds a token. CodeConflict if one with this name or id exists.
func (tx *Tx) CreateToken(t NewToken, now time.Time) (*Document, error) {
	if err := inFuture(t.ExpiresAt, now); err != nil {
		return nil, err
	}
	for _, other := range tx.base.docs[KindToken] {
		if other.token().Name == t.Name || other.ID == t.ID {
			return nil, errorf(CodeConflict, "there is a token named %q already, with id %q: rotate or revoke it, or choose another name", other.token().Name, other.ID)
		}
	}
	if names := tx.base.accessOfToken(t.Name); t.Role == RoleScoped && len(names) > 0 {
		tx.note("access documents select a token named %q already, and grant it their rights: %s", t.Name, list(names))
	}
	tx.recordOperation(api.RevisionOperation{Op: "create", Kind: string(KindToken), ID: t.ID, Fields: []string{truncate("name=" + t.Name)}})
	return tx.storeToken(t.ID, storedToken{
		ID: t.ID, Name: t.Name, Role: t.Role, ClusterID: t.ClusterID, Description: t.Description, ExpiresAt: inUTC(t.ExpiresAt),
		Secrets: []storedSecret{{SHA256: hex.EncodeToString(t.Secret[:]), CreatedAt: now}},
	})
}

// Rotation describes how a token gets a new secret.
type Rotation struct {
	Secret Digest
	// Overlap is the time for which the secrets from before remain valid, at most MaxOverlap.
	Overlap time.Duration
	// ExpiresAt is the new expiry of the token; nil keeps it.
	ExpiresAt *time.Time
}

// RotateToken gives a token a new secret.
func (tx *Tx) RotateToken(id string, r Rotation, now time.Time) (*Document, error) {
	before, err := tx.Get(KindToken, id)
	if err != nil {
		return nil, err
	}
	was := before.token()
	if r.Overlap < 0 || r.Overlap > MaxOverlap {
		return nil, Invalid([]Problem{{Pointer: "/overlap", Detail: "must be from 0s to 720h"}})
	}
	if err := inFuture(r.ExpiresAt, now); err != nil {
		return nil, err
	}
	if r.ExpiresAt == nil && was.ExpiresAt != nil && !now.Before(*was.ExpiresAt) {
		return nil, Invalid([]Problem{{Pointer: "/expires_at", Detail: "the token has expired: set the expiry of the new secret"}})
	}
	secrets := []storedSecret{{SHA256: hex.EncodeToString(r.Secret[:]), CreatedAt: now}}
	for _, s := range was.Secrets {
		end := now.Add(r.Overlap)
		// Neither the rotation nor a later expiry of the token prolongs an old secret.
		for _, other := range []*time.Time{s.ExpiresAt, was.ExpiresAt} {
			if other != nil && other.Before(end) {
				end = *other
			}
		}
		if now.Before(end) {
			s.ExpiresAt = &end
			secrets = append(secrets, s)
		}
	}
	if len(secrets) > maxSecrets {
		return nil, errorf(CodeConflict, "%d secrets from before still work: wait until some have expired, or rotate with overlap 0s", len(secrets)-1)
	}
	tx.recordOperation(api.RevisionOperation{Op: "rotate", Kind: string(KindToken), ID: id, Fields: []string{truncate("name=" + was.Name)}})
	return tx.edit(before, func(stored map[string]any) map[string]any {
		stored["secrets"] = secrets
		if r.ExpiresAt != nil {
			stored["expires_at"] = inUTC(r.ExpiresAt)
		}
		return stored
	})
}

// inUTC converts a time to UTC; nil stays nil.
func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// inFuture returns an error for an expiry that has passed.
func inFuture(t *time.Time, now time.Time) error {
	if t != nil && !now.Before(*t) {
		return Invalid([]Problem{{Pointer: "/expires_at", Detail: "must be in the future"}})
	}
	return nil
}

// storeToken records a token as an edit.
func (tx *Tx) storeToken(id string, t storedToken) (*Document, error) {
	body, err := jsontext.Canonical(t)
	if err != nil {
		return nil, err
	}
	obj, err := unstructured.Decode(body)
	if err != nil {
		return nil, err
	}
	return tx.store(KindToken, id, obj)
}

// dropTokens revokes, in the same commit, the tokens of clusters that are orphaned, or that are created again after a deletion: a later
// cluster with the same id is another cluster. A cluster that a restore or revert brings back is the same cluster.
func (tx *Tx) dropTokens(edits []edit) []edit {
	forgotten := map[string]bool{}
	for _, e := range edits {
		if e.kind == KindCluster && (e.doc == nil || tx.createsAgain(e)) {
			forgotten[e.id] = true
		}
	}
	if len(forgotten) == 0 {
		return edits
	}
	for id, doc := range tx.base.docs[KindToken] {
		if _, edited := tx.edits[docKey{KindToken, id}]; !edited && forgotten[doc.token().ClusterID] {
			edits = append(edits, edit{KindToken, id, nil})
		}
	}
	return edits
}

// createsAgain reports whether an edit creates a cluster under the id of one that was deleted, in an earlier commit or in this one.
func (tx *Tx) createsAgain(e edit) bool {
	return e.doc != nil && !e.doc.Deleted() && tx.created[docKey{KindCluster, e.id}]
}

// Public returns the change as the API shows it: a token without the stored form of its secrets, a rollout or version automation
// without the identity of its principal, a webhook without the path of its URL, pins and the records of
// sources without their content, which may be megabytes or name documents that only admins may read.
func (c Change) Public() (before, after json.RawMessage, err error) {
	private := withoutSecrets
	switch c.Kind {
	case KindPin, KindSourceState, KindSourceDocuments:
		return nil, nil, nil
	case KindToken:
	case KindRollout, KindVersionAutomation, KindApproval:
		private = withoutIdentity
	case KindWebhook:
		private = withoutURL
	default:
		return c.Before, c.After, nil
	}
	if before, err = private(c.Before); err != nil {
		return nil, nil, err
	}
	after, err = private(c.After)
	return before, after, err
}

// withoutIdentity returns a body without the groups and claims of its principal.
func withoutIdentity(body json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(body, []byte(`"identity"`)) {
		return body, nil
	}
	obj, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
	delete(obj, "identity")
	principals, _ := obj["principals"].(map[string]any)
	for _, p := range principals {
		if principal, ok := p.(map[string]any); ok {
			delete(principal, "identity")
		}
	}
	return jsontext.Canonical(obj)
}

// withoutSecrets returns a token's body with the digests removed.
func withoutSecrets(body json.RawMessage) (json.RawMessage, error) {
	if body == nil {
		return nil, nil
	}
	var t storedToken
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&t); err != nil {
		return nil, fmt.Errorf("a token of the log: %w", err)
	}
	obj, err := unstructured.FromValue(t)
	if err != nil {
		return nil, err
	}
	delete(obj, "secrets")
	return jsontext.Canonical(obj)
}
