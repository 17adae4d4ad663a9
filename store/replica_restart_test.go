package store_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store"
)

// machine is a computer with its clocks, which a test sets.
type machine struct {
	boot    uuid.UUID
	elapsed time.Duration
	wall    time.Time
}

// sleeps lets both clocks go on.
func (m *machine) sleeps(d time.Duration) { m.elapsed, m.wall = m.elapsed+d, m.wall.Add(d) }

// starts starts a process on the machine that answers from its own copy for a minute.
func (m *machine) starts(t *testing.T, path, dir string, maxAge time.Duration) *world {
	t.Helper()
	w := &world{path: path, faulty: &faulty{Store: open(t, path)}, logs: &logs{}}
	w.replica = store.NewReplica(store.Config{
		Store: w.faulty, Logger: slog.New(slog.NewTextHandler(w.logs, nil)), Interval: time.Millisecond, KeepInterval: time.Millisecond,
		StateDir: dir, StateMaxAge: maxAge, MaxStaleness: time.Minute,
		Now: func() time.Time { return m.wall }, Elapsed: func() time.Duration { return m.elapsed }, BootID: m.boot,
	})
	return w
}

// The age of a copy continues over restarts and clock changes. If the clocks disagree the copy is too old.
func TestRestartKeepsTheAge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meanwhile func(*machine)
		maxAge    time.Duration // 0: a minute
		served    bool
		age       time.Duration
	}{
		"soon":                                   {func(m *machine) { m.sleeps(50 * time.Second) }, 0, true, 50 * time.Second},
		"too late":                               {func(m *machine) { m.sleeps(61 * time.Second) }, 0, false, 61 * time.Second},
		"the clock on the wall was set back":     {func(m *machine) { m.sleeps(time.Hour); m.wall = m.wall.Add(-time.Hour) }, 0, false, time.Hour},
		"the clock on the wall was set forward":  {func(m *machine) { m.sleeps(time.Second); m.wall = m.wall.Add(time.Hour) }, 0, false, time.Hour + time.Second},
		"the machine was started again":          {func(m *machine) { m.sleeps(time.Second); m.boot, m.elapsed = uuid.New(), 0 }, 0, false, 2 * time.Minute},
		"the machine cannot be told":             {func(m *machine) { m.sleeps(time.Second); m.boot = uuid.Nil }, 0, false, 2 * time.Minute},
		"the machine was set back":               {func(m *machine) { m.sleeps(time.Second); m.elapsed -= time.Hour }, 0, false, 2 * time.Minute},
		"alone, later":                           {func(m *machine) { m.sleeps(2 * time.Hour) }, 24 * time.Hour, true, 2 * time.Hour},
		"alone, the machine was started again":   {func(m *machine) { m.sleeps(time.Hour); m.boot, m.elapsed = uuid.New(), 0 }, 24 * time.Hour, true, time.Hour},
		"alone, too late":                        {func(m *machine) { m.sleeps(25 * time.Hour) }, 24 * time.Hour, false, 25 * time.Hour},
		"alone, the clock on the wall was wrong": {func(m *machine) { m.wall = m.wall.Add(-time.Hour) }, 24 * time.Hour, false, 24*time.Hour + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &machine{boot: uuid.New(), elapsed: 100 * time.Hour, wall: clock.Truncate(time.Microsecond)}
			path, dir := setup(t).path, filepath.Join(t.TempDir(), "state")
			w := m.starts(t, path, dir, time.Minute)
			require.NoError(t, w.replica.Load(t.Context()))
			w.update(t, createNamespace("a"))
			w.run(t)
			eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "last-good.state")); return err == nil })
			w.stop()
			tc.meanwhile(m)
			maxAge := tc.maxAge
			if maxAge == 0 {
				maxAge = time.Minute
			}
			for range 2 { // a process that is started again and again
				next := m.starts(t, path, dir, maxAge)
				next.fail(store.ErrUnavailable)
				require.True(t, next.replica.Restore(t.Context()))
				_, age, err := next.replica.StateForPolls()
				require.Equal(t, tc.age, age)
				status := next.replica.Status()
				require.Equal(t, tc.served && age > time.Minute, status.Outdated)
				if tc.served {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, store.ErrTooOld)
				}
				next.run(t)
				next.stop()
			}
		})
	}
}
