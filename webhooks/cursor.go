package webhooks

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// subjectPrefix is the prefix of the subjects of cursors in the table of cluster status; their rows belong to no cluster.
const subjectPrefix = "webhook/"

// cursor is the progress of a webhook.
type cursor struct {
	// After and Replays are the values of the document when the cursor began. After a replay, or for another webhook with this id,
	// a new cursor begins.
	After   fleet.Revision `json:"after"`
	Replays int64          `json:"replays,omitempty"`

	// Revision is the last revision that was delivered or did not match, and Commit its commit; zero: unknown.
	Revision fleet.Revision `json:"revision"`
	Commit   uuid.UUID      `json:"commit"`
	// Part is the number of delivered events of the next revision.
	Part int `json:"part,omitempty"`

	// Attempts is the number of failed attempts to deliver the next event. Wait is the time from the last attempt to the next one.
	Attempts int           `json:"attempts,omitempty"`
	NextAt   *time.Time    `json:"next_at,omitempty"`
	Wait     time.Duration `json:"wait,omitempty"`
	Status   int           `json:"status,omitempty"` // of the last answer; 0: none
	Error    string        `json:"error,omitempty"`
	At       *time.Time    `json:"at,omitempty"` // of the last attempt
	Writer   string        `json:"writer"`       // the process that wrote it
}

// matches reports whether the cursor is one of this version of the webhook.
func (c *cursor) matches(w *fleet.Webhook) bool { return c.After == w.After && c.Replays == w.Replays }

// ahead reports whether the cursor is further than another one.
func (c *cursor) ahead(other *cursor) bool {
	return c.Revision > other.Revision || c.Revision == other.Revision && c.Part > other.Part
}

// row returns the row of a cursor.
func (c *cursor) row(id string, at time.Time) clusterstatus.Row {
	body, _ := json.Marshal(c) // it has no types that can fail
	return clusterstatus.Row{Subject: subjectPrefix + id, Body: string(body), ObservedAt: at}
}

// parseCursor reads a row. It is not ok if the row is unreadable, which counts as lost.
func parseCursor(r clusterstatus.Row) (c cursor, ok bool) {
	return c, json.Unmarshal([]byte(r.Body), &c) == nil && c.Revision >= 0 && c.Part >= 0
}
