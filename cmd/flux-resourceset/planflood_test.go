package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
)

// Clients with a read token request thirty plans at a time, each with a different effect on each of 2,000 clusters.
// Changes still pass, and the process stays below 640 MiB in a container of that size. Outside a container it has no
// such limit: there the garbage collector falls behind on a busy machine.
func TestPlanFlood(t *testing.T) {
	t.Parallel()
	const (
		clusters    = 2_000
		connections = 30
		most        = 640 << 20
	)
	seed := filepath.Join(t.TempDir(), "seed.json")
	f, err := os.Create(seed)
	require.NoError(t, err)
	require.NoError(t, bench.Realistic(clusters).WriteSeed(f))
	require.NoError(t, f.Close())
	p := start(t, "API_MODE=crud", "DATABASE_URL=sqlite://"+filepath.Join(t.TempDir(), "fleet.db"), "SEED_FILE="+seed,
		fmt.Sprintf("GOMEMLIMIT=%.0f", most*memoryRatio))
	p.eventually("/ready", http.StatusOK)
	idle := p.peakMemory()

	var statuses sync.Map
	var planned, underWay atomic.Int64
	var flood sync.WaitGroup
	stop := make(chan struct{})
	for i := range connections {
		flood.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"operations":[{"op":"patch_values","all":true,"component_id":%q,"values":{"ingress.hosts[0].host":"flood-%d-%d"}},
					{"op":"set_component","all":true,"component_id":%q,"oci_tag":"v%d.%d.0"}]}`, bench.ComponentID(0), i, n, bench.ComponentID(1), i, n)
				underWay.Add(1)
				a := p.send(http.MethodPost, "/plan", body, "Authorization", "Bearer "+readToken)
				underWay.Add(-1)
				count, _ := statuses.LoadOrStore(a.status, new(atomic.Int64))
				count.(*atomic.Int64).Add(1)
				switch a.status {
				case http.StatusOK:
					planned.Add(1)
				case http.StatusTooManyRequests: // an enemy that only makes itself busy proves nothing
					select {
					case <-stop:
					case <-time.After(100 * time.Millisecond):
					}
				}
			}
		})
	}
	require.Eventually(t, func() bool { return planned.Load() > 0 }, waitFor, tick)
	for i := range 3 {
		began, before := time.Now(), planned.Load()
		op := fmt.Sprintf(`{"operations":[{"op":"set_component","all":true,"component_id":%q,"oci_tag":"batch-%d"}]}`, bench.ComponentID(7), i)
		require.Eventually(t, func() bool { // a disk that is busy with something else may make it 503, which is to be tried again
			a := p.send(http.MethodPost, "/batch", op)
			require.Contains(t, []int{http.StatusOK, http.StatusServiceUnavailable}, a.status, "%s", a.body)
			return a.status == http.StatusOK
		}, 5*waitFor, tick)
		t.Logf("a batch over %d clusters took %s; plans meanwhile: %d made, %d under way", clusters, time.Since(began).Round(time.Millisecond), planned.Load()-before, underWay.Load())
		require.Positive(t, underWay.Load())
	}
	close(stop)
	flood.Wait()
	peak := p.peakMemory()
	statuses.Range(func(status, count any) bool { t.Logf("%d: %d", status, count.(*atomic.Int64).Load()); return true })
	t.Logf("memory: %d MiB at first, %d MiB at most", idle>>20, peak>>20)
	require.Less(t, peak, most)
}
