package fleet

import (
	"encoding/json"
	"maps"
)

// LaterTokens are managed tokens, by id, as a later revision has them than some State: what each secret stands for by
// then, nothing for a token that is gone. They only ever take away: what a secret may do is what both say.
type TokenRevocations map[string]map[Digest]*Holder

// With adds tokens to a copy. A nil body is a token that is gone, and so is one that cannot be read: it may have been
// revoked in a way that only a newer version knows.
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

// Restrict returns the holder of a secret by what is known later, nil when that is nobody any more. A token that stands
// for something else by then is nobody's until the State says so, too. It does not allocate.
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
