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

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// env is the environment of an attack: its servers, its databases and its counters.
type env struct {
	cfg Config
	ctx context.Context //nolint:containedctx // it bounds the attack
	rec *history.Recorder
	err error

	closing []func()

	mu     sync.Mutex
	made   []Count
	counts map[string]int // description -> index in made
	notes  []string
}

func (a *env) close() {
	for _, f := range slices.Backward(a.closing) {
		f()
	}
}

// count counts one try, and a failure if bad. It returns bad.
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

// postgres starts a database with one proxy for each process.
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

// process configures a server without starting it.
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

// restart starts a killed process again.
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

// waitFor waits for a condition, and fails the attack after a minute.
func (a *env) waitFor(what string, is func() bool) {
	if !a.eventually(time.Minute, is) {
		a.fail("not within a minute: %s", what)
	}
}

// eventually reports whether a condition becomes true within d.
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

// send sends a request to a process; a body other than a string is encoded as JSON. Status 0: the process does not run
// or did not answer.
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
			panic(err) // bodies are constants of the attacks
		}
	}
	return client.Send(a.ctx, r.Base, method, path, raw, headers...)
}

// mustSend sends a request that must succeed, or else the attack cannot be carried out.
func (a *env) mustSend(p *rig.Process, method, path string, body any, headers ...string) rig.Answer {
	got := a.send(p, method, path, body, headers...)
	if !got.OK() {
		a.fail("%s %s at %s: %d %s", method, path, p.Name, got.Status, got.Body)
	}
	return got
}

// poll requests the namespaces of a cluster.
func (a *env) poll(p *rig.Process, dns string, headers ...string) rig.Answer {
	return a.send(p, http.MethodGet, "/api/v2/flux/clusters/"+dns+"/namespaces", nil, headers...)
}

// minRevision returns the header that requires a minimum revision.
func minRevision(revision int64) (name, value string) {
	return "X-Fleet-Min-Revision", strconv.FormatInt(revision, 10)
}

// waitForRevision waits until a process answers polls at this revision or a newer one.
func (a *env) waitForRevision(p *rig.Process, revision int64) {
	a.waitFor(fmt.Sprintf("%s reaches revision %d", p.Name, revision), func() bool {
		got := a.poll(p, dns(0))
		return got.Status == http.StatusOK && got.Revision >= revision
	})
}

// isReady reports whether /ready answers 200.
func (a *env) isReady(p *rig.Process) bool {
	return a.send(p, http.MethodGet, "/ready", nil).Status == http.StatusOK
}

// cluster has the fields of a document that attacks read.
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

// getCluster reads a cluster at this revision or a newer one.
func (a *env) getCluster(p *rig.Process, id string, revision int64) (c cluster) {
	a.waitFor("reading "+id+" at "+p.Name, func() bool {
		name, value := minRevision(revision)
		got := a.send(p, http.MethodGet, "/clusters/"+id, nil, name, value)
		c = cluster{}
		return got.Status == http.StatusOK && json.Unmarshal(got.Body, &c) == nil
	})
	return c
}

// file writes a file into the attack's directory.
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

// fleetOf describes a fleet in which each cluster has all the namespaces.
type fleetOf struct {
	clusters, namespaces int
	patches              object // of the component app on each cluster
	labels               object // of each namespace
	protected            bool
}

func namespaceID(n int) string { return fmt.Sprintf("n%d", n) }

// seed writes a fleet to a seed file.
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
