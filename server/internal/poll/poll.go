// Package poll answers the requests of clusters: polls of their lists, and receipts of the inputs that they have applied.
//
//	poll as Flux Operator sends it --> fastpath.go: Fast --+
//	                                                       +--> List, Receipt --> Answer --> Write
//	any other --> router --> handler of server ------------+         |
//	                                                                 v
//	                                              clusterstatus.Tracker: what the cluster has received
//
// Both ways give the same bytes. An answer is the whole list or an error; it is encoded and compressed once for all clients.
// Nothing here waits for the store, a queue or the log.
package poll

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Config configures a Responder. All fields but RequireClusterToken are required.
type Config struct {
	Replica interface {
		StateForPolls() (st *fleet.State, age time.Duration, err error)
	}
	Auth    *auth.Authenticator
	Tracker *clusterstatus.Tracker
	// RequireClusterToken: see [Responder.Reporter].
	RequireClusterToken bool
	Now                 func() time.Time
}

// Responder answers polls and receipts.
type Responder struct{ cfg Config }

// New returns a Responder.
func New(cfg Config) *Responder { return &Responder{cfg} }

// Cluster returns the cluster in the path of a Flux endpoint.
func Cluster(st *fleet.State, dns string) (*fleet.Document, error) {
	cluster, ok := st.ByDNS(dns)
	if !ok {
		return nil, &fleet.Error{Code: fleet.CodeNotFound, Detail: "there is no cluster with the DNS name " + strconv.Quote(dns)}
	}
	return cluster, nil
}

// ErrBehind refuses a poll that another process has answered from a newer revision: see [clusterstatus.Tracker.ServedNewer].
var ErrBehind = fmt.Errorf("%w: another process has answered this cluster from a newer revision", store.ErrUnavailable)

// RecordUse records the use of a managed token, except one of role poll: the last poll of its cluster is recorded anyway.
func (p *Responder) RecordUse(caller *auth.Principal) {
	if caller.Managed != nil && caller.Role != auth.Poll {
		p.cfg.Tracker.RecordTokenUse(caller.Managed.ID, p.cfg.Now())
	}
}

// List returns the answer to an authorized poll.
func (p *Responder) List(r *http.Request, caller *auth.Principal, st *fleet.State, cluster *fleet.Document, kind fleet.Kind) (Answer, error) {
	answer, err := st.Answer(cluster, kind)
	if err != nil {
		return Answer{}, err
	}
	if fluxPoll(r, caller) {
		now := p.cfg.Now()
		if p.cfg.Tracker.ServedNewer(cluster.ID, kind.Endpoint(), int64(st.Revision()), now) {
			return Answer{}, ErrBehind
		}
		source := caller.ReportSource()
		reporter, counts := p.Reporter(caller, cluster.ID)
		if p.cfg.Tracker.RecordPoll(clusterstatus.Poll{
			Cluster: cluster.ID, Created: cluster.CreatedAt, List: kind.Endpoint(), ETag: answer.ETag, Agent: r.UserAgent(), Revision: int64(st.Revision()),
			Shared: source == auth.SharedToken, Uncounted: !counts, // so that no process serves an older answer after it
		}, now) {
			p.cfg.Tracker.RecordServed(reporter, st.DesiredInputsIn(cluster, kind, answer), now)
		}
	}
	return p.newAnswer(r, answer, st)
}

// Clusters returns the answer to a poll of the list of clusters. It records the filter of a cluster's own poll; nil: there is
// none.
func (p *Responder) Clusters(r *http.Request, caller *auth.Principal, st *fleet.State, answer *fleet.Answer, filter *Filter) (Answer, error) {
	if filter != nil && fluxPoll(r, caller) {
		p.cfg.Tracker.RecordFilter(filter.Environment, filter.Selector, p.cfg.Now())
	}
	return p.newAnswer(r, answer, st)
}

// Filter selects clusters; empty fields select all.
type Filter struct{ Environment, Selector string }

// Answer is an answer of a State, with the bytes for this client.
type Answer struct {
	*fleet.Answer
	Age      time.Duration // of the State
	revision fleet.Revision
	body     []byte
	zipped   bool // compressed with gzip
}

func (p *Responder) newAnswer(r *http.Request, a *fleet.Answer, st *fleet.State) (Answer, error) {
	o := Answer{Answer: a, revision: st.Revision(), body: a.Gzip, zipped: response.AcceptsGzip(r)}
	var err error
	if !o.zipped {
		o.body, err = a.Body()
	}
	return o, err
}

// Write sends the answer. It allocates the header values only, all in one. Without Vary, since no-store keeps caches from storing
// the answer, the header map stays within eight entries: beyond them it is reallocated, which costs 3 % of a poll.
func (o *Answer) Write(w http.ResponseWriter) error {
	values := [...]string{response.FormatRevision(o.revision), o.ETag, strconv.Itoa(len(o.body)), response.FormatAge(o.Age)}
	h := w.Header()
	h[response.HeaderRevision], h[response.HeaderETag], h[response.HeaderContentLength], h[response.HeaderAge] = values[0:1:1], values[1:2:2], values[2:3:3], values[3:4:4]
	h[response.HeaderContentType] = response.ContentJSON
	if o.zipped {
		h[response.HeaderContentEncoding] = response.ContentGzip
	}
	_, err := w.Write(o.body)
	return err
}

// Send writes the answer, or 304 when the client has it.
func (o *Answer) Send(c echo.Context, ifNoneMatch *string) error {
	if ifNoneMatch == nil || !fleet.MatchETag(*ifNoneMatch, o.ETag) {
		return o.Write(c.Response())
	}
	c.Response().Header()[response.HeaderETag] = []string{o.ETag}
	return c.NoContent(http.StatusNotModified)
}
