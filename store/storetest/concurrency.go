package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// handles returns the case's handle and, when the backend can, a second writer and a reader on the same database.
func (b *bench) handles() (writers, readers []store.Store) {
	writers, readers = []store.Store{b.Store}, []store.Store{b.Store}
	if b.Again != nil {
		writers = append(writers, b.again(false))
		readers = append(readers, b.again(true))
	}
	return writers, readers
}

// persist retries a commit while the store is unavailable, as on a busy machine: no commit was made then. SQLite's lock is not
// fair, so a writer can wait for it longer than its time limit.
func persist(ctx context.Context, commit func() error) error {
	err := commit()
	for errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil {
		err = commit()
	}
	return err
}

// flip commits n times, and each time gives two documents the number of the revision.
func flip(ctx context.Context, s store.Store, base fleet.Head, n int) error {
	before := map[string]json.RawMessage{}
	for range n {
		var changes []fleet.Change
		for _, id := range []string{"a", "z"} {
			after := body(`{"n":%d}`, base.Revision+1)
			changes = append(changes, fleet.Change{Kind: fleet.KindCluster, ID: id, Before: before[id], After: after})
			before[id] = after
		}
		c := next(base, changes...)
		if err := persist(ctx, func() error { return s.Commit(ctx, base, c) }); err != nil {
			return err
		}
		base = c.Head()
	}
	return nil
}

// flipping runs flip beside a test. The context ends when flip fails, so that the test does not hang.
func flipping(b *bench, n int) (ctx context.Context, done <-chan error) {
	ctx, cancel := context.WithCancelCause(b.ctx())
	result := make(chan error, 1)
	go func() {
		err := flip(ctx, b.Store, fleet.Head{}, n)
		if err != nil {
			cancel(err)
		}
		result <- err
	}()
	b.t.Cleanup(func() { cancel(nil) })
	return ctx, result
}

func testLoadIsOneMoment(t *testing.T, b *bench) {
	const n = 150
	_, readers := b.handles()
	ctx, done := flipping(b, n)
	var last fleet.Revision
	for last < n {
		for _, r := range readers {
			snap, err := r.Load(ctx)
			require.NoError(t, err, context.Cause(ctx))
			require.GreaterOrEqual(t, snap.Head.Revision, last)
			last = snap.Head.Revision
			if last == 0 {
				require.Empty(t, snap.Records)
				continue
			}
			require.Len(t, snap.Records, 2)
			for _, rec := range snap.Records {
				require.Equal(t, last, rec.Revision, "the documents are the head's")
				require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, last), string(rec.Body))
			}
		}
	}
	require.NoError(t, <-done)
}

func testSinceWhileWriting(t *testing.T, b *bench) {
	const n = 150
	_, readers := b.handles()
	ctx, done := flipping(b, n)
	at := make([]fleet.Head, len(readers))
	for at[0].Revision < n || at[len(at)-1].Revision < n {
		for i, r := range readers {
			commits, err := r.Since(ctx, at[i], 7)
			require.NoError(t, err, context.Cause(ctx))
			for _, c := range commits {
				require.Equal(t, at[i].Revision+1, c.Revision)
				require.Len(t, c.Changes, 2)
				at[i] = c.Head()
			}
		}
	}
	require.NoError(t, <-done)
}

// testWriters: every writer adds its own document and counts itself in a shared one. In no order of commits does one overwrite
// another.
func testWriters(t *testing.T, b *bench) {
	const n = 64
	writers, _ := b.handles()
	ctx := b.ctx()
	b.commit(create(fleet.KindComponent, "counter", body(`0`)))
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			_, errs[i] = commitRetrying(ctx, writers[i%len(writers)], func(snap store.Snapshot) []fleet.Change {
				var count int
				var before json.RawMessage
				for _, r := range snap.Records {
					if r.ID == "counter" {
						before = r.Body
						errs[i] = json.Unmarshal(r.Body, &count)
					}
				}
				return []fleet.Change{
					update(fleet.KindComponent, "counter", before, body(`%d`, count+1)),
					create(fleet.KindCluster, fmt.Sprintf("c%d", i), body(`{}`)),
				}
			})
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	snap := b.load()
	require.EqualValues(t, n+1, snap.Head.Revision)
	require.Len(t, snap.Records, n+1)
	require.Equal(t, fmt.Sprint(n), string(snap.Records[n].Body))
	log := b.since(fleet.Head{}, 1000)
	require.Len(t, log, n+1)
	for i, c := range log {
		require.EqualValues(t, i+1, c.Revision)
	}
}

func testCancelledBefore(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.unchanged(func() {
		_, err := b.Store.Head(ctx)
		require.ErrorIs(t, err, context.Canceled)
		snap, err := b.Store.Load(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, snap)
		_, err = b.Store.Since(ctx, fleet.Head{}, 10)
		require.ErrorIs(t, err, context.Canceled)
		_, err = b.Store.History(ctx, store.HistoryQuery{Limit: 10})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, b.Store.Ping(ctx), context.Canceled)
		err = b.Store.Commit(ctx, b.head, next(b.head, create(fleet.KindNamespace, "b", body(`{}`))))
		require.ErrorIs(t, err, context.Canceled)
	})
	b.commit(create(fleet.KindNamespace, "b", body(`{}`)))
}

// testCancelledMeanwhile ends contexts at every stage of a commit and a load: a commit is in the log exactly if Commit returned
// nil, a Load is complete or an error, and the store stays usable.
func testCancelledMeanwhile(t *testing.T, b *bench) {
	var changes []fleet.Change
	for i := range 300 {
		changes = append(changes, create(fleet.KindCluster, fmt.Sprint(i), body(`{}`)))
	}
	b.commit(changes...)
	for i := range changes {
		changes[i] = update(fleet.KindCluster, changes[i].ID, body(`{}`), body(`{}`))
	}
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		snap, err := b.Store.Load(ctx)
		if err == nil {
			require.Len(t, snap.Records, 300)
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, snap)
		}
		cancel()

		ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		c := next(b.head, changes...)
		err = b.Store.Commit(ctx, b.head, c)
		cancel()
		head, headErr := b.Store.Head(b.ctx())
		require.NoError(t, headErr)
		switch {
		case errors.Is(err, store.ErrUnknown):
			require.Contains(t, []fleet.Head{b.head, c.Head()}, head)
		case err != nil:
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, b.head, head)
		default:
			require.Equal(t, c.Head(), head)
		}
		b.head = head
	}
	require.Len(t, b.load().Records, 300)
}

func testReadOnly(t *testing.T, b *bench) {
	reader := b.again(true)
	for i := range 3 {
		c := b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`)))
		head, err := reader.Head(b.ctx())
		require.NoError(t, err)
		require.Equal(t, c.Head(), head, "an acknowledged commit is visible at once")
	}
	b.unchanged(func() {
		err := reader.Commit(b.ctx(), b.head, next(b.head, create(fleet.KindNamespace, "x", body(`{}`))))
		require.ErrorIs(t, err, store.ErrReadOnly)
	})
	snap, err := reader.Load(b.ctx())
	require.NoError(t, err)
	require.Equal(t, b.load(), snap)
	require.NoError(t, reader.Ping(b.ctx()))
}

func testDurable(t *testing.T, b *bench) {
	if b.Again == nil {
		t.Skip("this backend keeps nothing")
	}
	for i := range 10 {
		b.commit(create(fleet.KindNamespace, fmt.Sprint(i), body(`{}`)))
	}
	before, log := b.load(), b.since(fleet.Head{}, 100)
	require.NoError(t, b.Store.Close())
	b.Store = b.again(false)
	require.Equal(t, before, b.load())
	require.Equal(t, log, b.since(fleet.Head{}, 100))
	b.commit(create(fleet.KindNamespace, "more", body(`{}`)))
}

func testClosed(t *testing.T, b *bench) {
	b.commit(create(fleet.KindNamespace, "a", body(`{}`)))
	require.NoError(t, b.Store.Close())
	require.NoError(t, b.Store.Close(), "closing twice is no error")
	_, err := b.Store.Head(b.ctx())
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, err = b.Store.Barrier(b.ctx())
	require.ErrorIs(t, err, store.ErrUnavailable)
	snap, err := b.Store.Load(b.ctx())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Empty(t, snap)
	require.ErrorIs(t, b.Store.Ping(b.ctx()), store.ErrUnavailable)
	require.ErrorIs(t, b.Store.Commit(b.ctx(), b.head, next(b.head)), store.ErrUnavailable)
}
