package server

import (
	"net/http"
	"net/netip"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// maxPreauth is the limit of concurrent requests that are not authenticated yet, maxPreauthPerAddress that of one address (of
// IPv6, the /64). Each takes memory until its client has received the answer, and a client may delay that for a minute, on a
// thousand streams of HTTP/2.
const (
	maxPreauth           = 256
	maxPreauthPerAddress = 128
)

// preauthLimit counts the requests that are not authenticated yet.
type preauthLimit struct {
	mu         sync.Mutex
	perAddress map[netip.Prefix]int
	total      int
}

func newPreauthLimit() *preauthLimit { return &preauthLimit{perAddress: map[netip.Prefix]int{}} }

// acquire counts a request of an address, and returns false at a limit.
func (p *preauthLimit) acquire(address netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total >= maxPreauth || p.perAddress[address] >= maxPreauthPerAddress {
		return false
	}
	p.total++
	p.perAddress[address]++
	return true
}

func (p *preauthLimit) release(address netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	if p.perAddress[address]--; p.perAddress[address] == 0 {
		delete(p.perAddress, address)
	}
}

// admitPreauth admits a request before it is authenticated. Above the limit it admits only requests with a valid credential.
func (s *Server) admitPreauth(r *request, limit *preauthLimit) bool {
	if address := auth.SourceNetwork(r.Request()); limit.acquire(address) {
		r.preauth, r.address = limit, address
		return true
	}
	_, err := s.auth.Identify(r.Request(), s.cfg.Replica.State())
	s.auth.RecordFailure(r.Request(), err) // otherwise tokens could be guessed here without being counted
	return err == nil
}

// releasePreauth is called once the request is authenticated, and at its end.
func (s *Server) releasePreauth(r *request) {
	if r.preauth != nil {
		r.preauth.release(r.address)
		r.preauth = nil
	}
}

// answerStatusOnly answers a request above the limit without a body, so that its client cannot hold memory by not reading it.
// Probes evaluate the status, so they get the real one.
func (s *Server) answerStatusOnly(c echo.Context, next echo.HandlerFunc) error {
	c.Response().Writer = statusOnly{c.Response().Writer}
	switch c.Path() {
	case "/health", "/ready":
		return next(c)
	}
	s.metrics.turnedAway.Inc()
	c.Response().Header().Set("Retry-After", "1")
	return c.NoContent(http.StatusServiceUnavailable)
}

// statusOnly discards the body.
type statusOnly struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w statusOnly) WriteHeader(status int) {
	w.Header().Set(echo.HeaderContentLength, "0")
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (statusOnly) Write(p []byte) (int, error) { return len(p), nil }

// Unwrap is called by http.ResponseController.
func (w statusOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }
