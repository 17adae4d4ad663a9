package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ErrReplaced means that the store's history differs from the served one, and no operator has accepted it as the replacement.
var ErrReplaced = errors.New("the store's history was replaced")

// actorAccept is the actor of an acceptance in the log. No token can have this name: token names have no colon.
const actorAccept = "system:accept"

// acceptAny is the request id of an acceptance that applies to every process, regardless of the history that it serves.
const acceptAny = "any"

// Accept records that processes which still serve another history must serve the one that ends with head. The record is a
// commit on top of head: every process that can read the log sees it, an earlier backup does not contain it, and it stays in
// the history. changes are part of this commit; only those of [fleet.PauseAutomation] are possible.
//
// replaces is the head that such a process serves. The zero Head stands for all processes that have quarantined the history
// when they see the acceptance. A specific head also reaches processes that have not detected the replacement yet. Accept
// returns ErrStale if the store's head is no longer head. It retries when servers record a quarantine at the same time.
func Accept(ctx context.Context, s Store, head, replaces fleet.Head, at time.Time, changes ...fleet.Change) (fleet.Head, error) {
	c := fleet.Commit{
		Revision: head.Revision + 1, ID: uuid.New(), At: at.UTC().Truncate(time.Microsecond), Actor: actorAccept, RequestID: acceptAny, Changes: changes,
		Reason: "accepted this history in place of the one that servers held on to",
	}
	if replaces != (fleet.Head{}) {
		c.RequestID = FormatHead(replaces)
		c.Reason = "accepted this history in place of the one that ends with " + c.RequestID
	}
	for range acceptAttempts {
		err := s.Commit(ctx, head, c)
		if err == nil {
			return c.Head(), nil
		}
		if !errors.Is(err, ErrStale) || !endsWith(ctx, s, head) {
			return fleet.Head{}, fmt.Errorf("recording the acceptance: %w", err)
		}
	}
	return fleet.Head{}, fmt.Errorf("recording the acceptance: %w", ErrContended)
}

// acceptAttempts limits the retries of an acceptance. Each server records its quarantine once or twice.
const acceptAttempts = 20

// endsWith reports whether the store's history still ends with head. It ignores quarantine records.
func endsWith(ctx context.Context, s Store, head fleet.Head) bool {
	now, err := s.Head(ctx)
	if quarantined := asQuarantined(err); quarantined != nil {
		now, err = quarantined.Head, nil
	}
	return err == nil && now == head
}

// accepts reports whether an acceptance in the log applies to a process that serves ours and quarantined the store's history
// when it ended with seen.
func accepts(c fleet.Commit, ours, seen fleet.Head) bool {
	if !IsAcceptance(c) {
		return false
	}
	return c.RequestID == FormatHead(ours) || c.RequestID == acceptAny && c.Revision > seen.Revision
}

// FormatHead writes a point of history for people: revision, colon, commit id.
func FormatHead(h fleet.Head) string { return fmt.Sprintf("%d:%s", h.Revision, h.ID) }

// ParseHead parses the output of FormatHead.
func ParseHead(text string) (fleet.Head, error) {
	number, id, ok := strings.Cut(text, ":")
	revision, err := strconv.ParseInt(number, 10, 64)
	commit, err2 := uuid.Parse(id)
	if !ok || err != nil || err2 != nil || revision < 1 {
		return fleet.Head{}, fmt.Errorf("%q does not name a point of history: it must be REVISION:COMMIT-ID, as /ready and the log have it", text)
	}
	return fleet.Head{Revision: fleet.Revision(revision), ID: commit}, nil
}
