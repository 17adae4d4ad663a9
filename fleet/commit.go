package fleet

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Revision numbers the commits of a fleet. It starts at 0 (no commit yet) and grows by exactly one per commit.
type Revision int64

// KindCluster is the kind of clusters. The constants of other kinds are next to their types.
const KindCluster Kind = "cluster"

// Change is one document before and after a commit, as canonical JSON. Before is nil when the document was created,
// After is nil when it was deleted; they are never both nil.
type Change struct {
	Kind   Kind
	ID     string
	Before json.RawMessage
	After  json.RawMessage
}

// Action returns the effect on the document: create, update or delete. A decommissioned cluster counts as deleted, although
// its document remains to answer its polls.
func (c Change) Action() string {
	was, is := c.Before != nil && !c.tombstone(c.Before), c.After != nil && !c.tombstone(c.After)
	switch {
	case !was && is:
		return "create"
	case !is:
		return "delete"
	}
	return "update"
}

// tombstone reports whether a body of the changed document is a decommissioned cluster.
func (c Change) tombstone(body json.RawMessage) bool {
	if c.Kind != KindCluster || !bytes.Contains(body, []byte(`"deleted_at"`)) { // cheap, and true in nearly all cases
		return false
	}
	var doc struct {
		DeletedAt string `json:"deleted_at"`
	}
	return json.Unmarshal(body, &doc) == nil && doc.DeletedAt != ""
}

// Head identifies one point of history. ID is the commit that made Revision, so that two histories of the same length are
// distinguishable (a database that was restored from an older backup and written to since). The zero Head is the empty
// history.
type Head struct {
	Revision Revision
	ID       uuid.UUID
}

// Commit is one entry of the log: the changes, their author, time and reason. At is UTC with microsecond precision, which
// every store preserves.
type Commit struct {
	Revision  Revision
	ID        uuid.UUID
	At        time.Time
	Actor     string
	Author    string // the person behind the actor, as claimed by the actor; may be empty
	Reason    string
	RequestID string
	// Operations are the requested operations as JSON: see Commit.Requested. Empty: unknown.
	Operations json.RawMessage
	Changes    []Change
}

// Head returns the point of history that this commit made.
func (c Commit) Head() Head { return Head{Revision: c.Revision, ID: c.ID} }

// Record is a document as a store keeps it: its canonical JSON and the time of its last change.
type Record struct {
	Kind      Kind
	ID        string
	Body      json.RawMessage
	Revision  Revision  // of the last commit that changed it
	CommitID  uuid.UUID // of that commit
	CreatedAt time.Time
	UpdatedAt time.Time
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
