package server

import (
	"context"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Routes are the router's.
func (s *Server) Routes() []*echo.Route { return s.echo.Routes() }

// NewConnections is the ConnState of a server with a limit.
func NewConnections(total, unproven, each int) (changed func(net.Conn, http.ConnState), prove func(net.Conn)) {
	c := newConnections(connectionLimits{total, unproven, each})
	return c.stateChanged, func(conn net.Conn) { markAuthenticated(c.connContext(context.Background(), conn)) }
}
