package webhooks

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxBody is the limit of a body; Standard Webhooks recommends small ones.
const maxBody = 60 << 10

// event is what one message reports. It has the data of one revision, of several, or of something else.
type event struct {
	ID   string
	Type string
	Time time.Time
	Data any

	revisions []revisionData // of Data, if that is one or several revisions
	text      string         // of a message for people, if there are no revisions
	details   []string       // further lines of this message
	link      string
	subject   string // of an alert: events of one subject trigger and resolve one alert
	resolves  bool
}

// cloudEvent is an event in the structured JSON of CloudEvents 1.0.
type cloudEvent struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data"`
}

// revisionData is a revision in events: its summary, as GET /revisions returns it, with a link to the page.
type revisionData struct {
	api.RevisionSummary
	// ChangesByAction counts all changes; absent if there are too many.
	ChangesByAction map[string]int `json:"changes_by_action,omitempty"`
	Link            string         `json:"link"`
}

func revisionID(rev fleet.Revision) string { return fmt.Sprintf("rev_%d", rev) }

// link returns the address of a part of the fleet page.
func (d *Deliverer) link(parts ...string) string {
	link, err := url.JoinPath(d.cfg.PublicURL, append([]string{"ui"}, parts...)...)
	if err != nil {
		return d.cfg.PublicURL
	}
	return link
}

func (d *Deliverer) revisionData(r *revision, names int) revisionData {
	refs := []api.ChangeRef{}
	for _, ch := range r.First[:min(len(r.First), max(names, 3))] {
		refs = append(refs, api.ChangeRef{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action})
	}
	data := revisionData{RevisionSummary: r.PublicSummary(refs, r.Count), ChangesByAction: r.counts, Link: d.link("changes", fmt.Sprint(r.Revision))}
	data.Changes = refs[:min(len(refs), names)]
	return data
}

// revisionEvent returns the event of one revision.
func (d *Deliverer) revisionEvent(r *revision) event {
	data := d.revisionData(r, eventNames)
	return event{ID: revisionID(r.Revision), Type: fleet.EventRevision, Time: r.At, Data: data, revisions: []revisionData{data}, link: data.Link}
}

// batchEvent returns the event of several revisions, with the id of the last one.
func (d *Deliverer) batchEvent(list []revisionData) event {
	last := list[len(list)-1]
	return event{ID: revisionID(fleet.Revision(last.Revision)), Type: fleet.EventRevision, Time: last.At, Data: list, revisions: list, link: d.link("changes")}
}

// documentEvent returns an event of a rollout or a freeze.
func (d *Deliverer) documentEvent(r *revision, e fleet.DocumentEvent) event {
	data := map[string]any{"revision": r.Revision, "commit_id": r.ID, "at": r.At, "actor": r.Actor, "author": r.Author, "reason": r.Reason}
	for name, value := range e.Data {
		if name == "reason" { // of a freeze; the commit has a reason too
			name = "freeze_reason"
		}
		data[name] = value
	}
	link := d.link("changes", fmt.Sprint(r.Revision))
	if e.Kind == fleet.KindRollout {
		link = d.link("rollouts", e.ID)
	}
	data["link"] = link
	return event{ID: revisionID(r.Revision) + "_" + e.Name(), Type: e.Type, Time: r.At, Data: data, text: documentText(e, r), link: link, subject: string(e.Kind) + "/" + e.ID, resolves: !fleet.Triggers(e.Type)}
}

// The reasons of gaps.
const (
	gapRetention = "retention" // the log no longer has the revisions
	gapCursor    = "cursor"    // the progress of the webhook was lost
	gapHistory   = "history"   // the history was replaced, by a restored backup
)

// gapEvent returns the event for revisions that are not delivered.
func (d *Deliverer) gapEvent(reason string, from, to fleet.Revision, head fleet.Head) event {
	id := fmt.Sprintf("gap_%d_%d", from, to)
	data := map[string]any{"reason": reason, "from": from, "to": to, "link": d.link("changes")}
	if reason == gapHistory {
		id = "gap_history_" + head.ID.String()
		data["revision"] = head.Revision
	}
	return event{ID: id, Type: fleet.EventGap, Time: d.cfg.Now().UTC(), Data: data, text: gapText(reason, from, to), link: d.link("changes"), subject: "gap"}
}

// testEvent returns the event of a test.
func (d *Deliverer) testEvent(w *fleet.Webhook, id string) event {
	text := fmt.Sprintf("Test of webhook %q", w.ID)
	return event{ID: "test_" + id, Type: fleet.EventTest, Time: d.cfg.Now().UTC(), Data: map[string]any{"webhook": w.ID, "message": text}, text: text, link: d.link(), subject: "test"}
}

// message returns the request body of an event in the format of a webhook.
func (d *Deliverer) message(w *fleet.Webhook, e event) (message, error) {
	var value any = cloudEvent{"1.0", e.ID, d.cfg.PublicURL, e.Type, e.Time.UTC(), "application/json", e.Data}
	m := message{id: e.ID, contentType: "application/cloudevents+json; charset=utf-8"}
	switch w.Format {
	case fleet.WebhookSlack:
		value, m.contentType = slackMessage(e), "application/json"
	case fleet.WebhookTeams:
		value, m.contentType = teamsMessage(e), "application/json"
	case fleet.WebhookPagerDuty, fleet.WebhookOpsgenie:
		value, m.contentType = d.pagerMessage(w, e, &m), "application/json"
	}
	var err error
	m.body, err = json.Marshal(value)
	return m, err
}
