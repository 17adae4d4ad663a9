package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

func (s *Server) poll(c echo.Context, kind fleet.Kind, dns string, p readParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	cluster, ok := st.ByDNS(dns)
	if !ok {
		return &fleet.Error{Code: fleet.CodeNotFound, Detail: "there is no cluster with the DNS name " + strconv.Quote(dns)}
	}
	answer, err := st.Answer(cluster, kind)
	if err != nil {
		return err
	}
	if ownPoll(c.Request(), requestOf(c).who.role) {
		s.metrics.polled(cluster.ID, s.cfg.Now())
	}
	return s.writeAnswer(c, answer, p.ifNoneMatch)
}

// PollClusters implements the operation of that name.
func (s *Server) PollClusters(c echo.Context, p api.PollClustersParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	answer, err := clustersAnswer(st, p.Environment, p.Selector)
	if err != nil {
		return err
	}
	return s.writeAnswer(c, answer, p.IfNoneMatch)
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

// writeAnswer puts an answer's bytes on the wire, compressed for everyone who accepts that.
func (s *Server) writeAnswer(c echo.Context, a *fleet.Answer, ifNoneMatch *string) error {
	h := c.Response().Header()
	h[headerETag] = []string{a.ETag}
	h[headerVary] = varyEncoding
	if ifNoneMatch != nil && fleet.MatchETag(*ifNoneMatch, a.ETag) {
		return c.NoContent(http.StatusNotModified)
	}
	h[headerContentType] = contentJSON
	body := a.Gzip
	if acceptsGzip(c.Request()) {
		h[headerContentEncoding] = contentGzip
	} else {
		var err error
		if body, err = s.plain.of(a); err != nil {
			return err
		}
	}
	h[headerContentLength] = []string{strconv.Itoa(len(body))}
	c.Response().WriteHeader(http.StatusOK)
	_, err := c.Response().Write(body)
	return err
}

// Header values shared by all answers; net/http only reads them.
var (
	varyEncoding = []string{"Accept-Encoding"}
	contentJSON  = []string{"application/json"}
	contentGzip  = []string{"gzip"}
	noStore      = []string{"no-store"}
	noSniff      = []string{"nosniff"}
)

func acceptsGzip(r *http.Request) bool {
	for _, line := range r.Header["Accept-Encoding"] {
		if line == "gzip" {
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			coding, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") && !zeroQuality(params) {
				return true
			}
		}
	}
	return false
}

func zeroQuality(params string) bool {
	q, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
	if !ok {
		return false
	}
	f, err := strconv.ParseFloat(q, 64)
	return err == nil && f == 0
}
