package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A change that cannot be written to the log is not made.
func TestNoChangeWithoutItsLog(t *testing.T) {
	t.Parallel()
	for backend, refuse := range map[string]func(table string) (on, off string){
		"sqlite": func(table string) (string, string) {
			return "CREATE TRIGGER refuse BEFORE INSERT ON " + table + " BEGIN SELECT RAISE(ABORT, 'the log is full'); END", "DROP TRIGGER refuse"
		},
		"postgres": func(table string) (string, string) {
			return "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the log is full'; END $$;" +
				"CREATE TRIGGER refuse BEFORE INSERT ON " + table + " FOR EACH ROW EXECUTE FUNCTION refuse()", "DROP FUNCTION refuse CASCADE"
		},
	} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			url, exec := backends()[backend](t)
			p := start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed)
			before := p.get(demoPolls + "namespaces")
			for _, table := range []string{"commits", "changes"} {
				on, off := refuse(table)
				exec(on)
				require.GreaterOrEqual(t, p.send("POST", "/namespaces", `{"id":"unlogged"}`).status, 500, table)
				require.GreaterOrEqual(t, p.send("DELETE", "/clusters/demo-cluster-01", "").status, 500, table)
				exec(off)
				require.Equal(t, before, p.get(demoPolls+"namespaces"), table)
				require.Equal(t, http.StatusNotFound, p.send("GET", "/namespaces/unlogged", "").status, table)
			}
			require.Equal(t, http.StatusCreated, p.send("POST", "/namespaces", `{"id":"logged"}`).status)
		})
	}
}

// SIGTERM during writes and polls: answers are complete, and acknowledged changes persist.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	settings := []string{"API_MODE=crud", "DATABASE_URL=sqlite://" + filepath.Join(t.TempDir(), "fleet.db"), "SEED_FILE=" + demoSeed}
	p := start(t, settings...)
	var (
		wg           sync.WaitGroup
		mu           sync.Mutex
		acknowledged []string
		polls        atomic.Int64
	)
	whole := p.get(demoPolls + "rolebindings")
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("n-%d-%d", w, i)
				switch p.send("POST", "/namespaces", `{"id":"`+id+`"}`).status {
				case 0:
					return // nobody answers any more
				case http.StatusCreated:
					mu.Lock()
					acknowledged = append(acknowledged, id)
					mu.Unlock()
				}
			}
		})
		wg.Go(func() {
			for {
				got := p.send("GET", demoPolls+"rolebindings", "")
				if got.status == 0 {
					return
				}
				if got.status != http.StatusOK || got.body != whole {
					t.Errorf("a poll while stopping: %d %s", got.status, got.body)
				}
				polls.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) > 100 && polls.Load() > 100
	}, waitFor, tick)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit(), p.Log())
	wg.Wait()
	again := start(t, settings...)
	for _, id := range acknowledged {
		require.Equal(t, http.StatusOK, again.send("GET", "/namespaces/"+id, "").status, id)
	}
}
