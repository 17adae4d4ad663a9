package client

import "sync/atomic"

// Headers that carry revisions of the fleet.
const (
	fleetRevision = "X-Fleet-Revision"
	minRevision   = "X-Fleet-Min-Revision"
)

// RevisionToken is the newest revision of a server's fleet that was seen. The zero value is none. It is safe for concurrent use,
// and may be kept from one run of a program to the next.
type RevisionToken struct{ revision atomic.Int64 }

// Revision is the newest one that was noted; 0: none.
func (s *RevisionToken) Revision() int64 { return s.revision.Load() }

// Note notes a revision, unless a newer one was.
func (s *RevisionToken) Note(revision int64) {
	for {
		old := s.revision.Load()
		if revision <= old || s.revision.CompareAndSwap(old, revision) {
			return
		}
	}
}

// Forget starts anew: for when a server was given another history, whose revisions are other ones.
func (s *RevisionToken) Forget() { s.revision.Store(0) }

// Seen is the former name of [RevisionToken].
//
// Deprecated: use [RevisionToken]. This name is left out of the release after the next one.
type Seen = RevisionToken
