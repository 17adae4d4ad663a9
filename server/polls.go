package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/poll"
)

// ServeHTTP implements http.Handler. Polls as Flux Operator sends them, nearly all requests, are answered without the router;
// everything else goes through it. Both answer the same.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	if s.cfg.Logger.Enabled(r.Context(), slog.LevelDebug) { // the router writes log lines
		s.echo.ServeHTTP(w, r)
		return
	}
	answer, ok := s.polls.Fast(r)
	if !ok {
		s.echo.ServeHTTP(w, r)
		return
	}
	hardenHeaders(w.Header())
	admission.MarkAuthenticated(r.Context())
	_ = answer.Write(w) // fails when the client is gone
	s.metrics.identified[answer.Method].Inc()
	s.metrics.fastPoll(answer.Kind).observe(time.Since(start))
}

// poll answers a poll that came through the router; poll.Responder.Fast answers the others.
func (s *Server) poll(c echo.Context, kind fleet.Kind, dns string, p readParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if st.Limited() { // the cluster would lose everything that the State lacks
		return errNeedsUnlimitedRead
	}
	cluster, err := poll.Cluster(st, dns)
	if err != nil {
		return err
	}
	r := requestOf(c)
	out, err := s.polls.List(r.Request(), &r.principal, st, cluster, kind)
	if err != nil {
		return err
	}
	out.Age = r.age
	return out.Send(c, p.ifNoneMatch)
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
	var filter *poll.Filter
	if p.Environment != nil || p.Selector != nil {
		filter = &poll.Filter{Environment: value(p.Environment), Selector: value(p.Selector)}
	}
	out, err := s.polls.Clusters(r.Request(), &r.principal, st, answer, filter)
	if err != nil {
		return err
	}
	out.Age = r.age
	return out.Send(c, p.IfNoneMatch)
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
