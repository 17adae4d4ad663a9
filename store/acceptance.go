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

// ErrReplaced tells that the store's history is not the one that is served, and nobody has accepted it in place of that.
var ErrReplaced = errors.New("the store's history was replaced")

// actorAccept is who the log names for an acceptance. No token is called so: their names have no colon.
const actorAccept = "system:accept"

// acceptAny is the request id of an acceptance that is meant for whatever history processes hold on to.
const acceptAny = "any"

// Accept records that the history which ends with head is to be served by processes that hold on to another one. It is
// a commit without changes on top of head, so every process that can read the log sees it, a backup made before does
// not contain it, and it stays in the history for people to find.
//
// replaces is the head that such a process serves; the zero Head stands for all that hold on to something when they see
// the acceptance. Naming it also reaches processes that have yet to find out that the history was replaced. ErrStale
// when the store's head is no longer head; that servers record meanwhile what they hold on to is no reason.
func Accept(ctx context.Context, s Store, head, replaces fleet.Head, at time.Time) (fleet.Head, error) {
	c := fleet.Commit{
		Revision: head.Revision + 1, ID: uuid.New(), At: at.UTC().Truncate(time.Microsecond), Actor: actorAccept, RequestID: acceptAny,
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

// acceptAttempts is how often an acceptance gives way to servers that record what they hold on to, each once or twice.
const acceptAttempts = 20

// endsWith tells whether a store's history still ends with head, whatever servers have recorded beside it.
func endsWith(ctx context.Context, s Store, head fleet.Head) bool {
	now, err := s.Head(ctx)
	if quarantined := asQuarantined(err); quarantined != nil {
		now, err = quarantined.Head, nil
	}
	return err == nil && now == head
}

// accepts tells whether an acceptance in the log is meant for a process that serves ours, and saw the store's history
// end with seen when it began to hold on to that.
func accepts(c fleet.Commit, ours, seen fleet.Head) bool {
	if c.Actor != actorAccept || len(c.Changes) > 0 {
		return false
	}
	return c.RequestID == FormatHead(ours) || c.RequestID == acceptAny && c.Revision > seen.Revision
}

// FormatHead writes a point of history for people: revision, colon, commit id.
func FormatHead(h fleet.Head) string { return fmt.Sprintf("%d:%s", h.Revision, h.ID) }

// ParseHead reads what FormatHead writes.
func ParseHead(text string) (fleet.Head, error) {
	number, id, ok := strings.Cut(text, ":")
	revision, err := strconv.ParseInt(number, 10, 64)
	commit, err2 := uuid.Parse(id)
	if !ok || err != nil || err2 != nil || revision < 1 {
		return fleet.Head{}, fmt.Errorf("%q does not name a point of history: it must be REVISION:COMMIT-ID, as /ready and the log have it", text)
	}
	return fleet.Head{Revision: fleet.Revision(revision), ID: commit}, nil
}
