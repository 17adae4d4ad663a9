package attack

import (
	"net/http"
	"os/exec"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// A shorter history replaces that of the database.
var failovers = []Attack{
	{"lagging-standby", "the primary is lost with commits that its standby never got, and the standby takes over", (*env).laggingStandby},
}

func (a *env) laggingStandby() {
	pg, crud, reads := a.replicas(fleetOf{clusters: 1, namespaces: 3}, []string{"MAX_STALENESS=1m"}, "read-1", "read-2")
	late := a.process(rig.Config{Name: "crud-2", Database: pg.URL("late")})

	if err := pg.Follow(a.ctx); err != nil {
		a.fail("a standby: %w", err)
	}
	had := a.setLabel(crud, "on-the-standby")
	a.waitFor("the standby has it", func() bool { return a.revisionAt(pg.Standby.URL(pg.Database())) == had })
	pg.Part()
	var newest int64
	for n := range 10 {
		newest = a.setLabel(crud, n)
	}
	for _, p := range reads {
		a.waitForRevision(p, newest)
	}

	if err := pg.FailOver(a.ctx); err != nil {
		a.fail("%w", err)
	}
	a.sleep(4 * time.Second) // all processes have seen the other history
	reads[1].Kill()
	a.restart(reads[1])
	a.restart(late)
	a.sleep(2 * time.Second)
	a.pollRoundRobin(60, "polls went back", crud, reads[0], reads[1], late)
	for n := range 5 {
		for _, p := range []*rig.Process{crud, late} {
			got := a.send(p, http.MethodPatch, "/clusters/c0", object{"labels": object{"v": "after", "n": p.Name + namespaceID(n)}})
			a.count(got.OK(), "writes were taken on top of a history that nobody accepted")
		}
	}
	for _, p := range []*rig.Process{crud, reads[0], reads[1], late} {
		a.notef("%s: poll %d, /ready says ok: %t", p.Name, a.poll(p, dns(0)).Status, a.isReady(p))
	}

	accept := exec.CommandContext(a.ctx, a.cfg.Binary, "accept", "--yes") //nolint:gosec // the program under attack
	accept.Env = []string{"DATABASE_URL=" + pg.Server.URL(pg.Database())}
	if output, err := accept.CombinedOutput(); err != nil {
		a.notef("accept --yes: %v: %s", err, output)
	}
	revision := a.revisionAt(pg.Server.URL(pg.Database()))
	for _, p := range []*rig.Process{crud, reads[0], reads[1], late} {
		a.count(!a.eventually(20*time.Second, func() bool {
			got := a.poll(p, dns(0))
			return got.Status == http.StatusOK && got.Revision == revision
		}), "processes did not go on after `accept --yes`")
	}
}

// revisionAt returns the head of a database, 0 if it cannot be read.
func (a *env) revisionAt(database string) (revision int64) {
	_ = rig.Query(a.ctx, database, "SELECT revision FROM head", &revision) // 0 on an error
	return revision
}
