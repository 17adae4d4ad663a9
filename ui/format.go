package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// stateInfo describes a state of clusters.
type stateInfo struct {
	State, Label, Meaning string
	NeedsAttention        bool // counts as needing attention
}

// states are the states of clusters and inputs, the worst first, with their labels and meanings.
var states = []stateInfo{
	{"failed", "Failing", "The last apply failed.", true},
	{"silent", "Silent", "The cluster has stopped polling: it has missed three of its own intervals.", true},
	{"behind", "Behind", "Its desired state changed, and the next poll is overdue.", true},
	{"unknown", "Unknown", "The cluster sends no receipts, or has not polled for too long.", true},
	{"never", "Never seen", "The cluster has never polled.", false},
	{"progressing", "Progressing", "Its desired state changed, and the next poll is not overdue yet.", false},
	{"delivered", "Delivered", "The cluster received its desired state and has not confirmed it yet.", false},
	{"confirmed", "Confirmed", "The cluster reported once that it applied exactly its desired state. The service does not know whether it still runs.", false},
}

// revisionStates are the additional states in the progress of a revision.
var revisionStates = []stateInfo{{"superseded", "Superseded", "Later revisions changed all of these inputs again.", false}}

// stateOf returns the description of a state; an unknown state is its own label.
func stateOf(state string) stateInfo {
	for _, s := range states {
		if s.State == state {
			return s
		}
	}
	return stateInfo{Label: state}
}

// stateLabel returns the label of a state.
func stateLabel(state string) string { return stateOf(state).Label }

// meaning returns the explanation of a state.
func meaning(state string) string { return stateOf(state).Meaning }

// number formats an integer with thousands separated by narrow spaces.
func number(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// timeInText is a time in a message of the API.
var timeInText = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// prose returns a message of the API with its times as the page writes them.
func prose(message string) string {
	return timeInText.ReplaceAllStringFunc(message, func(text string) string {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return text
		}
		return moment(t)
	})
}

// moment formats a time, a pointer to one too.
func moment(t any) string { return timeOf(t).UTC().Format("2006-01-02 15:04:05 UTC") }

// plural formats a number with a noun, which gets an s unless the number is 1.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// timeOf returns a time from a time or a pointer; zero for nil.
func timeOf(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case *time.Time:
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// ago formats the time that has passed, such as 3 min ago.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	switch d := now.Sub(t); {
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

// link returns the address of a page without the base path; the parts of the path are escaped.
func link(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return prefix + "/" + strings.Join(parts, "/")
}

// truncate returns a text on one line, with at most the given number of characters.
func truncate(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// kindName returns the name of a kind for people: component for platform_component.
func kindName(kind string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(kind, "platform_"), "resource/"), "_", " ")
}

// stateBar is a bar chart of the states of clusters or inputs, the worst first.
type stateBar struct {
	All, Width int
	Segments   []barSegment
}

// barSegment is one state of a stateBar; Start and Width are in its units.
type barSegment struct {
	State, Label, Link  string
	Count, Start, Width int
}

// nextPoll formats the time until the next poll.
func nextPoll(t, now time.Time) string {
	switch d := t.Sub(now).Round(time.Second); {
	case d < -time.Minute:
		return "the next poll is overdue"
	case d < 5*time.Second:
		return "the next poll is due"
	default:
		return "the next poll is due in " + duration(d)
	}
}

// makeStateBar returns the bar of some counts. Each state links to an address, unless linkTo is nil.
func makeStateBar(counts api.StatusCounts, linkTo func(state string) string) (out stateBar) {
	for _, n := range counts {
		out.All += n
	}
	for _, s := range slices.Concat(states, revisionStates) {
		n := counts[s.State]
		if n == 0 {
			continue
		}
		p := barSegment{State: s.State, Label: s.Label, Count: n, Start: out.Width, Width: max(6, 1000*n/out.All)} // wide enough to be visible
		if linkTo != nil {
			p.Link = linkTo(s.State)
		}
		out.Width += p.Width
		out.Segments = append(out.Segments, p)
	}
	return out
}

// versionText returns the version of a component, or its OCI tag if the version is not pinned.
func versionText(component, tag string) string {
	if component == "latest" {
		return cmp.Or(tag, component)
	}
	return cmp.Or(component, tag, "–")
}

// duration formats a time, such as 40 s.
func duration(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

type nameValue struct{ Name, Value string }
