package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// longHistory is a backup that consists mostly of history.
func longHistory(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlite.Migrate(t.Context(), path))
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	require.NoError(t, err)
	doc := func(n, of int) []byte {
		return fmt.Appendf(nil, `{"description":"revision %d of document %d, with a text that makes it long enough","id":"d%d"}`, n, of, of)
	}
	var head fleet.Head
	for n := range 30 {
		c := fleet.Commit{Revision: head.Revision + 1, ID: uuid.New(), At: time.UnixMicro(int64(1700000000000000 + n)).UTC(), Actor: "ci", Author: "an author", Reason: fmt.Sprint("because ", n), RequestID: uuid.NewString()}
		for of := range 5 {
			ch := fleet.Change{Kind: fleet.KindNamespace, ID: fmt.Sprint("d", of), After: doc(n, of)}
			if n > 0 {
				ch.Before = doc(n-1, of)
			}
			c.Changes = append(c.Changes, ch)
		}
		require.NoError(t, s.Commit(t.Context(), head, c))
		head = c.Head()
	}
	require.NoError(t, s.Close())
	return path
}

// content is everything that a store answers.
func content(t *testing.T, s store.Store) (snap store.Snapshot, log []fleet.Commit) {
	t.Helper()
	snap, err := s.Load(t.Context())
	require.NoError(t, err)
	log, err = s.Since(t.Context(), fleet.Head{}, 1000)
	require.NoError(t, err)
	return snap, log
}

// A flipped bit in a backup is detected, or the restored store equals the original. FLIPPED_BITS sets the number of backups.
func TestFlippedBitsInBackups(t *testing.T) {
	t.Parallel()
	original := longHistory(t)
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: original, ReadOnly: true})
	require.NoError(t, err)
	wantSnap, wantLog := content(t, s)
	require.NoError(t, s.Close())
	raw, err := os.ReadFile(original)
	require.NoError(t, err)
	flips := 120
	if n, err := strconv.Atoi(os.Getenv("FLIPPED_BITS")); err == nil {
		flips = n
	}
	random := rand.New(rand.NewPCG(28, 13))
	dir := t.TempDir()
	found, harmless := 0, 0
	for n := range flips {
		flipped := bytes.Clone(raw)
		at, bit := random.IntN(len(flipped)), random.IntN(8)
		for n%8 > 0 && flipped[at] == 0 { // most bytes of the file are unused and zero
			at = random.IntN(len(flipped))
		}
		flipped[at] ^= 1 << bit
		path := filepath.Join(dir, "flipped.db")
		require.NoError(t, os.WriteFile(path, flipped, 0o600))
		if restored := tryRestore(t, path); restored == nil {
			found++
		} else {
			snap, log := content(t, restored)
			require.Equal(t, "copied", snap.Quarantine.Reason, "byte %d, bit %d", at, bit)
			snap.Quarantine = nil // what restores it marks it
			require.Equal(t, wantSnap, snap, "byte %d, bit %d", at, bit)
			require.Equal(t, wantLog, log, "byte %d, bit %d", at, bit)
			require.NoError(t, restored.Close())
			harmless++
		}
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			_ = os.Remove(path + suffix)
		}
	}
	t.Logf("%d found, %d in bytes that are no content", found, harmless)
	require.Greater(t, found, flips/4)
}

// tryRestore restores a backup into memory, as restore does; nil when it is refused.
func tryRestore(t *testing.T, path string) store.Store {
	t.Helper()
	if err := sqlite.Migrate(t.Context(), path); err != nil {
		return nil
	}
	from, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, ReadOnly: true})
	if err != nil {
		return nil
	}
	defer func() { _ = from.Close() }()
	to, err := sqlite.Open(t.Context(), sqlite.Config{Memory: true})
	require.NoError(t, err)
	if err := store.Copy(t.Context(), from, to, nil); err != nil {
		require.NoError(t, to.Close())
		return nil
	}
	return to
}

func TestVerify(t *testing.T) {
	t.Parallel()
	path := longHistory(t)
	code, stdout, stderr := invoke(t, "verify", path)
	require.Zero(t, code, stderr)
	hash := regexp.MustCompile(`30=sha256:[0-9a-f]{64}`).FindString(stdout)
	require.NotEmpty(t, hash, stdout)
	code, again, stderr := invoke(t, "verify", "--database-url", "sqlite://"+path, "--expect", hash)
	require.Zero(t, code, stderr)
	require.Contains(t, again, hash)
	code, _, stderr = invoke(t, "verify", path, "--expect", "29"+hash[2:])
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "revision 29 has the hash")
	code, _, _ = invoke(t, "verify", path, "--expect", "sha256:nothing")
	require.Equal(t, 2, code)

	alter := func(statement string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	alter(`UPDATE commits SET reason = 'because of something else' WHERE revision = 17`)
	code, _, stderr = invoke(t, "verify", path)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "revision 17")
	target := "sqlite://" + filepath.Join(t.TempDir(), "restored.db")
	code, _, stderr = invoke(t, "restore", path, "--database-url", target)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "history was altered")

	alter(`UPDATE commits SET hash = NULL, previous = NULL; UPDATE head SET hash = NULL`)
	for _, args := range [][]string{{"verify", path}, {"restore", path, "--database-url", target}} {
		code, _, stderr = invoke(t, args...)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "history was altered", "a log without hashes")
	}
}
