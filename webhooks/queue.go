package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// delivery is the next event of a webhook.
type delivery struct {
	event event
	// owned means that this process committed the revision of the event, so it need not wait for another one.
	owned bool
	at    time.Time // of the revision
	// The cursor after the delivery.
	revision fleet.Revision
	commit   uuid.UUID
	part     int
}

// errReplaced means that the log does not contain the revision of the cursor.
var errReplaced = errors.New("the revision of the cursor is of another history")

// next returns the next event of a webhook after a cursor, and moves the cursor over revisions without events for it; nil if there
// is none. Revisions up to skipTo are reported as a gap, since the cursor was lost.
func (d *Deliverer) next(ctx context.Context, w *fleet.Webhook, c *cursor, skipTo fleet.Revision, head fleet.Head) (*delivery, error) {
	if c.Revision > head.Revision {
		return nil, d.log.contains(ctx, c.Revision, c.Commit)
	}
	if skipTo > c.Revision {
		return &delivery{event: d.gapEvent(gapCursor, c.Revision+1, skipTo, head), at: d.cfg.Now(), revision: skipTo}, nil
	}
	for {
		list, base, oldest, err := d.log.read(ctx, c.Revision, head)
		switch {
		case err != nil:
			return nil, err
		case base != uuid.Nil && c.Commit != uuid.Nil && base != c.Commit:
			return nil, errReplaced
		case c.Revision+1 < oldest:
			return &delivery{event: d.gapEvent(gapRetention, c.Revision+1, oldest-1, head), at: d.cfg.Now(), revision: oldest - 1}, nil
		case len(list) == 0:
			c.Commit = base
			return nil, nil //nolint:nilnil // there is no further event
		case list[0].Revision != c.Revision+1:
			return nil, errMoved
		}
		for i, r := range list {
			events, err := d.eventsOf(ctx, w, r)
			if err != nil {
				return nil, err
			}
			if c.Part < len(events) {
				return d.deliveryOf(ctx, w, c, list[i:], events[c.Part:], head)
			}
			c.Revision, c.Commit, c.Part = r.Revision, r.ID, 0
		}
	}
}

// deliveryOf returns the delivery of the first of the events of a revision, or of several revisions if the webhook is far behind.
func (d *Deliverer) deliveryOf(ctx context.Context, w *fleet.Webhook, c *cursor, list []*revision, events []event, head fleet.Head) (*delivery, error) {
	r := list[0]
	out := &delivery{event: events[0], owned: d.committed(r), at: r.At}
	out.moveTo(r, c.Part+1, c.Part+len(events))
	if head.Revision-c.Revision <= batchBehind || events[0].Type != fleet.EventRevision || len(events) > 1 {
		return out, nil
	}
	var batch []revisionData
	size := 0
	for i, next := range list {
		if i > 0 {
			var err error
			if events, err = d.eventsOf(ctx, w, next); err != nil {
				return nil, err
			}
		}
		if len(events) > 0 {
			if events[0].Type != fleet.EventRevision || i > 0 && d.cfg.Now().Sub(next.At) < takeoverAfter && !d.committed(next) {
				break
			}
			data := d.revisionData(next, 0)
			text, err := json.Marshal(data)
			if size += len(text) + 1; err != nil || len(batch) == maxBatch || size > maxBody-1024 {
				break
			}
			batch = append(batch, data)
		}
		out.moveTo(next, 1, len(events))
		if len(events) > 1 {
			break
		}
	}
	if len(batch) > 1 {
		out.event = d.batchEvent(batch)
	}
	return out, nil
}

// moveTo sets the cursor after the delivery of some of the events of a revision.
func (next *delivery) moveTo(r *revision, part, of int) {
	next.revision, next.commit, next.part = r.Revision, r.ID, 0
	if part < of {
		next.revision, next.commit, next.part = r.Revision-1, uuid.Nil, part
	}
}

// eventsOf returns the events of a revision that a webhook selects. The revision that suspended the webhook has none. Revisions by the
// receiver itself have events too: only their actor is authenticated, and the receiver uses it to avoid loops.
func (d *Deliverer) eventsOf(ctx context.Context, w *fleet.Webhook, r *revision) ([]event, error) {
	if r.Actor == actorOf(w.ID) {
		return nil, nil
	}
	var out []event
	st := d.cfg.Replica.State()
	if w.Selects(fleet.EventRevision) {
		selected, err := d.log.selects(ctx, w, r)
		if err == nil && selected {
			selected, err = d.log.selectsClusters(ctx, st, w, r, "")
		}
		if err != nil {
			return nil, err
		}
		if selected {
			out = append(out, d.revisionEvent(r))
		}
	}
	for _, e := range r.events {
		if !w.Selects(e.Type) || !w.SelectsKind(e.Kind) {
			continue
		}
		selected, err := d.log.selectsClusters(ctx, st, w, r, e.Name())
		if err != nil {
			return nil, err
		}
		if selected {
			out = append(out, d.documentEvent(r, e))
		}
	}
	return out, nil
}

// actorOf returns the actor of commits on behalf of a webhook.
func actorOf(id string) string { return "webhook:" + id }
