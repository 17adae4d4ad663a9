package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/faults/internal/rig"
)

// env is where an attack takes place: its servers, its databases, and what it has counted.
type env struct {
	cfg Config
	ctx context.Context //nolint:containedctx // it is the time that the attack has
	rec *history.Recorder
	err error

	closing []func()

	mu     sync.Mutex
	made   []Count
	counts map[string]int // what -> its place in made
	notes  []string
}

func (a *env) close() {
	for _, f := range slices.Backward(a.closing) {
		f()
	}
}

// count counts one try of this sort, and whether the service fell for it. It returns bad.
func (a *env) count(bad bool, what string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.counts[what]
	if !ok {
		i = len(a.made)
		a.counts[what], a.made = i, append(a.made, Count{Description: what})
	}
	a.made[i].Of++
	if bad {
		a.made[i].Bad++
	}
	return bad
}

func (a *env) notef(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// postgres starts a server, with a proxy for each of the processes.
func (a *env) postgres(processes ...string) *rig.Postgres {
	pg, err := rig.NewPostgres(a.ctx, nil, processes)
	if err != nil {
		a.fail("starting PostgreSQL: %w", err)
	}
	a.closing = append(a.closing, func() { _ = pg.Close(context.WithoutCancel(a.ctx)) })
	return pg
}

func (a *env) sqlite() *rig.SQLite {
	db, err := rig.NewSQLite(nil)
	if err != nil {
		a.fail("%w", err)
	}
	a.closing = append(a.closing, func() { _ = db.Close(context.WithoutCancel(a.ctx)) })
	return db
}

// process names a server without starting it.
func (a *env) process(c rig.Config) *rig.Process {
	c.Binary, c.Logs = a.cfg.Binary, a.cfg.Dir
	if c.Mode == "" {
		c.Mode = rig.CRUD
	}
	p := rig.NewProcess(c, a.rec)
	a.closing = append(a.closing, func() { p.Retire() })
	return p
}

// start starts a server and waits until it listens.
func (a *env) start(c rig.Config) *rig.Process {
	p := a.process(c)
	a.restart(p)
	return p
}

// restart starts a process that was killed.
func (a *env) restart(p *rig.Process) {
	ctx, cancel := context.WithTimeout(a.ctx, time.Minute)
	defer cancel()
	if err := p.Start(ctx); err != nil {
		a.fail("%w", err)
	}
}

// waitForPolls waits until servers answer polls of the first cluster.
func (a *env) waitForPolls(processes ...*rig.Process) {
	for _, p := range processes {
		a.waitFor(p.Name+" answers polls", func() bool { return a.poll(p, dns(0)).Status == http.StatusOK })
	}
}

// waitFor waits for something that has to happen.
func (a *env) waitFor(what string, is func() bool) {
	if !a.eventually(time.Minute, is) {
		a.fail("not within a minute: %s", what)
	}
}

// eventually tells whether something happens in time.
func (a *env) eventually(d time.Duration, is func() bool) bool {
	ctx, cancel := context.WithTimeout(a.ctx, d)
	defer cancel()
	for !is() {
		if !rig.Rest(ctx, 20*time.Millisecond) {
			return false
		}
	}
	return true
}

func (a *env) sleep(d time.Duration) { _ = rig.Rest(a.ctx, d) }

var client = rig.NewClient()

// send makes a request of a process; a body that is not text is sent as JSON. Status 0: there is no such process now, or
// it did not answer.
func (a *env) send(p *rig.Process, method, path string, body any, headers ...string) rig.Answer {
	r := p.Running()
	if r == nil {
		return rig.Answer{Revision: -1}
	}
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			panic(err) // an attack makes its own bodies
		}
	}
	return client.Send(a.ctx, r.Base, method, path, raw, headers...)
}

// mustSend is a request that has to be done, or there is nothing to attack.
func (a *env) mustSend(p *rig.Process, method, path string, body any, headers ...string) rig.Answer {
	got := a.send(p, method, path, body, headers...)
	if !got.OK() {
		a.fail("%s %s at %s: %d %s", method, path, p.Name, got.Status, got.Body)
	}
	return got
}

// poll asks for the namespaces of a cluster.
func (a *env) poll(p *rig.Process, dns string, headers ...string) rig.Answer {
	return a.send(p, http.MethodGet, "/api/v2/flux/clusters/"+dns+"/namespaces", nil, headers...)
}

// minRevision is the header that asks for a state that is not older than a revision.
func minRevision(revision int64) (name, value string) {
	return "X-Fleet-Min-Revision", strconv.FormatInt(revision, 10)
}

// waitForRevision waits until a process answers polls with this revision.
func (a *env) waitForRevision(p *rig.Process, revision int64) {
	a.waitFor(fmt.Sprintf("%s reaches revision %d", p.Name, revision), func() bool {
		got := a.poll(p, dns(0))
		return got.Status == http.StatusOK && got.Revision >= revision
	})
}

// isReady tells what /ready says.
func (a *env) isReady(p *rig.Process) bool {
	return a.send(p, http.MethodGet, "/ready", nil).Status == http.StatusOK
}

// cluster is the part of a document that attacks look at.
type cluster struct {
	Labels     map[string]string
	Namespaces []struct{ ID string }
}

func (c cluster) has(namespace string) bool {
	for _, n := range c.Namespaces {
		if n.ID == namespace {
			return true
		}
	}
	return false
}

// getCluster reads a cluster, not older than a revision.
func (a *env) getCluster(p *rig.Process, id string, revision int64) (c cluster) {
	a.waitFor("reading "+id+" at "+p.Name, func() bool {
		name, value := minRevision(revision)
		got := a.send(p, http.MethodGet, "/clusters/"+id, nil, name, value)
		c = cluster{}
		return got.Status == http.StatusOK && json.Unmarshal(got.Body, &c) == nil
	})
	return c
}

// file writes a file of the attack's.
func (a *env) file(name string, content []byte) string {
	path := filepath.Join(a.cfg.Dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		a.fail("%w", err)
	}
	return path
}

type object = map[string]any

func clusterID(n int) string { return fmt.Sprintf("c%d", n) }
func dns(n int) string       { return clusterID(n) + ".attack.example.com" }

// fleetOf is a fleet of clusters that each have all the namespaces, and room for more.
type fleetOf struct {
	clusters, namespaces int
	patches              object // of the component app on each cluster
	labels               object // of each namespace
	protected            bool
}

func namespaceID(n int) string { return fmt.Sprintf("n%d", n) }

// seed writes a fleet as a seed file.
func (a *env) seed(f fleetOf) string {
	var list, assigned, clusters []object
	for n := range f.namespaces {
		doc := object{"id": namespaceID(n)}
		assigned = append(assigned, object{"id": namespaceID(n)})
		if f.labels != nil {
			doc["labels"] = f.labels
		}
		list = append(list, doc)
	}
	patches := object{}
	if f.patches != nil {
		patches["app"] = f.patches
	}
	for n := range f.clusters {
		clusters = append(clusters, object{
			"id": clusterID(n), "cluster_dns": dns(n), "environment": "dev", "namespaces": assigned,
			"platform_components": []object{{"id": "app"}}, "patches": patches, "deletion_protection": f.protected,
		})
	}
	body, err := json.Marshal(object{
		"clusters": clusters, "namespaces": list,
		"platform_components": []object{{"id": "app", "component_path": "app", "oci_url": "https://charts.example.com/app"}},
	})
	if err != nil {
		panic(err) // it is plain data
	}
	return a.file("seed.json", body)
}
