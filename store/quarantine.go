package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ErrQuarantined tells that what the store has is not served to clusters, and takes no changes, until an operator accepts it.
var ErrQuarantined = fmt.Errorf("%w, or it was filled from a seed", ErrReplaced)

// Message a store is held.
const (
	// QuarantineReplaced: its history is not the one that a process served.
	QuarantineReplaced = "replaced"
	// QuarantineSeeded: it was empty and has been filled from a file, which need not be what clusters run.
	QuarantineSeeded = "seeded"
)

// Quarantine is kept in a store beside its head, for all processes that use it: see [Store.Quarantine].
type Quarantine struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// StateForPolls is the head that the process which found this out serves, as FormatHead has it. Processes that serve just
	// that go on. Empty when it is seeded: nobody serves anything.
	Served string `json:"served,omitempty"`
	// What is served: live clusters, and what they install together.
	Clusters int `json:"clusters,omitempty"`
	Inputs   int `json:"inputs,omitempty"`
	// Installs is what single clusters install by their id, of as many as there was room for.
	Installs map[string]int `json:"installs,omitempty"`
}

// MaxQuarantineSize is the most bytes that a hold takes in a store: processes read it ten times a second.
const MaxQuarantineSize = 16 << 10

// NewQuarantine is a hold for a State that is served, while the store has another history.
func NewQuarantine(served *fleet.State, at time.Time) Quarantine {
	h := Quarantine{Reason: QuarantineReplaced, At: at.UTC().Truncate(time.Second), Served: FormatHead(served.Head()), Clusters: served.Clusters(), Installs: map[string]int{}}
	room := MaxQuarantineSize - 512
	for id, n := range Installs(served) {
		h.Inputs += n
		if room -= len(id) + 16; room > 0 {
			h.Installs[id] = n
		}
	}
	return h
}

// Installs is how much each live cluster installs, of whatever kind.
func Installs(s *fleet.State) map[string]int {
	all := map[string]int{}
	for _, doc := range s.All(fleet.KindCluster) {
		all[doc.ID] = s.Installs(doc)
	}
	return all
}

// Encode is the hold as a store keeps it.
func (h Quarantine) Encode() (string, error) {
	text, err := json.Marshal(h)
	return string(text), err
}

// DecodeQuarantine reads what Encode wrote; nil when it is empty. A text that cannot be read holds as well: it was put there
// for something.
func DecodeQuarantine(text string) *Quarantine {
	if text == "" {
		return nil
	}
	var h Quarantine
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return &Quarantine{Reason: text[:min(len(text), 100)]}
	}
	return &h
}

// AppliesTo tells whether the hold is about a store whose head this is: one that is yet to be filled from a seed has nothing
// to hold.
func (h *Quarantine) AppliesTo(head fleet.Head) bool {
	return h != nil && (h.Reason != QuarantineSeeded || head.Revision > 0)
}

// Supersedes tells whether the hold takes the place of what a store with that head has, nil for none: a process that
// serves something newer is the one that goes on.
func (h Quarantine) Supersedes(present *Quarantine, head fleet.Head) bool {
	if h.Reason == QuarantineSeeded {
		return present == nil && head.Revision == 0
	}
	return present == nil || present.revision() < h.revision()
}

func (h Quarantine) revision() fleet.Revision {
	head, err := ParseHead(h.Served)
	if err != nil {
		return 0
	}
	return head.Revision
}

// Message explains the hold of a store whose history ends with head.
func (h Quarantine) Message(head fleet.Head) string {
	switch h.Reason {
	case QuarantineSeeded:
		return fmt.Sprintf("the store was empty and was filled from SEED_FILE at %s, which need not be what clusters run: nothing of it is served to them until an operator runs `flux-resourceset accept`", h.At.Format(time.RFC3339))
	case QuarantineReplaced:
		return fmt.Sprintf("the store has another history, which ends with %s, and %s is served until an operator runs `flux-resourceset accept`", FormatHead(head), h.Served)
	}
	return fmt.Sprintf("the store is held (%s) until an operator runs `flux-resourceset accept`", h.Reason)
}

// QuarantinedError tells that a store is held, and what its head is. It wraps ErrQuarantined.
type QuarantinedError struct {
	Head       fleet.Head
	Quarantine Quarantine
}

// Error says why.
func (e *QuarantinedError) Error() string { return e.Quarantine.Message(e.Head) }

// Unwrap returns ErrQuarantined.
func (e *QuarantinedError) Unwrap() error { return ErrQuarantined }

// IsAcceptance tells whether a commit ends a hold.
func IsAcceptance(c fleet.Commit) bool { return c.Actor == actorAccept && len(c.Changes) == 0 }

// Removals says for each cluster of a hold that would install less after it is accepted what it installed and would, by id.
func (h Quarantine) Removals(next *fleet.State) []string {
	now := Installs(next)
	var lost []string
	for id, n := range h.Installs {
		left, there := now[id]
		switch {
		case there && left < n:
			lost = append(lost, fmt.Sprintf("%s: installs %d, %d then", id, n, left))
		case !there && next.Has(fleet.KindCluster, id):
			lost = append(lost, fmt.Sprintf("%s: installs %d, and is decommissioned then: all is uninstalled", id, n))
		case !there:
			lost = append(lost, fmt.Sprintf("%s: installs %d, and is not known then: its polls fail and it keeps them", id, n))
		}
	}
	slices.SortFunc(lost, strings.Compare)
	return lost
}

// asQuarantined is the QuarantinedError in err, if there is one.
func asQuarantined(err error) *QuarantinedError {
	quarantined, _ := errors.AsType[*QuarantinedError](err)
	return quarantined
}
