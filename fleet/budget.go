package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// budgetID is the id of the only budget document.
const budgetID = "removals"

// budgetWindow is the time for which a removal counts.
const budgetWindow = time.Hour

// maxBudgetEntries is the number of entries above which the entries of one minute are merged.
const maxBudgetEntries = 100

var budgetKind = recordKind(KindBudget, "removal budget", func() any { return new(storedBudget) })

type storedBudget struct {
	ID    string        `json:"id"`
	Spent []budgetEntry `json:"spent"` // in the order of revisions
}

// budgetEntry counts the removals of a commit, or of several commits within one minute, and the clusters that they change.
type budgetEntry struct {
	// At is the commit's time, or that of an earlier commit if a clock has gone back since: otherwise the budget of an hour
	// would be available twice. It exceeds the time of the newest commit by at most the window.
	At       time.Time `json:"at"`
	Removals int       `json:"removals"`
	// Clusters are the numbers of changed clusters that policies with limits on them see, by the id of the policy.
	Clusters map[string]int `json:"clusters,omitempty"`
	First    Revision       `json:"first"`
	Last     Revision       `json:"last"`
}

// recentRemovals returns the recent entries with removals.
func (s *State) recentRemovals(now time.Time) []budgetEntry {
	return slices.DeleteFunc(slices.Clone(s.recentEntries(now)), func(e budgetEntry) bool { return e.Removals == 0 })
}

// recentClusters returns the number of changed clusters in the recent entries that a policy has seen.
func (s *State) recentClusters(now time.Time, policy string) (n int) {
	for _, e := range s.recentEntries(now) {
		n += e.Clusters[policy]
	}
	return n
}

// recentEntries returns the entries of less than an hour before now. Entries that a wrong clock has put into the future
// count too, until the next commit moves them.
func (s *State) recentEntries(now time.Time) []budgetEntry {
	doc := s.docs[KindBudget][budgetID]
	if doc == nil {
		return nil
	}
	entries := doc.value.(*storedBudget).Spent
	at := slices.IndexFunc(entries, func(e budgetEntry) bool { return e.At.After(now.Add(-budgetWindow)) })
	if at < 0 {
		return nil
	}
	return entries[at:]
}

// HasRecentRemovals reports whether removals of the last hour leave less of the budget now than there will be later.
func (s *State) HasRecentRemovals(now time.Time) bool { return len(s.recentRemovals(now)) > 0 }

// removalsIn returns the sum of the removals.
func removalsIn(entries []budgetEntry) int {
	n := 0
	for _, e := range entries {
		n += e.Removals
	}
	return n
}

// charge returns the budget after a commit that removes so many objects without confirmation, and changes so many clusters that policies
// see; nil: it is unchanged. A commit by a fast clock must not exhaust the budget until that time comes, so any later commit moves
// entries that lie further ahead than the window to the end of the window.
func (s *State) charge(c Commit, removals int, clusters map[string]int) (*Document, error) {
	entries, latest := slices.Clone(s.recentEntries(c.At)), c.At.Add(budgetWindow)
	moved := false
	for i := range entries {
		if entries[i].At.After(latest) {
			entries[i].At, moved = latest, true
		}
	}
	adds := removals > 0 || len(clusters) > 0
	if !adds && !moved {
		return nil, nil
	}
	if adds {
		at := later(c.At, s.newest)
		if n := len(entries); n > 0 {
			at = later(at, entries[n-1].At)
		}
		if at.After(latest) {
			at = latest
		}
		entries = append(entries, budgetEntry{At: at, Removals: removals, Clusters: clusters, First: c.Revision, Last: c.Revision})
	}
	if len(entries) > maxBudgetEntries {
		entries = mergeByMinute(entries)
	}
	return s.kinds.newRecord(KindBudget, budgetID, storedBudget{ID: budgetID, Spent: entries})
}

// mergeByMinute merges the entries of each minute. A merged entry counts as long as its last removal.
func mergeByMinute(entries []budgetEntry) []budgetEntry {
	out := entries[:1:1]
	for _, e := range entries[1:] {
		last := &out[len(out)-1]
		if !last.At.Truncate(time.Minute).Equal(e.At.Truncate(time.Minute)) {
			out = append(out, e)
			continue
		}
		last.At, last.Last = e.At, e.Last
		last.Removals += e.Removals
		counts := maps.Clone(last.Clusters)
		for id, n := range e.Clusters {
			if counts == nil {
				counts = map[string]int{}
			}
			counts[id] += n
		}
		last.Clusters = counts
	}
	return out
}

// listRevisions names the revisions of entries, for messages.
func listRevisions(entries []budgetEntry) string {
	const few = 8
	var names []string
	for i, e := range entries {
		if i == few {
			names = append(names, fmt.Sprintf("and %d more", len(entries)-few))
			break
		}
		name := fmt.Sprint(e.First)
		if e.Last != e.First {
			name = fmt.Sprintf("%d to %d", e.First, e.Last)
		}
		names = append(names, name)
	}
	if len(entries) == 1 && entries[0].First == entries[0].Last {
		return "revision " + names[0]
	}
	return "revisions " + strings.Join(names, ", ")
}

// confirmationReason returns the reason why the change must be confirmed, or "".
func (r Result) confirmationReason() string {
	if reason := r.removals.mustConfirm; len(reason) > 0 {
		slices.Sort(reason)
		if more := len(reason) - 1; more > 0 {
			return fmt.Sprintf("%s (and %d more like it)", reason[0], more)
		}
		return reason[0]
	}
	for _, ns := range sortedKeys(r.removals.namespaces) {
		if n := r.removals.namespaces[ns]; n > 1 {
			return fmt.Sprintf("namespace %q and everything in it would be deleted on %d clusters", ns, n)
		}
	}
	recent := r.base.recentRemovals(r.Commit.At)
	most, before := r.base.rules.MaxRemovals, removalsIn(recent)
	if r.removals.count == 0 || r.removals.count+before <= most {
		return ""
	}
	reason := r.removals.describe()
	if before > 0 {
		reason += fmt.Sprintf(", %d were within the last hour without a plan_hash (%s)", before, listRevisions(recent))
	}
	return fmt.Sprintf("%s, and more than %d in an hour need to be confirmed", reason, most)
}
