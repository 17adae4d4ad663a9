package drill

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/faults/internal/rig"
)

// router sends polls to processes as a balancer does.
type router struct {
	processes []*rig.Process
	affinity  bool

	mu     sync.Mutex
	ready  []bool
	chosen map[string]int // DNS name of a cluster -> its process
}

// probeEvery is how often a router asks whether a process is ready. Kubernetes does it every few seconds; the answers of a process
// that is not ready any more are errors until then, in both cases.
const probeEvery = 200 * time.Millisecond

func (d *Drill) newRouter() *router {
	r := &router{processes: d.processes, affinity: d.cfg.Route == history.RouteAffinity, ready: make([]bool, len(d.processes)), chosen: map[string]int{}}
	for i := range r.ready {
		r.ready[i] = true
	}
	return r
}

// probe asks one process whether it is ready until ctx ends.
func (r *router) probe(ctx context.Context, i int) {
	c := rig.NewClient()
	for rig.Rest(ctx, probeEvery) {
		is := false
		if running := r.processes[i].Running(); running != nil {
			asking, cancel := context.WithTimeout(ctx, 5*probeEvery)
			is = c.Send(asking, running.Base, http.MethodGet, "/ready?for=polls", nil).Status == http.StatusOK
			cancel()
		}
		r.mu.Lock()
		r.ready[i] = is
		r.mu.Unlock()
	}
}

// pick is the process that a poll of a cluster is sent to. With affinity a cluster stays with its process, and goes to the next
// one that is ready when its own is not.
func (r *router) pick(dns string, rng *rand.Rand) *rig.Process {
	if !r.affinity {
		return r.processes[rng.IntN(len(r.processes))]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i, known := r.chosen[dns]
	if !known {
		h := fnv.New32a()
		_, _ = h.Write([]byte(dns)) // it never fails
		i = int(h.Sum32() % uint32(len(r.processes)))
	}
	for n := range r.processes {
		if next := (i + n) % len(r.processes); r.ready[next] {
			i = next
			break
		}
	}
	r.chosen[dns] = i
	return r.processes[i]
}
