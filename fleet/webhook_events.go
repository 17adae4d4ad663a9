package fleet

import (
	"encoding/json"
	"strings"
	"time"
)

// DocumentEvent is an event that a commit causes by its change of a rollout, a freeze or the record of a source.
type DocumentEvent struct {
	Type string
	Kind Kind
	ID   string // of the document
	Data map[string]any
}

// Name identifies the event among those of its commit, such as rollout_podinfo_paused.
func (e DocumentEvent) Name() string {
	return string(e.Kind) + "_" + e.ID + "_" + e.Type[strings.LastIndexByte(e.Type, '.')+1:]
}

// Events returns the events that the change of a document causes, besides that of its revision.
func (c Change) Events() ([]DocumentEvent, error) {
	switch c.Kind {
	case KindRollout:
		return rolloutEvents(c)
	case KindFreeze:
		return freezeEvents(c)
	case KindSourceState:
		return sourceEvents(c)
	default:
		return nil, nil
	}
}

func rolloutEvents(c Change) ([]DocumentEvent, error) {
	var was, is rollout
	if err := c.decode(&was, &is); err != nil {
		return nil, err
	}
	if c.After == nil {
		return nil, nil
	}
	var out []DocumentEvent
	add := func(kind, stage, message string) {
		data := map[string]any{"rollout": c.ID, "state": is.State, "stages": len(is.Stages), "started_stages": is.Started}
		if stage != "" {
			data["stage"] = stage
		}
		if message != "" {
			data["message"] = message
		}
		out = append(out, DocumentEvent{Type: kind, Kind: KindRollout, ID: c.ID, Data: data})
	}
	if c.Before == nil {
		add(EventRolloutCreated, "", "")
	}
	if is.Started > was.Started && !is.Stages[is.Started-1].Skipped {
		add(EventRolloutStageStarted, is.Stages[is.Started-1].Name, "")
	}
	for i := range min(len(is.Stages), len(was.Stages)) {
		if is.Stages[i].Skipped && !was.Stages[i].Skipped {
			add(EventRolloutStageSkipped, is.Stages[i].Name, "")
		}
		if approved, before := is.Stages[i].Approved, was.Stages[i].Approved; approved != nil && (before == nil || !before.At.Equal(approved.At)) {
			add(EventRolloutStageApproved, is.Stages[i].Name, "")
		}
	}
	if changed := is.State != was.State; changed {
		switch is.State {
		case rolloutPaused:
			add(EventRolloutPaused, "", publicPause(is.PausedBecause))
		case rolloutCompleted:
			add(EventRolloutCompleted, "", "")
		case rolloutAborted:
			add(EventRolloutAborted, "", "")
		}
	}
	waits := func(r *rollout) bool { return r.open() && r.State != rolloutPaused && r.awaitsApproval(r.Started) }
	if waits(&is) && (!waits(&was) || was.Started != is.Started) {
		add(EventRolloutWaiting, is.Stages[is.Started].Name, "")
	}
	return out, nil
}

// Reasons for which the server pauses a rollout whose next step is refused. The refusal follows.
const (
	PausedByGuard  = "the next step removes more than was confirmed"
	PausedByPolicy = "a policy refuses the next step"
	PausedByRights = "the principal of the rollout may no longer make the next step"
)

// publicPause returns the reason of a pause without the cause that a cluster reported, which may contain values, and without a refusal, which may
// name clusters and policies that the receiver does not know.
func publicPause(because string) string {
	for _, refused := range []string{PausedByGuard, PausedByPolicy, PausedByRights} {
		if strings.HasPrefix(because, refused+": ") {
			return refused
		}
	}
	because, _, _ = strings.Cut(because, "; ")
	return because
}

func freezeEvents(c Change) ([]DocumentEvent, error) {
	event, body := EventFreezeStarted, c.After
	switch {
	case c.After == nil:
		event, body = EventFreezeEnded, c.Before
	case c.Before != nil:
		return nil, nil
	}
	var f freeze
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, err
	}
	data := map[string]any{"freeze": c.ID, "reason": f.Reason}
	if f.All {
		data["all"] = true
	} else {
		data["selector"] = f.Selector
	}
	for name, at := range map[string]*time.Time{"from": f.From, "until": f.Until} {
		if at != nil {
			data[name] = at.UTC().Format(time.RFC3339)
		}
	}
	return []DocumentEvent{{Type: event, Kind: KindFreeze, ID: c.ID, Data: data}}, nil
}

// sourceEvents returns the events of an artifact that is held, or that cannot be read, without the message, which may have values of
// documents, and of the end of both.
func sourceEvents(c Change) (out []DocumentEvent, err error) {
	var was, is SourceState
	if err := c.decode(&was, &is); err != nil {
		return nil, err
	}
	if is.Failed != nil && (was.Failed == nil || was.Failed.Reason != is.Failed.Reason) {
		out = append(out, DocumentEvent{Type: EventSourceFailed, Kind: KindSource, ID: c.ID, Data: map[string]any{"source": c.ID, "message": is.Failed.Reason}})
	}
	if is.Failed == nil && is.Held == nil && (was.Failed != nil || was.Held != nil) {
		out = append(out, DocumentEvent{Type: EventSourceReady, Kind: KindSource, ID: c.ID, Data: map[string]any{"source": c.ID}})
	}
	if is.Held == nil || was.Held != nil && was.Held.Digest == is.Held.Digest && was.Held.Code == is.Held.Code && was.Held.PlanHash == is.Held.PlanHash {
		return out, nil
	}
	data := map[string]any{"source": c.ID, "digest": is.Held.Digest, "code": is.Held.Code, "plan_hash": is.Held.PlanHash}
	return append(out, DocumentEvent{Type: EventSourceHeld, Kind: KindSource, ID: c.ID, Data: data}), nil
}
