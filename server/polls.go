package server

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// poll answers a poll that came through the router; tryFastPoll answers the others.
func (s *Server) poll(c echo.Context, kind fleet.Kind, dns string, p readParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	cluster, err := findPolled(st, dns)
	if err != nil {
		return err
	}
	r := requestOf(c)
	out, err := s.answerPoll(r.Request(), r.principal.Role, st, cluster, kind)
	if err != nil {
		return err
	}
	out.age = r.age
	return out.send(c, p.ifNoneMatch)
}

// findPolled returns the cluster in the path of a Flux endpoint.
func findPolled(st *fleet.State, dns string) (*fleet.Document, error) {
	cluster, ok := st.ByDNS(dns)
	if !ok {
		return nil, &fleet.Error{Code: fleet.CodeNotFound, Detail: "there is no cluster with the DNS name " + strconv.Quote(dns)}
	}
	return cluster, nil
}

// errBehind refuses a poll that another process has answered from a newer revision: see [clusterstatus.Tracker.ServedNewer].
var errBehind = fmt.Errorf("%w: another process has answered this cluster from a newer revision", store.ErrUnavailable)

// answerPoll returns the answer to an authorized poll, for the router and for the fast path.
func (s *Server) answerPoll(r *http.Request, caller auth.Role, st *fleet.State, cluster *fleet.Document, kind fleet.Kind) (pollAnswer, error) {
	answer, err := st.Answer(cluster, kind)
	if err != nil {
		return pollAnswer{}, err
	}
	if ownPoll(r, caller) {
		now := s.cfg.Now()
		if s.tracker.ServedNewer(cluster.ID, kind.Endpoint(), int64(st.Revision()), now) {
			return pollAnswer{}, errBehind
		}
		s.tracker.ResetCluster(cluster.ID, cluster.CreatedAt)
		if s.tracker.RecordPoll(cluster.ID, kind.Endpoint(), answer.ETag, r.UserAgent(), now) {
			s.tracker.RecordRevision(cluster.ID, kind.Endpoint(), int64(st.Revision()))
			s.tracker.RecordServed(cluster.ID, st.DesiredInputsIn(cluster, kind, answer), now)
		}
	}
	return s.newPollAnswer(r, answer, st)
}

func (s *Server) PollClusters(c echo.Context, p api.PollClustersParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	answer, err := clustersAnswer(st, p.Environment, p.Selector)
	if err != nil {
		return err
	}
	r := requestOf(c)
	if (p.Environment != nil || p.Selector != nil) && ownPoll(r.Request(), r.principal.Role) {
		s.tracker.RecordFilter(value(p.Environment), value(p.Selector), s.cfg.Now())
	}
	out, err := s.newPollAnswer(r.Request(), answer, st)
	if err != nil {
		return err
	}
	out.age = r.age
	return out.send(c, p.IfNoneMatch)
}

func clustersAnswer(st *fleet.State, environment, selector *string) (*fleet.Answer, error) {
	if environment == nil && selector == nil {
		return st.ClustersAnswer()
	}
	docs, err := selectClusters(st.All(fleet.KindCluster), environment, selector)
	if err != nil {
		return nil, err
	}
	return fleet.ClustersAnswer(docs)
}

// pollAnswer is an answer of a State, with the bytes for this client.
type pollAnswer struct {
	*fleet.Answer
	revision fleet.Revision
	age      time.Duration // of the State
	body     []byte
	zipped   bool // compressed with gzip
}

func (s *Server) newPollAnswer(r *http.Request, a *fleet.Answer, st *fleet.State) (pollAnswer, error) {
	o := pollAnswer{Answer: a, revision: st.Revision(), body: a.Gzip, zipped: response.AcceptsGzip(r)}
	var err error
	if !o.zipped {
		o.body, err = s.identityCache.body(a)
	}
	return o, err
}

// write sends the answer. It allocates the header values only, all in one.
func (o *pollAnswer) write(w http.ResponseWriter) error {
	values := [...]string{response.FormatRevision(o.revision), o.ETag, strconv.Itoa(len(o.body)), response.FormatAge(o.age)}
	h := w.Header()
	h[response.HeaderRevision], h[response.HeaderETag], h[response.HeaderContentLength], h[response.HeaderAge] = values[0:1:1], values[1:2:2], values[2:3:3], values[3:4:4]
	h[response.HeaderVary], h[response.HeaderContentType] = response.VaryEncoding, response.ContentJSON
	if o.zipped {
		h[response.HeaderContentEncoding] = response.ContentGzip
	}
	_, err := w.Write(o.body)
	return err
}

// send writes the answer, or 304 when the client has it.
func (o *pollAnswer) send(c echo.Context, ifNoneMatch *string) error {
	if ifNoneMatch == nil || !fleet.MatchETag(*ifNoneMatch, o.ETag) {
		return o.write(c.Response())
	}
	h := c.Response().Header()
	h[response.HeaderETag], h[response.HeaderVary] = []string{o.ETag}, response.VaryEncoding
	return c.NoContent(http.StatusNotModified)
}
