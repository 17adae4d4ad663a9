package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// createKilledService runs a crud process on a new SQLite file, commits n revisions after the seed and kills the process, so that
// commits stay in the WAL. It returns the file's path, and the files beside it with their content.
func createKilledService(t *testing.T, n int, settings ...string) (path string, files map[string]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fleet.db")
	p := start(t, append([]string{"API_MODE=crud", "DATABASE_URL=sqlite://" + path, "SEED_FILE=" + demoSeed}, settings...)...)
	for i := range n {
		require.Equal(t, 201, p.send("POST", "/namespaces", `{"id":"acknowledged-`+strconv.Itoa(i)+`"}`).status)
	}
	p.Kill()
	return path, storeFiles(t, path)
}

// storeFiles reads the database and the files that SQLite keeps beside it. The index is without content: processes write to it.
func storeFiles(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		body, err := os.ReadFile(path + suffix)
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
			continue
		}
		if suffix == "-shm" {
			body = nil
		}
		files[suffix] = string(body)
	}
	return files
}

// requireAcknowledged requires that a crud process on the file has every commit of createKilledService.
func requireAcknowledged(t *testing.T, path string, n int, settings ...string) {
	t.Helper()
	p := start(t, append([]string{"API_MODE=crud", "DATABASE_URL=sqlite://" + path, "SEED_FILE=" + demoSeed}, settings...)...)
	p.eventually("/ready", 200)
	list := p.get("/namespaces?limit=1000")
	for i := range n {
		require.Contains(t, list, fmt.Sprintf("%q", "acknowledged-"+strconv.Itoa(i)))
	}
}

// A restart while the file is moved away, or was emptied, destroys no commit: the WAL beside it has acknowledged ones. No command
// and no mode creates a database there.
func TestRestartWhileFileIsMovedAway(t *testing.T) {
	t.Parallel()
	const commits = 20
	away := func(t *testing.T, path string) { t.Helper(); require.NoError(t, os.Rename(path, path+".away")) }
	emptied := func(t *testing.T, path string) {
		t.Helper()
		require.NoError(t, os.Rename(path, path+".away"))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	for name, remove := range map[string]func(*testing.T, string){"moved away": away, "emptied": emptied} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _ := createKilledService(t, commits)
			url := "sqlite://" + path
			remove(t, path)
			before := storeFiles(t, path)
			require.NotEmpty(t, before["-wal"])

			crud := start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed)
			require.Equal(t, 1, crud.exit(), crud.Log())
			require.Contains(t, crud.Log(), path+"-wal")
			require.Contains(t, crud.Log(), "move it back")
			reader := start(t, "DATABASE_URL="+url, "SEED_FILE="+demoSeed)
			require.Equal(t, 503, reader.send("GET", "/ready", "").status)
			source := filepath.Join(t.TempDir(), "other.db")
			other := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+source, "SEED_FILE="+demoSeed)
			other.terminate()
			for _, args := range [][]string{
				{"migrate", "up"},
				{"migrate", "status"},
				{"accept"},
				{"verify"},
				{"backup", filepath.Join(t.TempDir(), "b.db")},
				{"restore", source},
				{"import", "--from", source},
			} {
				_, _, _ = invoke(t, append(args, "--database-url", url)...)
				require.Equal(t, before, storeFiles(t, path), "%v", args)
			}
			code, _, stderr := invoke(t, "copy", "--from", "sqlite://"+source, "--to", url)
			require.NotZero(t, code)
			require.Contains(t, stderr, "move it back")
			require.Equal(t, before, storeFiles(t, path))
			reader.Kill()

			require.NoError(t, os.Rename(path+".away", path))
			requireAcknowledged(t, path, commits)
		})
	}
}

// A process that knows the history of its store from STATE_DIR does not create another store at its path, also when nothing is left
// there: it answers polls, and waits for the file.
func TestRestartWithoutFilesOfAKnownStore(t *testing.T) {
	t.Parallel()
	const commits = 5
	for _, damaged := range []bool{false, true} {
		t.Run(fmt.Sprintf("damaged %t", damaged), func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			settings := []string{"STATE_DIR=" + state}
			path, files := createKilledService(t, commits, settings...)
			if !kept(state) { // killed before the first State was on disk
				p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+path, "STATE_DIR="+state)
				require.Eventually(t, func() bool { return kept(state) }, waitFor, tick)
				p.Kill()
				files = storeFiles(t, path)
			}
			if damaged {
				require.NoError(t, os.WriteFile(filepath.Join(state, "last-good.state"), []byte("damaged"), 0o600))
			}
			elsewhere := t.TempDir()
			for suffix := range files {
				require.NoError(t, os.Rename(path+suffix, filepath.Join(elsewhere, "fleet.db"+suffix)))
			}
			p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+path, "SEED_FILE="+demoSeed, "STATE_DIR="+state)
			if damaged {
				require.Equal(t, 1, p.exit(), p.Log())
			} else {
				p.demo()
				require.Equal(t, 503, p.send("POST", "/namespaces", `{"id":"no"}`).status)
			}
			require.Contains(t, p.Log(), "STATE_DIR")
			require.Contains(t, p.Log(), "move it back")
			require.Empty(t, storeFiles(t, path))
			for _, suffix := range []string{"-shm", "-wal", ""} { // the database last: a process waits for it
				if _, ok := files[suffix]; ok {
					require.NoError(t, os.Rename(filepath.Join(elsewhere, "fleet.db"+suffix), path+suffix))
				}
			}
			if !damaged {
				p.eventually("/ready", 200)
				p.terminate()
			}
			requireAcknowledged(t, path, commits, settings...)
		})
	}
}

// An operator who knows that the file is lost accepts an empty store in its place. The files that were left stay, under other names.
func TestAcceptLostFile(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	path, _ := createKilledService(t, 3, "STATE_DIR="+state)
	url := "sqlite://" + path
	require.NoError(t, os.Remove(path))
	wal := storeFiles(t, path)["-wal"]
	code, stdout, stderr := invoke(t, "accept", "--database-url", url)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, path+"-wal")
	require.Contains(t, stdout, "nothing was accepted")
	require.Equal(t, wal, storeFiles(t, path)["-wal"])

	code, stdout, stderr = invoke(t, "accept", "--yes", "--database-url", url)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "accepted, as revision 1:")
	set, err := filepath.Glob(path + "-wal.lost-*")
	require.NoError(t, err)
	require.Len(t, set, 1)
	body, err := os.ReadFile(set[0])
	require.NoError(t, err)
	require.Equal(t, wal, string(body))
	p := start(t, "API_MODE=crud", "DATABASE_URL="+url)
	p.eventually("/ready", 200)
	require.Equal(t, 201, p.send("POST", "/namespaces", `{"id":"new"}`).status)
	require.False(t, strings.Contains(p.get("/namespaces"), "acknowledged-0"))
}
