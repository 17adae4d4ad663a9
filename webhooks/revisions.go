package webhooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	maxRead     = 52  // revisions that are read at once
	maxNames    = 200 // names of changed documents of a revision that are read
	maxCached   = 256 // revisions
	eventNames  = 20  // names of changed documents in an event
	batchBehind = 10  // a webhook that is further behind receives several revisions in one body
	maxBatch    = 50  // revisions in one body
	changesPage = 500 // changes that are read at once
)

// History reads the log.
type History interface {
	Summaries(ctx context.Context, q store.HistoryQuery, names int) ([]store.Summary, error)
	DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (fleet.DocumentLog, error)
	Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error)
	Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error)
}

var _ History = store.Store(nil)

// revision is a commit as events describe it.
type revision struct {
	store.Summary
	counts map[string]int // of changes by action; nil: there are too many to know
	kinds  map[fleet.Kind]bool
	events []fleet.DocumentEvent

	mu       sync.Mutex
	selected map[string]map[string]bool // by selector: the names of the events about clusters that it selects
}

// revisions reads commits from the log. Webhooks share what it has read.
type revisions struct {
	history History

	mu     sync.Mutex
	known  map[fleet.Revision]*revision
	head   fleet.Head // of the history that known is from
	oldest fleet.Revision
}

// errMoved means that the log does not contain the head of the State, because one of them is being replaced. It is read again later.
var errMoved = errors.New("the log does not contain the head of this process")

// read returns the commits after a revision that the log has, at most maxRead, and the oldest revision of the log. base is the
// commit of that revision itself; zero: the log no longer has it.
func (l *revisions) read(ctx context.Context, after fleet.Revision, head fleet.Head) (list []*revision, base uuid.UUID, oldest fleet.Revision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head != head {
		if err := l.follow(ctx, head); err != nil {
			return nil, base, 0, err
		}
	}
	last := min(after+maxRead, head.Revision)
	var missing []fleet.Revision
	for rev := max(after, 1); rev <= last; rev++ {
		if l.known[rev] == nil && rev >= l.oldest {
			missing = append(missing, rev)
		}
	}
	if err := l.fetch(ctx, missing); err != nil {
		return nil, base, 0, err
	}
	for rev := max(after, 1); rev <= last; rev++ {
		switch r := l.known[rev]; {
		case r == nil:
		case rev == after:
			base = r.ID
		default:
			list = append(list, r)
		}
	}
	oldest = l.oldest
	l.evict(last)
	return list, base, oldest, nil
}

// follow checks that the log contains a head, and drops revisions that were read from another history.
func (l *revisions) follow(ctx context.Context, head fleet.Head) error {
	if head.Revision == 0 {
		l.known, l.head, l.oldest = map[fleet.Revision]*revision{}, head, 0
		return nil
	}
	revs, before := []fleet.Revision{head.Revision}, l.head
	if n := head.Revision - before.Revision; before.Revision > 0 && n > 0 && n < maxRead { // the usual case, in one query
		for rev := before.Revision; rev < head.Revision; rev++ {
			revs = append(revs, rev)
		}
	}
	known := l.known
	l.known = map[fleet.Revision]*revision{}
	if err := l.fetch(ctx, revs); err != nil {
		l.known = known
		return err
	}
	if r := l.known[head.Revision]; r == nil || r.ID != head.ID {
		l.head = fleet.Head{}
		return errMoved
	}
	if r := l.known[before.Revision]; r != nil && r.ID == before.ID {
		maps.Copy(l.known, known)
	}
	l.head = head
	return nil
}

// fetch reads some revisions, which may be missing in the log.
func (l *revisions) fetch(ctx context.Context, revs []fleet.Revision) error {
	if len(revs) == 0 {
		return nil
	}
	summaries, err := l.history.Summaries(ctx, store.HistoryQuery{Among: revs, Limit: len(revs)}, maxNames)
	if err != nil {
		return fmt.Errorf("reading revisions: %w", err)
	}
	first, last := revs[0], revs[0]
	for _, rev := range revs {
		first, last = min(first, rev), max(last, rev)
	}
	changes := map[fleet.Revision][]fleet.Change{}
	for before := last + 1; before > first; {
		page, err := l.history.DocumentLog(ctx, fleet.DocumentLogQuery{Documents: []fleet.DocumentName{{Kind: fleet.KindFreeze}, {Kind: fleet.KindRollout}, {Kind: fleet.KindSourceState}}, Before: before, Limit: len(revs)})
		if err != nil {
			return fmt.Errorf("reading rollouts and freezes: %w", err)
		}
		l.oldest = page.Oldest
		before = 0
		for _, ch := range page.Changes {
			changes[ch.Revision] = append(changes[ch.Revision], ch.Change)
			before = ch.Revision
		}
	}
	for _, sum := range summaries {
		r, err := newRevision(sum, changes[sum.Revision])
		if err != nil {
			return fmt.Errorf("revision %d: %w", sum.Revision, err)
		}
		l.known[sum.Revision] = r
	}
	return nil
}

// newRevision returns a commit as events describe it.
func newRevision(sum store.Summary, changes []fleet.Change) (*revision, error) {
	sum, _ = sum.WithoutBudget()
	r := &revision{Summary: sum, kinds: map[fleet.Kind]bool{}}
	if sum.Count == len(sum.First) {
		r.counts = map[string]int{}
	}
	for _, ch := range sum.First {
		r.kinds[ch.Kind] = true
		if r.counts != nil {
			r.counts[ch.Action]++
		}
	}
	for _, ch := range changes {
		events, err := ch.Events()
		if err != nil {
			return nil, err
		}
		r.events = append(r.events, events...)
	}
	return r, nil
}

// evict removes the oldest revisions beyond maxCached.
func (l *revisions) evict(last fleet.Revision) {
	if len(l.known) <= maxCached {
		return
	}
	for rev := range l.known {
		if rev < last-maxCached/2 || rev > last+maxCached/2 {
			delete(l.known, rev)
		}
	}
}

// selects reports whether a commit changed a document of a kind that a webhook selects.
func (l *revisions) selects(ctx context.Context, w *fleet.Webhook, r *revision) (bool, error) {
	for kind := range r.kinds {
		if w.SelectsKind(kind) {
			return true, nil
		}
	}
	if r.counts != nil {
		return false, nil
	}
	if len(w.Kinds) == 0 { // no commit changes that many tokens
		return true, nil
	}
	for _, kind := range w.Kinds { // it changed more documents than were read
		found, err := l.history.Summaries(ctx, store.HistoryQuery{Kind: kind, Among: []fleet.Revision{r.Revision}, Limit: 1}, 1)
		if err != nil || len(found) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// selectsClusters reports whether an event of a commit is about a cluster that a webhook selects. The name "" means the event of the
// revision itself. The result is computed once, for the selectors of all webhooks, since it reads the log.
func (l *revisions) selectsClusters(ctx context.Context, st *fleet.State, w *fleet.Webhook, r *revision, event string) (bool, error) {
	if w.Selector == "" {
		return true, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if names, known := r.selected[w.Selector]; known {
		return names[event], nil
	}
	var changes []fleet.Change
	for {
		page, err := l.history.Changes(ctx, r.Revision, len(changes), changesPage)
		if err != nil {
			return false, fmt.Errorf("reading changes: %w", err)
		}
		if len(page) == 0 {
			break
		}
		changes = append(changes, page...)
	}
	later, err := l.history.Past(ctx, fleet.PastQuery{At: r.Revision, UpTo: st.Revision()})
	if err != nil {
		return false, fmt.Errorf("reading documents: %w", err)
	}
	about, err := st.EventClusters(ctx, changes, later)
	if err != nil {
		return false, fmt.Errorf("clusters of revision %d: %w", r.Revision, err)
	}
	r.selected = map[string]map[string]bool{}
	for _, hook := range append(st.Webhooks(), w) {
		names := map[string]bool{}
		for name, clusters := range about {
			names[name] = slices.ContainsFunc(clusters, hook.SelectsCluster)
		}
		r.selected[hook.Selector] = names
	}
	return r.selected[w.Selector][event], nil
}

// contains returns nil if the log has a revision, which this process does not know yet, and errReplaced if it has not.
func (l *revisions) contains(ctx context.Context, rev fleet.Revision, id uuid.UUID) error {
	found, err := l.history.Summaries(ctx, store.HistoryQuery{Among: []fleet.Revision{rev}, Limit: 1}, 1)
	if err != nil {
		return fmt.Errorf("reading revisions: %w", err)
	}
	if len(found) == 1 && (id == uuid.Nil || found[0].ID == id) {
		return nil
	}
	return errReplaced
}
