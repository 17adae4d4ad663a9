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

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// TestBackupOverTheAPI: what a server answers to GET /backup, whatever its store is, fills another store, whose servers answer every
// poll with the same bytes and know the same history. Nothing of it stays on the server's disk.
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
			restored := start(t, "API_MODE=crud", "DATABASE_URL="+urls[1])
			require.Equal(t, before, restored.demo())
			require.Equal(t, revisions, restored.get("/revisions"))
		})
	}
}

// A client that stops in the middle of a backup holds nothing of the store: changes go on, and so do polls. When it goes, the next one
// may take a backup.
func TestBackupByAClientThatStops(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"SQLite": "sqlite://" + filepath.Join(t.TempDir(), "fleet.db"), "Postgres": pgtest.URL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			p := start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed, "TMPDIR="+tmp)
			for i := range 80 { // more than sockets hold
				noise := make([]byte, 180<<10)
				_, err := rand.Read(noise)
				require.NoError(t, err)
				body := fmt.Sprintf(`{"id":"large-%d","annotations":{"noise":%q}}`, i, base64.StdEncoding.EncodeToString(noise))
				require.Equal(t, 201, p.send("POST", "/namespaces", body).status)
			}
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.Base, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			_, err = fmt.Fprintf(conn, "GET /backup HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", writeToken)
			require.NoError(t, err)
			head := make([]byte, len("HTTP/1.1 200"))
			_, err = io.ReadFull(conn, head)
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 200", string(head))
			requireOnly(t, tmp) // it is open, and has no name: no end of the process leaves it behind

			require.Equal(t, http.StatusTooManyRequests, p.send("GET", "/backup", "").status)
			for i := range 5 { // within the time that the server gives who takes nothing
				require.Equal(t, 201, p.send("POST", "/namespaces", fmt.Sprintf(`{"id":"meanwhile-%d"}`, i)).status)
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
