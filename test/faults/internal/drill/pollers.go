package drill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// poller polls processes as the Flux Operators of clusters do.
type poller struct {
	drill   *Drill
	process *rig.Process // its only process; nil: the router chooses
	router  *router
	client  *rig.Client
	rng     *rand.Rand
	pace    time.Duration
	known   map[int]string // endpoint -> the newest ETag
}

func (p *poller) run(ctx context.Context) {
	for rig.Rest(ctx, time.Duration(p.rng.Int64N(int64(2*p.pace)+1))) {
		e := p.rng.IntN(len(p.drill.endpoints))
		process := p.process
		if process == nil {
			process = p.router.pick(p.drill.endpoints[e].DNS, p.rng)
		}
		r := process.Running()
		if r == nil {
			if !rig.Rest(ctx, 5*time.Millisecond) {
				return
			}
			continue
		}
		known := ""
		if p.rng.IntN(3) == 0 {
			known = p.known[e]
		}
		// A poll in flight at the end of the run is completed, so that it is not recorded as failed.
		got := p.drill.poll(context.WithoutCancel(ctx), p.client, pollRequest{process: process.Name, running: r, endpoint: e, known: known})
		if got.Status == http.StatusOK {
			p.known[e] = got.ETag
		}
		if got.Status == 0 {
			_ = rig.Rest(ctx, 20*time.Millisecond)
		}
	}
}

// pollRequest describes one poll.
type pollRequest struct {
	process  string
	running  *rig.Running
	endpoint int
	known    string
	newest   int64 // minimum revision; 0: none
	again    bool  // repeated if it is not answered
}

// poll sends one poll and records it. A process that does not run does not answer.
func (d *Drill) poll(ctx context.Context, c *rig.Client, o pollRequest) history.Poll {
	e := d.endpoints[o.endpoint]
	var headers []string
	if o.known != "" {
		headers = append(headers, "If-None-Match", o.known)
	}
	if o.newest > 0 {
		headers = append(headers, "X-Fleet-Min-Revision", strconv.FormatInt(o.newest, 10))
	}
	p := history.Poll{
		Process: o.process, Endpoint: o.endpoint, Known: o.known, From: d.rec.Now(), Last: o.newest > 0,
	}
	a := rig.Answer{Revision: -1}
	if o.running != nil {
		p.Incarnation = o.running.Incarnation
		a = c.Send(ctx, o.running.Base, http.MethodGet, "/api/v2/flux/clusters/"+e.DNS+"/"+e.Resource.Endpoint(), nil, headers...)
	}
	p.Again = o.again && a.Status == 0
	p.To, p.Status, p.Revision, p.ETag = d.rec.Now(), a.Status, a.Revision, a.ETag
	if a.Status == http.StatusOK {
		sum := sha256.Sum256(a.Body)
		p.Sum = hex.EncodeToString(sum[:12])
		p.Inputs, p.Mixed = parseAnswer(e.Resource, a.Body)
		if p.Inputs < 1 || p.Mixed != "" || `"`+p.Sum+`"` != p.ETag {
			p.Body = string(a.Body)
		}
	}
	d.rec.Poll(p)
	return p
}
