package drill

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// router distributes polls over processes as a load balancer does.
type router struct {
	processes []*rig.Process
	affinity  bool
	every     time.Duration // between two probes

	mu     sync.Mutex
	ready  []bool
	chosen map[string]int // DNS name of a cluster -> its process
}

// probeEvery is, unless the run is an incident, the interval of readiness probes. Kubernetes probes every few seconds; until a probe fails, polls to a
// process that is no longer ready are answered with errors, in both cases.
const probeEvery = 200 * time.Millisecond

func (d *Drill) newRouter() *router {
	r := &router{processes: d.processes, affinity: d.cfg.Route == history.RouteAffinity, every: probeEvery, chosen: map[string]int{}}
	if d.cfg.Incident != "" {
		r.every = endpointProbe
		if d.cfg.Store == rig.StorePostgres {
			r.processes = slices.DeleteFunc(slices.Clone(d.processes), func(p *rig.Process) bool { return p.Mode != rig.ReadOnly })
		}
	}
	r.ready = make([]bool, len(r.processes))
	for i := range r.ready {
		r.ready[i] = true
	}
	return r
}

// probe probes the readiness of one process until ctx ends.
func (r *router) probe(ctx context.Context, i int) {
	c := rig.NewClient()
	for rig.Rest(ctx, r.every) {
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

// pick chooses the process for a poll. With affinity a cluster stays with its process, and moves to the next ready one
// if its own is not ready.
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
