package server

import (
	"errors"
	"net/http"
	"net/netip"
	"sync"

	"github.com/labstack/echo/v4"
)

// maxAnonymous is how many requests of nobody known are answered at a time. Each holds some memory until its client has
// taken the answer, and a client may refuse to, for as long as a minute and on a thousand streams of HTTP/2. maxAnonymousEach is
// how many of one address (of IPv6, the /64): nobody takes all places of the others.
const (
	maxPreauth           = 256
	maxPreauthPerAddress = 128
)

// places are those for requests of nobody known.
type preauthLimit struct {
	mu         sync.Mutex
	perAddress map[netip.Prefix]int
	total      int
}

func newPreauthLimit() *preauthLimit { return &preauthLimit{perAddress: map[netip.Prefix]int{}} }

// take takes a place for a request of an address, if there is one.
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

// admitAnonymous lets a request in before it is known who sent it. Above the limit those with a good credential still pass. The
// others are answered by a status alone, which needs no room that their client would have to give.
func (s *Server) admitPreauth(r *request, limit *preauthLimit) bool {
	if address := sourceAddress(r.Request()); limit.acquire(address) {
		r.preauth, r.address = limit, address
		return true
	}
	_, err := s.identify(r.Request(), s.cfg.Replica.State())
	if errors.Is(err, errUnauthenticated) { // or it would be the place to guess at
		s.failures.recordRequest(r.Request(), err, s.cfg.Now())
	}
	return err == nil
}

// leaveAnonymous is called when it is known who sent the request, and at its end.
func (s *Server) releasePreauth(r *request) {
	if r.preauth != nil {
		r.preauth.release(r.address)
		r.preauth = nil
	}
}

// answerByStatus is for a client that there is no room for. Probes go by the status, so theirs is the true one.
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

// statusOnly leaves the body out.
type statusOnly struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w statusOnly) WriteHeader(status int) {
	w.Header().Set(echo.HeaderContentLength, "0")
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (statusOnly) Write(p []byte) (int, error) { return len(p), nil }

// Unwrap is for http.ResponseController.
func (w statusOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }
