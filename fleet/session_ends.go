package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// sessionEndAge is the age from which the end of sessions is obsolete: it exceeds the longest life of a session and of an ID token.
const sessionEndAge = 48 * time.Hour

// sessionEnd ends the sessions of a person, or of all people of an issuer, that began until a time.
type sessionEnd struct {
	ID        string    `json:"id"`
	Issuer    string    `json:"issuer"`
	Sub       string    `json:"sub,omitempty"` // empty: all people of the issuer
	NotBefore time.Time `json:"not_before"`
}

var sessionEndKind = recordKind(KindSessionEnd, "end of sessions", func() any { return new(sessionEnd) })

func (d *Document) sessionEnd() *sessionEnd { return d.value.(*sessionEnd) }

// sessionEndID returns the id of the document for a person, or with an empty sub for all people of the issuer. It is a hash, since
// a subject may have any characters.
func sessionEndID(issuer, sub string) string {
	if sub == "" {
		return issuer
	}
	sum := sha256.Sum256([]byte(sub))
	return issuer + "." + hex.EncodeToString(sum[:16])
}

// EndSessions ends the sessions of a person, or with an empty sub of all people of an issuer, that began until now. It also
// removes obsolete documents.
func (tx *Tx) EndSessions(issuer, sub string, now time.Time) error {
	id := sessionEndID(issuer, sub)
	doc, err := tx.kinds.newRecord(KindSessionEnd, id, sessionEnd{ID: id, Issuer: issuer, Sub: sub, NotBefore: now})
	if err != nil {
		return err
	}
	for other, d := range tx.base.docs[KindSessionEnd] {
		if other != id && now.Sub(d.sessionEnd().NotBefore) > sessionEndAge {
			tx.record(KindSessionEnd, other, nil)
		}
	}
	tx.record(KindSessionEnd, id, doc)
	tx.recordOperation(api.RevisionOperation{Op: "end_sessions", Kind: string(KindSessionEnd), ID: id, Fields: []string{truncate("issuer=" + issuer), truncate("sub=" + sub)}})
	return nil
}

// SessionEnded reports whether a session or an ID token that began at a time was ended. The end for all people of an issuer ends
// those of people only, not those of workloads.
func (s *State) SessionEnded(sub *Subject, began time.Time, person bool) bool {
	for id, ends := range map[string]bool{sessionEndID(sub.Issuer, ""): person, sessionEndID(sub.Issuer, sub.Sub): true} {
		if d := s.docs[KindSessionEnd][id]; ends && d != nil && !began.After(d.sessionEnd().NotBefore) {
			return true
		}
	}
	return false
}
