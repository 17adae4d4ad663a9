package fleet

import "time"

// TokenAge is the age of a managed token.
type TokenAge struct {
	Name, Role string
	ClusterID  string    // of a poll token
	CreatedAt  time.Time // of the oldest secret that is valid
}

// TokenAges visits the managed tokens with a valid secret, in no order.
func (s *State) TokenAges(now time.Time, visit func(TokenAge)) {
	for _, doc := range s.docs[KindToken] {
		t := doc.token()
		age := TokenAge{Name: t.Name, Role: t.Role, ClusterID: t.ClusterID}
		if t.ExpiresAt != nil && !now.Before(*t.ExpiresAt) {
			continue
		}
		for _, secret := range t.Secrets {
			if secret.ExpiresAt != nil && !now.Before(*secret.ExpiresAt) {
				continue
			}
			if age.CreatedAt.IsZero() || secret.CreatedAt.Before(age.CreatedAt) {
				age.CreatedAt = secret.CreatedAt
			}
		}
		if !age.CreatedAt.IsZero() {
			visit(age)
		}
	}
}
