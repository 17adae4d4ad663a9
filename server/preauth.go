package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
)

// admitPreauth admits a request before it is authenticated. Above the limit it admits only requests with a valid credential.
func (s *Server) admitPreauth(r *request, limit *admission.PreauthLimit) bool {
	if address := auth.SourceNetwork(r.Request()); limit.Acquire(address) {
		r.preauth, r.address = limit, address
		return true
	}
	return s.auth.MayEnter(r.Request(), s.cfg.Replica.State())
}

// releasePreauth is called once the request is authenticated, and at its end.
func (s *Server) releasePreauth(r *request) {
	if r.preauth != nil {
		r.preauth.Release(r.address)
		r.preauth = nil
	}
}

// answerStatusOnly answers a request above the limit without a body, so that its client cannot hold memory by not reading it.
// Probes evaluate the status, so they get the real one.
func (s *Server) answerStatusOnly(c echo.Context, next echo.HandlerFunc) error {
	c.Response().Writer = admission.StatusOnly{ResponseWriter: c.Response().Writer}
	switch c.Path() {
	case "/health", "/ready":
		return next(c)
	}
	s.metrics.turnedAway.Inc()
	c.Response().Header().Set("Retry-After", "1")
	return c.NoContent(http.StatusServiceUnavailable)
}
