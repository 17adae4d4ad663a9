package fleet

import (
	"encoding/json"
	"maps"
)

// TokenRevocations holds the managed tokens, by id, as they are in a later revision than some State: the holder of each
// secret then, none for a deleted token. They can only reduce permissions: a secret may do only what both revisions allow.
type TokenRevocations map[string]map[Digest]*Holder

// With returns a copy with more tokens. A nil body is a deleted token. A token that cannot be read counts as deleted too: a
// newer version may have revoked it in an unknown way.
func (l TokenRevocations) With(tokens map[string]json.RawMessage) TokenRevocations {
	next := make(TokenRevocations, len(l)+len(tokens))
	maps.Copy(next, l)
	for id, body := range tokens {
		next[id] = nil
		var t storedToken
		if body != nil && json.Unmarshal(body, &t) == nil {
			next[id] = t.holders(id)
		}
	}
	return next
}

// Restrict returns the holder of a secret after revocations, nil if it has none any more. If a token has another role or
// cluster by then, it has no holder until the State has that revision too. It does not allocate.
func (l TokenRevocations) Restrict(secret Digest, h *Holder) *Holder {
	secrets, changed := l[h.ID]
	if !changed {
		return h
	}
	later := secrets[secret]
	switch {
	case later == nil, later.Role != h.Role, later.ClusterID != h.ClusterID:
		return nil
	case !later.until.IsZero() && (h.until.IsZero() || later.until.Before(h.until)):
		return later
	}
	return h
}
