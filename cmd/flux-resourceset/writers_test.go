package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sixty-four writers change one cluster at the same time, through every process that takes changes. Every
// acknowledged change exists in the end.
func TestManyWritersOneCluster(t *testing.T) {
	t.Parallel()
	const writers = 64
	for backend, processes := range map[string]int{"postgres": 2, "sqlite": 1} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			url, _ := backends()[backend](t)
			var crud []*program
			for range processes {
				crud = append(crud, start(t, "API_MODE=crud", "DATABASE_URL="+url, "SEED_FILE="+demoSeed))
			}
			reader := start(t, "DATABASE_URL="+url)
			const cluster = "/clusters/demo-cluster-01"
			require.Equal(t, 200, crud[0].send("PATCH", cluster, `{"patches":{"podinfo":{"replicaCount":"0"}}}`).status)

			all := func(do func(i int, p *program) error) {
				t.Helper()
				failed := make(chan error, writers)
				var wg sync.WaitGroup
				for i := range writers {
					wg.Go(func() {
						if err := do(i, crud[i%processes]); err != nil {
							failed <- err
						}
					})
				}
				wg.Wait()
				close(failed)
				for err := range failed {
					t.Error(err)
				}
			}

			// Each increments a number with If-Match, so no increment is lost.
			var conflicts sync.Map
			all(func(i int, p *program) error {
				for {
					seen := p.send("GET", cluster, "")
					var doc clusterDocument
					if err := json.Unmarshal([]byte(seen.body), &doc); err != nil {
						return fmt.Errorf("%s: %w", seen.body, err)
					}
					n, err := strconv.Atoi(doc.Patches["podinfo"]["replicaCount"])
					if err != nil {
						return err
					}
					a := p.send("PATCH", cluster, fmt.Sprintf(`{"patches":{"podinfo":{"replicaCount":"%d"}}}`, n+1), "If-Match", seen.header.Get("ETag"))
					switch a.status {
					case 200:
						return nil
					case 412:
						conflicts.Store(i, true)
					case 503: // too many were faster: nothing was changed
					default:
						return fmt.Errorf("%d %s", a.status, a.body)
					}
				}
			})
			// Each assigns a thing of its own, without a condition.
			all(func(i int, p *program) error {
				id := fmt.Sprintf("ns-%02d", i)
				if a := p.insist("POST", "/namespaces", `{"id":"`+id+`"}`); a.status != 201 {
					return fmt.Errorf("%d %s", a.status, a.body)
				}
				if a := p.insist("PUT", cluster+"/namespaces/"+id, ""); a.status != 200 {
					return fmt.Errorf("%d %s", a.status, a.body)
				}
				return nil
			})

			var revision int
			for _, p := range crud {
				at, err := strconv.Atoi(p.send("GET", cluster, "").header.Get("X-Fleet-Revision"))
				require.NoError(t, err)
				revision = max(revision, at)
			}
			require.Equal(t, 1+1+writers+2*writers, revision, "each change is one revision")
			for _, p := range append(crud, reader) {
				list := p.get(demoPolls+"namespaces", "X-Fleet-Min-Revision", strconv.Itoa(revision))
				for i := range writers {
					require.Contains(t, list, fmt.Sprintf(`"ns-%02d"`, i))
				}
				components := p.get(demoPolls + "platform-components")
				require.Contains(t, components, fmt.Sprintf(`"replicaCount":"%d"`, writers))
			}
			contended := 0
			conflicts.Range(func(any, any) bool { contended++; return true })
			require.Positive(t, contended, "they met")
		})
	}
}

type clusterDocument struct {
	Patches map[string]map[string]string
}
