package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	watchPage    = 100              // revisions that a watch reads at once
	recentEvents = 128              // the newest revisions, which are kept in memory
	feedReaders  = 2                // concurrent reads of the store
	feedTimeout  = 10 * time.Second // for one read and the wait before it
)

// revisionFeed reads new revisions once for all watches. It has no goroutine of its own: the first watch that needs revisions
// starts their read, and the others wait for it.
//
// A watch has a position: a revision with its commit id. Each read begins with the commit at the position, so that it shows
// whether the store's history still contains that commit.
type revisionFeed struct {
	history History
	readers chan struct{} // holds a token for each read in progress

	mu     sync.Mutex
	recent []*revisionEvent // consecutive revisions, the newest last
	reads  map[feedRange]*feedRead
}

// feedRange is a range of revisions with both ends.
type feedRange struct{ from, to fleet.Revision }

// feedRead is a read of a feedRange. The fields are set when done is closed.
type feedRead struct {
	done   chan struct{}
	events []*revisionEvent // oldest first
	oldest fleet.Revision   // without events: the oldest revision of the history if it is after the range; 0: the history ends before the range
	err    error
}

// revisionEvent is a revision as all watches send it.
type revisionEvent struct {
	head    fleet.Head
	summary store.Summary // without the removal budget
	body    []byte        // JSON, on one line
}

func newRevisionFeed(history History) *revisionFeed {
	return &revisionFeed{history: history, readers: make(chan struct{}, feedReaders), reads: map[feedRange]*feedRead{}}
}

// after returns the revisions after a position up to head, at most watchPage and at least one. head must be later than the
// position, and the head of a State. It fails with code gone or diverged if the history no longer contains the position.
func (f *revisionFeed) after(ctx context.Context, at, head fleet.Head) ([]*revisionEvent, error) {
	if at.Revision > head.Revision {
		return nil, divergedError(at, head)
	}
	for {
		events, from, read := f.find(ctx, at, head)
		if events != nil {
			return events, nil
		}
		select {
		case <-read.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if read.err != nil {
			return nil, read.err
		}
		events, err := read.after(from, head)
		if from == at {
			return events, err
		}
		switch {
		case err != nil:
			f.forget(from)
		case events[len(events)-1].head != head:
			return nil, divergedError(at, head)
		}
	}
}

// find returns the revisions after a position if they are in memory, and otherwise a read, with the position that it begins at.
func (f *revisionFeed) find(ctx context.Context, at, head fleet.Head) (events []*revisionEvent, from fleet.Head, read *feedRead) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known(head.Revision); known != nil && known.head != head {
		f.recent = nil // the history was replaced
	}
	from = at
	if known := f.known(at.Revision); known != nil && (known.head == at || at.ID == uuid.Nil) {
		next := int(at.Revision-f.recent[0].head.Revision) + 1
		newest := f.recent[len(f.recent)-1]
		if to := min(at.Revision+watchPage, head.Revision); newest.head.Revision >= to {
			return f.recent[next : next+int(to-at.Revision) : next+int(to-at.Revision)], at, nil
		}
		if head.Revision-newest.head.Revision <= watchPage { // so the read ends with head
			from = newest.head
		}
	}
	key := feedRange{from.Revision, min(from.Revision+watchPage, head.Revision)}
	if read = f.reads[key]; read == nil {
		read = &feedRead{done: make(chan struct{})}
		f.reads[key] = read
		go f.read(context.WithoutCancel(ctx), key, head, read)
	}
	return nil, from, read
}

// known returns the event of a revision in memory; nil: there is none.
func (f *revisionFeed) known(rev fleet.Revision) *revisionEvent {
	if len(f.recent) == 0 || rev < f.recent[0].head.Revision || rev > f.recent[len(f.recent)-1].head.Revision {
		return nil
	}
	return f.recent[rev-f.recent[0].head.Revision]
}

// forget removes the revisions in memory if they end with a commit that the history does not contain.
func (f *revisionFeed) forget(newest fleet.Head) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.recent) > 0 && f.recent[len(f.recent)-1].head == newest {
		f.recent = nil
	}
}

// read performs a read, and keeps its result if it is the newest.
func (f *revisionFeed) read(ctx context.Context, key feedRange, head fleet.Head, read *feedRead) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	select {
	case f.readers <- struct{}{}:
		read.events, read.oldest, read.err = f.load(ctx, key)
		<-f.readers
	case <-ctx.Done():
		read.err = fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.reads, key)
	defer close(read.done)
	n := len(read.events)
	if n == 0 || read.events[n-1].head != head {
		return
	}
	if last := f.known(read.events[0].head.Revision); last != nil && last.head == read.events[0].head {
		f.recent = append(slices.Clip(f.recent[:last.head.Revision-f.recent[0].head.Revision]), read.events...)
	} else {
		f.recent = read.events
	}
	f.recent = f.recent[max(0, len(f.recent)-recentEvents):]
}

// load reads a range of the history from the store.
func (f *revisionFeed) load(ctx context.Context, key feedRange) (events []*revisionEvent, oldest fleet.Revision, err error) {
	found, err := f.history.Summaries(ctx, store.HistoryQuery{Before: key.to + 1, Limit: int(key.to-key.from) + 1}, 1+summaryChanges)
	if err != nil {
		return nil, 0, err
	}
	for _, sum := range slices.Backward(found) {
		if sum.Revision < key.from {
			continue
		}
		event, err := newRevisionEvent(sum)
		if err != nil {
			return nil, 0, err
		}
		events = append(events, event)
	}
	if len(found) == 0 {
		oldest, err = f.oldest(ctx, key.to)
	}
	return events, oldest, err
}

// oldest returns the oldest revision of the history, which is after a removed one; 0: the history ends before it.
func (f *revisionFeed) oldest(ctx context.Context, removed fleet.Revision) (fleet.Revision, error) {
	newest, err := f.history.Summaries(ctx, store.HistoryQuery{Limit: 1}, 1)
	if err != nil || len(newest) == 0 || newest[0].Revision <= removed {
		return 0, err
	}
	// The history has a revision before high, and none before low.
	low, high := removed+1, newest[0].Revision+1
	for high-low > 1 {
		middle := low + (high-low)/2
		found, err := f.history.Summaries(ctx, store.HistoryQuery{Before: middle, Limit: 1}, 1)
		if err != nil {
			return 0, err
		}
		if len(found) > 0 {
			high = middle
		} else {
			low = middle
		}
	}
	return low, nil
}

// after returns the read revisions after the position at which the read began.
func (r *feedRead) after(at, head fleet.Head) ([]*revisionEvent, error) {
	if len(r.events) == 0 {
		if r.oldest > 0 {
			return nil, goneError(at.Revision, r.oldest)
		}
		return nil, divergedError(at, head)
	}
	events, first := r.events, r.events[0].head
	switch {
	case first.Revision > at.Revision+1, first.Revision > at.Revision && at.ID != uuid.Nil:
		return nil, goneError(at.Revision, first.Revision)
	case first.Revision == at.Revision && at.ID != uuid.Nil && at.ID != first.ID:
		return nil, divergedError(at, head)
	case first.Revision == at.Revision:
		events = events[1:]
	}
	if len(events) == 0 { // the history ends before the head of the State
		return nil, divergedError(at, head)
	}
	return events, nil
}

func newRevisionEvent(sum store.Summary) (*revisionEvent, error) {
	visible, _ := sum.WithoutBudget()
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(revisionSummary(sum)); err != nil {
		return nil, err
	}
	return &revisionEvent{
		head: fleet.Head{Revision: sum.Revision, ID: sum.ID}, summary: visible, body: bytes.TrimSuffix(body.Bytes(), []byte("\n")),
	}, nil
}

// goneError is the answer to a watch from a revision that retention has removed.
func goneError(at, oldest fleet.Revision) error {
	return &httperror.Error{
		Status: http.StatusGone, Code: "gone", Oldest: oldest,
		Detail: fmt.Sprintf("revisions after %d were removed: the history begins with revision %d; read the fleet again, and continue with after=%d", at, oldest, oldest-1),
	}
}

// divergedError is the answer to a watch from a commit that is not in the history.
func divergedError(at, head fleet.Head) error {
	return &httperror.Error{
		Status: http.StatusConflict, Code: "diverged",
		Detail: fmt.Sprintf("the history does not contain revision %s: it was replaced, for example by a restored backup, and its newest revision is %d; read the fleet again, and continue with after=%s", formatPosition(at), head.Revision, formatPosition(head)),
	}
}
