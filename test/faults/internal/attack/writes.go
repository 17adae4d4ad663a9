package attack

import (
	"net/http"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Writes to a process whose copy of the fleet is not the newest.
var writes = []Attack{
	{
		"opposite-writes", "one client takes a namespace away through one process and gives it back through another at once",
		(*env).oppositeWrites,
	},
	{"create-then-assign", "a namespace is made through one process and assigned through another at once", (*env).createThenAssign},
	{"stale-if-match", "If-Match is held against a copy that is not the newest", (*env).staleIfMatch},
	{"cut-off-write", "a process that is cut off from the database is asked to write", (*env).cutOffWrite},
	{"unknown-then-undo", "a change whose outcome is unknown is undone while its COMMIT is still under way", (*env).unknownThenUndo},
}

// twoWriters starts two processes in mode crud on one database.
func (a *env) twoWriters(f fleetOf) (pg *rig.Postgres, one, other *rig.Process) {
	pg = a.postgres("crud-1", "crud-2")
	seed := a.seed(f)
	one = a.start(rig.Config{Name: "crud-1", Database: pg.URL("crud-1"), Seed: seed})
	a.waitForPolls(one)
	other = a.start(rig.Config{Name: "crud-2", Database: pg.URL("crud-2"), Seed: seed})
	a.waitForPolls(other)
	return pg, one, other
}

func (a *env) oppositeWrites() {
	_, one, other := a.twoWriters(fleetOf{clusters: 1, namespaces: 2})
	const path = "/clusters/c0/namespaces/n0"
	for n := range 200 {
		away := a.send(one, http.MethodDelete, path, nil)
		back := a.send(other, http.MethodPut, path, nil)
		if !away.OK() || !back.OK() {
			a.count(true, "writes were refused")
			continue
		}
		revision := max(away.Revision, back.Revision)
		lost := !a.getCluster(one, "c0", revision).has("n0")
		a.count(lost, "acknowledged no-ops were lost")
		if lost {
			fixed := a.mustSend(one, http.MethodPut, path, nil)
			revision = fixed.Revision
		}
		// Both processes have it, so the next round starts from the same state.
		a.waitForRevision(one, revision)
		a.waitForRevision(other, revision)
		if n%2 == 1 {
			one, other = other, one
		}
	}
}

func (a *env) createThenAssign() {
	_, one, other := a.twoWriters(fleetOf{clusters: 1, namespaces: 1})
	for n := range 50 {
		id := "new-" + namespaceID(n)
		a.mustSend(one, http.MethodPost, "/namespaces", object{"id": id})
		got := a.send(other, http.MethodPut, "/clusters/c0/namespaces/"+id, nil)
		a.count(got.Status != http.StatusOK, "assignments of what had just been made were refused")
		if got.OK() {
			a.waitForRevision(one, got.Revision)
		}
	}
}

func (a *env) staleIfMatch() {
	_, one, other := a.twoWriters(fleetOf{clusters: 1, namespaces: 1})
	label := func(v string) object { return object{"labels": object{"v": v}} }
	first := a.mustSend(one, http.MethodPatch, "/clusters/c0", label("old"))
	a.waitForRevision(other, first.Revision)
	for range 50 {
		before := a.mustSend(one, http.MethodGet, "/clusters/c0", nil)
		after := a.mustSend(one, http.MethodPatch, "/clusters/c0", label("new"))
		// In an older copy this change would be a no-op.
		got := a.send(other, http.MethodPatch, "/clusters/c0", label("old"), "If-Match", before.ETag)
		a.count(got.Status != http.StatusPreconditionFailed, "stale ETags passed")
		now := a.send(one, http.MethodPatch, "/clusters/c0", label("newer"), "If-Match", after.ETag)
		got = a.send(other, http.MethodPatch, "/clusters/c0", label("old"), "If-Match", now.ETag)
		a.count(got.Status != http.StatusOK, "the newest ETags were refused")
		last := a.mustSend(one, http.MethodPatch, "/clusters/c0", label("old"))
		a.waitForRevision(one, max(last.Revision, got.Revision))
		a.waitForRevision(other, max(last.Revision, got.Revision))
	}
}

func (a *env) cutOffWrite() {
	pg, one, other := a.twoWriters(fleetOf{clusters: 1, namespaces: 1})
	for round, trouble := range []testrig.Trouble{{Refuse: true}, {Silent: true}} {
		pg.Proxies["crud-2"].Set(trouble)
		if trouble.Refuse {
			pg.Proxies["crud-2"].Cut()
		}
		// After these changes the copy of crud-2 is outdated.
		id := "behind-its-back-" + namespaceID(round)
		a.mustSend(one, http.MethodPost, "/namespaces", object{"id": id})
		a.mustSend(one, http.MethodDelete, "/clusters/c0/namespaces/n0", nil)
		for range 5 {
			got := a.send(other, http.MethodPut, "/clusters/c0/namespaces/n0", nil)
			a.count(got.OK(), "writes were acknowledged by a process that cannot reach the database")
			got = a.send(other, http.MethodPut, "/clusters/c0/namespaces/"+id, nil)
			a.count(got.Status == http.StatusNotFound, "writes were refused for what the database does have")
			a.sleep(200 * time.Millisecond)
		}
		pg.Proxies["crud-2"].Set(testrig.Trouble{})
		var last rig.Answer
		a.count(!a.eventually(20*time.Second, func() bool {
			last = a.send(other, http.MethodPut, "/clusters/c0/namespaces/n0", nil)
			return last.OK()
		}), "processes did not take writes again when the network was back")
		a.waitForRevision(one, last.Revision)
		a.waitForRevision(other, last.Revision)
	}
}

func (a *env) unknownThenUndo() {
	pg := a.postgres("crud-1")
	p := a.start(rig.Config{Name: "crud-1", Database: pg.URL("crud-1"), Seed: a.seed(fleetOf{clusters: 1, namespaces: 2})})
	a.waitForPolls(p)
	proxy := pg.Proxies["crud-1"]
	const path = "/clusters/c0/namespaces/n0"
	a.mustSend(p, http.MethodDelete, path, nil)
	// Longer than the server looks for the outcome, shorter than the database's limit for a transaction without COMMIT.
	const lateness = 4 * time.Second
	for range 5 {
		cut := make(chan struct{}, 1)
		proxy.Set(testrig.Trouble{Commit: func(c *testrig.Conn, message []byte) {
			proxy.Set(testrig.Trouble{Refuse: true})
			c.DropClient()
			proxy.Cut()
			cut <- struct{}{}
			testrig.LateCommit(lateness)(c, message)
		}})
		put := a.send(p, http.MethodPut, path, nil)
		select {
		case <-cut:
		default:
			a.fail("no COMMIT was seen: %d %s", put.Status, put.Body)
		}
		if put.OK() {
			a.fail("the outcome was not unknown: %d %s", put.Status, put.Body)
		}
		proxy.Set(testrig.Trouble{})
		// The COMMIT is still in flight. A client relies on the acknowledged undo.
		var undo rig.Answer
		a.waitFor("the change is undone", func() bool {
			undo = a.send(p, http.MethodDelete, path, nil)
			return undo.OK()
		})
		a.sleep(lateness)
		// An unrelated change, computed at the head, so that the process has seen the late commit.
		last := a.mustSend(p, http.MethodPatch, "/clusters/c0", object{"labels": object{"at": time.Now().Format("15-04-05.000000")}})
		assigned := a.getCluster(p, "c0", last.Revision).has("n0")
		a.count(assigned, "acknowledged writes were lost to a commit from before them")
		if assigned {
			a.mustSend(p, http.MethodDelete, path, nil)
		}
	}
}
