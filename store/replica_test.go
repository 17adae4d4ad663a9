package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// faulty is a real store with answers that a test can replace.
type faulty struct {
	store.Store
	down   atomic.Pointer[error] // every call fails with it
	hang   atomic.Bool           // every call hangs until its context ends
	stale  atomic.Int32          // so many commits are refused as stale
	locked atomic.Bool           // others hold the lock for too long
	lose   atomic.Bool           // the answer of a commit is lost
	cut    atomic.Bool           // of a commit only the first part comes
	heads  atomic.Int64
	loads  atomic.Int64
	sinces atomic.Int64
	parts  atomic.Int64
	// confirms counts the questions whether an answer is current
	confirms atomic.Int64
}

func (f *faulty) fault(ctx context.Context) error {
	if f.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := f.down.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *faulty) Head(ctx context.Context) (fleet.Head, error) {
	f.heads.Add(1)
	if err := f.fault(ctx); err != nil {
		return fleet.Head{}, err
	}
	return f.Store.Head(ctx)
}

func (f *faulty) Barrier(ctx context.Context) (fleet.Head, error) {
	f.confirms.Add(1)
	if err := f.fault(ctx); err != nil {
		return fleet.Head{}, err
	}
	return f.Store.Barrier(ctx)
}

func (f *faulty) Load(ctx context.Context) (store.Snapshot, error) {
	f.loads.Add(1)
	if err := f.fault(ctx); err != nil {
		return store.Snapshot{}, err
	}
	return f.Store.Load(ctx)
}

func (f *faulty) Since(ctx context.Context, after fleet.Head, limit int) ([]fleet.Commit, error) {
	f.sinces.Add(1)
	if err := f.fault(ctx); err != nil {
		return nil, err
	}
	if f.cut.Load() {
		return nil, store.ErrUnavailable
	}
	return f.Store.Since(ctx, after, limit)
}

func (f *faulty) Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error) {
	if offset > 0 && f.cut.Load() {
		return nil, store.ErrUnavailable
	}
	f.parts.Add(1)
	return f.Store.Changes(ctx, rev, offset, limit)
}

func (f *faulty) Commit(ctx context.Context, base fleet.Head, c fleet.Commit) error {
	if err := f.fault(ctx); err != nil {
		return err
	}
	if f.stale.Add(-1) >= 0 {
		return store.ErrStale
	}
	err := f.Store.Commit(ctx, base, c)
	if f.lose.Load() {
		return fmt.Errorf("%w: cut off", store.ErrUnknown)
	}
	return err
}

func (f *faulty) CommitLocked(ctx context.Context, id uuid.UUID, next func(context.Context, fleet.Head) (fleet.Commit, error)) error {
	if err := f.fault(ctx); err != nil {
		return err
	}
	if f.locked.Load() {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrContended)
	}
	return f.Store.CommitLocked(ctx, id, next)
}

func (f *faulty) Probe(ctx context.Context) error {
	if err := f.fault(ctx); err != nil {
		return err
	}
	return f.Store.Probe(ctx)
}

func (f *faulty) Ping(ctx context.Context) error {
	if err := f.fault(ctx); err != nil {
		return err
	}
	return f.Store.Ping(ctx)
}

// world is a database, a replica of it, and its log.
type world struct {
	path    string
	faulty  *faulty
	replica *store.Replica
	logs    *logs
	stop    context.CancelFunc
}

// logs keeps the messages that were logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

var clock = time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))

func setup(t *testing.T) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlite.Migrate(t.Context(), path))
	return attach(t, path)
}

// attach makes another process's replica of the same database.
func attach(t *testing.T, path string) *world {
	t.Helper()
	s := open(t, path)
	w := &world{path: path, faulty: &faulty{Store: s}, logs: &logs{}}
	w.replica = store.NewReplica(store.Config{
		Store:        w.faulty,
		Rules:        fleet.Rules{MaxRemovals: 1000}, // removals are intended here
		Logger:       slog.New(slog.NewTextHandler(w.logs, nil)),
		Now:          func() time.Time { return clock },
		Interval:     time.Millisecond,
		MaxBackoff:   2 * time.Millisecond,
		QueryTimeout: 5 * time.Second,
	})
	return w
}

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// run follows the store until the test ends or stop is called.
func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.replica.Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(w.stop)
}

func (w *world) fail(err error) { w.faulty.down.Store(&err) }
func (w *world) heal()          { w.faulty.down.Store(nil) }

func (w *world) update(t *testing.T, edit func(*fleet.Tx) error) fleet.Result {
	t.Helper()
	res, err := w.replica.Update(t.Context(), store.Meta{Actor: "test"}, edit)
	require.NoError(t, err)
	return res
}

func eventually(t *testing.T, condition func() bool, about ...any) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, time.Millisecond, about...)
}

func createNamespace(id string) func(*fleet.Tx) error {
	return func(tx *fleet.Tx) error {
		_, err := tx.Create(fleet.KindNamespace, fmt.Appendf(nil, `{"id":%q}`, id))
		return err
	}
}

func createClusters(ids ...string) func(*fleet.Tx) error {
	return func(tx *fleet.Tx) error {
		for _, id := range ids {
			raw := fmt.Appendf(nil, `{"id":%q,"cluster_dns":"%s.example.com","environment":"dev"}`, id, id)
			if _, err := tx.Create(fleet.KindCluster, raw); err != nil {
				return err
			}
		}
		return nil
	}
}

func has(s *fleet.State, kind fleet.Kind, id string) bool {
	if s == nil {
		return false
	}
	_, ok := s.Get(kind, id)
	return ok
}

func TestReplicaReadsItsWrites(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Nil(t, w.replica.State())
	_, err := w.replica.Update(t.Context(), store.Meta{}, createNamespace("a"))
	require.ErrorIs(t, err, store.ErrUnavailable, "nothing is loaded")
	require.ErrorIs(t, w.replica.Healthy(t.Context()), store.ErrUnavailable)

	require.NoError(t, w.replica.Load(t.Context()))
	require.NoError(t, w.replica.Healthy(t.Context()))
	res, err := w.replica.Update(t.Context(), store.Meta{Actor: "ann", Author: "bob", Reason: "why", RequestID: "r1"}, createNamespace("a"))
	require.NoError(t, err)
	require.Same(t, res.State, w.replica.State())
	require.True(t, has(w.replica.State(), fleet.KindNamespace, "a"))
	log, err := w.faulty.Store.Since(t.Context(), fleet.Head{}, 10)
	require.NoError(t, err)
	require.Equal(t, []fleet.Commit{res.Commit}, log)
	require.Equal(t, "ann bob why r1", fmt.Sprint(log[0].Actor, " ", log[0].Author, " ", log[0].Reason, " ", log[0].RequestID))
	require.Equal(t, clock.UTC().Truncate(time.Microsecond), log[0].At)
}

func TestReplicaCommitsOnlyChanges(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.update(t, createNamespace("a"))
	before := w.replica.State()

	res := w.update(t, func(tx *fleet.Tx) error {
		_, err := tx.Put(fleet.KindNamespace, "a", []byte(`{}`))
		return err
	})
	require.Empty(t, res.Commit.Changes)

	res, err := w.replica.Update(t.Context(), store.Meta{DryRun: true}, createNamespace("b"))
	require.NoError(t, err)
	require.Len(t, res.Commit.Changes, 1)
	require.True(t, has(res.State, fleet.KindNamespace, "b"))

	mine := errors.New("mine")
	_, err = w.replica.Update(t.Context(), store.Meta{}, func(tx *fleet.Tx) error {
		return errors.Join(createNamespace("c")(tx), mine)
	})
	require.ErrorIs(t, err, mine)
	_, err = w.replica.Update(t.Context(), store.Meta{}, createNamespace("Not A Name"))
	require.Error(t, err)

	require.Same(t, before, w.replica.State())
	head, err := w.faulty.Store.Head(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Head(), head)
}

func TestReplicasFollowEachOther(t *testing.T) {
	t.Parallel()
	a := setup(t)
	b := attach(t, a.path)
	require.NoError(t, a.replica.Load(t.Context()))
	require.NoError(t, b.replica.Load(t.Context()))
	b.run(t)
	for i := range 5 {
		res := a.update(t, createNamespace(fmt.Sprint("n", i)))
		require.NoError(t, b.replica.WaitFor(t.Context(), res.Commit.Revision))
		require.Equal(t, a.replica.State().Head(), b.replica.State().Head())
		require.True(t, has(b.replica.State(), fleet.KindNamespace, fmt.Sprint("n", i)))
	}
	eventually(t, func() bool { return b.replica.Status().Following })
	require.EqualValues(t, 1, b.faulty.loads.Load(), "everything was loaded once")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.replica.WaitFor(ctx, 1000), context.DeadlineExceeded)

	// b is behind and writes: it gets ErrStale, catches up, and computes again.
	b.stop()
	a.update(t, createNamespace("x"))
	runs := 0
	b.update(t, func(tx *fleet.Tx) error {
		runs++
		return createNamespace("y")(tx)
	})
	require.Equal(t, 2, runs)
	require.True(t, has(b.replica.State(), fleet.KindNamespace, "x"))
	require.EqualValues(t, 1, b.replica.Status().Stale)
	require.False(t, b.replica.Status().Following)
}

func TestReplicaCatchesUpInBatches(t *testing.T) {
	t.Parallel()
	a := setup(t)
	require.NoError(t, a.replica.Load(t.Context()))
	b := attach(t, a.path)
	require.NoError(t, b.replica.Load(t.Context()))
	for i := range 250 {
		a.update(t, createNamespace(fmt.Sprint("n", i)))
	}
	require.NoError(t, b.replica.Load(t.Context()))
	require.Equal(t, a.replica.State().Head(), b.replica.State().Head())
	require.EqualValues(t, 3, b.faulty.sinces.Load())
	require.EqualValues(t, 1, b.faulty.loads.Load())
}

func TestReplicaWritersTakeTurns(t *testing.T) {
	t.Parallel()
	const n = 64
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.run(t)
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			id := fmt.Sprint("n", i)
			res, err := w.replica.Update(t.Context(), store.Meta{}, createNamespace(id))
			if s := w.replica.State(); err == nil && (!has(s, fleet.KindNamespace, id) || s.Revision() < res.Commit.Revision) {
				err = errors.New("did not read its own write")
			}
			errs[i] = err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.EqualValues(t, n, w.replica.State().Revision())
	require.Zero(t, w.replica.Status().Stale, "writers of one process do not collide")
}

func TestReplicaWritersOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const processes, each = 4, 8
	first := setup(t)
	all := []*world{first}
	for range processes - 1 {
		all = append(all, attach(t, first.path))
	}
	var wg sync.WaitGroup
	errs := make([]error, processes)
	for p, w := range all {
		require.NoError(t, w.replica.Load(t.Context()))
		w.run(t)
		wg.Go(func() {
			for i := range each {
				err := store.ErrUnavailable // on a busy machine, while others write: clients try again
				for errors.Is(err, store.ErrUnavailable) {
					_, err = w.replica.Update(t.Context(), store.Meta{}, createNamespace(fmt.Sprintf("n%d-%d", p, i)))
				}
				errs[p] = errors.Join(errs[p], err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, w := range all {
		require.NoError(t, w.replica.WaitFor(t.Context(), processes*each))
		require.Len(t, w.replica.State().All(fleet.KindNamespace), processes*each)
	}
}

func TestReplicaAfterManyStaleCommits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.faulty.stale.Store(1000)
	w.update(t, createNamespace("a"))
	require.EqualValues(t, 10, w.replica.Status().Stale, "then the others had to wait")
	require.True(t, has(w.replica.State(), fleet.KindNamespace, "a"))

	w.faulty.locked.Store(true)
	_, err := w.replica.Update(t.Context(), store.Meta{}, createNamespace("b"))
	require.ErrorIs(t, err, store.ErrContended)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrStale)
}

func TestReplicaUnknownOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	w.faulty.lose.Store(true)
	_, err := w.replica.Update(t.Context(), store.Meta{}, createNamespace("a"))
	require.ErrorIs(t, err, store.ErrUnknown)
	require.NotErrorIs(t, err, store.ErrUnavailable, "it may well have been done")
	var outcome *store.OutcomeError
	require.ErrorAs(t, err, &outcome)
	require.NotEqual(t, uuid.Nil, outcome.Commit.ID)
	w.run(t)
	require.NoError(t, w.replica.WaitFor(t.Context(), 1))
	require.Equal(t, outcome.Commit.ID, w.replica.State().Head().ID)
}

func TestReplicaUpdateEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.NoError(t, w.replica.Load(t.Context()))
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := w.replica.Update(context.Background(), store.Meta{}, func(tx *fleet.Tx) error {
			close(inside)
			<-leave
			return createNamespace("a")(tx)
		})
		done <- err
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	_, err := w.replica.Update(ctx, store.Meta{}, createNamespace("b"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = w.replica.Update(t.Context(), store.Meta{DryRun: true}, createNamespace("b"))
	require.NoError(t, err, "a dry run waits for nobody")
	close(leave)
	require.NoError(t, <-done)
}
