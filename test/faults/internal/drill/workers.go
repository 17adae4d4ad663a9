package drill

import (
	"context"
	"fmt"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// startWriters runs writers until the returned function is called, which waits for them. Their names begin with prefix.
func (d *Drill) startWriters(ctx context.Context, prefix string) (stop func()) {
	return workers(ctx, func(ctx context.Context, wg *sync.WaitGroup) {
		for n := range writersPerRun {
			w := &writer{
				drill: d, name: fmt.Sprintf("%s%d", prefix, n), home: clusterID(1 + n%(clusters-1)),
				client: rig.NewClient(), rng: d.rng(uint64(100 + n)), pace: d.cfg.WritePace,
			}
			wg.Go(func() { w.run(ctx) })
		}
		if d.cfg.Incident != "" {
			return
		}
		extraWriter := func(name string, n int) *writer {
			return &writer{drill: d, name: prefix + name, home: clusterID(n), client: rig.NewClient(), rng: d.rng(uint64(200 + n)), pace: d.cfg.WritePace}
		}
		hangUps, revoked := extraWriter("hang-up", 2), extraWriter("revoked", 3)
		wg.Go(func() { hangUps.runHangUps(ctx) })
		wg.Go(func() { revoked.runRevocations(ctx) })
		if d.pipeline != nil {
			wg.Go(func() { d.runPipeline(ctx) })
		}
	})
}

// startPollers runs pollers of every process until the returned function is called, which waits for them.
func (d *Drill) startPollers(ctx context.Context) (stop func()) {
	return workers(ctx, func(ctx context.Context, wg *sync.WaitGroup) {
		routed := d.newRouter()
		for i, process := range d.processes {
			if d.cfg.Route == history.RouteAffinity {
				wg.Go(func() { routed.probe(ctx, i) })
			}
			for n := range pollersPerProcess {
				p := &poller{
					drill: d, process: process, router: routed, client: rig.NewClient(), rng: d.rng(uint64(1000 + 10*i + n)),
					pace: d.cfg.PollPace, known: map[int]string{},
				}
				if d.cfg.Route != "" {
					p.process = nil
				}
				wg.Go(func() { p.run(ctx) })
			}
		}
	})
}

func workers(ctx context.Context, start func(context.Context, *sync.WaitGroup)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	start(ctx, &wg)
	return func() {
		cancel()
		wg.Wait()
	}
}
