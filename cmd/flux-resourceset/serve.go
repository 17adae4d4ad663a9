package main

import (
	"cmp"
	"context"
	"crypto/fips140"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/lmittmann/tint"
	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/knownversions"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/localstate"
	"github.com/flux-resourceset/flux-resourceset/ui"
)

// serve opens the store, serves until the context ends, and closes everything in order.
func serve(c *cli.Context) error {
	cfg, err := readConfig(c)
	if err != nil {
		return err
	}
	logger := newLogger(c.App.ErrWriter, cfg)
	ctx, stop, stopping := delayShutdown(c.Context, cfg.shutdownDelay, logger)
	defer stop()
	limitMemory(ctx, logger, memlimit.FromCgroup)
	if cfg.stateDir != "" && cfg.serveStale && cfg.hasPeers() {
		logger.WarnContext(ctx, "SERVE_STALE_AFTER_RESTART is set: this must be the only process that answers polls, since clusters that reach another one too would uninstall what lies between two answers")
	}
	spec, err := readSpec(ctx, cfg, logger)
	if err != nil {
		return err
	}
	var identity *server.TLS
	if cfg.tls.Cert != "" {
		if identity, err = server.NewTLS(cfg.tls, logger, time.Now); err != nil {
			return err
		}
	}
	if cfg.seedFile != "" && cfg.db.name() == backendMemory {
		logger.WarnContext(ctx, "the store is in memory: all changes are gone with the process, and none is written back to SEED_FILE", "file", cfg.seedFile)
	}
	traces, err := newTracing(ctx, cfg.otlp, cfg.mode, logger)
	if err != nil {
		return fmt.Errorf("traces, by the variables OTEL_…: %w", err)
	}
	defer traces.stop(logger)
	cfg.db = traces.watch(cfg.db)
	signal.Ignore(syscall.SIGPIPE) // the reader of the log or of audit events may end, and polls still need answers
	auditLog, err := openAuditLog(c, cfg, logger)
	if err != nil {
		return err
	}
	defer auditLog.Close()
	rules := fleet.Rules{Environments: cfg.environments, Protected: cfg.protected, MaxRemovals: cfg.maxRemovals, SecondPerson: cfg.secondPerson, VersionRollouts: cfg.versionRollouts, RefuseSecrets: cfg.refuseSecrets}
	opener := &opener{cfg: cfg, rules: rules, seedFile: cfg.seedFile, logger: logger}
	st, err := opener.store()
	if err != nil {
		return err
	}
	replica := store.NewReplica(store.Config{Store: st, Rules: rules, Logger: logger, StateDir: cfg.stateDir, Passive: cfg.passive, StateMaxAge: cfg.stateMaxAge, MaxStaleness: cfg.maxStaleness})
	opener.adopt = replica.Adopt
	switch restored := replica.Restore(ctx); {
	case restored && replica.State().Revision() > 0:
		opener.seedFile = "" // an empty store would have lost the fleet that this process serves
		opener.known = "for `accept --replaces`: " + store.FormatHead(replica.State().Head())
	case !restored && cfg.stateDir != "" && localstate.Present(cfg.stateDir):
		opener.known = "unreadable"
	}
	if err := openStore(ctx, cfg, st, replica, logger); err != nil {
		return errors.Join(err, st.Close())
	}
	if err := checkCredentials(ctx, cfg, replica.State(), logger); err != nil {
		return errors.Join(err, st.Close())
	}
	var known *knownversions.Store // read-only processes need none
	if cfg.mode == server.ModeCRUD {
		known = knownversions.New()
	}
	tracker, err := newTracker(cfg, replica, known, logger)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	issuers, err := newIssuers(ctx, cfg, logger)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	events, err := newWebhooks(cfg, tracker, replica, st, logger)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	var audit *store.Audit
	var auditStatus func() store.AuditStatus
	if cfg.mode == server.ModeCRUD {
		audit = &store.Audit{Store: st, Logger: logger}
		auditStatus = audit.Status
	}
	scanner, artifacts := newRegistries(cfg, logger)
	srv, err := server.New(server.Config{
		Audit:         auditStatus,
		AuditLog:      auditLog,
		Webhooks:      events,
		ClusterStatus: tracker, OfflineAfter: cfg.offlineAfter,
		Mode: cfg.mode, Replica: replica, History: st, StoreSize: st.Size, StorePool: st.Pool, Backup: newBackupFunc(st, logger), Tracer: traces.tracer(), Tokens: cfg.tokens, Issuers: issuers, SessionKeys: []string{cfg.sessionKey, cfg.sessionKeyPrevious},
		Version: version, StoreName: cfg.db.name(), Spec: spec, Logger: logger, TLS: identity, RequireClientCert: cfg.requireCert, RequireClusterToken: cfg.clusterToken, GatesTrustSharedToken: cfg.gatesTrustShared,
		WatchStreams: cfg.watchStreams, Versions: known, VersionScanner: scanner, ArtifactReader: artifacts,
		BasePath: cfg.basePath, MetricsApart: cfg.metrics != "", OthersServe: cfg.hasPeers(), Stopping: stopping,
	})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	var background sync.WaitGroup
	background.Go(func() { tracker.Run(ctx) })
	if cfg.mode == server.ModeCRUD {
		retention := store.Retention{Store: st, Keep: cfg.retention, Logger: logger, May: func() bool { return replica.Status().Following }}
		background.Go(func() { retention.Run(ctx) })
		background.Go(func() { audit.Run(ctx) })
		background.Go(func() { srv.RunRollouts(ctx) })
		background.Go(func() { srv.RunVersions(ctx) })
		background.Go(func() { srv.RunVersionScans(ctx) })
		background.Go(func() { srv.RunSources(ctx) })
		background.Go(func() { events.Run(ctx) })
		if issuers != nil {
			background.Go(func() { issuers.Run(ctx) })
		}
	}
	handler, err := withPage(cfg, srv, issuers, st, logger)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	if os.Getenv("GOGC") == "" {
		startHeapGoal()
	}
	err = listen(ctx, cfg, srv, handler, identity, replica, logger)
	stop()
	background.Wait()
	return errors.Join(err, st.Close())
}

// withPage wraps the API in the fleet page, if that is enabled.
func withPage(cfg config, srv *server.Server, issuers *server.Issuers, ended ui.EndedSessions, logger *slog.Logger) (http.Handler, error) {
	if !cfg.page {
		return server.WithBasePath(cfg.basePath, srv), nil
	}
	page, err := ui.New(ui.Config{API: srv, Issuers: newPageIssuers(issuers), Audit: func(r *http.Request, e ui.AuditEvent) { srv.AuditPage(r, server.PageAuditEvent(e)) }, SignIn: server.WithSignIn, BasePath: cfg.basePath, EndedSessions: ended, SessionKey: cfg.sessionKey, SessionKeyPrevious: cfg.sessionKeyPrevious, Changes: cfg.pageChanges, Version: version, Logger: logger})
	if err != nil {
		return nil, err
	}
	return server.WithBasePath(cfg.basePath, page), nil
}

// newIssuers loads the keys of the issuers; nil: there are none, or the mode accepts no ID tokens.
func newIssuers(ctx context.Context, cfg config, logger *slog.Logger) (*server.Issuers, error) {
	if cfg.mode != server.ModeCRUD || len(cfg.issuers) == 0 {
		return nil, nil //nolint:nilnil // without issuers there is nothing to verify with
	}
	return server.NewIssuers(ctx, server.IssuersConfig{Issuers: cfg.issuers, StateDir: cfg.stateDir, Logger: logger, Now: time.Now})
}

// newTracker returns the record of the status that clusters report. Processes exchange it in the background; no request waits.
func newTracker(cfg config, replica *store.Replica, known *knownversions.Store, logger *slog.Logger) (*clusterstatus.Tracker, error) {
	table, err := cfg.db.observations()
	if err != nil {
		return nil, err
	}
	clusters := func() (ids []string, ok bool) {
		st := replica.State()
		if st == nil || replica.Status().QuarantineReason != "" {
			return nil, false
		}
		for _, docs := range [][]*fleet.Document{st.All(fleet.KindCluster), st.Decommissioned()} {
			for _, doc := range docs {
				ids = append(ids, doc.ID)
			}
		}
		return ids, true
	}
	c := clusterstatus.Config{Store: table, Logger: logger, Clusters: clusters, PruneStore: cfg.mode == server.ModeCRUD}
	if known != nil {
		c.ServiceRows = known
	}
	return clusterstatus.NewTracker(c), nil
}

const (
	// openTimeout bounds the wait of a process that cannot start without its store for others that open the same file.
	openTimeout       = 10 * time.Second
	openRetryInterval = 100 * time.Millisecond // between two attempts
)

// openStore connects to the store and loads the fleet. If the process can start without the store, a failure is logged and the
// store is opened later.
func openStore(ctx context.Context, cfg config, st store.Store, replica *store.Replica, logger *slog.Logger) error {
	giveUp := time.Now().Add(openTimeout)
	for waits := false; ; waits = true {
		err := st.Ping(ctx)
		if err == nil {
			err = replica.Load(ctx)
		}
		switch {
		case err == nil, errors.Is(err, store.ErrQuarantined) && replica.Status().Loaded: // the replica reports it
			return nil
		case canStartWithoutStore(cfg, replica.Status().Loaded, err):
			logger.WarnContext(ctx, "the store cannot be opened yet; trying again", "store", cfg.db.where(), "error", err)
			return nil
		case ctx.Err() != nil, !errors.Is(err, store.ErrContended), time.Now().After(giveUp):
			return err
		}
		if !waits {
			logger.InfoContext(ctx, "another process holds the store exclusively; trying again", "store", cfg.db.where())
		}
		select {
		case <-ctx.Done():
		case <-time.After(openRetryInterval):
		}
	}
}

// canStartWithoutStore reports whether a process may start and wait for its store: for a server that does not answer,
// and a read-only process also for a store that a crud process has yet to initialize. A process with a fleet to serve
// also waits after errors of the operating system, such as a missing right or an unmounted directory.
func canStartWithoutStore(cfg config, serving bool, err error) bool {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	_, system := errors.AsType[syscall.Errno](err)
	readOnly := cfg.mode == server.ModeReadOnly
	return readOnly && is(store.ErrNotInitialised) ||
		(readOnly || cfg.db.name() == backendPostgres) && is(store.ErrUnavailable) ||
		serving && (system || is(store.ErrUnavailable, store.ErrNotInitialised, store.ErrSchema, store.ErrCorrupt, store.ErrReplaced))
}

// enforceStartTimeout ends the program if it has no fleet to serve after the start timeout.
func enforceStartTimeout(ctx context.Context, replica *store.Replica, patience time.Duration, giveUp context.CancelCauseFunc) {
	if patience == 0 {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Revision 0: an empty fleet counts as loaded.
	if err := replica.WaitFor(waiting, 0); err != nil && ctx.Err() == nil {
		giveUp(fmt.Errorf("there is still no fleet to serve after %s: %w", patience, cmp.Or(replica.Status().LastError, err)))
	}
}

func listen(ctx context.Context, cfg config, srv *server.Server, handler http.Handler, identity *server.TLS, replica *store.Replica, logger *slog.Logger) error {
	var tlsConfig *tls.Config
	if identity != nil {
		tlsConfig = identity.Config()
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stopMetrics, err := serveMetrics(ctx, cfg.metrics, srv, tlsConfig, logger, giveUp)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer stopMetrics()
	go enforceStartTimeout(ctx, replica, cfg.startTimeout, giveUp)
	if replica.State() == nil {
		go awaitCredentials(ctx, cfg, replica, logger, giveUp)
	}
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		replica.Run(following)
	}()
	logger.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("addr", ln.Addr().String()), slog.String("mode", cfg.mode),
		slog.String("store", cfg.db.name()), slog.Bool("tls", tlsConfig != nil), slog.Bool("fips140", fips140.Enabled()), slog.String("version", version))
	err = server.Serve(ctx, ln, handler, tlsConfig, logger)
	stopFollowing()
	<-done
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "stopped")
	return err
}

// serveMetrics serves metrics and probes on their own listener, if one is configured. It is stopped last, so that the
// remaining requests stay observable.
func serveMetrics(ctx context.Context, addr string, srv *server.Server, tlsConfig *tls.Config, logger *slog.Logger, giveUp context.CancelCauseFunc) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("METRICS_ADDR: %w", err)
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "listening for metrics and probes", slog.String("addr", ln.Addr().String()))
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(running, ln, srv.Watch(), tlsConfig, logger); err != nil {
			giveUp(fmt.Errorf("METRICS_ADDR: %w", err))
		}
	}()
	return func() { cancel(); <-done }, nil
}

// readSpec reads OPENAPI_FILE. A missing file is not an error: the reference's manifests always set the variable.
func readSpec(ctx context.Context, cfg config, logger *slog.Logger) ([]byte, error) {
	if cfg.openapiFile == "" {
		return nil, nil
	}
	spec, err := os.ReadFile(cfg.openapiFile)
	if errors.Is(err, os.ErrNotExist) {
		logger.WarnContext(ctx, "OPENAPI_FILE does not exist; the built-in document is served", "file", cfg.openapiFile)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("OPENAPI_FILE: %w", err)
	}
	return spec, nil
}

func newLogger(w io.Writer, cfg config) *slog.Logger {
	terminal, masker := isTerminal(w), cfg.tokens.Masker()
	if cfg.logFormat == "json" || cfg.logFormat == "" && !terminal {
		return slog.New(masker.Handler(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: cfg.logLevel})))
	}
	return slog.New(masker.Handler(tint.NewTextHandler(w, &tint.Options{Level: cfg.logLevel, TimeFormat: time.TimeOnly, NoColor: !terminal || os.Getenv("NO_COLOR") != ""})))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
