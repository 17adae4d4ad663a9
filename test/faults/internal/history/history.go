// Package history is the record of a run of the fault harness: every request with its answer, every process, every
// fault, and the store's final log. It is saved in one file, so that a run can be checked again.
package history

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// History is one run. Times are microseconds since its start, from a monotonic clock.
type History struct {
	Run     Run
	Starts  []Start
	Exits   []Exit
	Faults  []Fault
	Polls   []Poll
	Writes  []Write
	Commits []Commit
	Stored  *Stored
	Notes   []Note
}

// Run is the configuration of a run.
type Run struct {
	Drill    string            `json:"drill"` // load, or the name of a damage
	Store    string            `json:"store"`
	Seed     uint64            `json:"seed"`
	Began    time.Time         `json:"began"`
	Seconds  float64           `json:"seconds"` // requested duration under load
	Versions map[string]string `json:"versions"`
	// Endpoints are the polled lists; Poll.Endpoint is an index.
	Endpoints []Endpoint `json:"endpoints"`
	// Newest is the revision that every process must reach after the last fault.
	Newest int64 `json:"newest"`
	// Artifacts is the number of artifacts that were pushed for the source; 0: there is none.
	Artifacts int `json:"artifacts,omitempty"`
	// Staleness is MAX_STALENESS in microseconds; 0: unlimited.
	Staleness int64 `json:"staleness,omitempty"`
	// Kept: each process has a STATE_DIR and starts from it, so its answers must not go back over a restart.
	Kept bool `json:"kept,omitempty"`
	// Route distributes polls over processes: RouteRandom, RouteAffinity, or empty: each poller has its own process.
	Route string `json:"route,omitempty"`
	// Steady: each poll must be answered, if need be when it is repeated, unless the fault lasts longer than Staleness.
	Steady bool `json:"steady,omitempty"`
	// Survived is the last revision that outlived the fault; 0: all did.
	Survived int64 `json:"survived,omitempty"`
	// Damaged: the store was damaged at the end. Its documents are not checked against the log, and no process
	// has to heal.
	Damaged bool `json:"damaged,omitempty"`
}

// Strategies of a load balancer.
const (
	RouteRandom   = "random"   // each poll to any process
	RouteAffinity = "affinity" // all polls of a cluster to one process while it is ready
)

// Endpoint is one list of one cluster.
type Endpoint struct {
	DNS      string     `json:"dns"`
	Resource fleet.Kind `json:"resource"` // polled kind
}

// Start is the start of a process. Each start has a new Incarnation.
type Start struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	At          int64  `json:"at"`
	Mode        string `json:"mode"`
}

// Exit is the end of a process. Killed: by the harness.
type Exit struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	At          int64  `json:"at"`
	Killed      bool   `json:"killed"`
	How         string `json:"how"`
}

// Fault is a disturbance of a process, a connection or the store.
type Fault struct {
	Kind   string `json:"kind"`
	Target string `json:"target,omitempty"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Note   string `json:"note,omitempty"`
	Kill   bool   `json:"kill,omitempty"` // a process was ended by SIGKILL
}

// Poll is one poll and its answer.
type Poll struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	From        int64  `json:"f"`
	To          int64  `json:"t"`
	Endpoint    int    `json:"e"`
	Known       string `json:"k,omitempty"` // sent as If-None-Match
	Status      int    `json:"s"`           // 0: no complete answer
	Revision    int64  `json:"r"`           // of the answer's header; -1: none
	ETag        string `json:"etag,omitempty"`
	Sum         string `json:"sum,omitempty"` // of the body: the first 12 bytes of its SHA-256
	Inputs      int    `json:"n"`             // -1: the body is not an answer
	Mixed       string `json:"mixed,omitempty"`
	Body        string `json:"body,omitempty"`  // only of an answer that looks wrong
	Last        bool   `json:"last,omitempty"`  // after all faults, for the newest revision
	Again       bool   `json:"again,omitempty"` // it was repeated, because it was not answered
}

// Write is one change and its answer.
type Write struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	From        int64  `json:"f"`
	To          int64  `json:"t"`
	ID          string `json:"id"` // the request id, which the log keeps
	Op          string `json:"op"`
	Status      int    `json:"s"`           // 0: no answer
	Unsent      bool   `json:"u,omitempty"` // no connection
	Code        string `json:"code,omitempty"`
	Commit      string `json:"commit,omitempty"` // named by an "outcome_unknown" answer
	Revision    int64  `json:"r"`
	Wants       []Want `json:"wants"`
}

// Want is a condition on one document after the change.
type Want struct {
	Kind fleet.Kind `json:"kind"`
	ID   string     `json:"id"`
	Gone bool       `json:"gone,omitempty"` // there is no such document
	Has  string     `json:"has,omitempty"`  // text in it
	Not  string     `json:"not,omitempty"`  // text that is not in it
}

// Commit is a fleet.Commit in which the absence of a document is the absence of the field.
type Commit struct {
	Revision  fleet.Revision `json:"revision"`
	ID        uuid.UUID      `json:"id"`
	At        time.Time      `json:"at"`
	Actor     string         `json:"actor,omitempty"`
	Reason    string         `json:"reason,omitempty"`
	RequestID string         `json:"request_id,omitempty"`
	Changes   []Change       `json:"changes"`
}

// Change is one document of a Commit.
type Change struct {
	Kind   fleet.Kind      `json:"kind"`
	ID     string          `json:"id"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// FromFleet converts a commit of the store.
func FromFleet(c fleet.Commit) Commit {
	out := Commit{Revision: c.Revision, ID: c.ID, At: c.At, Actor: c.Actor, Reason: c.Reason, RequestID: c.RequestID}
	for _, ch := range c.Changes {
		out.Changes = append(out.Changes, Change(ch))
	}
	return out
}

// Fleet converts the commit to the store's type.
func (c Commit) Fleet() fleet.Commit {
	out := fleet.Commit{Revision: c.Revision, ID: c.ID, At: c.At, Actor: c.Actor, Reason: c.Reason, RequestID: c.RequestID}
	for _, ch := range c.Changes {
		out.Changes = append(out.Changes, fleet.Change(ch))
	}
	return out
}

// Stored is the final content of the store's documents.
type Stored struct {
	Head      fleet.Head       `json:"head"`
	Documents []StoredDocument `json:"documents"`
}

// StoredDocument is one document of Stored.
type StoredDocument struct {
	Kind     fleet.Kind      `json:"kind"`
	ID       string          `json:"id"`
	Revision fleet.Revision  `json:"revision"`
	Body     json.RawMessage `json:"body"`
}

// Note is an observation of the harness that no request shows.
type Note struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
	// Wrong: it breaks a promise by itself, such as a process that panicked or never healed.
	Wrong bool `json:"wrong,omitempty"`
}
