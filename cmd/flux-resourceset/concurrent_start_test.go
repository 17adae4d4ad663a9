package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// logTrigger calls heard once, at the first log line that contains the words.
type logTrigger struct {
	io.Writer
	words string
	heard func()
	once  sync.Once
}

func (h *logTrigger) Write(line []byte) (int, error) {
	if strings.Contains(string(line), h.words) {
		h.once.Do(h.heard)
	}
	return h.Writer.Write(line)
}

// A process that starts while another one holds the file exclusively, for example to create it, waits for that process.
func TestConcurrentStartsWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	other, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	other.SetMaxOpenConns(1)
	_, err = other.Exec(`BEGIN EXCLUSIVE`)
	require.NoError(t, err)

	db, err := parseDatabase("sqlite://" + path)
	require.NoError(t, err)
	cfg := config{mode: server.ModeCRUD, db: db}
	log := &logTrigger{Writer: io.Discard, words: "holds the store exclusively", heard: func() {
		_, err := other.Exec(`ROLLBACK`)
		require.NoError(t, err)
	}}
	logger := slog.New(slog.NewTextHandler(log, nil))
	st, err := (&opener{cfg: cfg, logger: logger}).store()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	replica := store.NewReplica(store.Config{Store: st, Rules: fleet.Rules{}})
	require.NoError(t, openStore(t.Context(), cfg, st, replica, logger))
	require.NotNil(t, replica.State())
	log.once.Do(func() { t.Error("it was not kept from opening the file") })
}

// A canceled start ends its wait.
func TestConcurrentStartIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	logger := slog.New(slog.NewTextHandler(&logTrigger{Writer: io.Discard, words: "holds the store exclusively", heard: cancel}, nil))
	db, err := parseDatabase("sqlite:///nowhere.db")
	require.NoError(t, err)
	st, err := db.onFirstUse(false, func(context.Context) error {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrContended)
	})
	require.NoError(t, err)
	replica := store.NewReplica(store.Config{Store: st})
	require.Error(t, openStore(ctx, config{mode: server.ModeCRUD, db: db}, st, replica, logger))
	require.Error(t, ctx.Err())
}

// A waiting process logs that once, for any number of attempts.
func TestConcurrentStartLogsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		attempts := 0
		db, err := parseDatabase("sqlite:///nowhere.db")
		require.NoError(t, err)
		st, err := db.onFirstUse(false, func(context.Context) error {
			attempts++
			return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrContended)
		})
		require.NoError(t, err)
		replica := store.NewReplica(store.Config{Store: st})
		require.ErrorIs(t, openStore(t.Context(), config{mode: server.ModeCRUD, db: db}, st, replica, slog.New(slog.NewTextHandler(&log, nil))), store.ErrContended)
		require.Greater(t, attempts, 2)
		require.Equal(t, 1, strings.Count(log.String(), "holds the store exclusively"), log.String())
	})
}

// A process with a fleet to serve waits after any error of the operating system; a process without one does not.
func TestStartWithoutStore(t *testing.T) {
	t.Parallel()
	db, err := parseDatabase("sqlite:///nowhere.db")
	require.NoError(t, err)
	crud := config{mode: server.ModeCRUD, db: db}
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.ENOTDIR, syscall.EROFS, syscall.ENOSPC, syscall.EIO} {
		err := fmt.Errorf("migrating: %w", &fs.PathError{Op: "mkdir", Path: "/nowhere", Err: errno})
		require.True(t, canStartWithoutStore(crud, true, err), "%v", err)
		require.False(t, canStartWithoutStore(crud, false, err), "%v", err)
	}
	require.False(t, canStartWithoutStore(crud, true, errors.New("it belongs to another program")))
}

// A crud process whose database directory is missing answers polls from its state directory, and accepts changes again
// when the directory is back.
func TestStartWithoutDatabaseDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "volume")
	settings := []string{"API_MODE=crud", "DATABASE_URL=sqlite://" + filepath.Join(dir, "fleet.db"), "STATE_DIR=" + t.TempDir()}
	first := start(t, append(settings, "SEED_FILE="+demoSeed)...)
	before := first.demo()
	first.terminate()
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // ENOTDIR

	p := start(t, settings...)
	require.NotEmpty(t, p.Base, p.Log())
	require.Equal(t, before, p.demo())
	require.Equal(t, 503, p.send("GET", "/ready", "").status)
	link := dir + ".link" // in one step: the server would make the directory anew while there is nothing
	require.NoError(t, os.Symlink(dir+".away", link))
	require.NoError(t, os.Rename(link, dir))
	p.eventually("/ready", 200)
	require.Equal(t, before, p.demo())
	require.Equal(t, 201, p.insist("POST", "/namespaces", `{"id":"yes"}`).status)
}
