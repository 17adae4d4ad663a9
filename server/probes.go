package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	contract "github.com/flux-resourceset/flux-resourceset/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const readyTimeout = 2 * time.Second

func (s *Server) GetHealth(c echo.Context) error {
	return response.WriteJSON(c, http.StatusOK, api.Status{Status: "ok"})
}

// GetReady answers readiness probes. A server with a State that is not too old is ready for polls, and reports problems; one
// that accepts changes needs the store as well.
func (s *Server) GetReady(c echo.Context, params api.GetReadyParams) error {
	if wanted := value(params.For); params.For != nil && wanted != "polls" { // parameters are not validated in mode read-only
		return fleet.Invalid([]fleet.Problem{{Detail: "query parameter for: must be polls, or left out"}})
	}
	changes := s.cfg.Mode == ModeCRUD && params.For == nil
	status := s.cfg.Replica.Status()
	out := api.Readiness{Status: "ok", Checks: map[string]string{"state": "ok", "store": "ok"}}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	err := status.LastError
	if changes || !status.Loaded {
		err = s.cfg.Replica.Healthy(ctx)
	}
	switch {
	case status.QuarantineReason != "":
		out.Checks["store"] = status.QuarantineReason
	case errors.Is(err, store.ErrNoCommits):
		out.Checks["store"] = "the store answers, but commits fail; the log has the cause"
	case err != nil:
		out.Checks["store"] = "the store does not answer"
	}
	if err != nil {
		s.cfg.Logger.DebugContext(ctx, "the readiness check of the store failed", "error", err)
	}
	switch {
	case !status.Loaded:
		out.Checks["state"] = "not loaded yet"
	case status.StateQuarantined:
		out.Checks["state"] = "quarantined: the store's history is not served to clusters"
	case status.TooOld && status.Cold:
		out.Checks["state"] = fmt.Sprintf("too old: read from disk, last confirmed by the store at %s, and STATE_MAX_AGE is %s",
			status.ConfirmedAt.UTC().Format(time.RFC3339), status.MaxAge)
	case status.TooOld:
		out.Checks["state"] = fmt.Sprintf("too old: the store last confirmed it %s ago, and MAX_STALENESS is %s", status.Age.Round(time.Second), status.MaxAge)
	case status.Outdated:
		out.Checks["state"] = fmt.Sprintf("stale: read from disk, last confirmed by the store at %s, served because of SERVE_STALE_AFTER_RESTART",
			status.ConfirmedAt.UTC().Format(time.RFC3339))
	case status.FromDisk:
		out.Checks["state"] = "ok, from disk: the store has not confirmed it since the start"
	}
	if status.PassiveReason != "" {
		out.Checks["automation"] = "passive: " + status.PassiveReason
	}
	stopping := false
	select {
	case <-s.cfg.Stopping:
		stopping = true
		out.Checks["process"] = "stopping"
	default:
	}
	stuck, blocked := s.queues.Stuck()
	if stuck != "" {
		out.Checks["queues"] = stuck
	}
	if stopping || blocked && changes || !status.Loaded || status.TooOld || status.StateQuarantined || status.Outdated && s.cfg.OthersServe || err != nil && changes {
		out.Status = "unavailable"
		return response.WriteJSON(c, http.StatusServiceUnavailable, out)
	}
	return response.WriteJSON(c, http.StatusOK, out)
}

func (s *Server) GetVersion(c echo.Context) error {
	return response.WriteJSON(c, http.StatusOK, api.Version{Version: s.cfg.Version, GoVersion: runtime.Version(), Mode: s.cfg.Mode, Store: s.cfg.StoreName})
}

// GetMetrics answers Prometheus. Only principals that may list clusters get the metrics that name them or other documents.
func (s *Server) GetMetrics(c echo.Context) error {
	documents := s.metrics.anonymous
	if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
		st, _, err := s.cfg.Replica.StateForReads()
		if err != nil {
			st = nil // its tokens are too old as well
		}
		caller, err := s.auth.Identify(c.Request(), st)
		if errors.Is(err, auth.ErrUnauthenticated) { // counted and limited as on all routes, so that tokens cannot be guessed here
			return s.reportRefusal(c, auth.NewRefusedError(caller, err, auth.Access{Needs: auth.Read}))
		}
		if err == nil {
			s.metrics.identified[caller.Method].Inc()
		}
		if err == nil && caller.Role >= auth.Read {
			documents = s.metrics.clusters
		}
	}
	// The collected metrics are released before the answer is sent, because a client may be slow to receive it.
	answer := responseRecorder{header: c.Response().Header()}
	promhttp.HandlerFor(prometheus.Gatherers{s.metrics.registry, documents}, promhttp.HandlerOpts{}).ServeHTTP(&answer, c.Request())
	c.Response().WriteHeader(max(answer.status, http.StatusOK))
	_, err := c.Response().Write(answer.body.Bytes())
	return err
}

// responseRecorder holds a whole answer before it is sent.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *responseRecorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *responseRecorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *responseRecorder) Write(p []byte) (int, error) { return r.body.Write(p) }

func (s *Server) spec() []byte {
	switch {
	case s.cfg.Spec != nil:
		return s.cfg.Spec
	case s.cfg.BasePath != "":
		return bytes.Replace(contract.YAML, []byte("\nservers:\n  - url: /\n"), []byte("\nservers:\n  - url: "+s.cfg.BasePath+"\n"), 1)
	}
	return contract.YAML
}

func (s *Server) GetOpenAPIYAML(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", s.spec())
}

func (s *Server) GetOpenAPIJSON(c echo.Context) error {
	doc, err := s.specJSON()
	if err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	return c.Blob(http.StatusOK, "application/json", doc)
}
