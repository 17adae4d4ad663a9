package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/check"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// writer changes the fleet. Each change is distinguishable from all others, and is sent once.
type writer struct {
	drill  *Drill
	name   string
	home   string // the cluster that this writer's namespace is assigned to
	client *rig.Client
	rng    *rand.Rand
	pace   time.Duration
	count  int
	step   int // of comeAndGo
}

// change is one request of a writer.
type change struct {
	op, method, path string
	body             any
	headers          []string
	token            string // sent in place of the static one
	wants            []history.Want
}

func (w *writer) run(ctx context.Context) {
	for rig.Rest(ctx, time.Duration(w.rng.Int64N(int64(2*w.pace)+1))) {
		p := w.anyCRUD()
		r := p.Running()
		if r == nil {
			continue
		}
		w.count++
		id := fmt.Sprintf("%s-%d", w.name, w.count)
		var c *change
		switch n := w.rng.IntN(10); {
		case n < 3:
			c = w.flip(id)
		case n < 5:
			c = w.set(id)
		case n < 6:
			c = w.increment(ctx, r)
		case n < 8:
			c = w.toggle()
		default:
			c = w.comeAndGo()
		}
		if c != nil {
			w.send(ctx, p, r, id, c)
		}
	}
}

// flip changes two documents in one commit.
func (w *writer) flip(id string) *change {
	kind, one, other, patch := fleet.KindNamespace, "even", "odd", object{"labels": object{"pair": id}}
	if w.rng.IntN(2) == 0 {
		kind, one, other, patch = fleet.KindComponent, "left", "right", object{"oci_tag": id}
	}
	op := func(doc string) object { return object{"op": "patch", "kind": kind, "id": doc, "patch": patch} }
	has := strconv.Quote(id)
	return &change{
		op: "flip", method: http.MethodPost, path: "/batch", body: object{"operations": []object{op(one), op(other)}},
		wants: []history.Want{{Kind: kind, ID: one, Has: has}, {Kind: kind, ID: other, Has: has}},
	}
}

// set changes a value that only this writer sets.
func (w *writer) set(id string) *change {
	cluster := clusterID(w.rng.IntN(clusters))
	return &change{
		op: "set", method: http.MethodPatch, path: "/clusters/" + cluster,
		body:  object{"patches": object{"app": object{"by." + w.name: id}}},
		wants: []history.Want{{Kind: fleet.KindCluster, ID: cluster, Has: strconv.Quote(id)}},
	}
}

// increment increments a counter shared by all writers, on the condition that its document is unchanged since it was
// read.
func (w *writer) increment(ctx context.Context, r *rig.Running) *change {
	const cluster = "c0"
	a := w.client.Send(context.WithoutCancel(ctx), r.Base, http.MethodGet, "/clusters/"+cluster, nil)
	var doc struct {
		Patches map[string]map[string]string
	}
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &doc) != nil {
		return nil
	}
	n, err := strconv.Atoi(doc.Patches["app"]["count"])
	if err != nil {
		w.drill.rec.Notef(true, "the number that writers share is %q", doc.Patches["app"]["count"])
		return nil
	}
	next := strconv.Itoa(n + 1)
	return &change{
		op: "increment", method: http.MethodPatch, path: "/clusters/" + cluster,
		body: object{"patches": object{"app": object{"count": next}}}, headers: []string{"If-Match", a.ETag},
		wants: []history.Want{{Kind: fleet.KindCluster, ID: cluster, Has: `"count":"` + next + `"`}},
	}
}

// comeAndGo takes turns to create a namespace of this writer, assign it to a cluster, unassign it, and delete it. A step
// is refused if the previous one failed, and is a no-op if it was already made by a request whose answer was lost.
func (w *writer) comeAndGo() *change {
	id, cluster := "of-"+w.name, w.home
	c := &change{op: "come-and-go"}
	has := `"` + id + `"`
	switch w.step % 4 {
	case 0:
		c.method, c.path, c.body = http.MethodPost, "/namespaces", object{"id": id}
		c.wants = []history.Want{{Kind: fleet.KindNamespace, ID: id}}
	case 1:
		c.method, c.path = http.MethodPut, "/clusters/"+cluster+"/namespaces/"+id
		c.wants = []history.Want{{Kind: fleet.KindCluster, ID: cluster, Has: has}}
	case 2:
		c.method, c.path = http.MethodDelete, "/clusters/"+cluster+"/namespaces/"+id
		c.wants = []history.Want{{Kind: fleet.KindCluster, ID: cluster, Not: has}}
	default:
		c.method, c.path = http.MethodDelete, "/namespaces/"+id
		c.wants = []history.Want{{Kind: fleet.KindNamespace, ID: id, Gone: true}}
	}
	w.step++
	return c
}

// toggle assigns or unassigns one of a few shared namespaces. All writers do so through different processes, so many of
// these requests are no-ops.
func (w *writer) toggle() *change {
	id, cluster := sharedNamespaces[w.rng.IntN(len(sharedNamespaces))], clusterID(w.rng.IntN(2))
	c := &change{op: check.OpToggle, method: http.MethodPut, path: "/clusters/" + cluster + "/namespaces/" + id}
	want := history.Want{Kind: fleet.KindCluster, ID: cluster, Has: `"` + id + `"`}
	if w.rng.IntN(2) == 0 {
		c.method = http.MethodDelete
		want.Has, want.Not = "", want.Has
	}
	c.wants = []history.Want{want}
	return c
}

// commitID matches the commit that an "outcome_unknown" answer names.
var commitID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// send sends a change and records it. A request in flight at the end of the run is completed.
func (w *writer) send(ctx context.Context, p *rig.Process, r *rig.Running, id string, c *change) {
	var body []byte
	if c.body != nil {
		var err error
		if body, err = json.Marshal(c.body); err != nil {
			panic(err) // bodies are constants of the harness
		}
	}
	rec := history.Write{Process: p.Name, Incarnation: r.Incarnation, ID: id, Op: c.op, Wants: c.wants, From: w.drill.rec.Now()}
	headers := append(c.headers, "X-Request-Id", id)
	if c.token != "" {
		headers = append(headers, "Authorization", "Bearer "+c.token)
	}
	a := w.client.Send(context.WithoutCancel(ctx), r.Base, c.method, c.path, body, headers...)
	rec.To, rec.Status, rec.Unsent, rec.Revision = w.drill.rec.Now(), a.Status, a.Unsent, a.Revision
	if a.Status >= http.StatusBadRequest {
		var problem struct{ Error, Detail string }
		_ = json.Unmarshal(a.Body, &problem) // only the code is needed
		rec.Code = problem.Error
		if rec.Code == "outcome_unknown" {
			rec.Commit = commitID.FindString(problem.Detail)
		}
		if a.Status == http.StatusBadRequest {
			w.drill.rec.Notef(true, "write %s was answered with %d: %s", id, a.Status, a.Body)
		}
	}
	w.drill.rec.Write(rec)
	if a.Status == 0 || a.Status >= http.StatusInternalServerError {
		_ = rig.Rest(ctx, 50*time.Millisecond)
	}
}
