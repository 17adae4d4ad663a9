package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ErrQuarantined means that the store's content is quarantined. It is not served to clusters and cannot be changed until an operator
// accepts it.
var ErrQuarantined = fmt.Errorf("%w, or it was filled from a seed", ErrReplaced)

// Reasons of a quarantine.
const (
	// QuarantineReplaced: its history is not the one that a process served.
	QuarantineReplaced = "replaced"
	// QuarantineSeeded: the store was empty and was filled from a file that may differ from the state of the clusters.
	QuarantineSeeded = "seeded"
	// QuarantineCopied: the store is a copy. It is served and can be changed, but processes take no automatic actions: see [Replica.MayAct].
	QuarantineCopied = "copied"
)

// Quarantine is kept in a store beside its head, for all processes that use it: see [Store.Quarantine].
type Quarantine struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// Served is the head that the process which detected the replacement serves, as FormatHead formats it. Processes that serve
	// the same head continue. It is empty for a seeded store, which no process serves.
	Served string `json:"served,omitempty"`
	// The number of live clusters in the served State, and the number of inputs that they install together.
	Clusters int `json:"clusters,omitempty"`
	Inputs   int `json:"inputs,omitempty"`
	// Installs maps cluster ids to the number of their installed inputs, for as many clusters as MaxQuarantineSize permits.
	Installs map[string]int `json:"installs,omitempty"`
	// Altered: Encode did not return the stored text.
	Altered bool `json:"-"`
}

// MaxQuarantineSize limits the bytes of a quarantine in a store: processes read it ten times a second.
const MaxQuarantineSize = 16 << 10

// NewQuarantine returns the quarantine of a store whose history does not contain the served State.
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

// Installs returns the number of inputs of all kinds that each live cluster installs, by cluster id.
func Installs(s *fleet.State) map[string]int {
	all := map[string]int{}
	for _, doc := range s.All(fleet.KindCluster) {
		all[doc.ID] = s.InstallCount(doc)
	}
	return all
}

// Encode returns the stored form of the quarantine: JSON that ends with a checksum of the rest.
func (h Quarantine) Encode() (string, error) {
	text, err := json.Marshal(h)
	return withChecksum(string(text)), err
}

const checksumField = `,"checksum":"`

func withChecksum(text string) string {
	return fmt.Sprintf(`%s%s%x"}`, strings.TrimSuffix(text, "}"), checksumField, sha256.Sum256([]byte(text)))
}

// DecodeQuarantine parses the output of Encode; nil for an empty text. An unreadable text is a quarantine as well: only a
// quarantine is ever written there.
func DecodeQuarantine(text string) *Quarantine {
	if text == "" {
		return nil
	}
	var h Quarantine
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return &Quarantine{Reason: text[:min(len(text), 100)], Altered: true}
	}
	// A version without checksums stored exactly the JSON.
	if plain, err := json.Marshal(h); err != nil || string(plain) != text {
		h.Altered = text != withChecksum(string(plain))
	}
	return &h
}

// Copied reports whether the store is a copy that no operator has accepted.
func (h *Quarantine) Copied() bool { return h != nil && h.Reason == QuarantineCopied }

// AppliesTo reports whether the quarantine applies to a store with this head. QuarantineSeeded does not apply to a store that
// is still empty.
func (h *Quarantine) AppliesTo(head fleet.Head) bool {
	return h != nil && (h.Reason != QuarantineSeeded || head.Revision > 0)
}

// Supersedes reports whether the quarantine replaces the present one (nil: none) of a store with that head. The process that
// serves the newer State prevails.
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

// Message explains the quarantine of a store whose history ends with head.
func (h Quarantine) Message(head fleet.Head) string {
	switch h.Reason {
	case QuarantineSeeded:
		return fmt.Sprintf("the store was empty and was filled from SEED_FILE at %s, which need not be what clusters run: nothing of it is served to them until an operator runs `flux-resourceset accept`", h.At.Format(time.RFC3339))
	case QuarantineCopied:
		return fmt.Sprintf("the store is a copy that restore, copy or backup made at %s: it is served and can be changed, but delivers no webhooks, runs no rollouts, "+
			"moves and scans no versions and ends no freezes until an operator runs `flux-resourceset accept`", h.At.Format(time.RFC3339))
	case QuarantineReplaced:
		return fmt.Sprintf("the store has another history, which ends with %s, and %s is served until an operator runs `flux-resourceset accept`", FormatHead(head), h.Served)
	}
	return fmt.Sprintf("the store is quarantined (%s) until an operator runs `flux-resourceset accept`", h.Reason)
}

// QuarantinedError reports that a store is quarantined, and its head. It wraps ErrQuarantined.
type QuarantinedError struct {
	Head       fleet.Head
	Quarantine Quarantine
}

// Error returns the reason of the quarantine.
func (e *QuarantinedError) Error() string { return e.Quarantine.Message(e.Head) }

// Unwrap returns ErrQuarantined.
func (e *QuarantinedError) Unwrap() error { return ErrQuarantined }

// IsAcceptance reports whether a commit ends a quarantine. Such a commit changes nothing but what [fleet.PauseAutomation] does: rollouts,
// and the version policies of components.
func IsAcceptance(c fleet.Commit) bool {
	return c.Actor == actorAccept && !slices.ContainsFunc(c.Changes, func(ch fleet.Change) bool { return ch.Kind != fleet.KindRollout && ch.Kind != fleet.KindComponent })
}

// Removals describes, ordered by id, each cluster that would install fewer inputs after the acceptance, or is unknown
// then: the number before and after.
func (h Quarantine) Removals(next *fleet.State) []string {
	now := Installs(next)
	var lost []string
	for _, id := range slices.Sorted(maps.Keys(h.Installs)) {
		n := h.Installs[id]
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
	return lost
}

// asQuarantined is the QuarantinedError in err, if there is one.
func asQuarantined(err error) *QuarantinedError {
	quarantined, _ := errors.AsType[*QuarantinedError](err)
	return quarantined
}
