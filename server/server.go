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
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
	"github.com/flux-resourceset/flux-resourceset/internal/redact"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server/internal/admission"
	"github.com/flux-resourceset/flux-resourceset/server/internal/auth"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
	"github.com/flux-resourceset/flux-resourceset/server/internal/oidc"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/server/internal/poll"
	"github.com/flux-resourceset/flux-resourceset/server/internal/session"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/webhooks"
)

// Modes of a server.
const (
	// ModeReadOnly serves Flux polls and the service endpoints.
	ModeReadOnly = "read-only"
	// ModeCRUD serves everything.
	ModeCRUD = "crud"
)

// Tokens are the static bearer tokens: see [auth.Tokens].
type Tokens = auth.Tokens

// Issuer is the configuration of an OpenID Connect issuer: see [oidc.Issuer].
type Issuer = oidc.Issuer

// Issuers verifies ID tokens: see [oidc.Verifier].
type Issuers = oidc.Verifier

// IssuerSignIn is a sign-in of a person in a browser: see [oidc.SignIn].
type IssuerSignIn = oidc.SignIn

// IDTokenError is the reason for refusing an ID token: see [oidc.TokenError].
type IDTokenError = oidc.TokenError

// IssuersConfig configures Issuers: see [oidc.Config].
type IssuersConfig = oidc.Config

// ParseIssuers reads the setting OIDC_ISSUERS, and returns all problems.
func ParseIssuers(text string) ([]Issuer, []string) { return oidc.ParseIssuers(text) }

// NewIssuers loads the keys of the issuers: see [oidc.New].
func NewIssuers(ctx context.Context, cfg IssuersConfig) (*Issuers, error) { return oidc.New(ctx, cfg) }

// Config configures a Server. The fields Spec, Logger and Now are optional, and others as their comments state.
type Config struct {
	Mode    string
	Replica *store.Replica
	// History reads the log; needed in mode crud.
	History History
	// StoreSize returns the size of the store in bytes; nil: unknown.
	StoreSize func(context.Context) (int64, error)
	// Audit returns the state of the verification of the history's hash chain; nil: it is not verified.
	Audit func() store.AuditStatus
	// AuditLog writes audit events; nil: there are none.
	AuditLog *AuditLog
	// StorePool returns the use of the store's connections; nil: there is no pool.
	StorePool func() (store.PoolStats, bool)
	// Backup copies the whole store until its context ends; needed in mode crud.
	Backup func(context.Context) (*Backup, error)
	Tokens Tokens
	// TLS verifies client certificates for as long as they are trusted; nil: there are none.
	TLS *TLS
	// RequireClientCert requires a verified client certificate, beside the token, on all but the service endpoints.
	RequireClientCert bool
	// Issuers verifies ID tokens, in mode crud only; nil: none are accepted.
	Issuers *Issuers
	// RequireClusterToken: polls, receipts and events count for the status of a cluster only with the cluster's own token or
	// certificate. Requests with another token get the same answers.
	RequireClusterToken bool
	// GatesTrustSharedToken: reports with the static read token count for the gates of rollouts too.
	GatesTrustSharedToken bool
	// SessionKeys are the secrets for session tokens of people: the first encrypts, all decrypt. Empty: a random key.
	SessionKeys []string
	// Version and StoreName are shown at /version.
	Version   string
	StoreName string
	// MetricsApart removes /metrics from the Server itself; [Server.Watch] serves it.
	MetricsApart bool
	// OthersServe: other processes may answer polls with a newer fleet. /ready is then 503 while this one serves a fleet from
	// disk that is older than MAX_STALENESS.
	OthersServe bool
	// Stopping is closed when the process begins to stop; /ready is then 503. nil: never.
	Stopping <-chan struct{}
	// BasePath is the path below which clients reach the service, such as /fleet, for the OpenAPI document; empty: the root.
	// [WithBasePath] removes it from requests.
	BasePath string
	// Spec replaces the embedded document served at /openapi.yaml.
	Spec []byte
	// ClusterStatus records polls, receipts and events; nil: in memory only.
	ClusterStatus *clusterstatus.Tracker
	// OfflineAfter is the time without a poll after which the state of a cluster is unknown; 0: [clusterstatus.OfflineAfter].
	OfflineAfter time.Duration
	// WatchStreams is the limit of concurrent watches of revisions; 0: DefaultWatchStreams.
	WatchStreams int
	// Webhooks delivers events; nil: webhooks cannot be created.
	Webhooks *webhooks.Deliverer
	// Versions has the known versions of components; nil: in memory only.
	Versions *knownversions.Store
	// VersionScanner finds versions in registries; nil: only pushed versions are known.
	VersionScanner VersionScanner
	// ArtifactReader reads the artifacts of sources; nil: none are applied.
	ArtifactReader ArtifactReader
	// Tracer starts the spans of requests; nil: none.
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
	cfg        Config
	masker     *redact.Masker
	auth       *auth.Authenticator
	sessions   *session.Keys // nil: without issuers
	polls      *poll.Responder
	operations openapi.Operations
	metrics    *metrics
	tracker    *clusterstatus.Tracker
	echo       *echo.Echo
	queues     *admission.Queues
	feed       *revisionFeed
	// changedInputs serves the progress of revisions.
	changedInputs    changedInputsCache
	clusterCounts    clusterCounts
	rolloutInputs    rolloutInputsCache
	rolloutWaits     reasons
	visible          visibleStates
	searchCache      searchCache
	causingRevisions causingRevisions
	// servedHistories serves the histories of components.
	servedHistories servedHistories

	versions        *knownversions.Store
	pushes          pushLimits
	scans           versionScans
	versionRunner   versionRunner
	versionsBehind  versionsBehind
	versionRefusals reasons
	pinRefusals     reasons
	sources         sourceRunner
	sourceFailures  reasons
	// The OpenAPI document in other forms, made on first use.
	specJSON, docsSpec func() ([]byte, error)
}

var _ apiserver.ServerInterface = (*Server)(nil)

// New returns a Server. It fails when the embedded OpenAPI document is invalid.
func New(cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ops, err := openapi.Load(cfg.Mode == ModeCRUD)
	if err != nil {
		return nil, fmt.Errorf("the embedded OpenAPI document: %w", err)
	}
	s := &Server{cfg: cfg, masker: cfg.Tokens.Masker(), operations: ops, echo: echo.New(), servedHistories: makeServedHistories()}
	authConfig := auth.Config{Tokens: cfg.Tokens, RequireClientCert: cfg.RequireClientCert, Holders: cfg.Replica, Now: cfg.Now}
	if cfg.TLS != nil {
		authConfig.Certificates = cfg.TLS
	}
	if cfg.Mode == ModeCRUD && cfg.Issuers != nil {
		if s.sessions, err = session.NewKeys(cfg.SessionKeys...); err != nil {
			return nil, err
		}
		authConfig.Issuers, authConfig.Sessions = cfg.Issuers, s.sessions
	}
	s.auth = auth.New(authConfig)
	if s.tracker = cfg.ClusterStatus; s.tracker == nil {
		s.tracker = clusterstatus.NewTracker(clusterstatus.Config{})
	}
	if s.versions = cfg.Versions; s.versions == nil {
		s.versions = knownversions.New()
	}
	s.polls = poll.New(poll.Config{Replica: cfg.Replica, Auth: s.auth, Tracker: s.tracker, RequireClusterToken: cfg.RequireClusterToken, Now: cfg.Now})
	s.cfg.OfflineAfter = cmp.Or(cfg.OfflineAfter, clusterstatus.OfflineAfter)
	s.metrics = newMetrics(s)
	s.feed = newRevisionFeed(cfg.History)
	s.queues = admission.NewQueues(cmp.Or(cfg.WatchStreams, DefaultWatchStreams), func(queue string) prometheus.Observer { return s.metrics.work.WithLabelValues(queue) })
	s.metrics.registry.MustRegister(s.queues)
	if cfg.AuditLog != nil {
		s.metrics.registry.MustRegister(cfg.AuditLog.Collector())
	}
	s.specJSON = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(s.spec()) })
	s.docsSpec = sync.OnceValues(func() ([]byte, error) { return makeDocsSpec(s.spec()) })
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.HTTPErrorHandler = s.handleError
	s.echo.Use(s.middleware(admission.NewPreauthLimit()), s.guard)
	routes := withHead{Echo: s.echo}
	if cfg.MetricsApart {
		routes.without = metricsPath
	}
	apiserver.RegisterHandlers(routes, s)
	s.mountDocs()
	return s, nil
}

const metricsPath = "/metrics"

// Watch returns a handler for monitoring: probes, version and metrics. On a listener of its own, clients that poll cannot
// reach it or exhaust its connections.
func (s *Server) Watch() http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = s.handleError
	e.Use(s.middleware(admission.NewPreauthLimit()), s.guard)
	op := apiserver.ServerInterfaceWrapper{Handler: s}
	routes := withHead{Echo: e}
	routes.GET("/health", op.GetHealth)
	routes.GET("/ready", op.GetReady)
	routes.GET("/version", op.GetVersion)
	routes.GET(metricsPath, op.GetMetrics)
	return e
}

// withHead registers HEAD beside every GET; net/http omits the body.
type withHead struct {
	*echo.Echo
	without string // a path that is not registered
}

// GET implements apiserver.EchoRouter.
func (e withHead) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	if path == e.without {
		return nil
	}
	e.HEAD(path, h, m...)
	return e.Echo.GET(path, h, m...)
}

// guard checks a request before its handler: the mode, the credential, and for all but polls the parameters and the body
// against the OpenAPI document.
func (s *Server) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operations.Find(c.Request().Method, c.Path())
		if op == nil {
			return s.operations.HandleUnknown(c, s.cfg.Mode == ModeCRUD, next)
		}
		if op.CRUDOnly && s.cfg.Mode != ModeCRUD {
			return errReadOnly(op.Write)
		}
		r := requestOf(c)
		r.op = op
		r.watch = isWatch(r)
		// Authentication comes first, so that a client without permission cannot cause reads and waits. It is repeated if the
		// State has changed meanwhile, because the answer is made from the new one.
		if err := s.authenticate(r); err != nil {
			return err
		}
		if err := s.waitForRevision(r); err != nil {
			return err
		}
		if !op.Poll {
			j, err := s.enter(r)
			if err != nil {
				return err
			}
			defer j.Leave()
			if j.MustWait() {
				r.state = nil // it may be replaced many times before the job's turn, and would stay in memory
			}
			if r.body, err = op.Validate(r, j.WaitTurn); err != nil {
				return err
			}
		}
		if err := s.authenticate(r); err != nil {
			return err
		}
		if op.Write || r.body.Text != nil {
			if err := s.rejectSecrets(r); err != nil {
				return err
			}
		}
		return next(r)
	}
}

// enter admits the request to the queue of its operation.
func (s *Server) enter(r *request) (*admission.Job, error) {
	j, err := s.queues.Enter(r.Request().Context(), admission.Request{
		Operation: r.op.ID, Write: r.op.Write, CRUDOnly: r.op.CRUDOnly, Watch: r.watch, ContentLength: r.Request().ContentLength, Principal: r.principal.Actor,
	})
	switch {
	case err == nil:
		r.job = j
	case r.watch:
		s.metrics.watchesRefused.Inc()
	}
	return j, err
}

func errReadOnly(write bool) error {
	if write {
		return &httperror.Error{
			Status: http.StatusMethodNotAllowed, Code: "method_not_allowed",
			Detail: "this server is read-only: send changes to one that runs with API_MODE=crud",
		}
	}
	return &httperror.Error{
		Status: http.StatusNotFound, Code: "not_found",
		Detail: "this server is read-only and serves Flux polls: use one that runs with API_MODE=crud",
	}
}

// isClientGone reports whether the request ended because its client disconnected.
func isClientGone(c echo.Context, err error) bool {
	return errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil
}
