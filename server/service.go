package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/openapi"
)

const readyTimeout = 2 * time.Second

// GetHealth implements the operation of that name.
func (s *Server) GetHealth(c echo.Context) error {
	return writeJSON(c, http.StatusOK, api.Status{Status: "ok"})
}

// GetReady implements the operation of that name. A read-only server that has a State can answer polls, whatever has
// become of the store since; a server that takes changes needs the store as well.
func (s *Server) GetReady(c echo.Context) error {
	status := s.cfg.Replica.Status()
	out := api.Readiness{Status: "ok", Checks: map[string]string{"state": "ok"}}
	if !status.Loaded {
		out.Status = "unavailable"
		out.Checks["state"] = "not loaded yet"
		if status.LastError != nil {
			s.cfg.Logger.DebugContext(c.Request().Context(), "not ready", "error", status.LastError)
		}
	}
	if s.cfg.Mode == ModeCRUD {
		ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
		defer cancel()
		out.Checks["store"] = "ok"
		if err := s.cfg.Replica.Healthy(ctx); err != nil {
			out.Status = "unavailable"
			out.Checks["store"] = "the store does not answer"
			if status.Refused != "" {
				out.Checks["store"] = "the store's content was refused: " + status.Refused
			}
			s.cfg.Logger.DebugContext(ctx, "not ready", "error", err)
		}
	}
	if out.Status != "ok" {
		return writeJSON(c, http.StatusServiceUnavailable, out)
	}
	return writeJSON(c, http.StatusOK, out)
}

// GetVersion implements the operation of that name.
func (s *Server) GetVersion(c echo.Context) error {
	return writeJSON(c, http.StatusOK, api.Version{Version: s.cfg.Version, GoVersion: runtime.Version(), Mode: s.cfg.Mode, Store: s.cfg.StoreName})
}

// GetMetrics implements the operation of that name.
func (s *Server) GetMetrics(c echo.Context) error {
	promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}

func (s *Server) spec() []byte {
	if s.cfg.Spec != nil {
		return s.cfg.Spec
	}
	return openapi.YAML
}

// GetOpenAPIYAML implements the operation of that name.
func (s *Server) GetOpenAPIYAML(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", s.spec())
}

// GetOpenAPIJSON implements the operation of that name.
func (s *Server) GetOpenAPIJSON(c echo.Context) error {
	doc, err := s.specJSON()
	if err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	return c.Blob(http.StatusOK, "application/json", doc)
}
