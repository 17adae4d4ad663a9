// Package check checks a history against the promises of docs/reliability.md. The store's log is the reference: applied
// commit by commit it yields the only correct answer to each poll at each revision.
//
// Reading order: check.go (rules and verdict), log.go (answers and writes against the log), forward.go (one process
// never goes back), service.go (freshness and age), cross_process.go (several processes behind a load balancer).
package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// Rule names a promise of docs/reliability.md.
type Rule string

// The rules. O1 to O5, fresh, age, across and authority are promises to clusters and to clients that change the fleet. log
// is the harness's own condition for a verdict, and heals demands recovery without an operator.
const (
	NoWrongEmpty Rule = "O1"        // no answer holds fewer inputs than the revision it states
	Whole        Rule = "O2"        // every answer is that of a committed revision
	Forward      Rule = "O3"        // no answer is older than an earlier one of the same process
	Durable      Rule = "O4"        // an acknowledged change stays; a refused one was not made
	Doubt        Rule = "O5"        // uncertainty is answered with 5xx
	Fresh        Rule = "fresh"     // an answer to a write was computed at the store's head
	Age          Rule = "age"       // no answer to a poll exceeds MAX_STALENESS
	Across       Rule = "across"    // O3 for the service: no process takes a cluster back, unless it is disconnected
	Authority    Rule = "authority" // no commit by a token that was revoked at its base
	Polls        Rule = "polls"     // every poll is answered while a part of the service is away
	Log          Rule = "log"
	Heals        Rule = "heals"
)

// Rules returns all rules in order.
func Rules() []Rule {
	return []Rule{NoWrongEmpty, Whole, Forward, Durable, Doubt, Fresh, Age, Across, Authority, Source, Polls, Log, Heals}
}

// Violation is one breach of a promise.
type Violation struct {
	Rule        Rule
	Description string
}

// String returns one line of a report.
func (v Violation) String() string { return fmt.Sprintf("%-9s %s", v.Rule, v.Description) }

// Verdict is the result of a check.
type Verdict struct {
	Violations []Violation
	// Answers is the number of distinct answers compared.
	Answers int
	// Back is the number of answers older than an earlier one of another process, of Routed answers behind a load balancer.
	Back, Routed int
}

// Count returns the number of violations of a rule.
func (v Verdict) Count(r Rule) int {
	n := 0
	for _, found := range v.Violations {
		if found.Rule == r {
			n++
		}
	}
	return n
}

// Broken returns the violated rules in order.
func (v Verdict) Broken() []Rule {
	return slices.DeleteFunc(Rules(), func(r Rule) bool { return v.Count(r) == 0 })
}

type judge struct {
	h       *history.History
	verdict Verdict
	byID    map[string]int // request id -> its commit
}

func (j *judge) violate(r Rule, format string, args ...any) {
	j.verdict.Violations = append(j.verdict.Violations, Violation{r, fmt.Sprintf(format, args...)})
}

// History checks a history.
func History(h *history.History) Verdict {
	j := &judge{h: h, byID: map[string]int{}}
	if h.Stored == nil {
		j.violate(Log, "the run did not get to its end: what the store held is not known")
		return j.verdict
	}
	j.matchRequests()
	j.checkLog()
	j.checkStored()
	j.checkForward()
	j.checkService()
	j.checkAcross()
	j.checkAuthority()
	j.checkSource()
	j.checkSteady()
	j.checkHealed()
	for _, n := range h.Notes {
		if n.Wrong {
			j.violate(Heals, "%s: %s", at(n.At), n.Text)
		}
	}
	return j.verdict
}

// matchRequests finds the commit of each write: one at most.
func (j *judge) matchRequests() {
	for i, c := range j.h.Commits {
		if c.RequestID == "" {
			continue
		}
		if first, ok := j.byID[c.RequestID]; ok {
			j.violate(Durable, "write %s was made twice, as revisions %d and %d", c.RequestID, j.h.Commits[first].Revision, c.Revision)
		}
		j.byID[c.RequestID] = i
	}
	for _, w := range j.h.Writes {
		i, made := j.byID[w.ID]
		switch {
		case w.Acknowledged() && w.Revision < 1:
			j.violate(Durable, "%s was acknowledged without a revision", describe(w))
		case w.Acknowledged() && made && int64(j.h.Commits[i].Revision) != w.Revision:
			j.violate(Durable, "%s was acknowledged as revision %d and is revision %d of the log", describe(w), w.Revision, j.h.Commits[i].Revision)
		case w.Acknowledged() && w.Revision > int64(len(j.h.Commits)):
			j.violate(Durable, "%s was acknowledged as revision %d and is not in the log, which ends with %d", describe(w), w.Revision, len(j.h.Commits))
		case w.Unknown() && made && w.Commit != "" && j.h.Commits[i].ID.String() != w.Commit:
			j.violate(Durable, "%s: the answer names commit %s and the log has %s", describe(w), w.Commit, j.h.Commits[i].ID)
		case !w.Acknowledged() && !w.Unknown() && made:
			j.violate(Durable, "%s was refused with %d %s and is revision %d of the log", describe(w), w.Status, w.Code, j.h.Commits[i].Revision)
		}
	}
}

// checkStored compares the stored documents with the sum of the log.
func (j *judge) checkStored() {
	stored := j.h.Stored
	if j.h.Run.Damaged {
		return
	}
	if len(j.h.Commits) > 0 {
		if last := j.h.Commits[len(j.h.Commits)-1]; stored.Head.Revision != last.Revision || stored.Head.ID != last.ID {
			j.violate(Log, "the head is revision %d and the log ends with %d", stored.Head.Revision, last.Revision)
		}
	}
	want := map[string]string{}
	for _, c := range j.h.Commits {
		for _, ch := range c.Changes {
			key := string(ch.Kind) + " " + ch.ID
			if ch.After == nil {
				delete(want, key)
			} else {
				want[key] = fmt.Sprintf("%d %s", c.Revision, ch.After)
			}
		}
	}
	for _, d := range stored.Documents {
		key := string(d.Kind) + " " + d.ID
		if got := fmt.Sprintf("%d %s", d.Revision, d.Body); got != want[key] {
			j.violate(Log, "the stored %s is %s, the log adds up to %q", key, got, want[key])
		}
		delete(want, key)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		j.violate(Log, "the store has no %s, and the log adds up to one", key)
	}
}

// checkHealed: after the last fault every process must answer at the newest revision.
func (j *judge) checkHealed() {
	if j.h.Run.Damaged {
		return
	}
	type key struct {
		process  string
		endpoint int
	}
	last := map[key]bool{}
	for _, p := range j.h.Polls {
		if p.Last && p.Status == 200 && p.Revision >= j.h.Run.Newest {
			last[key{p.Process, p.Endpoint}] = true
		}
	}
	processes := map[string]bool{}
	for _, s := range j.h.Starts {
		processes[s.Process] = true
	}
	for _, process := range slices.Sorted(maps.Keys(processes)) {
		for e := range j.h.Run.Endpoints {
			if !last[key{process, e}] {
				j.violate(Heals, "%s never answered %s for revision %d, the newest", process, j.endpoint(e), j.h.Run.Newest)
			}
		}
	}
}

func (j *judge) endpoint(i int) string {
	if i < 0 || i >= len(j.h.Run.Endpoints) {
		return fmt.Sprintf("endpoint %d", i)
	}
	e := j.h.Run.Endpoints[i]
	return e.DNS + "/" + e.Resource.Endpoint()
}

func describe(w history.Write) string {
	return fmt.Sprintf("%s: write %s (%s) at %s-%d", at(w.To), w.ID, w.Op, w.Process, w.Incarnation)
}

func at(us int64) string { return fmt.Sprintf("%.3fs", float64(us)/1e6) }
