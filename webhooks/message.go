package webhooks

import (
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

const (
	maxLines    = 10  // revisions in a message
	maxLineText = 300 // characters of a summary or a reason
)

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxLineText {
		return string(runes[:maxLineText]) + "…"
	}
	return text
}

// lines returns an event as text for people.
func (e event) lines() []string {
	if len(e.revisions) == 0 {
		out := []string{shorten(e.text)}
		for _, line := range e.details {
			out = append(out, shorten(line))
		}
		return out
	}
	var out []string
	for _, r := range e.revisions[:min(len(e.revisions), maxLines)] {
		out = append(out, revisionText(r))
	}
	if more := len(e.revisions) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more revisions", more))
	}
	return out
}

// revisionText describes a revision: the summary, the actor, the author, the reason, and the numbers of changed and deleted documents.
func revisionText(r revisionData) string {
	text := fmt.Sprintf("Revision %d: %s, by %s", r.Revision, shorten(r.Summary), r.Actor)
	if r.Author != "" {
		text += " for " + shorten(r.Author)
	}
	text += fmt.Sprintf(" (%s", plural(r.ChangeCount, "document"))
	if n := r.ChangesByAction["delete"]; n > 0 {
		text += fmt.Sprintf(", %d deleted", n)
	}
	if text += ")"; r.Reason != "" {
		text += ": " + shorten(r.Reason)
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// documentText describes an event of a rollout, a freeze or a source.
func documentText(e fleet.DocumentEvent, r *revision) string {
	action := map[string]string{
		fleet.EventRolloutCreated: "created", fleet.EventRolloutStageStarted: "started a stage", fleet.EventRolloutStageApproved: "a stage was approved", fleet.EventRolloutStageSkipped: "skipped a stage", fleet.EventRolloutPaused: "paused",
		fleet.EventRolloutWaiting: "waits for the approval of a stage", fleet.EventRolloutCompleted: "completed", fleet.EventRolloutAborted: "aborted",
		fleet.EventFreezeStarted: "started", fleet.EventFreezeEnded: "ended", fleet.EventSourceHeld: "an artifact is held", fleet.EventSourceFailed: "its artifact cannot be read", fleet.EventSourceReady: "nothing is held or failed",
	}[e.Type]
	noun := map[fleet.Kind]string{fleet.KindFreeze: "Freeze", fleet.KindRollout: "Rollout", fleet.KindSource: "Source"}[e.Kind]
	text := fmt.Sprintf("%s %s: %s", noun, e.ID, action)
	if stage, ok := e.Data["stage"]; ok {
		text += fmt.Sprintf(" (%v)", stage)
	}
	text += fmt.Sprintf(", by %s in revision %d", r.Actor, r.Revision)
	reason, ok := e.Data["message"]
	if !ok {
		reason = e.Data["reason"]
	}
	if reason != nil && reason != "" {
		text += fmt.Sprintf(": %v", reason)
	}
	return text
}

// gapText describes revisions that are not delivered.
func gapText(reason string, from, to fleet.Revision) string {
	if reason == gapHistory {
		return "The history of the fleet was replaced, such as by a restored backup. Events continue with its newest revision."
	}
	return fmt.Sprintf("Revisions %d to %d are not delivered: %s", from, to, map[string]string{
		gapRetention: "the history no longer has them", gapCursor: "the progress of this webhook was lost",
	}[reason])
}

// slackEscaper escapes text for Slack, so that no text of a change mentions people or makes links.
var slackEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackMessage returns the body for an incoming webhook of Slack.
func slackMessage(e event) any {
	lines := e.lines()
	for i := range lines {
		lines[i] = slackEscaper.Replace(lines[i])
	}
	return map[string]any{"text": strings.Join(lines, "\n") + "\n<" + e.link + "|Open>", "unfurl_links": false}
}

// teamsEscaper escapes the Markdown of adaptive cards.
var teamsEscaper = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;")

// teamsMessage returns the body for a workflow of Microsoft Teams: an adaptive card.
func teamsMessage(e event) any {
	var blocks []any
	for _, line := range e.lines() {
		blocks = append(blocks, map[string]any{"type": "TextBlock", "wrap": true, "text": teamsEscaper.Replace(line)})
	}
	return map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive",
		"content": map[string]any{
			"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": blocks,
			"actions": []any{map[string]any{"type": "Action.OpenUrl", "title": "Open", "url": e.link}},
		},
	}}}
}
