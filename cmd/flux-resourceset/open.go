package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// actorSystem is who the log names for what the program does by itself.
const actorSystem = "system"

// maxSeed is the largest seed file.
const maxSeed = 256 << 20

// openStore opens the store, first migrating, importing and seeding it where that is this process's business.
func openStore(ctx context.Context, cfg config, rules fleet.Rules, logger *slog.Logger) (store.Store, error) {
	seed, err := readSeed(cfg.seedFile)
	if err != nil {
		return nil, err
	}
	if cfg.sqlite.Memory {
		st, err := sqlite.Open(ctx, cfg.sqlite)
		if err != nil {
			return nil, err
		}
		return st, seedStore(ctx, st, rules, seed, "seeded from SEED_FILE", logger)
	}
	if _, err := os.Stat(cfg.sqlite.Path); cfg.mode == server.ModeCRUD || seed != nil && errors.Is(err, os.ErrNotExist) {
		if err := prepare(ctx, cfg, rules, seed, logger); err != nil {
			return nil, err
		}
	}
	cfg.sqlite.ReadOnly = cfg.sqlite.ReadOnly || cfg.mode == server.ModeReadOnly
	open := func(ctx context.Context) (store.Store, error) { return sqlite.Open(ctx, cfg.sqlite) }
	st, err := open(ctx)
	if err != nil && mayWait(cfg, err) {
		logger.WarnContext(ctx, "the store is not there yet: waiting for a process with API_MODE=crud to initialise it", "path", cfg.sqlite.Path)
		return store.NewLazy(open), nil
	}
	return st, err
}

// prepare brings a SQLite file to the state that a server starts from.
func prepare(ctx context.Context, cfg config, rules fleet.Rules, seed fleet.Seed, logger *slog.Logger) error {
	imported, err := readReference(ctx, cfg.sqlite.Path)
	if err != nil {
		return err
	}
	reason := "seeded from SEED_FILE"
	if imported != nil {
		seed, reason = imported, "imported from the reference's database"
	}
	// Before anything is written: the file stays as it is unless all of it can be taken over.
	if err := server.CheckSeed(seed, rules); err != nil {
		return fmt.Errorf("%s cannot be used: %w", map[bool]string{true: cfg.sqlite.Path, false: cfg.seedFile}[imported != nil], explain(err))
	}
	if err := os.MkdirAll(filepath.Dir(cfg.sqlite.Path), 0o750); err != nil {
		return err
	}
	if err := sqlite.Migrate(ctx, cfg.sqlite.Path); err != nil {
		return err
	}
	writable := cfg.sqlite
	writable.ReadOnly = false
	st, err := sqlite.Open(ctx, writable)
	if err != nil {
		return err
	}
	return errors.Join(seedStore(ctx, st, rules, seed, reason, logger), st.Close())
}

func seedStore(ctx context.Context, st store.Store, rules fleet.Rules, seed fleet.Seed, reason string, logger *slog.Logger) error {
	if len(seed) == 0 {
		return nil
	}
	replica := store.NewReplica(store.Config{Store: st, Rules: rules, Logger: logger})
	if err := replica.Load(ctx); err != nil {
		return err
	}
	loaded, err := server.LoadSeed(ctx, replica, seed, store.Meta{Actor: actorSystem, Reason: reason})
	if err != nil {
		return explain(err)
	}
	if loaded {
		logger.InfoContext(ctx, "the store was empty and has been filled", "reason", reason, "documents", len(seed))
	}
	return nil
}

// explain lists every problem of a seed.
func explain(err error) error {
	var invalid *fleet.Error
	if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
		return err
	}
	var all []error
	for _, p := range invalid.Problems {
		all = append(all, fmt.Errorf("  %s: %s", p.Pointer, p.Detail))
	}
	return fmt.Errorf("it has problems, and nothing was written:\n%w", errors.Join(all...))
}

func readSeed(path string) (fleet.Seed, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("SEED_FILE: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxSeed+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("SEED_FILE: %w", err)
	}
	if len(body) > maxSeed {
		return nil, fmt.Errorf("SEED_FILE: %s is larger than %d MiB", path, maxSeed>>20)
	}
	seed, err := fleet.ParseSeed(body)
	if err != nil {
		return nil, fmt.Errorf("SEED_FILE %s: %w", path, explain(err))
	}
	return seed, nil
}

// readReference reads a database file that the Rust reference wrote; nil when it is not one.
func readReference(ctx context.Context, path string) (fleet.Seed, error) {
	ref, err := sqlite.ReadReference(ctx, path)
	if err != nil || ref == nil {
		return nil, err
	}
	var seed fleet.Seed
	var problems []fleet.Problem
	for _, table := range []struct {
		name string
		kind fleet.Kind
		rows []json.RawMessage
	}{
		{"components", fleet.KindComponent, ref.Components},
		{"namespaces", fleet.KindNamespace, ref.Namespaces},
		{"rolebindings", fleet.KindRoleBinding, ref.RoleBindings},
		{"clusters", fleet.KindCluster, ref.Clusters},
	} {
		for i, row := range table.rows {
			at := fmt.Sprintf("/%s/%d", table.name, i)
			item, err := fleet.ParseJSON(row)
			var doc fleet.SeedDocument
			if err == nil {
				doc, err = fleet.NewSeedDocument(table.kind, at, item)
			}
			if err != nil {
				problems = append(problems, fleet.Problem{Pointer: at, Detail: err.Error()})
				continue
			}
			seed = append(seed, doc)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s cannot be imported: %w", path, explain(fleet.Invalid(problems)))
	}
	return seed, nil
}
