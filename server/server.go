// Package server answers the API: polls and reads from the State in memory, changes through the store's Replica.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Modes of a server.
const (
	// ModeReadOnly serves Flux polls and the service endpoints.
	ModeReadOnly = "read-only"
	// ModeCRUD serves everything.
	ModeCRUD = "crud"
)

// Config is what a Server is made of. All fields but Spec, Logger and Now are required.
type Config struct {
	Mode    string
	Replica *store.Replica
	// History reads the log; only mode crud needs it.
	History History
	// StoreSize tells how many bytes the store takes; nil when nobody can.
	StoreSize func(context.Context) (int64, error)
	// Audit tells what is known of the history's hash chain; nil where nothing verifies it.
	Audit func() store.AuditStatus
	// StorePool tells how the store's connections are used; nil when there is no pool.
	StorePool func() (store.PoolStats, bool)
	// Backup makes a copy of the whole store, and ends when its context does; only mode crud needs it.
	Backup func(context.Context) (*Backup, error)
	Tokens Tokens
	// TLS is the server's, nil without. A client certificate is believed for as long as it says so.
	TLS *TLS
	// RequireClientCert makes a verified client certificate a condition for everything but the service endpoints: a
	// token alone is not enough.
	RequireClientCert bool
	// Version and StoreName are shown at /version.
	Version   string
	StoreName string
	// MetricsApart takes /metrics off the Server itself: it is served by what [Server.Watch] returns alone.
	MetricsApart bool
	// OthersServe: other processes may answer polls with a newer fleet. /ready is then 503 while this one serves a fleet from
	// disk that is older than MAX_STALENESS.
	OthersServe bool
	// BasePath is the path below which clients reach the service, such as /fleet, for the OpenAPI document; empty: the root.
	// [WithBasePath] removes it from requests.
	BasePath string
	// Spec replaces the embedded document served at /openapi.yaml.
	Spec []byte
	// Observations is where what clusters say of themselves is noted; nil: one of the Server's own, in memory.
	ClusterStatus *clusterstatus.Tracker
	// OfflineAfter is for how long a cluster that is not seen is believed; 0 is [clusterstatus.OfflineAfter].
	OfflineAfter time.Duration
	// Tracer makes the spans of requests; nil: there are none.
	Tracer trace.Tracer
	Logger *slog.Logger
	Now    func() time.Time
}

// History is the part of a store that reads the log.
type History interface {
	Summaries(ctx context.Context, q store.HistoryQuery, names int) ([]store.Summary, error)
	Changes(ctx context.Context, rev fleet.Revision, offset, limit int) ([]fleet.Change, error)
	DocumentLog(ctx context.Context, q fleet.DocumentLogQuery) (fleet.DocumentLog, error)
	Past(ctx context.Context, q fleet.PastQuery) (fleet.Documents, error)
	At(ctx context.Context, kind fleet.Kind, id string, rev fleet.Revision) (fleet.Record, bool, error)
}

// Server implements the generated ServerInterface.
type Server struct {
	cfg            Config
	credentials    []credential
	operations     operations
	metrics        *metrics
	tracker        *clusterstatus.Tracker
	failures       failureTracker // to authenticate
	identityCache  identityCache
	echo           *echo.Echo
	queues         map[string]*queue
	budget         timeBudgets
	responseBuffer responseBuffer // for answers that are on their way
	// changedInputs is for the progress of revisions.
	changedInputs changedInputsCache
	// The document served at /openapi.yaml in other forms, made when first asked for.
	specJSON, docsSpec func() ([]byte, error)
}

var _ apiserver.ServerInterface = (*Server)(nil)

// New wires a Server. It fails when the embedded contract cannot be used.
func New(cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ops, err := loadOperations(cfg.Mode)
	if err != nil {
		return nil, fmt.Errorf("the embedded contract: %w", err)
	}
	s := &Server{cfg: cfg, credentials: cfg.Tokens.credentials(), operations: ops, echo: echo.New()}
	s.responseBuffer.perPrincipal = map[string]int{}
	if s.tracker = cfg.ClusterStatus; s.tracker == nil {
		s.tracker = clusterstatus.NewTracker(clusterstatus.Config{})
	}
	s.cfg.OfflineAfter = cmp.Or(cfg.OfflineAfter, clusterstatus.OfflineAfter)
	s.metrics = newMetrics(s)
	s.queues = newQueues(s.metrics.work)
	s.specJSON = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(s.spec()) })
	s.docsSpec = sync.OnceValues(func() ([]byte, error) { return makeDocsSpec(s.spec()) })
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.HTTPErrorHandler = s.handleError
	s.echo.Use(s.middleware(newPreauthLimit()), s.guard)
	routes := withHead{Echo: s.echo}
	if cfg.MetricsApart {
		routes.without = metricsPath
	}
	apiserver.RegisterHandlers(routes, s)
	s.mountDocs()
	return s, nil
}

const metricsPath = "/metrics"

// Watch answers what watches over the process: probes, version and metrics. On a listener of its own it is out of reach of
// those who poll, and goes on answering when they have taken all connections there are.
func (s *Server) Watch() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = s.handleError
	e.Use(s.middleware(newPreauthLimit()), s.guard)
	op := apiserver.ServerInterfaceWrapper{Handler: s}
	routes := withHead{Echo: e}
	routes.GET("/health", op.GetHealth)
	routes.GET("/ready", op.GetReady)
	routes.GET("/version", op.GetVersion)
	routes.GET(metricsPath, op.GetMetrics)
	return e
}

// withHead registers HEAD beside every GET; net/http leaves the body out.
type withHead struct {
	*echo.Echo
	without string // a path that is left out
}

// GET implements apiserver.EchoRouter.
func (e withHead) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	if path == e.without {
		return nil
	}
	e.HEAD(path, h, m...)
	return e.Echo.GET(path, h, m...)
}

// guard decides whether a request may reach its handler: the mode, the token, and for everything but polls whether
// the request is one that the contract describes.
func (s *Server) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operations.find(c.Request().Method, c.Path())
		if op == nil {
			return s.operations.handleUnknown(c, s.cfg.Mode, next)
		}
		if op.crudOnly && s.cfg.Mode != ModeCRUD {
			return errReadOnly(op.write)
		}
		r := requestOf(c)
		r.op = op
		// First, so that nobody makes us read or wait who may not; and again when that took so long that there is another
		// State, because that is what the answer is made from.
		if err := s.authenticate(r); err != nil {
			return err
		}
		if err := s.waitForRevision(r); err != nil {
			return err
		}
		if !op.poll {
			j, err := s.enter(r)
			if err != nil {
				return err
			}
			defer j.leave()
			if j.mustWait() {
				r.state = nil // it may be replaced many times before it is this request's turn, and would be kept
			}
			if err := op.validate(r, j.waitTurn); err != nil {
				return err
			}
		}
		if err := s.authenticate(r); err != nil {
			return err
		}
		if op.write || r.body != nil {
			if err := s.rejectSecrets(r); err != nil {
				return err
			}
		}
		return next(r)
	}
}

func errReadOnly(write bool) error {
	if write {
		return &publicError{
			status: http.StatusMethodNotAllowed, code: "method_not_allowed",
			detail: "this server is read-only: send changes to one that runs with API_MODE=crud",
		}
	}
	return &publicError{
		status: http.StatusNotFound, code: "not_found",
		detail: "this server is read-only and serves Flux polls: ask one that runs with API_MODE=crud",
	}
}

// isClientGone tells whether the request ended because its client went away.
func isClientGone(c echo.Context, err error) bool {
	return errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil
}
