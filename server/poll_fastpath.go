package server

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// ServeHTTP implements http.Handler. Polls as Flux Operator sends them, nearly all requests, are answered without the router;
// everything else goes through it. Both answer the same.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	p, ok := s.tryFastPoll(r)
	if !ok {
		s.echo.ServeHTTP(w, r)
		return
	}
	hardenHeaders(w.Header())
	admission.MarkAuthenticated(r.Context())
	_ = p.write(w) // fails when the client is gone
	s.metrics.identified[p.method].Inc()
	p.series.observe(time.Since(start))
}

const (
	pollPrefix   = "/api/v2/flux/clusters/"
	pollTemplate = pollPrefix + ":cluster_dns/"
)

// fastPoll is a poll with its answer.
type fastPoll struct {
	pollAnswer
	method auth.Method
	series *series
}

// tryFastPoll finds the answer to a poll. Not ok unless it is the whole list: the router handles every error, every header
// that changes the answer, and every log line.
func (s *Server) tryFastPoll(r *http.Request) (p fastPoll, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // it panics again in the router, which reports it
		}
	}()
	if r.Method != http.MethodGet || r.URL.RawPath != "" || s.cfg.Logger.Enabled(r.Context(), slog.LevelDebug) {
		return p, false
	}
	for _, header := range [...]string{response.HeaderIfNoneMatch, response.HeaderMinRevision} {
		if _, sent := r.Header[header]; sent {
			return p, false
		}
	}
	dns, endpoint, ok := parsePollPath(r.URL.Path)
	if !ok {
		return p, false
	}
	st, age, err := s.cfg.Replica.StateForPolls()
	if err != nil {
		return p, false
	}
	kind, isList := st.PolledAt(endpoint)
	var sent receipt
	if !isList {
		if sent, ok = fastReceipt(st, endpoint, r.URL.RawQuery); !ok {
			return p, false
		}
	}
	caller, err := s.auth.Identify(r, st)
	if err != nil {
		return p, false
	}
	cluster, ok := st.ByDNS(dns)
	if !ok || !caller.MayPoll(cluster, dns) {
		return p, false
	}
	if isList {
		p.pollAnswer, err = s.answerPoll(r, caller.Role, st, cluster, kind)
		p.series = s.metrics.pollsOf(kind)
	} else {
		p.pollAnswer, err = s.answerReceipt(r, caller.Role, st, cluster, sent)
		p.series = s.metrics.receipts
	}
	p.age, p.method = age, caller.Method
	return p, err == nil
}

// fastReceipt parses the rest of a receipt's path, and its query, in the form in which the templates write them.
func fastReceipt(st *fleet.State, endpoint, query string) (sent receipt, ok bool) {
	rest, ok := strings.CutPrefix(endpoint, "receipts/")
	if !ok {
		return sent, false
	}
	list, id, ok := strings.Cut(rest, "/")
	if !ok || strings.Contains(id, "/") {
		return sent, false
	}
	input, ok := strings.CutPrefix(query, "input=")
	if !ok {
		return sent, false
	}
	sent, err := readReceipt(st, list, id, input)
	return sent, err == nil
}

// parsePollPath splits the path of a poll.
func parsePollPath(path string) (dns, endpoint string, ok bool) {
	rest, ok := strings.CutPrefix(path, pollPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}
