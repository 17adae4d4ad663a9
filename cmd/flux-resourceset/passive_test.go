package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRestoredCopyIsPassive: a store that restore or copy made beside the live service delivers no event to the receivers of the live
// one, old or new, and ends no freeze, until it is accepted. Polls, reads and changes work. PASSIVE=true does the same for a process.
func TestRestoredCopyIsPassive(t *testing.T) {
	t.Parallel()
	var received atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	live := "sqlite://" + filepath.Join(t.TempDir(), "fleet.db")
	p := start(t, append([]string{"DATABASE_URL=" + live, "SEED_FILE=" + demoSeed}, webhookSettings...)...)
	require.Equal(t, 201, p.insist("POST", "/webhooks", `{"id":"log","url":"`+receiver.URL+`"}`).status)
	for i := range 5 {
		require.Equal(t, 201, p.insist("POST", "/namespaces", `{"id":"old-`+strconv.Itoa(i)+`"}`).status)
	}
	require.Eventually(t, func() bool { return received.Load() > 0 }, waitFor, tick)
	want := p.demo()
	backup := filepath.Join(t.TempDir(), "backup.db")
	code, _, stderr := invoke(t, "backup", backup, "--database-url", live)
	require.Zero(t, code, stderr)
	p.terminate()

	made := map[string]func(t *testing.T, url string) string{
		"restore": func(t *testing.T, url string) string {
			t.Helper()
			code, stdout, stderr := invoke(t, "restore", backup, "--database-url", url)
			require.Zero(t, code, stderr)
			return stdout
		},
		"copy": func(t *testing.T, url string) string {
			t.Helper()
			code, stdout, stderr := invoke(t, "copy", "--from", live, "--to", url)
			require.Zero(t, code, stderr)
			return stdout
		},
	}
	for name, copyTo := range made {
		for backend, open := range backends() {
			t.Run(name+" "+backend, func(t *testing.T) {
				t.Parallel()
				url, _ := open(t)
				require.Contains(t, copyTo(t, url), "flux-resourceset accept --yes")
				state := t.TempDir()
				settings := append([]string{"DATABASE_URL=" + url, "STATE_DIR=" + state}, webhookSettings...)
				var own atomic.Int64
				receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { own.Add(1); w.WriteHeader(http.StatusNoContent) }))
				t.Cleanup(receiver.Close)
				p := start(t, settings...)
				p.eventually("/ready", 200)
				require.Equal(t, 200, p.insist("PATCH", "/webhooks/log", `{"url":"`+receiver.URL+`"}`).status)
				for i := range 2 { // a restart with STATE_DIR does not make it act
					require.Equal(t, want, p.demo())
					require.Equal(t, 201, p.insist("POST", "/namespaces", `{"id":"new-`+strconv.Itoa(i)+`"}`).status)
					status, checks := p.readiness()
					require.Equal(t, 200, status)
					require.Contains(t, checks["automation"], "passive: the store is a copy")
					require.Contains(t, p.get("/metrics"), "flux_resourceset_passive 1")
					p.terminate()
					p = start(t, settings...)
					p.eventually("/ready", 200)
				}
				require.Zero(t, own.Load(), "events of a copy")
				code, stdout, stderr := invoke(t, "accept", "--database-url", url)
				require.Zero(t, code, stderr)
				require.Contains(t, stdout, "the store is a copy")
				require.Zero(t, own.Load())
				code, _, stderr = invoke(t, "accept", "--yes", "--database-url", url)
				require.Zero(t, code, stderr)
				require.Eventually(t, func() bool { return own.Load() > 0 }, waitFor, tick, "%s", p.Log())
				require.Contains(t, p.get("/metrics"), "flux_resourceset_passive 0")
				_, checks := p.readiness()
				require.Empty(t, checks["automation"])
				p.terminate()
				before := own.Load()

				p = start(t, append(settings, "PASSIVE=true")...)
				p.eventually("/ready", 200)
				require.Equal(t, want, p.demo())
				require.Equal(t, 201, p.insist("POST", "/namespaces", `{"id":"quiet"}`).status)
				_, checks = p.readiness()
				require.Contains(t, checks["automation"], "PASSIVE is true")
				p.terminate()
				require.Equal(t, before, own.Load(), "events of a passive process")
			})
		}
	}
}
