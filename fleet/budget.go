package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// KindBudget is the kind of one document that remembers which removals of late nobody has confirmed. It is a document of
// the log, so that every process that writes counts the same, through restarts and whichever of them a request reaches.
// Like tokens it is no part of what clusters get: [Kinds] leaves it out, and so do plans' hashes, restores and the
// history that the API shows. Its name sorts before those of all other kinds, and so it is a commit's first change.
const KindBudget Kind = "budget"

// budgetID is the id of that document.
const budgetID = "removals"

// budgetWindow is how long a removal counts.
const budgetWindow = time.Hour

// maxSpent is how many entries a budget has before those of one minute become one.
const maxBudgetEntries = 100

var budgetKind = kindRules{
	name:      KindBudget,
	noun:      "removal budget",
	empty:     func() any { return new(storedBudget) },
	normalize: func(map[string]any) {},
	check:     func(*checker, *Document) {},
	bound:     func(any) int { return 0 },
}

type storedBudget struct {
	ID    string        `json:"id"`
	Spent []budgetEntry `json:"spent"` // in the order of revisions
}

// spent are the removals of a commit, or of some that were made in one minute.
type budgetEntry struct {
	// At is the commit's time, or that of an earlier one if a clock went back since: the budget of an hour must not be
	// there twice because of that. It is no more than the window ahead of the clock of the newest commit.
	At       time.Time `json:"at"`
	Removals int       `json:"removals"`
	First    Revision  `json:"first"`
	Last     Revision  `json:"last"`
}

// lately is what of the budget was spent less than an hour before now. What a clock that is wrong has put into the
// future counts too, until the next commit draws it near.
func (s *State) recentRemovals(now time.Time) []budgetEntry {
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

func removalsIn(entries []budgetEntry) int {
	n := 0
	for _, e := range entries {
		n += e.Removals
	}
	return n
}

// spend is the budget after a commit that removes so much without confirmation; nil: it stays as it is. One commit by a
// clock that is ahead must not use up the budget until that time comes, so any later one moves what lies further ahead of it
// than the window to there.
func (s *State) charge(c Commit, removals int) (*Document, error) {
	entries, most := slices.Clone(s.recentRemovals(c.At)), c.At.Add(budgetWindow)
	moved := false
	for i := range entries {
		if entries[i].At.After(most) {
			entries[i].At, moved = most, true
		}
	}
	if removals == 0 && !moved {
		return nil, nil
	}
	if removals > 0 {
		at := later(c.At, s.newest)
		if n := len(entries); n > 0 {
			at = later(at, entries[n-1].At)
		}
		if at.After(most) {
			at = most
		}
		entries = append(entries, budgetEntry{At: at, Removals: removals, First: c.Revision, Last: c.Revision})
	}
	if len(entries) > maxBudgetEntries {
		entries = mergeByMinute(entries)
	}
	return s.kinds.newRecord(KindBudget, budgetID, storedBudget{ID: budgetID, Spent: entries})
}

// recordOf is a document made of a value of ours.
func (ks *kindSet) newRecord(kind Kind, id string, value any) (*Document, error) {
	obj, err := unstructured.FromValue(value)
	if err != nil {
		return nil, err
	}
	body, err := jsontext.Canonical(obj)
	if err != nil {
		return nil, err
	}
	return ks.document(Record{Kind: kind, ID: id, Body: body})
}

// byMinute makes one entry of those of a minute. It counts until the last of them no longer would.
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
	}
	return out
}

// spentBy says which revisions entries are about.
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

// account adds to a commit what has to be remembered of it: removals that nobody has confirmed, and what is installed
// under names that are not answered any more.
func (r Result) recordRemovals(affectedNames []affected, confirmed bool) (Result, error) {
	edits, err := r.orphanEdits(affectedNames)
	if err != nil {
		return r, err
	}
	unconfirmed := r.removals.count
	if confirmed {
		unconfirmed = 0
	}
	budget, err := r.base.charge(r.Commit, unconfirmed)
	if err != nil {
		return r, err
	}
	if budget != nil {
		edits = append([]edit{{KindBudget, budgetID, budget}}, edits...)
	}
	if len(edits) == 0 {
		return r, nil
	}
	changes := changesOf(r.base, edits)
	r.Commit.Changes = append(r.Commit.Changes, changes...)
	slices.SortFunc(r.Commit.Changes, func(a, b Change) int {
		return strings.Compare(string(a.Kind)+"/"+a.ID, string(b.Kind)+"/"+b.ID)
	})
	r.State, err = r.State.with(r.Commit, edits, true)
	return r, err
}
