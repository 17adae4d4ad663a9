package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// TestBackupOverTheAPI: the answer to GET /backup, from either store, fills another store, whose servers answer every
// poll with the same bytes and have the same history. No file of it remains on the server's disk.
func TestBackupOverTheAPI(t *testing.T) {
	t.Parallel()
	lite := func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "fleet.db") }
	for name, urls := range map[string][2]string{
		"SQLite to Postgres": {lite(t), pgtest.URL(t)},
		"Postgres to SQLite": {pgtest.URL(t), lite(t)},
		"memory to SQLite":   {"sqlite::memory:", lite(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			p := start(t, "API_MODE=crud", "DATABASE_URL="+urls[0], "SEED_FILE="+demoSeed, "TMPDIR="+tmp)
			require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"4"}}}`).status)
			before, revisions := p.demo(), p.get("/revisions")
			got := p.send("GET", "/backup", "")
			require.Equal(t, 200, got.status, got.body)
			require.Equal(t, "2", got.header.Get("X-Fleet-Revision"))
			require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"5"}}}`).status)
			requireOnly(t, tmp)

			file := filepath.Join(t.TempDir(), "fleet.db")
			require.NoError(t, os.WriteFile(file, []byte(got.body), 0o600))
			code, stdout, stderr := invoke(t, "restore", file, "--database-url", urls[1])
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "revision 2:")
			require.Regexp(t, fmt.Sprintf(`; file sha256:%x\n`, sha256.Sum256([]byte(got.body))), stdout)
			restored := start(t, "API_MODE=crud", "DATABASE_URL="+urls[1])
			require.Equal(t, before, restored.demo())
			require.Equal(t, revisions, restored.get("/revisions"))
		})
	}
}

// The next backup removes the files of a process that was killed during a backup. Files of other programs, and recent
// ones, stay.
func TestBackupRemovesAbandonedFiles(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	old, recent := time.Now().Add(-server.BackupTime-time.Minute), time.Now().Add(-server.BackupTime/2)
	elsewhere := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, os.WriteFile(elsewhere, nil, 0o600))
	require.NoError(t, os.Symlink(filepath.Dir(elsewhere), filepath.Join(tmp, "flux-resourceset-backup-link")))
	for name, at := range map[string]time.Time{"flux-resourceset-backup-1": old, "flux-resourceset-backup-2": recent, "backup-3": old} {
		dir := filepath.Join(tmp, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "fleet.db"), []byte("all of it"), 0o600))
		require.NoError(t, os.Chtimes(dir, at, at))
	}
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite::memory:", "SEED_FILE="+demoSeed, "TMPDIR="+tmp)
	require.Equal(t, 200, p.send("GET", "/backup", "").status)
	requireOnly(t, tmp, "backup-3", "flux-resourceset-backup-2", "flux-resourceset-backup-link")
	require.FileExists(t, elsewhere)
}

// A process that is killed during a backup leaves a directory, which the next process removes.
func TestBackupOfAKilledProcess(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	settings := []string{"API_MODE=crud", "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db"), "SEED_FILE=" + demoSeed, "TMPDIR=" + tmp}
	p := start(t, settings...)
	p.large(20) // it takes a moment
	var left []string
	for range 20 { // it may be there before it is killed
		killDuringBackup(t, p, tmp)
		p = start(t, settings...)
		if left, _ = filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
			break
		}
	}
	require.Len(t, left, 1)
	old := time.Now().Add(-server.BackupTime - time.Minute)
	require.NoError(t, os.Chtimes(left[0], old, old))
	require.Equal(t, 200, p.send("GET", "/backup", "").status)
	requireOnly(t, tmp)
}

// killDuringBackup requests a backup and kills the program as soon as its directory has a file, or an answer arrives.
func killDuringBackup(t *testing.T, p *program, tmp string) {
	t.Helper()
	conn := p.requestBackup()
	defer conn.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = conn.Read(make([]byte, 1))
	}()
	for {
		select {
		case <-answered:
		default:
			if found, _ := filepath.Glob(filepath.Join(tmp, "*", "fleet.db")); len(found) == 0 {
				continue
			}
		}
		p.Kill()
		return
	}
}

// large adds documents that do not compress.
func (p *program) large(n int) {
	p.t.Helper()
	for i := range n {
		noise := make([]byte, 180<<10)
		_, err := rand.Read(noise)
		require.NoError(p.t, err)
		body := fmt.Sprintf(`{"id":"large-%d","annotations":{"noise":%q}}`, i, base64.StdEncoding.EncodeToString(noise))
		// A busy disk can be slower than the limit of a request. 409: the one before was committed after its answer.
		var got answer
		require.Eventually(p.t, func() bool {
			got = p.send("POST", "/namespaces", body)
			return got.status != http.StatusServiceUnavailable
		}, waitFor, tick)
		require.Contains(p.t, []int{http.StatusCreated, http.StatusConflict}, got.status, got.body)
	}
}

// requestBackup sends the request and does not read the answer.
func (p *program) requestBackup() net.Conn {
	p.t.Helper()
	conn, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", strings.TrimPrefix(p.Base, "http://"))
	require.NoError(p.t, err)
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, err = fmt.Fprintf(conn, "GET /backup HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", writeToken)
	require.NoError(p.t, err)
	return conn
}

// A client that stalls during a backup holds no lock of the store: changes and polls continue. When it disconnects,
// another client can take a backup.
func TestBackupToAStalledClient(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"SQLite": "sqlite://" + filepath.Join(t.TempDir(), "fleet.db"), "Postgres": pgtest.URL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			p := start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed, "TMPDIR="+tmp)
			p.large(80) // more than sockets hold
			conn := p.requestBackup()
			defer conn.Close()
			head := make([]byte, len("HTTP/1.1 200"))
			_, err := io.ReadFull(conn, head)
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 200", string(head))
			requireOnly(t, tmp) // it is open, and has no name: no end of the process leaves it behind

			require.Equal(t, http.StatusTooManyRequests, p.send("GET", "/backup", "").status)
			for i := range 5 { // within the time that the server gives who takes nothing
				got := p.send("POST", "/namespaces", fmt.Sprintf(`{"id":"meanwhile-%d"}`, i))
				require.Equal(t, http.StatusCreated, got.status, got.body)
				p.get(demoPolls + "namespaces")
			}
			require.NoError(t, conn.Close())
			var got answer
			require.Eventually(t, func() bool { got = p.send("GET", "/backup", ""); return got.status == http.StatusOK }, waitFor, tick)
			sum := sha256.Sum256([]byte(got.body))
			require.Contains(t, got.header.Get("Content-Digest"), base64.StdEncoding.EncodeToString(sum[:]))
		})
	}
}
