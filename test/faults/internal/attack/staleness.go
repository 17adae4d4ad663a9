package attack

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Copies that are not the newest. If a poll is answered from an older copy after one from a newer copy, Flux deletes the
// objects that it has just created. An error would be harmless.
var staleness = []Attack{
	{"cut-off-replica", "a replica is cut off from the database for longer than MAX_STALENESS, and polls go to it and to another in turns", (*env).cutOffReplica},
	{"paused-replica", "a replica is stopped for longer than MAX_STALENESS and goes on with polls in its backlog", (*env).pausedReplica},
	{"killed-with-state", "a replica with a STATE_DIR is killed and starts again while the database is away", (*env).killedWithState},
	{"restarted-while-cut-off", "a replica that refuses polls, because it is cut off from the database, is killed and starts again from its file", (*env).restartedWhileCutOff},
	{"old-state-file", "a replica starts from a file that is older than STATE_MAX_AGE, while the database is away", (*env).oldStateFile},
	{"revoked-token-from-state", "a replica that knew of a revocation is killed and starts from its file, while the database is away", (*env).revokedTokenFromState},
}

// maxStaleness is the MAX_STALENESS of the attacked replicas.
const maxStaleness = 2 * time.Second

// replicas starts one process in mode crud and several read-only ones. The database has one more proxy, "late".
func (a *env) replicas(f fleetOf, settings []string, names ...string) (pg *rig.Postgres, crud *rig.Process, reads []*rig.Process) {
	pg = a.postgres(append([]string{"crud-1", "late"}, names...)...)
	crud = a.start(rig.Config{Name: "crud-1", Database: pg.URL("crud-1"), Seed: a.seed(f)})
	a.waitForPolls(crud)
	for _, name := range names {
		reads = append(reads, a.start(rig.Config{Name: name, Mode: rig.ReadOnly, Database: pg.URL(name), Settings: settings}))
	}
	a.waitForPolls(reads...)
	return pg, crud, reads
}

// pollRoundRobin polls the processes in turn, as a load balancer does, and counts answers with an older revision than an
// earlier answer. Only answers with status 200 count.
func (a *env) pollRoundRobin(times int, what string, processes ...*rig.Process) {
	newest := int64(-1)
	for n := range times {
		got := a.poll(processes[n%len(processes)], dns(0))
		a.count(got.Status == http.StatusOK && got.Revision < newest, what)
		if got.Status == http.StatusOK {
			newest = max(newest, got.Revision)
		}
		a.sleep(5 * time.Millisecond)
	}
}

// setLabel makes a change and returns its revision, which followers can be asked for.
func (a *env) setLabel(p *rig.Process, v any) int64 {
	return a.mustSend(p, http.MethodPatch, "/clusters/c0", object{"labels": object{"v": fmt.Sprint(v)}}).Revision
}

func disconnect(p *testrig.Proxy, how testrig.Trouble) {
	p.Set(how)
	if how.Refuse {
		p.Cut()
	}
}

func (a *env) cutOffReplica() {
	pg, crud, reads := a.replicas(fleetOf{clusters: 1, namespaces: 3}, []string{"MAX_STALENESS=" + maxStaleness.String()}, "read-1", "read-2")
	for _, how := range []testrig.Trouble{{Refuse: true}, {Silent: true}} {
		disconnect(pg.Proxies["read-2"], how)
		a.waitForRevision(reads[0], a.setLabel(crud, time.Now().UnixNano()))
		a.sleep(2 * maxStaleness)
		a.pollRoundRobin(60, "polls went back", reads...)
		for range 5 {
			a.count(a.isReady(reads[1]), "/ready said ok at the replica that is out of date")
		}
		pg.Proxies["read-2"].Set(testrig.Trouble{})
		newest := a.setLabel(crud, time.Now().UnixNano())
		a.count(!a.eventually(30*time.Second, func() bool {
			got := a.poll(reads[1], dns(0))
			return got.Status == http.StatusOK && got.Revision >= newest
		}), "replicas did not come back when the network did")
	}
}

func (a *env) pausedReplica() {
	_, crud, reads := a.replicas(fleetOf{clusters: 1, namespaces: 3}, []string{"MAX_STALENESS=" + maxStaleness.String()}, "read-1", "read-2")
	for n := range 5 {
		resume := reads[1].Pause()
		if resume == nil {
			a.fail("read-2 does not run")
		}
		newest := a.setLabel(crud, n)
		a.waitForRevision(reads[0], newest)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				got := rig.NewClient().Send(a.ctx, reads[1].Running().Base, http.MethodGet, "/api/v2/flux/clusters/"+dns(0)+"/namespaces", nil)
				a.count(got.Status == http.StatusOK && got.Revision < newest, "polls went back")
			})
		}
		a.sleep(2 * maxStaleness)
		resume()
		wg.Wait()
	}
}

// stateDir returns the settings of a process with a state directory.
func (a *env) stateDir(more ...string) []string {
	return append([]string{"STATE_DIR=" + filepath.Join(a.cfg.Dir, "state"), "MAX_STALENESS=1m"}, more...)
}

func (a *env) killedWithState() {
	pg, crud, reads := a.replicas(fleetOf{clusters: 1, namespaces: 3}, a.stateDir(), "read-1")
	p, proxy := reads[0], pg.Proxies["read-1"]
	answered := 0
	for n := range 20 {
		newest := a.setLabel(crud, n)
		a.waitForRevision(p, newest)
		disconnect(proxy, testrig.Trouble{Refuse: true})
		p.Kill()
		a.restart(p)
		back := false
		a.eventually(300*time.Millisecond, func() bool {
			got := a.poll(p, dns(0))
			back = back || got.Status == http.StatusOK && got.Revision < newest
			if got.Status == http.StatusOK {
				answered++
			}
			return got.Status == http.StatusOK
		})
		a.count(back, "polls went back over a kill")
		proxy.Set(testrig.Trouble{})
		a.waitForRevision(p, newest)
	}
	a.notef("%d of 20 starts answered from disk", min(answered, 20))
}

// restartedWhileCutOff checks that a restart does not reset the age of an old copy.
func (a *env) restartedWhileCutOff() {
	settings := a.stateDir("MAX_STALENESS=" + maxStaleness.String())
	pg, crud, reads := a.replicas(fleetOf{clusters: 1, namespaces: 3}, settings, "read-1")
	p, proxy := reads[0], pg.Proxies["read-1"]
	for n := range 5 {
		a.waitForRevision(p, a.setLabel(crud, n))
		a.waitFor("there is a whole file", func() bool {
			_, err := os.Stat(filepath.Join(a.cfg.Dir, "state", "last-good.state"))
			return err == nil
		})
		disconnect(proxy, testrig.Trouble{Refuse: true})
		a.setLabel(crud, fmt.Sprint(n, "-later"))
		a.waitFor("it refuses polls", func() bool { return a.poll(p, dns(0)).Status == http.StatusServiceUnavailable })
		p.Kill()
		a.restart(p)
		for range 10 {
			a.count(a.poll(p, dns(0)).Status == http.StatusOK, "polls were answered from a copy that was too old before the restart")
			a.count(a.isReady(p), "/ready said ok")
			a.sleep(10 * time.Millisecond)
		}
		proxy.Set(testrig.Trouble{})
	}
}

func (a *env) oldStateFile() {
	pg, crud, reads := a.replicas(fleetOf{clusters: 1, namespaces: 3}, a.stateDir("STATE_MAX_AGE=2s", "MAX_STALENESS=2s"), "read-1")
	p, proxy := reads[0], pg.Proxies["read-1"]
	a.waitFor("there is a whole file", func() bool {
		files, err := filepath.Glob(filepath.Join(a.cfg.Dir, "state", "*"))
		return err == nil && slices.ContainsFunc(files, func(f string) bool {
			info, err := os.Stat(f)
			return err == nil && !strings.HasSuffix(f, ".tmp") && info.Size() > 0
		})
	})
	p.Kill()
	disconnect(proxy, testrig.Trouble{Refuse: true})
	a.setLabel(crud, "later")
	a.sleep(5 * time.Second)
	a.restart(p)
	for range 20 {
		a.count(a.poll(p, dns(0)).Status == http.StatusOK, "polls were answered from a file that is too old")
		a.sleep(20 * time.Millisecond)
	}
}

func (a *env) revokedTokenFromState() {
	pg, crud, reads := a.replicas(fleetOf{clusters: 1, namespaces: 3}, a.stateDir(), "read-1")
	p, proxy := reads[0], pg.Proxies["read-1"]
	for n := range 5 {
		id, secret := a.token(crud, object{"name": fmt.Sprintf("t%d", n), "role": "read"})
		works := func() bool {
			return a.poll(p, dns(0), "Authorization", "Bearer "+secret).Status == http.StatusOK
		}
		a.waitFor("the token works", works)
		p.Kill() // the restarted process knows the token, and writes its file
		a.restart(p)
		a.waitFor("the token works again", works)
		revoked := a.mustSend(crud, http.MethodDelete, "/tokens/"+id, nil).Revision
		a.waitForRevision(p, revoked)
		a.count(works(), "a revoked token worked")
		disconnect(proxy, testrig.Trouble{Refuse: true})
		p.Kill()
		a.restart(p)
		again := a.eventually(300*time.Millisecond, works)
		a.count(again, "a token whose revocation the replica had known worked again")
		proxy.Set(testrig.Trouble{})
		a.waitForRevision(p, revoked)
	}
}
