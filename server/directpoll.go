package server

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ServeHTTP implements http.Handler. Polls as Flux Operator sends them, nearly all requests there are, are answered
// without the router when nothing stands against it; everything else goes through it. Both ways answer the same.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	p, ok := s.directPoll(r)
	if !ok {
		s.echo.ServeHTTP(w, r)
		return
	}
	values := [...]string{formatRevision(p.revision), p.answer.ETag, strconv.Itoa(len(p.body)), formatAge(p.age)}
	h := w.Header()
	h[headerRevision], h[headerETag], h[headerContentLength] = values[0:1:1], values[1:2:2], values[2:3:3]
	h[headerAge] = values[3:4:4]
	h[headerVary], h[headerContentType] = varyEncoding, contentJSON
	h[echo.HeaderXContentTypeOptions], h[echo.HeaderCacheControl] = noSniff, noStore
	if p.zipped {
		h[headerContentEncoding] = contentGzip
	}
	_, _ = w.Write(p.body) // fails when the client is gone: there is nobody to tell
	s.metrics.identified[p.by].Inc()
	if p.own {
		s.metrics.polled(p.cluster.ID, s.cfg.Now())
	}
	s.metrics.polls[p.resource].observe(time.Since(start))
}

const (
	pollPrefix   = "/api/v2/flux/clusters/"
	pollTemplate = pollPrefix + ":cluster_dns/"
)

// directPoll is a poll with its answer.
type directPoll struct {
	by       means
	own      bool // of that cluster's Flux
	cluster  *fleet.Document
	resource fleet.Kind
	revision fleet.Revision
	age      time.Duration // of the State
	answer   *fleet.Answer
	body     []byte
	zipped   bool
}

// directPoll finds the answer to a poll. Not ok when it is anything but a poll that is answered with the whole list:
// every refusal, every header that changes the answer and every log line is the router's business.
func (s *Server) directPoll(r *http.Request) (p directPoll, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // it panics again on the router's way, which reports it
		}
	}()
	if r.Method != http.MethodGet || r.URL.RawPath != "" || s.cfg.Logger.Enabled(r.Context(), slog.LevelDebug) {
		return p, false
	}
	for _, header := range [...]string{headerIfNoneMatch, headerMinRevision} {
		if _, sent := r.Header[header]; sent {
			return p, false
		}
	}
	dns, resource, ok := parsePollPath(r.URL.Path)
	if !ok {
		return p, false
	}
	st, age, err := s.cfg.Replica.Served()
	if err != nil {
		return p, false
	}
	who, err := s.find(r, st)
	if err != nil {
		return p, false
	}
	cluster, ok := st.ByDNS(dns)
	if !ok || !who.mayPoll(cluster, dns) {
		return p, false
	}
	answer, err := st.Answer(cluster, resource)
	if err != nil {
		return p, false
	}
	p = directPoll{who.by, ownPoll(r, who.role), cluster, resource, st.Revision(), age, answer, answer.Gzip, acceptsGzip(r)}
	if !p.zipped {
		p.body, err = s.plain.of(answer)
	}
	return p, err == nil
}

// parsePollPath takes the path of a poll apart.
func parsePollPath(path string) (dns string, polled fleet.Kind, ok bool) {
	rest, ok := strings.CutPrefix(path, pollPrefix)
	if !ok {
		return "", "", false
	}
	dns, last, ok := strings.Cut(rest, "/")
	if !ok {
		return "", "", false
	}
	polled, ok = fleet.PolledAt(last)
	return dns, polled, ok
}
