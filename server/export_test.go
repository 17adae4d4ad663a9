package server

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
)

// Routes are the router's.
func (s *Server) Routes() []*echo.Route { return s.echo.Routes() }

// NewConnections is the ConnState of a server with a limit.
func NewConnections(total, unproven, each int) (changed func(net.Conn, http.ConnState), prove func(net.Conn)) {
	c := admission.NewConnections(admission.ConnectionLimits{Total: total, Unauthenticated: unproven, UnauthenticatedPerAddress: each, SilentPerAddress: total})
	return c.ConnState, func(conn net.Conn) { admission.MarkAuthenticated(c.ConnContext(context.Background(), conn)) }
}

// SetTracer sets the tracer of a server that serves no requests yet.
func (s *Server) SetTracer(t trace.Tracer) { s.cfg.Tracer = t }

// PushVersion records a version of a component without a request.
func (s *Server) PushVersion(component, version string) {
	doc, _ := s.cfg.Replica.State().Get(fleet.KindComponent, component)
	s.versions.Push(versionSources(doc)[0], s.cfg.Now(), knownversions.Observation{Version: version})
}

// SetCountingTime sets the time that a list of revisions counts clusters, of a server that serves no requests yet.
func (s *Server) SetCountingTime(d time.Duration) { s.clusterCounts.limit = d }
