package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// functions are what templates may call.
func templateFuncs(now func() time.Time, base string) template.FuncMap {
	return template.FuncMap{
		"ago": func(t any) string { return ago(timeOf(t), now()) }, "nextPoll": func(t time.Time) string { return nextPoll(t, now()) },
		"moment": func(t any) string { return timeOf(t).UTC().Format("2006-01-02 15:04:05 UTC") },
		"stamp":  func(t any) string { return timeOf(t).UTC().Format(time.RFC3339) },
		"number": number, "plural": plural, "more": func(n, shown int) string { return number(n - shown) },
		"diff":     func(name, was, is string, fields []fieldChange) diffView { return diffView{name, was, is, fields} },
		"truncate": truncate, "cause": func(message string) string { return summarize.Cause(message, 240) }, "stateLabel": stateLabel, "meaning": meaning, "kind": kindName, "listTitle": listTitle, "assets": assets,
		// Addresses in views begin with /ui/; templates put the base path in front of each.
		"base": func() string { return base }, "link": func(parts ...string) string { return base + link(parts...) },
	}
}

// stateInfo describes a state of clusters.
type stateInfo struct {
	State, Label, Meaning string
	NeedsAttention        bool // somebody has to look
}

// states are what is known of a cluster, the worst first, with what people call it and what it means.
var states = []stateInfo{
	{"failed", "Failing", "The last apply failed.", true},
	{"silent", "Silent", "The cluster has stopped polling: it has missed three of its own intervals.", true},
	{"behind", "Behind", "Its desired state changed, and the next poll is overdue.", true},
	{"unknown", "Unknown", "The cluster sends no receipts, or was not seen for too long.", true},
	{"never", "Never seen", "The cluster has never polled.", false},
	{"progressing", "Progressing", "Its desired state changed, and the next poll is not overdue yet.", false},
	{"delivered", "Delivered", "The cluster was given everything, and has not said yet that it is applied.", false},
	{"confirmed", "Confirmed", "The cluster said that it has applied exactly this, once. Whether it still runs, it alone knows.", false},
}

// revisionStates are those that only the progress of a revision has.
var revisionStates = []stateInfo{{"superseded", "Superseded", "Later revisions changed all of these inputs again.", false}}

func stateLabel(state string) string {
	for _, s := range states {
		if s.State == state {
			return s.Label
		}
	}
	return state
}

func meaning(state string) string {
	for _, s := range states {
		if s.State == state {
			return s.Meaning
		}
	}
	return ""
}

// number has thousands apart.
func number(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + one + "s"
}

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

// ago is how long ago that was, as somebody would say it.
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

// link is a page of ours, with its path's parts escaped: link "clusters" ID.
func link(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return prefix + "/" + strings.Join(parts, "/")
}

// short cuts a text to a line.
func truncate(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// kindName is a kind of document as people call it: platform_component is component.
func kindName(kind string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(kind, "platform_"), "resource/"), "_", " ")
}

// stateBar is how clusters, or inputs, are spread over states, the worst first.
type stateBar struct {
	All, Width int
	Segments   []barSegment
}

type barSegment struct {
	State, Label, Link  string
	Count, Start, Width int
}

// due is when something is to happen.
func nextPoll(t, now time.Time) string {
	switch d := t.Sub(now).Round(time.Second); {
	case d < -time.Minute:
		return "the next poll is overdue"
	case d < 5*time.Second:
		return "the next poll is due"
	default:
		return "the next poll is due in " + d.String()
	}
}

// makeStateBar draws the states of some clusters, each as a link where there is one.
func makeStateBar(counts api.StatusCounts, to func(state string) string) (out stateBar) {
	for _, n := range counts {
		out.All += n
	}
	for _, s := range slices.Concat(states, revisionStates) {
		n := counts[s.State]
		if n == 0 {
			continue
		}
		p := barSegment{State: s.State, Label: s.Label, Count: n, Start: out.Width, Width: max(6, 1000*n/out.All)} // what is there can be seen
		if to != nil {
			p.Link = to(s.State)
		}
		out.Width += p.Width
		out.Segments = append(out.Segments, p)
	}
	return out
}

// version is what a component runs at, in a word: where the version is not pinned, the tag decides.
func versionText(component, tag string) string {
	if component == "latest" {
		return cmp.Or(tag, component)
	}
	return cmp.Or(component, tag, "–")
}
