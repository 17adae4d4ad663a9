package server

import "github.com/labstack/echo/v4"

// Routes are the router's.
func (s *Server) Routes() []*echo.Route { return s.echo.Routes() }
