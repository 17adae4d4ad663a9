// Package httperror defines the errors of the HTTP layer itself, such as a refused credential or a full queue. The packages
// below server return them, and the error table of server alone writes them to a client:
//
//	auth, admission, openapi, poll, handlers --> *Error   \
//	package fleet                            --> *fleet.Error  > server/errors.go --> application/problem+json
//	package store                            --> store.Err…   /
package httperror

import "github.com/flux-resourceset/flux-resourceset/fleet"

// Error is an error whose whole content may be shown to the client.
type Error struct {
	Status   int                  // of HTTP
	Code     string               // machine-readable, as the OpenAPI document lists it
	Detail   string               // for people
	Problems []fleet.Problem      // by field of the request; may be empty
	Headers  map[string]string    // of the answer; may be nil
	Oldest   fleet.Revision       // with code gone: the oldest revision that the history has
	Approval fleet.NeededApproval // with code policy: the one that admits the change
}

// Error returns the detail.
func (e *Error) Error() string { return e.Detail }
