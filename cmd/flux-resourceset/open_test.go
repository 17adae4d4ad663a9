package main

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadOnlyProcessSeesWrites(t *testing.T) {
	t.Parallel()
	url := "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db")
	reader := start(t, url) // before there is a file
	require.Equal(t, 503, reader.send("GET", "/ready", "").status)
	require.Equal(t, 503, reader.send("GET", demoPolls+"namespaces", "").status)
	require.Equal(t, 200, reader.send("GET", "/health", "").status)

	writer := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	reader.eventually("/ready", 200)
	seeded := []string{"X-Fleet-Min-Revision", "1"} // there is a moment between the file and the seed, and a fleet of nothing is one
	require.Equal(t, writer.get(demoPolls+"platform-components", seeded...), reader.get(demoPolls+"platform-components", seeded...))

	patched := writer.send("PATCH", "/clusters/demo-cluster-01", `{"patches":{"podinfo":{"replicaCount":"7"}}}`)
	require.Equal(t, 200, patched.status, patched.body)
	revision := patched.header.Get("X-Fleet-Revision")
	require.Contains(t, reader.get(demoPolls+"platform-components", "X-Fleet-Min-Revision", revision), `"replicaCount":"7"`)

	writer.Kill()
	require.Contains(t, reader.get(demoPolls+"platform-components"), `"replicaCount":"7"`, "polls do not need the writer")
}

func TestKillLosesNoAcknowledgedChange(t *testing.T) {
	t.Parallel()
	url := "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db")
	reader := start(t, url, "SEED_FILE="+demoSeed)
	acknowledged := 0
	for round := range 3 {
		writer := start(t, url, "API_MODE=crud")
		var mu sync.Mutex
		var wg sync.WaitGroup
		enough := make(chan struct{})
		for worker := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("ns-%d-%d-%d", round, worker, i)
					if writer.send("POST", "/namespaces", `{"id":"`+id+`"}`).status != 201 {
						return
					}
					mu.Lock()
					acknowledged++
					if acknowledged == 60*(round+1) {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		writer.Kill()
		wg.Wait()
	}
	after := start(t, url, "API_MODE=crud")
	total, err := strconv.Atoi(after.send("GET", "/namespaces", "").header.Get("X-Total-Count"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, total, acknowledged+3, "the demo has three")
	revision := after.send("GET", "/namespaces", "").header.Get("X-Fleet-Revision")
	reader.get(demoPolls+"namespaces", "X-Fleet-Min-Revision", revision)
}

func TestSeedFillsOnlyNewStore(t *testing.T) {
	t.Parallel()
	url := "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db")
	p := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	require.Equal(t, 200, p.send("DELETE", "/clusters/demo-cluster-01?mode=orphan", "").status)
	p.Kill()
	p = start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	require.JSONEq(t, `[]`, p.get("/clusters"))
}

func TestSeedWithProblemsStopsTheStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		seed string
		want []string
	}{
		"malformed":     {`{"clusters":[`, []string{"not valid JSON"}},
		"not an object": {`[]`, []string{"must be a JSON object"}},
		"unknown list":  {`{"cluster":[]}`, []string{"/cluster: is not a list that a seed has"}},
		"unknown field": {`{"namespaces":[{"id":"a","label":{}}]}`, []string{"/namespaces/0/label: unknown field"}},
		"duplicate":     {`{"namespaces":[{"id":"a"},{"id":"a"}]}`, []string{"/namespaces/1: the namespace \"a\" exists already"}},
		"several problems": {
			`{"clusters":[{"_id":"c","cluster_dns":"c.example.com","environment":"moon","namespaces":[{"id":"gone"}]}],"namespaces":[{"id":"a","labels":{"x":"not ok!"}}]}`,
			[]string{"/clusters/0/environment: \"moon\"", "/clusters/0/namespaces/0/id: there is no namespace \"gone\"", "/namespaces/0/labels/x: label value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			seed, db := filepath.Join(dir, "seed.json"), filepath.Join(dir, "data", "fleet.db")
			require.NoError(t, os.WriteFile(seed, []byte(tc.seed), 0o600))
			for _, mode := range []string{"crud", "read-only"} {
				p := start(t, "API_MODE="+mode, "DATABASE_URL=sqlite://"+db, "SEED_FILE="+seed)
				require.Equal(t, 1, p.exit(), p.Log())
				for _, want := range tc.want {
					require.Contains(t, p.Log(), want)
				}
				require.NoFileExists(t, db)
			}
		})
	}
}

// writeReference writes a database file in the format of the Rust reference.
func writeReference(t *testing.T, cluster string) string {
	t.Helper()
	return writeReferenceOf(t, map[string][]string{
		"components":   {`{"_id":"podinfo","component_path":"podinfo","component_version":"latest","cluster_env_enabled":false,"oci_url":"https://stefanprodan.github.io/podinfo","oci_tag":"latest","depends_on":[]}`},
		"namespaces":   {`{"id":"podinfo","labels":{"app":"podinfo"},"annotations":{}}`},
		"rolebindings": {`{"id":"dev","role":"view","subjects":[{"kind":"Group","name":"dev","apiGroup":"rbac.authorization.k8s.io"}]}`},
		"clusters":     {cluster},
	})
}

// writeReferenceOf writes documents as the reference stores them.
func writeReferenceOf(t *testing.T, documents map[string][]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reference.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, table := range []string{"clusters", "components", "namespaces", "rolebindings"} {
		_, err := db.Exec("CREATE TABLE " + table + " (id TEXT PRIMARY KEY, data TEXT NOT NULL)")
		require.NoError(t, err)
	}
	for table, rows := range documents {
		for _, data := range rows {
			_, err := db.Exec("INSERT INTO "+table+" (id, data) SELECT coalesce(json_extract($1, '$._id'), json_extract($1, '$.id')), $1", data)
			require.NoError(t, err)
		}
	}
	require.NoError(t, db.Close())
	return path
}

func TestReferenceDatabaseServed(t *testing.T) {
	t.Parallel()
	path := writeReference(t, `{"_id":"c1","cluster_name":"c1","cluster_dns":"c1.example.com","environment":"dev","node_count":null,"vm_image":null,"k0s_version":null,
		"platform_components":[{"id":"podinfo","enabled":true,"oci_tag":null,"component_path":"edited/by/hand"}],
		"namespaces":[{"id":"podinfo"}],"rolebindings":[{"id":"dev"}],"patches":{"podinfo":{"replicaCount":"4"}}}`)
	url := "DATABASE_URL=sqlite://" + path
	p := start(t, url, "API_MODE=crud", "SEED_FILE="+demoSeed)
	polled := p.get("/api/v2/flux/clusters/c1.example.com/platform-components")
	require.Contains(t, polled, `"component_path":"edited/by/hand"`)
	require.Contains(t, polled, `"replicaCount":"4"`)
	require.Equal(t, 404, p.send("GET", demoPolls+"namespaces", "").status, "never seeded over")
	require.Contains(t, p.get("/revisions"), `"reason":"imported from the reference's database"`)
	require.Equal(t, 200, p.send("PATCH", "/clusters/c1", `{"patches":{"podinfo":{"replicaCount":"5"}}}`).status)
	p.Kill()
	p = start(t, url, "API_MODE=crud")
	require.Contains(t, p.get("/api/v2/flux/clusters/c1.example.com/platform-components"), `"replicaCount":"5"`, "imported once")
}

func TestInvalidReferenceDatabaseUnchanged(t *testing.T) {
	t.Parallel()
	path := writeReference(t, `{"_id":"c1","cluster_name":"c1","cluster_dns":"not a name","environment":"dev","platform_components":[],"namespaces":[],"rolebindings":[],"patches":{}}`)
	before := sum(t, path)
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+path)
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.Log(), "cluster/c1 /cluster_dns")
	require.Contains(t, p.Log(), "flux-resourceset import --from "+path)
	require.Equal(t, before, sum(t, path))
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	return sha256.Sum256(body)
}

func TestConcurrentStartsOnOneFile(t *testing.T) {
	t.Parallel()
	url := "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db")
	programs := make([]*program, 6)
	var wg sync.WaitGroup
	for i := range programs {
		mode := []string{"crud", "read-only"}[i%2]
		wg.Go(func() { programs[i] = start(t, url, "API_MODE="+mode, "SEED_FILE="+demoSeed) })
	}
	wg.Wait()
	var polls []string
	for _, p := range programs {
		require.NotEmpty(t, p.Base, p.Log())
		p.eventually("/ready", 200)
		polls = append(polls, p.get(demoPolls+"platform-components", "X-Fleet-Min-Revision", "1"))
	}
	for _, poll := range polls {
		require.Equal(t, polls[0], poll)
	}
	require.Equal(t, "1", programs[0].send("GET", "/clusters", "").header.Get("X-Fleet-Revision"), "seeded once")
}
