package attack

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// The emergency stop.
var freezes = []Attack{
	{"freeze-all", "hundreds of clients write through two processes while all clusters are frozen by one of them", (*env).freezeAll},
}

const (
	freezeWriters = 300
	freezePollers = 8
	freezePhase   = 2 * time.Second // between the start and the end of a freeze, and before the next one
)

// freezeLoad records the results of the clients of the attack.
type freezeLoad struct {
	*env
	processes []*rig.Process
	stop      chan struct{}
	frozen    atomic.Bool

	mu      sync.Mutex
	acked   []time.Time
	latency map[bool][]time.Duration // of polls; true: during a freeze
}

func (a *env) freezeAll() {
	pg := a.postgres("crud-1", "crud-2")
	l := &freezeLoad{env: a, stop: make(chan struct{}), latency: map[bool][]time.Duration{}}
	seed := a.seed(fleetOf{clusters: freezeWriters, namespaces: 3})
	for _, name := range []string{"crud-1", "crud-2"} {
		p := a.start(rig.Config{Name: name, Database: pg.URL(name), Seed: seed})
		a.waitForPolls(p)
		l.processes = append(l.processes, p)
	}
	var all sync.WaitGroup
	for n := range freezeWriters {
		all.Go(func() { l.write(n) })
	}
	for n := range freezePollers {
		all.Go(func() { l.poll(n) })
	}
	for round := range 4 {
		l.round(l.processes[round%2], l.processes[1-round%2])
	}
	close(l.stop)
	all.Wait()
	l.checkLog(pg)
	for frozen, name := range map[bool]string{false: "without", true: "during"} {
		slices.Sort(l.latency[frozen])
		n := len(l.latency[frozen])
		a.notef("%d polls %s freezes, half of them within %s, 99 %% within %s", n, name, l.latency[frozen][n/2], l.latency[frozen][n*99/100])
	}
}

// ended reports whether the clients must stop.
func (l *freezeLoad) ended() bool {
	select {
	case <-l.stop:
		return true
	default:
		return l.ctx.Err() != nil
	}
}

// write changes the answers to one cluster again and again.
func (l *freezeLoad) write(n int) {
	own := rig.NewClient()
	for i := n; !l.ended(); i++ {
		got := own.Send(l.ctx, l.processes[i%2].Running().Base, http.MethodPatch, "/clusters/"+clusterID(n), fmt.Appendf(nil, `{"patches":{"app":{"v":"%d"}}}`, i))
		if !got.OK() {
			l.sleep(50 * time.Millisecond)
			continue
		}
		l.mu.Lock()
		l.acked = append(l.acked, time.Now())
		l.mu.Unlock()
	}
}

// poll polls all clusters in turn.
func (l *freezeLoad) poll(n int) {
	own := rig.NewClient()
	for i := n; !l.ended(); i++ {
		began, frozen := time.Now(), l.frozen.Load()
		got := own.Send(l.ctx, l.processes[i%2].Running().Base, http.MethodGet, "/api/v2/flux/clusters/"+dns(i%freezeWriters)+"/platform-components", nil)
		l.count(!got.OK(), "polls failed")
		l.mu.Lock()
		l.latency[frozen] = append(l.latency[frozen], time.Since(began))
		l.mu.Unlock()
		l.sleep(10 * time.Millisecond)
	}
}

// acknowledged returns the number of acknowledged changes, and the time of the last one.
func (l *freezeLoad) acknowledged() (n int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n = len(l.acked); n > 0 {
		last = l.acked[n-1]
	}
	return n, last
}

// round freezes all clusters by one process, and ends the freeze by the other.
func (l *freezeLoad) round(by, other *rig.Process) {
	l.sleep(freezePhase)
	sent := time.Now()
	l.mustSend(by, http.MethodPost, "/freezes", `{"id":"all","all":true,"reason":"attack"}`)
	answered := time.Now()
	l.frozen.Store(true)
	l.sleep(freezePhase)
	n, last := l.acknowledged()
	l.count(last.After(sent.Add(time.Second)), "changes were acknowledged more than a second after a freeze was sent")
	l.notef("the freeze was acknowledged after %s, and the last change %s after the freeze was sent", answered.Sub(sent).Round(time.Millisecond), last.Sub(sent).Round(time.Millisecond))
	l.mustSend(other, http.MethodDelete, "/freezes/all", nil)
	l.frozen.Store(false)
	l.count(!l.eventually(freezePhase, func() bool { now, _ := l.acknowledged(); return now > n }), "no writer continued after the end of a freeze")
}

// checkLog counts the changes that were committed during a freeze.
func (l *freezeLoad) checkLog(pg *rig.Postgres) {
	s, err := pg.Open(l.ctx)
	if err != nil {
		l.fail("%w", err)
	}
	defer func() { _ = s.Close() }()
	frozen := false
	for head := (fleet.Head{}); ; {
		commits, err := s.Since(l.ctx, head, 500)
		switch {
		case err != nil:
			l.fail("%w", err)
		case len(commits) == 0:
			return
		}
		for _, c := range commits {
			for _, ch := range c.Changes {
				if ch.Kind == fleet.KindFreeze {
					frozen = ch.After != nil
				} else {
					l.count(frozen, "changes were committed during a freeze")
				}
			}
		}
		head = commits[len(commits)-1].Head()
	}
}
