package store_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	// A fleet that changed every minute for half an hour, and again a day later: nearly two thirds of its log are old.
	var long []time.Duration
	for n := range 50 {
		at := time.Duration(n) * time.Minute
		if n >= 29 {
			at += 24 * hour
		}
		long = append(long, at)
	}
	for name, tc := range map[string]struct {
		commits []time.Duration // when, after the first clock
		now     time.Duration   // of the process that removes
		keep    time.Duration
		may     bool
		turns   int64
		oldest  fleet.Revision // afterwards
	}{
		"all is kept":                            {[]time.Duration{0, hour, 9 * hour, 9 * hour}, 9 * hour, 0, true, 0, 1},
		"nothing is old enough":                  {[]time.Duration{0, hour, hour, hour}, hour, 2 * hour, true, 3, 1},
		"it may be another fleet's":              {[]time.Duration{0, 8 * hour, 9 * hour, 9 * hour}, 9 * hour, 2 * hour, false, 3, 1},
		"what is old":                            {[]time.Duration{0, 0, 8 * hour, 9 * hour, 9 * hour, 9 * hour}, 9 * hour, 2 * hour, true, 3, 3},
		"a clock that is ahead while it removes": {[]time.Duration{0, hour, 2 * hour, 2 * hour}, 9000 * hour, 3 * hour, true, 3, 1},
		"a commit by a clock that was ahead":     {[]time.Duration{0, hour, 2 * hour, 9000 * hour}, 3 * hour, 4 * hour, true, 3, 1},
		"both, one process's":                    {[]time.Duration{0, hour, 2 * hour, 9000 * hour}, 9000 * hour, 4 * hour, true, 3, 1},
		"half at once":                           {[]time.Duration{0, 0, 0, 0, 0, 9 * hour, 9 * hour, 9 * hour, 9 * hour, 9 * hour, 9 * hour}, 9 * hour, hour, true, 1, 6},
		"half of the log at once":                {long, 25 * hour, 2 * hour, true, 1, 26},
		"the rest the next time":                 {long, 25 * hour, 2 * hour, true, 2, 30},
		"a clock that was ahead between others":  {[]time.Duration{0, hour, 9000 * hour, 2 * hour, 2 * hour}, 9000 * hour, 4 * hour, true, 3, 1},
		"a clock that was behind":                {[]time.Duration{-9000 * hour, 0, 8 * hour, 9 * hour, 9 * hour, 9 * hour, 9 * hour}, 9 * hour, 2 * hour, true, 3, 3},
		"as many commits ahead as not":           {[]time.Duration{0, hour, 9000 * hour, 9000 * hour}, 9000 * hour, 4 * hour, true, 3, 1},
		"nothing was written":                    {nil, 9000 * hour, hour, true, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			head := fleet.Head{}
			for _, after := range tc.commits {
				c := fleet.Commit{Revision: head.Revision + 1, ID: uuid.New(), At: clock.Add(after)}
				require.NoError(t, w.faulty.Commit(t.Context(), head, c))
				head = c.Head()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var turns atomic.Int64
			store.Retention{
				Store: w.faulty.Store,
				Keep:  tc.keep, Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
				Now: func() time.Time { return clock.Add(tc.now) },
				May: func() bool {
					if turns.Add(1) > tc.turns {
						cancel()
						return false
					}
					return tc.may
				},
			}.Run(ctx)
			require.Equal(t, tc.oldest, oldest(t, w))
		})
	}
}

// An operator's acceptance of another history is a commit without changes. It is copied and kept like other commits: a process
// that returns after it was removed quarantines the history until it is accepted again, as after any longer outage.
func TestAcceptanceIsKeptAndCopied(t *testing.T) {
	t.Parallel()
	first := setup(t)
	require.NoError(t, first.replica.Load(t.Context()))
	first.update(t, createClusters("a"))
	data := backup(t, first)
	before := first.update(t, createClusters("b")).State
	serving := func() *world {
		w := attach(t, first.path)
		require.NoError(t, w.replica.Load(t.Context()))
		require.Equal(t, before.Head(), w.replica.State().Head())
		return w
	}
	soon, inTime, late := serving(), serving(), serving()

	restore(t, first, data)
	db := open(t, first.path)
	head, err := db.Head(t.Context())
	require.NoError(t, err)
	accepted, err := store.Accept(t.Context(), db, head, before.Head(), clock.Add(time.Hour))
	require.NoError(t, err)
	next := attach(t, first.path)
	require.NoError(t, next.replica.Load(t.Context()))
	next.update(t, createNamespace("since"))

	copied := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, sqlite.Migrate(t.Context(), copied))
	require.NoError(t, store.Copy(t.Context(), db, open(t, copied), nil))
	restore(t, soon, backup(t, &world{path: copied}))
	soon.run(t)
	eventually(t, func() bool { return has(soon.replica.State(), fleet.KindNamespace, "since") })

	at, _, err := open(t, first.path).Compact(t.Context(), clock.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, accepted.Revision, at)
	inTime.run(t)
	eventually(t, func() bool { return has(inTime.replica.State(), fleet.KindNamespace, "since") })
	require.False(t, has(inTime.replica.State(), fleet.KindCluster, "b"))

	at, _, err = open(t, first.path).Compact(t.Context(), clock.Add(2*time.Hour))
	require.NoError(t, err)
	require.Greater(t, at, accepted.Revision)
	late.run(t)
	late.holds(t, late.replica.State())
	require.True(t, has(late.replica.State(), fleet.KindCluster, "b"))
	late.accept(t, before.Head())
	eventually(t, func() bool { return has(late.replica.State(), fleet.KindNamespace, "since") })
}

// oldest is the oldest revision in the log.
func oldest(t *testing.T, w *world) fleet.Revision {
	t.Helper()
	log, err := w.faulty.History(t.Context(), store.HistoryQuery{Limit: 1000})
	require.NoError(t, err)
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].Revision
}
