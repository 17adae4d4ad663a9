package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// TestFIPS: the program works where Go permits the algorithms of FIPS 140-3 only, on both stores: sign-ins, polls, writes, tokens, signed
// webhooks, backups and their verification.
func TestFIPS(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"SQLite": "sqlite://" + filepath.Join(t.TempDir(), "fleet.db"), "Postgres": pgtest.URL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			delivered := make(chan string, 100)
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { delivered <- req.Header.Get("webhook-signature") }))
			t.Cleanup(receiver.Close)
			const only = "GODEBUG=fips140=only"
			p := start(t, only, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed, "SESSION_KEY="+pageKey, "WEBHOOK_KEY="+pageKey, "PUBLIC_URL=https://fleet.example.com", "WEBHOOK_ALLOW_PRIVATE=true", "WEBHOOK_ALLOW_HTTP=true")
			require.Contains(t, p.Log(), `"fips140":true`)
			require.Contains(t, p.demo(), "podinfo")
			require.Equal(t, 200, p.page("/ui/", p.signIn(writeToken)).StatusCode)
			for path, body := range map[string]string{
				"/tokens":   `{"name":"fips","role":"read"}`,
				"/webhooks": `{"id":"fips","url":"` + receiver.URL + `"}`,
			} {
				a := p.send("POST", path, body)
				require.Equal(t, 201, a.status, "%s: %s\n%s", path, a.body, p.Log())
			}
			require.Equal(t, 200, p.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"4"}}}`).status)
			select {
			case signature := <-delivered:
				require.NotEmpty(t, signature)
			case <-time.After(waitFor):
				t.Fatal("no delivery")
			}

			file := filepath.Join(t.TempDir(), "backup.db")
			self, err := os.Executable()
			require.NoError(t, err)
			for _, args := range [][]string{{"backup", file, "--database-url", url}, {"verify", "--database-url", url}, {"verify", file}} {
				cmd := exec.CommandContext(t.Context(), self, args...)
				cmd.Env = append(os.Environ(), only, runAsProgram+"=1")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%v: %s", args, out)
			}
		})
	}
}
