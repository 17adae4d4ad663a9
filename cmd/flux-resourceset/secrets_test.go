package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/pgtest"
)

// TestSecretsNotExposed searches for every issued secret in the database, the state directory, the debug log, and all answers except
// those that issued it. The database must contain the digests, which proves that the search works.
func TestSecretsNotExposed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "fleet.db")
	pg := pgtest.URL(t)
	for name, url := range map[string]string{"sqlite": "sqlite://" + file, "postgres": pg} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(dir, name)
			p := start(t, "API_MODE=crud", "LOG_LEVEL=debug", "DATABASE_URL="+url, "SEED_FILE="+demoSeed, "STATE_DIR="+state)
			p.eventually("/ready", 200)
			secrets, said := p.useTokens()
			require.Len(t, secrets, 7)
			p.Kill()

			kept := dumpFiles(t, dir)
			if name == "postgres" {
				kept = dumpFiles(t, state) + dumpRows(t, pg)
			}
			kept += dumpLog(t, url)
			for _, secret := range secrets {
				digest := fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))
				require.Contains(t, kept, digest, "the search would not find it")
				for where, text := range map[string]string{"the database": kept, "the log": p.Log(), "the answers": said} {
					for _, form := range []string{secret, secret[4:20], base64.StdEncoding.EncodeToString([]byte(secret)), fmt.Sprintf("%x", secret)} {
						require.False(t, strings.Contains(text, form), "%s holds a secret", where)
					}
				}
				for where, text := range map[string]string{"the log": p.Log(), "the answers": said} {
					require.False(t, strings.Contains(text, digest), "%s holds a digest", where)
				}
			}
			for _, token := range []string{readToken, writeToken} {
				require.NotContains(t, p.Log(), token)
				require.NotContains(t, said, token)
			}
			require.NotContains(t, p.Log(), "Authorization")
			require.Contains(t, p.Log(), "token:admin (", "who it was is in the log")
			require.Contains(t, p.Log(), "frs_***", "what was pasted into an address")
			t.Logf("%d secrets; searched %d bytes kept, %d logged, %d answered", len(secrets), len(kept), len(p.Log()), len(said))
		})
	}
}

// useTokens creates, rotates, uses and misuses tokens, and returns every secret and everything that was answered but for
// where a secret was given out.
func (p *program) useTokens() (secrets []string, said string) {
	p.t.Helper()
	var b strings.Builder
	take := func(a answer) (id, secret string) {
		var issued struct{ ID, Token string }
		require.NoError(p.t, json.Unmarshal([]byte(a.body), &issued), a.body)
		require.NotEmpty(p.t, issued.Token, a.body)
		b.WriteString(strings.ReplaceAll(fmt.Sprint(a.header, a.body), issued.Token, "")) // given out this once
		secrets = append(secrets, issued.Token)
		return issued.ID, issued.Token
	}
	say := func(method, path, body string, headers ...string) {
		a := p.send(method, path, body, headers...)
		require.NotZero(p.t, a.status)
		_, _ = fmt.Fprintln(&b, a.status, a.header, a.body)
	}
	tokens := map[string]string{}
	for name, role := range map[string]string{"poll": `"poll","cluster_id":"demo-cluster-01"`, "read": `"read"`, "write": `"write"`, "admin": `"admin"`} {
		id, secret := take(p.send("POST", "/tokens", `{"name":"`+name+`","role":`+role+`}`))
		tokens[name] = secret
		if name == "poll" || name == "read" {
			_, tokens[name] = take(p.send("POST", "/tokens/"+id+"/rotate", `{"overlap":"0s"}`))
			say("GET", "/tokens/"+id, "")
		}
	}
	id, revoked := take(p.send("POST", "/tokens", `{"name":"revoked","role":"write"}`))
	say("DELETE", "/tokens/"+id, "")
	for _, secret := range append([]string{revoked, secrets[0]}, tokens["poll"], tokens["read"], tokens["write"], tokens["admin"]) {
		auth := []string{"Authorization", "Bearer " + secret}
		for _, path := range []string{demoPolls + "namespaces", "/api/v2/flux/clusters/nobody.example.com/namespaces", "/clusters", "/tokens", "/revisions", "/revisions/2", "/nowhere", "/metrics", "/clusters/demo-cluster-01?bad=1"} {
			say("GET", path, "", auth...)
			say("PUT", path, `{"x":1}`, auth...)
		}
		say("POST", "/tokens", `{"name":"poll","role":"read"}`, auth...)
		say("PATCH", "/clusters/demo-cluster-01", `{"labels":{"by":"x"}}`, auth...)
		// Pasted where it does not belong.
		say("GET", "/tokens/"+secret, "")
		say("GET", "/clusters?token="+secret, "", "X-Request-Id", secret, "User-Agent", "x/"+secret)
		say("GET", "/"+secret, "", "Authorization", secret)
		say("POST", "/plan", `{"`+secret+`":1}`)
	}
	say("GET", "/tokens", "")
	say("GET", "/revisions?kind=token", "")
	return secrets, b.String()
}

func dumpFiles(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		b.Write(data)
		return err
	}))
	return b.String()
}

// dumpLog returns the log decompressed, since it is stored compressed.
func dumpLog(t *testing.T, url string) string {
	t.Helper()
	db, err := parseDatabase(url)
	require.NoError(t, err)
	s, err := db.open(t.Context(), true)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	commits, err := s.Since(t.Context(), fleet.Head{}, 1000)
	require.NoError(t, err)
	log, err := json.Marshal(commits)
	require.NoError(t, err)
	return string(log)
}

func dumpRows(t *testing.T, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	rows, err := conn.Query(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	var b strings.Builder
	for _, table := range tables {
		rows, err := conn.Query(t.Context(), "SELECT t::text FROM "+pgx.Identifier{table}.Sanitize()+" t")
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		b.WriteString(strings.Join(lines, "\n"))
	}
	return b.String()
}

// A copy of the store has the tokens too.
func TestCopyHasTheTokens(t *testing.T) {
	t.Parallel()
	from, to := "sqlite://"+filepath.Join(t.TempDir(), "fleet.db"), pgtest.URL(t)
	p := start(t, "API_MODE=crud", "DATABASE_URL="+from, "SEED_FILE="+demoSeed)
	var issued struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(p.send("POST", "/tokens", `{"name":"poll","role":"poll","cluster_id":"demo-cluster-01"}`).body), &issued))
	p.Kill()
	code, _, stderr := invoke(t, "copy", "--from", from, "--to", to)
	require.Zero(t, code, stderr)
	reader := start(t, "DATABASE_URL="+to)
	reader.get(demoPolls+"namespaces", "Authorization", "Bearer "+issued.Token)
	require.Equal(t, 403, reader.send("GET", "/api/v2/flux/clusters", "", "Authorization", "Bearer "+issued.Token).status)
}
