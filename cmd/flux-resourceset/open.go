package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// actorSystem is the author of commits that the program makes by itself.
const actorSystem = "system"

// reasonSeed is the reason of the commit that fills a store from SEED_FILE.
const reasonSeed = "seeded from SEED_FILE"

// maxSeed is the size limit of a seed file, in bytes.
const maxSeed = 256 << 20

// newOpener reads SEED_FILE, in case the store is empty.
func newOpener(cfg config, rules fleet.Rules, logger *slog.Logger) (*opener, error) {
	seed, err := readSeed(cfg.seedFile)
	missing := errors.Is(err, os.ErrNotExist)
	if err != nil && !missing {
		return nil, err
	}
	return &opener{cfg: cfg, rules: rules, seed: seed, missing: missing, logger: logger}, nil
}

// opener opens the store. If this process may create the store, it first migrates, imports or seeds it.
type opener struct {
	cfg   config
	rules fleet.Rules
	seed  fleet.Seed
	// missing: SEED_FILE does not exist. That is an error only if the store is empty.
	missing bool
	logger  *slog.Logger
}

// fills reports whether this process may create and seed the store: in mode crud, and in either mode if no other process
// can, for a store in memory or for a seed without a database file.
func (o *opener) fills() bool {
	lite, ok := o.cfg.db.(sqliteDatabase)
	return o.cfg.mode == server.ModeCRUD || ok && lite.cfg.Memory || ok && o.seed != nil && !lite.exists()
}

func (o *opener) open(ctx context.Context) (store.Store, error) {
	if !o.fills() {
		return o.cfg.db.open(ctx, true)
	}
	defer relaxGC()()
	seed, reason, err := o.prepare(ctx)
	if err != nil {
		return nil, err
	}
	st, err := o.cfg.db.open(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := o.fill(ctx, st, seed, reason); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if o.cfg.mode == server.ModeCRUD || o.cfg.db.name() == backendMemory {
		return st, nil
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	return o.cfg.db.open(ctx, true)
}

// prepare migrates the schema and returns the documents for an empty store, with the reason of their commit. It imports
// a database of the Rust reference.
func (o *opener) prepare(ctx context.Context) (fleet.Seed, string, error) {
	seed, reason := o.seed, reasonSeed
	var adopted adoption
	if lite, ok := o.cfg.db.(sqliteDatabase); ok && !lite.cfg.Memory {
		imported, err := readReference(ctx, lite.cfg.Path, &adopted)
		if err != nil {
			return nil, "", err
		}
		if imported != nil {
			if err := adopted.check(imported, o.rules); err != nil {
				return nil, "", err
			}
			if err := adopted.err(lite.cfg.Path); err != nil {
				return nil, "", fmt.Errorf("%w\nflux-resourceset import --from %s has flags for the usual ones, and --dry-run", err, lite.cfg.Path)
			}
			seed, reason = imported, importReason
		}
	}
	fresh := o.cfg.db.name() == backendMemory
	if !fresh {
		status, err := o.cfg.db.status(ctx)
		if err != nil {
			return nil, "", err
		}
		fresh = status.current == 0
	}
	// Checked before the first write: the store stays unchanged unless all documents can be imported.
	if fresh {
		if err := server.CheckSeed(seed, o.rules); err != nil {
			return nil, "", fmt.Errorf("%s cannot be used: %w", o.cfg.seedFile, explain(err))
		}
	}
	for _, note := range adopted.notes {
		o.logger.InfoContext(ctx, "the database of the Rust reference is imported with a change", "change", note)
	}
	if o.cfg.db.name() == backendMemory {
		return seed, reason, nil
	}
	return seed, reason, o.cfg.db.migrate(ctx)
}

// fill seeds an empty store. If the store is empty because it was lost or because it is the wrong one, the seed is not
// the desired state of the clusters. So the store is quarantined until an operator accepts it, with SEED_ACCEPT or the
// command accept.
func (o *opener) fill(ctx context.Context, st store.Store, seed fleet.Seed, reason string) error {
	logger, seeding := o.logger, reason == reasonSeed
	if len(seed) == 0 && !o.missing {
		return nil
	}
	replica := store.NewReplica(store.Config{Store: st, Rules: o.rules, Logger: logger})
	err := replica.Load(ctx)
	if held, ok := errors.AsType[*store.QuarantinedError](err); ok {
		if held.Quarantine.Reason != store.QuarantineSeeded || !o.cfg.seedAccept {
			return nil // the replica reports the quarantine
		}
		logger.InfoContext(ctx, "SEED_ACCEPT is set: the seed in the store is accepted")
		_, err = store.Accept(ctx, st, held.Head, fleet.Head{}, time.Now())
		return err
	}
	if err != nil {
		return err
	}
	empty := replica.State().Revision() == 0
	switch {
	case o.missing && seeding && empty:
		return &configError{[]string{fmt.Sprintf("SEED_FILE: %s does not exist, and the empty store needs it", o.cfg.seedFile)}}
	case o.missing && seeding:
		logger.InfoContext(ctx, "SEED_FILE does not exist; it is not needed, because the store has a history", "file", o.cfg.seedFile)
		return nil
	case seeding && empty && !o.cfg.seedAccept:
		if err := st.Quarantine(ctx, store.Quarantine{Reason: store.QuarantineSeeded, At: time.Now().UTC().Truncate(time.Second)}); err != nil {
			return err
		}
	}
	loaded, err := server.SeedEmptyStore(ctx, replica, seed, store.Meta{Actor: actorSystem, Reason: reason})
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
