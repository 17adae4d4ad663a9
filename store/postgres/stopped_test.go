package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// A process that is stopped, or cut off in silence, at any point of a write does not hold up the others for ever: not
// between two messages, not in the middle of one, and not while the server waits for the rest of a large commit.
func TestStoppedAnywhere(t *testing.T) {
	t.Parallel()
	commit := func(c fleet.Commit) func(context.Context, *Store) error {
		return func(ctx context.Context, s *Store) error { return s.Commit(ctx, fleet.Head{}, c) }
	}
	several := namespace(fleet.Head{}, "a")
	several.Changes = append(several.Changes, fleet.Change{Kind: fleet.KindCluster, ID: "c", After: []byte(`{"id":"c"}`)})
	whole := namespace(fleet.Head{}, "a")
	whole.Changes[0].After = fmt.Appendf(nil, `{"x":%q}`, noise(1, 900<<10))
	server := pgtest.NewServer(t, "max_connections=500")
	databases := 0
	newOne := func(t *testing.T) string {
		t.Helper()
		databases++
		url := server.Database(t, fmt.Sprint("fleet", databases))
		require.NoError(t, Migrate(t.Context(), url))
		return url
	}
	all := map[string]*Store{}
	for name, write := range map[string]func(context.Context, *Store) error{
		"a small commit":   commit(several),
		"a large commit":   commit(bulk(fleet.Head{}, 60)),
		"a large document": commit(whole),
		"a commit with the lock held": func(ctx context.Context, s *Store) error {
			id := uuid.New()
			return s.CommitLocked(ctx, id, func(_ context.Context, base fleet.Head) (fleet.Commit, error) {
				c := bulk(base, 30)
				c.ID = id
				return c, nil
			})
		},
		"an import": func(ctx context.Context, s *Store) error {
			c := bulk(fleet.Head{}, 30)
			var records []fleet.Record
			for _, ch := range c.Changes {
				records = append(records, fleet.Record{Kind: ch.Kind, ID: ch.ID, Revision: c.Revision, CommitID: c.ID, Body: ch.After})
			}
			s.importIdle = idleTimeout
			return s.Import(ctx, store.Snapshot{Head: c.Head(), Records: records}, func(yield func(store.Entry, error) bool) { yield(store.Entry{Commit: c}, nil) })
		},
		"a confirmation": func(ctx context.Context, s *Store) error { _, err := s.Barrier(ctx); return err },
		"a probe":        func(ctx context.Context, s *Store) error { return s.Probe(ctx) },
		"a hold": func(ctx context.Context, s *Store) error {
			return s.Quarantine(ctx, store.Quarantine{Reason: store.QuarantineReplaced, Served: store.FormatHead(fleet.Head{Revision: 1, ID: uuid.New()})})
		},
	} {
		sizes := messages(t, newOne(t), write)
		for _, at := range stops(sizes) {
			name := fmt.Sprintf("%s, after %d bytes of message %d of %d", name, at.bytes, at.message, len(sizes))
			all[name] = stopWriting(t, newOne(t), write, at)
		}
	}
	for name, other := range all { // all of them wait at once
		t.Run(name, func(t *testing.T) {
			// The same documents, so that every lock there is would be waited for.
			c := bulk(fleet.Head{}, 1)
			c.Changes = append(c.Changes, namespace(fleet.Head{}, "a").Changes...)
			eventually(t, func() error {
				err := other.Commit(t.Context(), fleet.Head{}, c)
				if errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrQuarantined) {
					return nil // it was made all the same
				}
				return err
			})
		})
	}
}

// messages returns the sizes of the messages that a write sends to the server.
func messages(t *testing.T, database string, write func(context.Context, *Store) error) (sizes []int) {
	t.Helper()
	p, url := newProxy(t, database)
	s := openStore(t, Config{URL: url})
	var mu sync.Mutex
	p.Set(testrig.Trouble{Message: func(message []byte) int {
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, len(message))
		return -1
	}})
	if err := write(t.Context(), s); !errors.Is(err, store.ErrQuarantined) {
		require.NoError(t, err)
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(sizes)
}

// stop is a point of a conversation.
type stop struct{ message, bytes int }

// stops are before and in the middle of some messages, the last one among them.
func stops(sizes []int) (all []stop) {
	const some = 4
	step := max(1, len(sizes)/some)
	for i, size := range sizes {
		if i%step == 0 || i == len(sizes)-1 {
			all = append(all, stop{i, 0}, stop{i, size / 2})
		}
	}
	return all
}

// stopWriting returns, when a write has stopped at a given point, another store on the same database. The stopped write keeps
// its connection open.
func stopWriting(t *testing.T, database string, write func(context.Context, *Store) error, at stop) *Store {
	t.Helper()
	p, url := newProxy(t, database)
	stopped, other := openStore(t, Config{URL: url}), openStore(t, Config{URL: database})
	arrived := make(chan struct{})
	var n atomic.Int64
	p.Set(testrig.Trouble{Message: func(message []byte) int {
		if n.Add(1) != int64(at.message)+1 {
			return -1
		}
		close(arrived)
		return min(at.bytes, len(message))
	}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = write(ctx, stopped)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	<-arrived
	return other
}
