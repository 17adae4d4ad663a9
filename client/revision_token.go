package client

import "sync/atomic"

// Headers that carry revisions of the fleet.
const (
	fleetRevision = "X-Fleet-Revision"
	minRevision   = "X-Fleet-Min-Revision"
)

// RevisionToken holds the newest revision of a server's fleet that a client has seen; the zero value holds none. Calls
// require at least that revision, so no replica answers them with older data. It is safe for concurrent use. To keep it
// between runs of a program, save [RevisionToken.Revision] and pass it to [RevisionToken.Note].
type RevisionToken struct{ revision atomic.Int64 }

// Revision returns the newest revision noted; 0: none.
func (s *RevisionToken) Revision() int64 { return s.revision.Load() }

// Note records a revision, unless a newer one was recorded.
func (s *RevisionToken) Note(revision int64) {
	for {
		old := s.revision.Load()
		if revision <= old || s.revision.CompareAndSwap(old, revision) {
			return
		}
	}
}

// Forget resets the token. Call it after the server's history was replaced, because its revisions are not comparable
// with the old ones.
func (s *RevisionToken) Forget() { s.revision.Store(0) }
