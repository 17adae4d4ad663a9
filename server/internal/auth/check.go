package auth

import "github.com/flux-resourceset/flux-resourceset/fleet"

// MayCall reports whether rights permit a call of an operation, as for a principal with access documents.
func (a Access) MayCall(rights fleet.Rights) bool { return (&Principal{}).hasRight(a, rights) }
