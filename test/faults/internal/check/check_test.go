package check

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// small is a history without a fault: a fleet of one cluster, then a change of two namespaces in one commit, polled from
// one process before and after it and, after a restart, at the newest revision.
func small(t *testing.T) *history.History {
	t.Helper()
	h := &history.History{Run: history.Run{
		Drill: "load", Store: "sqlite", Newest: 2,
		Endpoints: []history.Endpoint{{DNS: "c.example.com", Resource: fleet.KindNamespace}},
	}}
	cluster := json.RawMessage(`{"id":"c","cluster_name":"c","cluster_dns":"c.example.com","environment":"dev","platform_components":[],"namespaces":[{"id":"even"},{"id":"odd"}],"rolebindings":[],"patches":{}}`)
	ns := func(id, pair string) json.RawMessage {
		return json.RawMessage(`{"id":"` + id + `","labels":{"pair":"` + pair + `"},"annotations":{},"deletion_policy":"delete"}`)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h.Commits = []history.Commit{
		{Revision: 1, ID: uuid.New(), At: at, RequestID: "", Changes: []history.Change{
			{Kind: fleet.KindCluster, ID: "c", After: cluster},
			{Kind: fleet.KindNamespace, ID: "even", After: ns("even", "0")},
			{Kind: fleet.KindNamespace, ID: "odd", After: ns("odd", "0")},
		}},
		{Revision: 2, ID: uuid.New(), At: at, RequestID: "w-1", Changes: []history.Change{
			{Kind: fleet.KindNamespace, ID: "even", Before: ns("even", "0"), After: ns("even", "1")},
			{Kind: fleet.KindNamespace, ID: "odd", Before: ns("odd", "0"), After: ns("odd", "1")},
		}},
	}
	h.Stored = &history.Stored{Head: h.Commits[1].Fleet().Head(), Documents: []history.StoredDocument{
		{Kind: fleet.KindCluster, ID: "c", Revision: 1, Body: cluster},
		{Kind: fleet.KindNamespace, ID: "even", Revision: 2, Body: ns("even", "1")},
		{Kind: fleet.KindNamespace, ID: "odd", Revision: 2, Body: ns("odd", "1")},
	}}
	h.Starts = []history.Start{{Process: "p", Incarnation: 1, At: 0}, {Process: "p", Incarnation: 2, At: 100}}
	poll := func(incarnation int, from, revision int64) history.Poll {
		etag := canonicalETag(t, h, revision)
		return history.Poll{
			Process: "p", Incarnation: incarnation, From: from, To: from + 5, Status: 200, Revision: revision,
			ETag: etag, Sum: etag[1 : len(etag)-1], Inputs: 2,
		}
	}
	last := poll(2, 200, 2)
	last.Last = true
	h.Polls = []history.Poll{poll(1, 10, 1), poll(1, 50, 2), last}
	h.Writes = []history.Write{{
		Process: "p", Incarnation: 1, From: 20, To: 30, ID: "w-1", Op: "flip", Status: 200, Revision: 2,
		Wants: []history.Want{{Kind: fleet.KindNamespace, ID: "even", Has: `"1"`}},
	}}
	return h
}

func canonicalETag(t *testing.T, h *history.History, revision int64) string {
	t.Helper()
	s, err := fleet.NewState(fleet.Rules{}, fleet.Head{}, time.Time{}, nil)
	require.NoError(t, err)
	for _, c := range h.Commits[:revision] {
		s, err = s.Apply(c.Fleet())
		require.NoError(t, err)
	}
	doc, ok := s.ByDNS("c.example.com")
	require.True(t, ok)
	a, err := s.Answer(doc, fleet.KindNamespace)
	require.NoError(t, err)
	return a.ETag
}

// followed adds the commits of a source with the given artifacts, one in each of the two documents.
func followed(t *testing.T, h *history.History, actor string, artifacts ...[2]int) {
	t.Helper()
	before := [2]json.RawMessage{}
	for _, numbers := range artifacts {
		c := history.Commit{Revision: fleet.Revision(len(h.Commits) + 1), ID: uuid.New(), At: h.Commits[0].At, Actor: actor}
		for i, n := range numbers {
			if n == 0 {
				continue
			}
			after := json.RawMessage(`{"id":"` + FollowedPair[i] + `","labels":{"pair":"` + ArtifactValue(n) + `"},"annotations":{},"deletion_policy":"delete"}`)
			c.Changes = append(c.Changes, history.Change{Kind: fleet.KindNamespace, ID: FollowedPair[i], Before: before[i], After: after})
			before[i] = after
		}
		h.Commits = append(h.Commits, c)
	}
	h.Run.Artifacts = 2
}

// TestSourceRule: what an artifact may do wrong, and what not.
func TestSourceRule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		actor     string
		artifacts [][2]int
		says      string
	}{
		"both in order":    {"source:platform", [][2]int{{1, 1}, {2, 2}}, ""},
		"one left out":     {"source:platform", [][2]int{{2, 2}}, ""},
		"half of one":      {"source:platform", [][2]int{{1, 1}, {2, 0}, {0, 2}}, "one document"},
		"twice":            {"source:platform", [][2]int{{1, 1}, {2, 2}, {2, 2}}, "after 2"},
		"back":             {"source:platform", [][2]int{{2, 2}, {1, 1}}, "artifact 1 after 2"},
		"the last is lost": {"source:platform", [][2]int{{1, 1}}, "2 were pushed"},
		"of another":       {"token:static", [][2]int{{1, 1}, {2, 2}}, "by token:static"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := small(t)
			followed(t, h, tc.actor, tc.artifacts...)
			v := History(h)
			if tc.says == "" {
				require.Zero(t, v.Count(Source), v.Violations)
				return
			}
			require.Positive(t, v.Count(Source))
			require.Contains(t, fmt.Sprint(v.Violations), tc.says)
		})
	}
}

func TestHistoryWithoutAFaultIsKept(t *testing.T) {
	t.Parallel()
	v := History(small(t))
	require.Empty(t, v.Violations)
	require.Equal(t, 2, v.Answers)
}

// Each case falsifies one detail of a history, and names the rule that must detect it.
func TestDoctoredHistories(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule   Rule
		doctor func(*history.History)
	}{
		"an empty list": {NoWrongEmpty, func(h *history.History) {
			h.Polls[0].Inputs, h.Polls[0].Sum, h.Polls[0].ETag = 0, "ab", `"ab"`
		}},
		"one input less": {NoWrongEmpty, func(h *history.History) {
			h.Polls[0].Inputs, h.Polls[0].Sum, h.Polls[0].ETag = 1, "ab", `"ab"`
		}},
		"an empty list before anything is loaded": {NoWrongEmpty, func(h *history.History) {
			h.Polls = append(h.Polls, history.Poll{Process: "p", Incarnation: 1, Status: 200, Revision: -1})
		}},
		"a body that is none": {NoWrongEmpty, func(h *history.History) {
			h.Polls[0].Inputs, h.Polls[0].Sum = -1, "ab"
		}},
		"another body": {Whole, func(h *history.History) { h.Polls[0].Sum, h.Polls[0].ETag = "ab", `"ab"` }},
		"the body of another revision": {Whole, func(h *history.History) {
			h.Polls[0].Sum, h.Polls[0].ETag = h.Polls[1].Sum, h.Polls[1].ETag
		}},
		"an ETag that is not the body's": {Whole, func(h *history.History) { h.Polls[0].ETag = h.Polls[1].ETag }},
		"a mix":                          {Whole, func(h *history.History) { h.Polls[1].Mixed = `even has "1", odd has "0"` }},
		"a revision that nobody committed": {Whole, func(h *history.History) {
			h.Polls[1].Revision = 3
		}},
		"not modified since another one": {Whole, func(h *history.History) {
			h.Polls[1].Status, h.Polls[1].Known = 304, h.Polls[0].ETag
		}},
		"back by one": {Forward, func(h *history.History) {
			h.Polls[1].Revision, h.Polls[1].Sum, h.Polls[1].ETag = 1, h.Polls[0].Sum, h.Polls[0].ETag
		}},
		"back after a restart": {Forward, func(h *history.History) {
			again := h.Polls[0]
			again.Incarnation, again.From, again.To = 2, 150, 155
			h.Polls = append(h.Polls, again)
		}},
		"a lost change": {Durable, func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "p", Incarnation: 1, From: 31, To: 40, ID: "w-2", Op: "set", Status: 200, Revision: 2})
		}},
		"a change lost with the end of the log": {Durable, func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "p", Incarnation: 1, From: 31, To: 40, ID: "w-2", Op: "set", Status: 200, Revision: 3})
		}},
		"a refused change that was made": {Durable, func(h *history.History) {
			h.Writes[0].Status, h.Writes[0].Code = 503, "store_unavailable"
		}},
		"a change that nobody took and was made": {Durable, func(h *history.History) { h.Writes[0].Status, h.Writes[0].Unsent = 0, true }},
		"an unknown change under another name": {Durable, func(h *history.History) {
			h.Writes[0].Status, h.Writes[0].Code, h.Writes[0].Commit = 503, "outcome_unknown", uuid.NewString()
		}},
		"acknowledged for another revision": {Durable, func(h *history.History) { h.Writes[0].Revision = 1 }},
		"acknowledged and not as wanted":    {Durable, func(h *history.History) { h.Writes[0].Wants[0].Has = `"2"` }},
		"made twice":                        {Durable, func(h *history.History) { h.Commits[0].RequestID = "w-1" }},
		"computed from an old document": {Durable, func(h *history.History) {
			h.Commits[1].Changes[0].Before = json.RawMessage(`{}`)
		}},
		"a doubt answered with 404": {Doubt, func(h *history.History) { h.Polls[0].Status = 404 }},
		"a doubt answered with 400": {Doubt, func(h *history.History) { h.Polls[0].Status, h.Polls[0].Revision = 400, -1 }},
		"a reference that leads nowhere, and an answer": {Doubt, func(h *history.History) {
			h.Commits[1].Changes[1].After = nil
			h.Stored.Documents = h.Stored.Documents[:2]
		}},
		"a no-op computed at an old revision": {Fresh, func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "q", Incarnation: 1, From: 31, To: 40, ID: "w-2", Op: OpToggle, Status: 200, Revision: 1})
		}},
		"a refusal computed at an old revision": {Fresh, func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "q", Incarnation: 1, From: 31, To: 40, ID: "w-2", Op: "set", Status: 412, Revision: 1})
		}},
		"a write refused for no reason": {Fresh, func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "q", Incarnation: 1, From: 31, To: 40, ID: "w-2", Op: OpToggle, Status: 404, Revision: -1})
		}},
		"a balancer and a process that is behind for no reason": {Across, func(h *history.History) { behind(h, history.RouteRandom) }},
		"a balancer that keeps a cluster on one process": {Across, func(h *history.History) {
			behind(h, history.RouteAffinity)
			h.Faults = []history.Fault{{Kind: "silence", Target: "q", From: 1_000_000, To: 3_000_000}}
		}},
		"a process that was cut off for too many polls": {Across, func(h *history.History) {
			behind(h, history.RouteRandom)
			h.Faults = []history.Fault{{Kind: "silence", Target: "q", From: 1_000_000, To: 3_000_000}}
		}},
		"an answer that is too old": {Age, func(h *history.History) {
			late := h.Polls[0]
			late.Process, late.From, late.To = "q", 90, 95
			h.Polls = append(h.Polls, late)
			h.Run.Staleness = 40
		}},
		"back after a restart of a process that keeps its fleet": {Forward, func(h *history.History) {
			again := h.Polls[0]
			again.Incarnation, again.From, again.To = 2, 150, 155
			h.Polls = append(h.Polls, again)
			h.Run.Kept = true
		}},
		"a change by a token that was never there": {Authority, func(h *history.History) { h.Commits[1].Actor = "token:ci (t-1)" }},
		"a change by a token that was revoked": {Authority, func(h *history.History) {
			withToken(h)
			third := h.Commits[1]
			third.Revision, third.ID, third.RequestID, third.Actor, third.Changes = 3, uuid.New(), "", "static-write", []history.Change{
				{Kind: fleet.KindToken, ID: "t-1", Before: h.Commits[0].Changes[3].After},
			}
			fourth := third
			fourth.Revision, fourth.ID, fourth.Actor, fourth.Changes = 4, uuid.New(), "token:ci (t-1)", nil
			h.Commits = append(h.Commits, third, fourth)
		}},
		"a gap in the log":        {Log, func(h *history.History) { h.Commits[1].Revision = 3 }},
		"a document of no commit": {Log, func(h *history.History) { h.Stored.Documents[1].Revision = 1 }},
		"a document less":         {Log, func(h *history.History) { h.Stored.Documents = h.Stored.Documents[:2] }},
		"another head":            {Log, func(h *history.History) { h.Stored.Head.ID = uuid.New() }},
		"no end":                  {Log, func(h *history.History) { h.Stored = nil }},
		"a process that did not heal": {Heals, func(h *history.History) {
			h.Polls[2].Status = 503
		}},
		"a process that panicked": {Heals, func(h *history.History) {
			h.Notes = append(h.Notes, history.Note{Text: "p-1 panicked", Wrong: true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := small(t)
			tc.doctor(h)
			v := History(h)
			require.Contains(t, v.Broken(), tc.rule, "%v", v.Violations)
		})
	}
}

// behind adds an answer of another process two seconds later, with the previous revision.
func behind(h *history.History, route string) {
	h.Run.Route = route
	h.Starts = append(h.Starts, history.Start{Process: "q", Incarnation: 1, At: 0})
	late := h.Polls[0]
	late.Process, late.From, late.To = "q", 2_000_000, 2_000_005
	healed := h.Polls[2]
	healed.Process, healed.From, healed.To = "q", 9_000_000, 9_000_005
	h.Polls = append(h.Polls, late, healed)
}

// withToken attributes the second change to a token that the first one created.
func withToken(h *history.History) {
	token := json.RawMessage(`{"id":"t-1","name":"ci","role":"write","secrets":[]}`)
	h.Commits[0].Changes = append(h.Commits[0].Changes, history.Change{Kind: fleet.KindToken, ID: "t-1", After: token})
	h.Commits[1].Actor = "token:ci (t-1)"
	h.Stored.Documents = append(h.Stored.Documents, history.StoredDocument{Kind: fleet.KindToken, ID: "t-1", Revision: 1, Body: token})
}

// Unusual but permitted histories.
func TestToleratedHistories(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*history.History){
		"one of many polls by a process that is cut off": func(h *history.History) {
			behind(h, history.RouteRandom)
			h.Faults = []history.Fault{{Kind: "silence", Target: "q", From: 1_000_000, To: 3_000_000}}
			for n := range int64(200) {
				more := h.Polls[1]
				more.From, more.To = 100+10*n, 105+10*n
				more.Process, more.Incarnation = "p", 2
				h.Polls = append(h.Polls, more)
			}
		},
		"another process a moment behind": func(h *history.History) {
			behind(h, history.RouteRandom)
			h.Polls[3].From, h.Polls[3].To = 900_000, 900_005
		},
		"an unknown change that was made": func(h *history.History) {
			h.Writes[0].Status, h.Writes[0].Code, h.Writes[0].Commit = 503, "outcome_unknown", h.Commits[1].ID.String()
		},
		"an unknown change that was not made": func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "p", Incarnation: 1, ID: "w-2", Op: "set"})
		},
		"a refused change": func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "p", Incarnation: 1, ID: "w-2", Op: "set", Status: 503, Code: "store_unavailable"})
		},
		"an error":  func(h *history.History) { h.Polls[0].Status, h.Polls[0].Revision = 503, -1 },
		"no answer": func(h *history.History) { h.Polls[0].Status, h.Polls[0].Revision = 0, -1 },
		"answers that overlap": func(h *history.History) {
			h.Polls[0].From, h.Polls[0].To = 25, 60
		},
		"not found at a revision that has no such cluster": func(h *history.History) {
			h.Polls = append(h.Polls, history.Poll{Process: "p", Incarnation: 1, From: 1, To: 2, Status: 404, Revision: 0})
		},
		"a change by a token that is there": withToken,
		"an answer that is old and not too old": func(h *history.History) {
			late := h.Polls[0]
			late.Process, late.From, late.To = "q", 90, 95
			h.Starts = append(h.Starts, history.Start{Process: "q", Incarnation: 1})
			last := h.Polls[2]
			last.Process = "q"
			h.Polls = append(h.Polls, late, last)
			h.Run.Staleness = 70
		},
		"a process that keeps its fleet starts with what it had": func(h *history.History) {
			late := h.Polls[0]
			late.Process, late.Incarnation, late.From, late.To = "q", 2, 90, 95
			h.Starts = append(h.Starts, history.Start{Process: "q", Incarnation: 2, At: 80})
			last := h.Polls[2]
			last.Process, last.Incarnation = "q", 2
			h.Polls = append(h.Polls, late, last)
			h.Run.Kept = true
		},
		"a no-op": func(h *history.History) {
			h.Writes = append(h.Writes, history.Write{Process: "q", Incarnation: 1, From: 31, To: 40, ID: "w-2", Op: OpToggle, Status: 200, Revision: 2})
		},
		"an error where a reference leads nowhere": func(h *history.History) {
			h.Commits[1].Changes[1].After = nil
			h.Stored.Documents = h.Stored.Documents[:2]
			for i := range h.Polls[1:] {
				h.Polls[1+i].Status = 500
			}
			h.Run.Damaged = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := small(t)
			change(h)
			require.Empty(t, History(h).Violations)
		})
	}
}
