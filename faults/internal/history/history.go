// Package history is what a run of the fault harness leaves behind: every request with its answer, every process and
// every fault, and the log that the store ended with. It is kept in one file, from which a run can be judged again.
package history

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// History is one run. Times are microseconds since it began, on one clock that never goes back.
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

// Run says what was run.
type Run struct {
	Drill    string            `json:"drill"` // load, or the name of a damage
	Store    string            `json:"store"`
	Seed     uint64            `json:"seed"`
	Began    time.Time         `json:"began"`
	Seconds  float64           `json:"seconds"` // under load, as it was asked for
	Versions map[string]string `json:"versions"`
	// Endpoints are what is polled, in the order that Poll.Endpoint counts.
	Endpoints []Endpoint `json:"endpoints"`
	// Newest is the revision that every process had to reach after the last fault.
	Newest int64 `json:"newest"`
	// Staleness is the age in microseconds above which no process may answer a poll; 0: any age will do.
	Staleness int64 `json:"staleness,omitempty"`
	// Kept: each process keeps its fleet on disk and starts from there, so what it answered holds over its restarts.
	Kept bool `json:"kept,omitempty"`
	// Route is how polls are sent to processes: RouteRandom, RouteAffinity, or empty, when each poller has a process of its own.
	Route string `json:"route,omitempty"`
	// Damaged: the store was damaged at the end. What it holds beside the log says nothing any more, and no process
	// has to heal.
	Damaged bool `json:"damaged,omitempty"`
}

// How a balancer sends polls to processes.
const (
	RouteRandom   = "random"   // each poll to any process
	RouteAffinity = "affinity" // all polls of a cluster to one process, for as long as that is ready
)

// Endpoint is one list of one cluster.
type Endpoint struct {
	DNS      string     `json:"dns"`
	Resource fleet.Kind `json:"resource"` // what is polled
}

// Start is a process of ours being started. A process that is started again is another one: Incarnation.
type Start struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	At          int64  `json:"at"`
	Mode        string `json:"mode"`
}

// Exit is a process that ended. Killed: by the harness.
type Exit struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	At          int64  `json:"at"`
	Killed      bool   `json:"killed"`
	How         string `json:"how"`
}

// Fault is something that was done to a process, a connection or the store.
type Fault struct {
	Kind   string `json:"kind"`
	Target string `json:"target,omitempty"`
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Note   string `json:"note,omitempty"`
	Kill   bool   `json:"kill,omitempty"` // a process was ended by SIGKILL
}

// Poll is one question of a cluster and its answer.
type Poll struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	From        int64  `json:"f"`
	To          int64  `json:"t"`
	Endpoint    int    `json:"e"`
	Known       string `json:"k,omitempty"` // sent as If-None-Match
	Status      int    `json:"s"`           // 0: no answer, or not a whole one
	Revision    int64  `json:"r"`           // as the answer states it; -1: it does not
	ETag        string `json:"etag,omitempty"`
	Sum         string `json:"sum,omitempty"` // of the body: the first 12 bytes of its SHA-256
	Inputs      int    `json:"n"`             // -1: the body is not an answer
	Mixed       string `json:"mixed,omitempty"`
	Body        string `json:"body,omitempty"` // only of an answer that looks wrong
	Last        bool   `json:"last,omitempty"` // asked when all faults had ended, for the newest revision
}

// Write is one change and what became of it.
type Write struct {
	Process     string `json:"p"`
	Incarnation int    `json:"i"`
	From        int64  `json:"f"`
	To          int64  `json:"t"`
	ID          string `json:"id"` // the request id, which the log keeps
	Op          string `json:"op"`
	Status      int    `json:"s"`           // 0: no answer
	Unsent      bool   `json:"u,omitempty"` // nobody listened
	Code        string `json:"code,omitempty"`
	Commit      string `json:"commit,omitempty"` // that an answer "outcome_unknown" names
	Revision    int64  `json:"r"`
	Wants       []Want `json:"wants"`
}

// Want is what must be true of one document once the change was made.
type Want struct {
	Kind fleet.Kind `json:"kind"`
	ID   string     `json:"id"`
	Gone bool       `json:"gone,omitempty"` // there is no such document
	Has  string     `json:"has,omitempty"`  // text in it
	Not  string     `json:"not,omitempty"`  // text that is not in it
}

// Commit is fleet.Commit with the absence of a document written as absence.
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

// FromFleet makes a Commit of the store's.
func FromFleet(c fleet.Commit) Commit {
	out := Commit{Revision: c.Revision, ID: c.ID, At: c.At, Actor: c.Actor, Reason: c.Reason, RequestID: c.RequestID}
	for _, ch := range c.Changes {
		out.Changes = append(out.Changes, Change(ch))
	}
	return out
}

// Fleet is the Commit as the store has it.
func (c Commit) Fleet() fleet.Commit {
	out := fleet.Commit{Revision: c.Revision, ID: c.ID, At: c.At, Actor: c.Actor, Reason: c.Reason, RequestID: c.RequestID}
	for _, ch := range c.Changes {
		out.Changes = append(out.Changes, fleet.Change(ch))
	}
	return out
}

// Stored is what the store held at the end, beside its log.
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

// Note is something that the harness found out while it ran and that no request shows.
type Note struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
	// Wrong: it breaks a promise by itself, such as a process that panicked or never healed.
	Wrong bool `json:"wrong,omitempty"`
}
