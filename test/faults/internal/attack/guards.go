package attack

import (
	"fmt"
	"net/http"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Ways around the guards against accidental removals.
var guards = []Attack{
	{"protection", "everything that a protected cluster has is taken away without deleting the cluster", (*env).protection},
	{"orphan-then-cascade", "a namespace is made to be left behind, and deleted before any cluster has polled that", (*env).orphanThenCascade},
	{"removals-one-by-one", "more than MAX_REMOVALS things are taken away, one cluster at a time", (*env).removalsOneByOne},
	{"removals-by-path", "every cluster's component is replaced, one cluster at a time", (*env).removalsByPath},
}

func (a *env) singleServer(f fleetOf, settings ...string) *rig.Process {
	db := a.sqlite()
	p := a.start(rig.Config{Name: "crud-1", Database: db.URL(""), Seed: a.seed(f), Settings: append([]string{"MAX_REMOVALS=50"}, settings...)})
	a.waitForPolls(p)
	return p
}

func (a *env) protection() {
	p := a.singleServer(fleetOf{clusters: 3, namespaces: 3, protected: true})
	for n, try := range []struct {
		method string
		body   object
	}{
		{http.MethodPut, object{"namespaces": []object{}}},
		{http.MethodPatch, object{"namespaces": nil}},
		{http.MethodPut, object{"namespaces": []object{}, "platform_components": []object{}}},
	} {
		got := a.send(p, try.method, "/clusters/"+clusterID(n), try.body)
		left := len(a.getCluster(p, clusterID(n), 0).Namespaces)
		a.count(got.OK() && left == 0, "protected clusters were emptied")
	}
}

func (a *env) orphanThenCascade() {
	p := a.singleServer(fleetOf{clusters: 5, namespaces: 3})
	for n := range 3 {
		path := "/namespaces/" + namespaceID(n)
		a.mustSend(p, http.MethodPatch, path, object{"deletion_policy": "orphan"})
		// No cluster has polled the new policy, so the deletion would still remove the namespace there.
		got := a.send(p, http.MethodDelete, path+"?cascade=true", nil)
		a.count(got.OK(), "namespaces were deleted on 5 clusters without a plan")
	}
}

func (a *env) removalsOneByOne() {
	const allowed = 5
	p := a.singleServer(fleetOf{clusters: 30, namespaces: 1}, fmt.Sprintf("MAX_REMOVALS=%d", allowed))
	removed := 0
	for n := range 30 {
		got := a.send(p, http.MethodDelete, "/clusters/"+clusterID(n)+"/namespaces/n0", nil)
		if got.OK() {
			removed++
		}
		a.count(got.OK() && removed > allowed, "removals beyond MAX_REMOVALS were made without a plan")
	}
}

func (a *env) removalsByPath() {
	const allowed = 5
	p := a.singleServer(fleetOf{clusters: 30, namespaces: 1}, fmt.Sprintf("MAX_REMOVALS=%d", allowed))
	replaced := 0
	for n := range 30 {
		got := a.send(p, http.MethodPut, "/clusters/"+clusterID(n)+"/platform_components/app", object{"component_path": "another-chart"})
		if got.OK() {
			replaced++
		}
		a.count(got.OK() && replaced > allowed, "components beyond MAX_REMOVALS were replaced without a plan")
	}
}
