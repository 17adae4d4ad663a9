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

// ErrHeld tells that what the store has is not served to clusters, and takes no changes, until an operator accepts it.
var ErrHeld = fmt.Errorf("%w, or it was filled from a seed", ErrReplaced)

// Why a store is held.
const (
	// HoldReplaced: its history is not the one that a process served.
	HoldReplaced = "replaced"
	// HoldSeeded: it was empty and has been filled from a file, which need not be what clusters run.
	HoldSeeded = "seeded"
)

// Hold is kept in a store beside its head, for all processes that use it: see [Store.Hold].
type Hold struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// Served is the head that the process which found this out serves, as FormatHead has it. Processes that serve just
	// that go on. Empty when it is seeded: nobody serves anything.
	Served string `json:"served,omitempty"`
	// What is served: live clusters, and what they install together.
	Clusters int `json:"clusters,omitempty"`
	Inputs   int `json:"inputs,omitempty"`
	// Installs is what single clusters install by their id, of as many as there was room for.
	Installs map[string]int `json:"installs,omitempty"`
}

// HoldSize is the most bytes that a hold takes in a store: processes read it ten times a second.
const HoldSize = 16 << 10

// NewHold is a hold for a State that is served, while the store has another history.
func NewHold(served *fleet.State, at time.Time) Hold {
	h := Hold{Reason: HoldReplaced, At: at.UTC().Truncate(time.Second), Served: FormatHead(served.Head()), Clusters: served.Clusters(), Installs: map[string]int{}}
	room := HoldSize - 512
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
func (h Hold) Encode() (string, error) {
	text, err := json.Marshal(h)
	return string(text), err
}

// DecodeHold reads what Encode wrote; nil when it is empty. A text that cannot be read holds as well: it was put there
// for something.
func DecodeHold(text string) *Hold {
	if text == "" {
		return nil
	}
	var h Hold
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return &Hold{Reason: text[:min(len(text), 100)]}
	}
	return &h
}

// Binds tells whether the hold is about a store whose head this is: one that is yet to be filled from a seed has nothing
// to hold.
func (h *Hold) Binds(head fleet.Head) bool {
	return h != nil && (h.Reason != HoldSeeded || head.Revision > 0)
}

// Precedes tells whether the hold takes the place of what a store with that head has, nil for none: a process that
// serves something newer is the one that goes on.
func (h Hold) Precedes(present *Hold, head fleet.Head) bool {
	if h.Reason == HoldSeeded {
		return present == nil && head.Revision == 0
	}
	return present == nil || present.revision() < h.revision()
}

func (h Hold) revision() fleet.Revision {
	head, err := ParseHead(h.Served)
	if err != nil {
		return 0
	}
	return head.Revision
}

// Why explains the hold of a store whose history ends with head.
func (h Hold) Why(head fleet.Head) string {
	switch h.Reason {
	case HoldSeeded:
		return fmt.Sprintf("the store was empty and was filled from SEED_FILE at %s, which need not be what clusters run: nothing of it is served to them until an operator runs `flux-resourceset accept`", h.At.Format(time.RFC3339))
	case HoldReplaced:
		return fmt.Sprintf("the store has another history, which ends with %s, and %s is served until an operator runs `flux-resourceset accept`", FormatHead(head), h.Served)
	}
	return fmt.Sprintf("the store is held (%s) until an operator runs `flux-resourceset accept`", h.Reason)
}

// HeldError tells that a store is held, and what its head is. It wraps ErrHeld.
type HeldError struct {
	Head fleet.Head
	Hold Hold
}

// Error says why.
func (e *HeldError) Error() string { return e.Hold.Why(e.Head) }

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// IsAcceptance tells whether a commit ends a hold.
func IsAcceptance(c fleet.Commit) bool { return c.Actor == actorAccept && len(c.Changes) == 0 }

// Losses says for each cluster of a hold that would install less after it is accepted what it installed and would, by id.
func (h Hold) Losses(next *fleet.State) []string {
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

// asHeld is the HeldError in err, if there is one.
func asHeld(err error) *HeldError {
	held, _ := errors.AsType[*HeldError](err)
	return held
}
