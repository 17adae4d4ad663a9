package server

import (
	"net"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Routes are the router's.
func (s *Server) Routes() []*echo.Route { return s.echo.Routes() }

// NewConnections is the ConnState of a server with a limit.
func NewConnections(most int) func(net.Conn, http.ConnState) { return newConnections(most).changed }
