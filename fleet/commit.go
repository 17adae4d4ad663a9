package fleet

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Revision numbers the commits of a fleet. It starts at 0 (nothing was ever committed) and grows by exactly one per
// commit.
type Revision int64

// KindCluster is the kind of clusters. Other kinds have theirs beside what they are.
const KindCluster Kind = "cluster"

// Change is one document before and after a commit, as canonical JSON. Before is nil when the document was created,
// After is nil when it was deleted; they are never both nil.
type Change struct {
	Kind   Kind
	ID     string
	Before json.RawMessage
	After  json.RawMessage
}

// Action is what happened to the document: create, update or delete. A decommissioned cluster is deleted, although it
// is kept to answer its polls.
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

func (c Change) tombstone(body json.RawMessage) bool {
	if c.Kind != KindCluster || !bytes.Contains(body, []byte(`"deleted_at"`)) { // cheap, and nearly always so
		return false
	}
	var doc struct {
		DeletedAt string `json:"deleted_at"`
	}
	return json.Unmarshal(body, &doc) == nil && doc.DeletedAt != ""
}

// Head names one point of history. ID is the commit that made Revision, so that two histories which happen to have
// the same length are told apart (a database restored from an older backup and written to since). The zero Head is
// the empty history.
type Head struct {
	Revision Revision
	ID       uuid.UUID
}

// Commit is one entry of the log: who changed what, when and why. At is UTC with microsecond precision, which every
// store keeps.
type Commit struct {
	Revision  Revision
	ID        uuid.UUID
	At        time.Time
	Actor     string
	Author    string // who stands behind it, as the actor claims; empty when not said
	Reason    string
	RequestID string
	// Operations is what was asked for, as JSON: see Cause. Empty: it is not known.
	Operations json.RawMessage
	Changes    []Change
}

// Head is the point of history this commit made.
func (c Commit) Head() Head { return Head{Revision: c.Revision, ID: c.ID} }

// Record is a document as a store keeps it: its canonical JSON and when it was last changed.
type Record struct {
	Kind      Kind
	ID        string
	Body      json.RawMessage
	Revision  Revision  // of the last commit that changed it
	CommitID  uuid.UUID // of that commit
	CreatedAt time.Time
	UpdatedAt time.Time
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
