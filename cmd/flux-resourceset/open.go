package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
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

// opener opens the store.
type opener struct {
	cfg      config
	rules    fleet.Rules
	seedFile string // for an empty store; empty: it is not seeded
	// known describes the history of the store in STATE_DIR, for an error: its head, or that it is unreadable; empty: there is none.
	known  string
	logger *slog.Logger
	// adopt is called with the State after the store was filled, unless it is quarantined. Required.
	adopt func(*fleet.State)
}

// fills reports whether this process may create and seed the store: in mode crud, and in either mode if no other process
// can, for a store in memory or for a seed without a database file.
func (o *opener) fills() bool {
	lite, ok := o.cfg.db.(sqliteDatabase)
	return o.cfg.mode == server.ModeCRUD || ok && lite.cfg.Memory || ok && o.seedFile != "" && !exists(lite.cfg.Path) && exists(o.seedFile)
}

// store returns the store, which is prepared and opened on its first use.
func (o *opener) store() (store.Store, error) {
	return o.cfg.db.onFirstUse(o.cfg.mode != server.ModeCRUD, o.prepare)
}

// prepare migrates, imports or seeds the store, if this process may create it.
func (o *opener) prepare(ctx context.Context) error {
	if lite, ok := o.cfg.db.(sqliteDatabase); ok && o.known != "" && !lite.cfg.Memory && !lite.exists() {
		return fmt.Errorf("%w: %s does not exist, and STATE_DIR has its history (%s): if the file was moved away, move it back; "+
			"to start an empty store in its place, run `flux-resourceset accept`", store.ErrUnavailable, lite.cfg.Path, o.known)
	}
	if !o.fills() {
		return nil
	}
	defer relaxGC()()
	seed, err := o.migrate(ctx)
	if err != nil || o.seedFile == "" && len(seed.documents) == 0 {
		return err
	}
	st, err := o.cfg.db.open(ctx, false)
	if err != nil {
		return err
	}
	filled, err := o.fill(ctx, st, seed)
	if filled {
		// The seed took more memory than the fleet ever will, and the runtime would keep most of it. This costs a garbage collection, once
		// in the life of a store.
		debug.FreeOSMemory()
	}
	return errors.Join(err, st.Close())
}

// initialContent is what an empty store is filled with. It takes several times the memory of the fleet, so nothing may refer to it later.
type initialContent struct {
	documents fleet.Seed
	reason    string // of the commit; empty: there is nothing to fill the store with
}

// migrate migrates the schema and returns the documents for an empty store, also those of a database of the Rust reference.
func (o *opener) migrate(ctx context.Context) (initialContent, error) {
	var notes []string
	var found initialContent
	if lite, ok := o.cfg.db.(sqliteDatabase); ok && !lite.cfg.Memory {
		adopted, err := readReference(ctx, lite.cfg.Path)
		if err != nil {
			return initialContent{}, err
		}
		if adopted != nil {
			imported, err := adopted.check(o.rules)
			if err = cmp.Or(err, adopted.err(lite.cfg.Path)); err != nil {
				return initialContent{}, err
			}
			found, notes = initialContent{imported, importReason}, adopted.notes
		}
	}
	memory := o.cfg.db.name() == backendMemory
	var status store.SchemaStatus
	if !memory {
		var err error
		if status, err = o.cfg.db.status(ctx); err != nil {
			return initialContent{}, err
		}
	}
	if status.Revision == 0 && found.reason == "" && o.seedFile != "" {
		documents, err := readSeed(o.seedFile)
		if errors.Is(err, os.ErrNotExist) {
			return initialContent{}, &configError{[]string{fmt.Sprintf("SEED_FILE: %s does not exist, and the empty store needs it", o.seedFile)}}
		}
		if err != nil {
			return initialContent{}, err
		}
		found = initialContent{documents, reasonSeed}
	}
	if status.Revision > 0 && o.seedFile != "" && !exists(o.seedFile) {
		o.logger.InfoContext(ctx, "SEED_FILE does not exist; it is not needed, because the store has a history", "file", o.seedFile)
	}
	// Checked before the first write: the store stays unchanged unless all documents can be imported.
	if status.Current == 0 {
		if err := server.CheckSeed(found.documents, o.rules); err != nil {
			return initialContent{}, fmt.Errorf("%s cannot be used: %w", o.seedFile, explain(err))
		}
	}
	for _, note := range notes {
		o.logger.InfoContext(ctx, "the database of the Rust reference is imported with a change", "change", note)
	}
	if memory {
		return found, nil
	}
	return found, o.cfg.db.migrate(ctx)
}

// fill fills an empty store, and reports whether it did. If the store is empty because it was lost or because it is the wrong one,
// the seed is not the desired state of the clusters. So the store is quarantined until an operator accepts it, with SEED_ACCEPT or
// the command accept.
func (o *opener) fill(ctx context.Context, st store.Store, found initialContent) (filled bool, err error) {
	head, err := st.Head(ctx)
	if held, ok := errors.AsType[*store.QuarantinedError](err); ok {
		if held.Quarantine.Reason != store.QuarantineSeeded || !o.cfg.seedAccept {
			return false, nil // the replica reports the quarantine
		}
		o.logger.InfoContext(ctx, "SEED_ACCEPT is set: the seed in the store is accepted")
		_, err = store.Accept(ctx, st, held.Head, fleet.Head{}, time.Now())
		return false, err
	}
	if err != nil || head.Revision > 0 || len(found.documents) == 0 {
		return false, err
	}
	quarantined := found.reason == reasonSeed && !o.cfg.seedAccept
	if quarantined {
		if err := st.Quarantine(ctx, store.Quarantine{Reason: store.QuarantineSeeded, At: time.Now().UTC().Truncate(time.Second)}); err != nil {
			return false, err
		}
	}
	replica := store.NewReplica(store.Config{Store: st, Rules: o.rules, Logger: o.logger})
	if err := replica.Load(ctx); err != nil && !errors.Is(err, store.ErrQuarantined) { // another process was faster
		return false, err
	}
	filled, err = server.SeedEmptyStore(ctx, replica, found.documents, store.Meta{Actor: actorSystem, Reason: found.reason})
	if err != nil || !filled {
		return false, explain(err)
	}
	o.logger.InfoContext(ctx, "the store was empty and has been filled", "reason", found.reason, "documents", len(found.documents))
	if !quarantined {
		o.adopt(replica.State())
	}
	return true, nil
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

// exists reports whether there is a file, also one that cannot be examined.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
