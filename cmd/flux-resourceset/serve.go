package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// serve opens the store, answers until it is told to stop, and puts everything away.
func serve(c *cli.Context) error {
	cfg, err := readConfig(c)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	logger := newLogger(c.App.ErrWriter, cfg)
	if cfg.fallback && cfg.mode == server.ModeCRUD {
		logger.WarnContext(ctx, "CRUD_AUTH_TOKEN is not set: the read token can write as well")
	}
	spec, err := readSpec(ctx, cfg, logger)
	if err != nil {
		return err
	}
	rules := fleet.Rules{Environments: cfg.environments, MaxRemovals: cfg.maxRemovals}
	st, err := openStore(ctx, cfg, rules, logger)
	if err != nil {
		return err
	}
	replica := store.NewReplica(store.Config{Store: st, Rules: rules, Logger: logger})
	if err := replica.Load(ctx); err != nil && !mayWait(cfg, err) {
		return errors.Join(err, st.Close())
	}
	srv, err := server.New(server.Config{
		Mode: cfg.mode, Replica: replica, History: st, Tokens: cfg.tokens,
		Version: version, StoreName: cfg.backend, Spec: spec, Logger: logger,
	})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	err = listen(ctx, cfg, srv, replica, logger)
	return errors.Join(err, st.Close())
}

// mayWait tells whether a process may start without a fleet and wait for one: a read-only process does, for a store
// that a crud process has yet to initialise or that does not answer at the moment.
func mayWait(cfg config, err error) bool {
	return cfg.mode == server.ModeReadOnly && (errors.Is(err, store.ErrNotInitialised) || errors.Is(err, store.ErrUnavailable))
}

func listen(ctx context.Context, cfg config, srv *server.Server, replica *store.Replica, logger *slog.Logger) error {
	var tlsConfig *tls.Config
	if cfg.tls.Cert != "" {
		var err error
		if tlsConfig, err = server.NewTLSConfig(cfg.tls, logger, time.Now); err != nil {
			return err
		}
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return err
	}
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		replica.Run(following)
	}()
	logger.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("addr", ln.Addr().String()), slog.String("mode", cfg.mode),
		slog.String("store", cfg.backend), slog.Bool("tls", tlsConfig != nil), slog.String("version", version))
	err = server.Serve(ctx, ln, srv.Handler(), tlsConfig, logger)
	stopFollowing()
	<-done
	logger.LogAttrs(ctx, slog.LevelInfo, "stopped")
	return err
}

// readSpec reads OPENAPI_FILE. One that is named but missing is not an error: the reference's manifests always name one.
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
	terminal := isTerminal(w)
	if cfg.logFormat == "json" || cfg.logFormat == "" && !terminal {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: cfg.logLevel}))
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{Level: cfg.logLevel, TimeFormat: time.TimeOnly, NoColor: !terminal || os.Getenv("NO_COLOR") != ""}))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
