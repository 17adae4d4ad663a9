package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// demoServer runs the real server on a store in memory with the demo fleet. Its tokens are "read" and "write".
func demoServer() (url string, stop func()) {
	url, stop, err := startServer(context.Background())
	if err != nil {
		panic(err)
	}
	return url, stop
}

func startServer(ctx context.Context) (url string, stop func(), err error) {
	cfg, err := sqlite.ParseURL("sqlite::memory:")
	if err != nil {
		return "", nil, err
	}
	st, err := sqlite.Open(ctx, cfg)
	if err != nil {
		return "", nil, err
	}
	logger := slog.New(slog.DiscardHandler)
	rules := fleet.Rules{Environments: []string{"dev", "qa", "uat", "prod"}}
	replica := store.NewReplica(store.Config{Store: st, Rules: rules, Logger: logger})
	body, readErr := os.ReadFile("../examples/demo/seed.json")
	seed, parseErr := fleet.ParseSeed(body)
	loadErr := replica.Load(ctx)
	if err := errors.Join(readErr, parseErr, loadErr); err != nil {
		return "", nil, errors.Join(err, st.Close())
	}
	if _, err := server.SeedEmptyStore(ctx, replica, seed, store.Meta{Actor: "system"}); err != nil {
		return "", nil, errors.Join(err, st.Close())
	}
	srv, err := server.New(server.Config{
		Mode: server.ModeCRUD, Replica: replica, History: st, Tokens: server.Tokens{Read: "read", Write: "write"},
		Version: "test", StoreName: "memory", Logger: logger, Now: time.Now,
	})
	if err != nil {
		return "", nil, errors.Join(err, st.Close())
	}
	ts := httptest.NewServer(srv)
	return ts.URL, func() {
		ts.Close()
		_ = st.Close()
	}, nil
}
