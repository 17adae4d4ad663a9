// Package drill runs real servers on a real database with writers and pollers, injects faults, and records every request
// with its answer. Package check judges the record.
//
// Reading order: drill.go (a run), fleet.go (the initial fleet), writers.go, hangups.go, source.go and pollers.go (load),
// nemesis.go (faults), damage.go (damage to the store).
package drill

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Config configures a run. Store, Binary, Dir and Duration are required.
type Config struct {
	Store    string // rig.StoreSQLite or rig.StorePostgres
	Binary   string // of the server
	Dir      string // for logs; it exists
	Duration time.Duration
	Seed     uint64 // of all random choices
	// Only names the faults to inject; empty: all.
	Only []string
	// Damage ends the store's history in this way, after Duration of load without faults. Empty: faults under load.
	Damage string
	// Incident injects this one failure, between Duration of a steady load and some more. Empty: faults under load.
	Incident string
	// Hold is the longest a fault lasts. Default 3 s, less in a short run.
	Hold time.Duration
	// Rest is the mean time between two faults. Default 4 s, less in a short run.
	Rest time.Duration
	// PushPace is the time between two artifacts of the source. Default 5 s, less in a short run.
	PushPace time.Duration
	// WritePace and PollPace are the mean pauses of one writer and one poller. Default 70 ms and 12 ms.
	WritePace, PollPace time.Duration
	// Healing bounds the recovery of all processes after the last fault. Default 90 s.
	Healing time.Duration
	// Staleness is the MAX_STALENESS of processes. Default: half of Hold, at least a second, so that faults last longer.
	Staleness time.Duration
	// Route distributes polls over processes: history.RouteRandom, history.RouteAffinity, or empty: each poller has its own.
	Route string
	// Forgetful processes keep nothing on disk: they start from the store.
	Forgetful bool
	// Revision of Binary's source, for the record.
	Revision string
	// Log receives the progress of the run. May be nil.
	Log io.Writer
}

// Drill is one run.
type Drill struct {
	cfg       Config
	rec       *history.Recorder
	db        rig.Database
	pipeline  *pipeline // nil: the servers follow no source
	processes []*rig.Process
	endpoints []history.Endpoint
}

// setups are the processes of a run: several in mode crud on Postgres, one on SQLite.
var setups = map[string][]rig.Config{
	rig.StorePostgres: {{Name: "crud-1", Mode: rig.CRUD}, {Name: "crud-2", Mode: rig.CRUD}, {Name: "read-1", Mode: rig.ReadOnly}, {Name: "read-2", Mode: rig.ReadOnly}},
	rig.StoreSQLite:   {{Name: "crud-1", Mode: rig.CRUD}, {Name: "read-1", Mode: rig.ReadOnly}, {Name: "read-2", Mode: rig.ReadOnly}},
}

const (
	writersPerRun     = 8
	pollersPerProcess = 2
)

func (c Config) withDefaults() Config {
	def := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	def(&c.Hold, min(3*time.Second, c.Duration/20))
	def(&c.Rest, min(4*time.Second, c.Duration/50))
	def(&c.PushPace, min(5*time.Second, c.Duration/10))
	def(&c.Healing, 90*time.Second)
	def(&c.WritePace, 70*time.Millisecond)
	def(&c.PollPace, 12*time.Millisecond)
	if c.Incident != "" {
		c.Route = history.RouteAffinity
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	return c
}

// staleness returns MAX_STALENESS. It is shorter than the longest faults, so that the limit takes effect.
func (c Config) staleness() time.Duration {
	switch {
	case c.Staleness > 0:
		return c.Staleness
	case c.Incident != "" && c.Store == rig.StorePostgres: // the server's defaults
		return 15 * time.Second
	case c.Incident != "":
		return 2 * time.Minute
	}
	return max(time.Second, c.Hold/2).Round(100 * time.Millisecond)
}

// persistsState reports whether processes have a STATE_DIR. Damages are run without one, to show a restart without
// state.
func (c Config) persistsState() bool { return c.Damage == "" && !c.Forgetful }

// underFaults reports whether the run injects random faults.
func (c Config) underFaults() bool { return c.Damage == "" && c.Incident == "" }

// steady reports whether each poll must be answered.
func (c Config) steady() bool {
	what := c.incident()
	return what != nil && !what.mayFail
}

// setup returns the processes of the run. An incident of SQLite has one: with others, it would not be the only one to answer.
func (c Config) setup() []rig.Config {
	if all := setups[c.Store]; c.Incident == "" || c.Store == rig.StorePostgres || len(all) == 0 {
		return all
	}
	return setups[c.Store][:1]
}

// Run makes a run and returns its history. An error means that the run could not be made. Violations are found by
// package check.
func Run(ctx context.Context, cfg Config) (_ *history.History, err error) {
	cfg = cfg.withDefaults()
	d := &Drill{cfg: cfg, endpoints: endpoints()}
	closeAll, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := closeAll(); err == nil {
			err = closing
		}
	}()
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	switch what := cfg.incident(); {
	case what != nil:
		err = d.runIncident(ctx, what)
	case cfg.Damage != "":
		err = d.runDamage(ctx)
	default:
		err = d.runUnderLoad(ctx)
	}
	if err != nil {
		return nil, err
	}
	return d.rec.History(), nil
}

// open creates the database and the recorder. The returned function ends the processes and removes the database.
func (d *Drill) open(ctx context.Context) (func() error, error) {
	ctx = context.WithoutCancel(ctx) // also clean up after an interrupt
	var volume *rig.Volume
	dir, err := filepath.Abs(filepath.Join(d.cfg.Dir, "volume"))
	if err != nil {
		return nil, err
	}
	var unfillable error
	if d.cfg.underFaults() {
		volume, unfillable = rig.MountVolume(ctx, dir)
	}
	put := func() error {
		if volume == nil {
			return nil
		}
		return volume.Unmount(ctx)
	}
	names := make([]string, 0, 4)
	for _, p := range d.cfg.setup() {
		names = append(names, p.Name)
	}
	switch d.cfg.Store {
	case rig.StorePostgres:
		d.db, err = rig.NewPostgres(ctx, volume, names)
	case rig.StoreSQLite:
		d.db, err = rig.NewSQLite(volume)
	default:
		err = fmt.Errorf("there is no store %q; it is sqlite or postgres", d.cfg.Store)
	}
	if err != nil {
		_ = put() // the first error counts
		return nil, err
	}
	name := "load"
	if !d.cfg.underFaults() {
		name = d.cfg.Damage + d.cfg.Incident
	}
	d.rec = history.NewRecorder(history.Run{
		Drill: name, Store: d.cfg.Store, Seed: d.cfg.Seed, Seconds: d.cfg.Duration.Seconds(), Endpoints: d.endpoints,
		Staleness: d.cfg.staleness().Microseconds(), Kept: d.cfg.persistsState(), Route: d.cfg.Route, Steady: d.cfg.steady(),
		Versions: map[string]string{
			"flux-resourceset": d.cfg.Revision, "go": runtime.Version(), "database": d.db.Version(ctx), "system": runtime.GOOS + "/" + runtime.GOARCH,
		},
	})
	if d.cfg.underFaults() && volume == nil {
		d.rec.Notef(false, "the disk cannot be made full here: %v", unfillable)
	}
	if d.cfg.underFaults() {
		if d.pipeline, err = newPipeline(d.cfg.Dir); err != nil {
			return nil, err
		}
	}
	return func() error {
		if d.pipeline != nil {
			d.pipeline.registry.Close()
		}
		for _, p := range d.processes {
			p.End()
		}
		if err := d.db.Close(ctx); err != nil {
			return err
		}
		return put()
	}, nil
}

// start starts the processes, the seeding one first, and waits until all answer.
func (d *Drill) start(ctx context.Context) error {
	body, err := seed()
	if err != nil {
		return err
	}
	file := filepath.Join(d.cfg.Dir, "seed.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, c := range d.cfg.setup() {
		c.Binary, c.Logs, c.Database = d.cfg.Binary, d.cfg.Dir, d.db.URL(c.Name)
		c.Settings = []string{"MAX_STALENESS=" + d.cfg.staleness().String()}
		if d.cfg.persistsState() {
			// State on disk has the same age limit as every other answer.
			c.Settings = append(c.Settings, "STATE_DIR="+filepath.Join(d.cfg.Dir, "state-"+c.Name), "STATE_MAX_AGE="+d.cfg.staleness().String())
		}
		if d.cfg.Incident == "upgrade" {
			c.Settings = append(c.Settings, "SHUTDOWN_DELAY=5s") // as the chart sets
		}
		if c.Mode == rig.CRUD {
			c.Seed = file
			if d.pipeline != nil {
				c.Settings = append(c.Settings, d.pipeline.settings()...)
			}
		}
		p := rig.NewProcess(c, d.rec)
		d.processes = append(d.processes, p)
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	if err := d.heal(ctx, 1); err != nil || d.pipeline == nil {
		return err
	}
	return d.follow(ctx)
}

func (d *Drill) cruds() []*rig.Process {
	return slices.DeleteFunc(slices.Clone(d.processes), func(p *rig.Process) bool { return p.Mode != rig.CRUD })
}

// rng returns a random source for one worker, derived from the run's seed.
func (d *Drill) rng(worker uint64) *rand.Rand { return rand.New(rand.NewPCG(d.cfg.Seed, worker)) }

// runUnderLoad injects faults while writers and pollers run, then waits for recovery.
func (d *Drill) runUnderLoad(ctx context.Context) error {
	stopPolling := d.startPollers(ctx)
	defer stopPolling()
	stopWriting := d.startWriters(ctx, "w")
	defer stopWriting()
	err := d.runNemeses(ctx)
	if err != nil {
		return err
	}
	_ = rig.Rest(ctx, min(time.Second, d.cfg.Duration/10)) // load without faults
	stopWriting()
	if err := d.awaitArtifact(ctx); err != nil {
		d.rec.Notef(true, "%v", err)
	}
	d.rec.Artifacts(d.pipeline.pushed)
	newest, err := d.settledRevision(ctx)
	if err != nil {
		return err
	}
	d.rec.Newest(newest)
	if err := d.heal(ctx, newest); err != nil {
		d.rec.Notef(true, "%v", err)
	}
	stopPolling()
	for _, p := range d.processes {
		p.End() // no writes after the log is read
	}
	return d.readStore(ctx)
}

// settledRevision returns the store's revision once it no longer changes.
func (d *Drill) settledRevision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Healing)
	defer cancel()
	last := int64(-1)
	for {
		head, err := d.head(ctx)
		switch {
		case err == nil && int64(head.Revision) == last:
			return last, nil
		case err == nil:
			last = int64(head.Revision)
		case ctx.Err() != nil:
			return 0, fmt.Errorf("the store did not heal: %w", err)
		}
		_ = rig.Rest(ctx, time.Second)
	}
}

func (d *Drill) head(ctx context.Context) (fleet.Head, error) {
	s, err := d.db.Open(ctx)
	if err != nil {
		return fleet.Head{}, err
	}
	defer func() { _ = s.Close() }() // read-only
	return s.Head(ctx)
}

// heal waits until every process answers every poll at this revision.
func (d *Drill) heal(ctx context.Context, newest int64) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Healing)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var slow []string
	for _, process := range d.processes {
		c := rig.NewClient()
		wg.Go(func() {
			for e := range d.endpoints {
				for {
					if r := process.Running(); r != nil {
						p := d.poll(ctx, c, pollRequest{process: process.Name, running: r, endpoint: e, newest: newest})
						if p.Status == http.StatusOK && p.Revision >= newest {
							break
						}
					}
					if !rig.Rest(ctx, 50*time.Millisecond) {
						mu.Lock()
						defer mu.Unlock()
						slow = append(slow, process.Name)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if len(slow) > 0 {
		return fmt.Errorf("%s did not come to revision %d within %s", strings.Join(slow, ", "), newest, d.cfg.Healing)
	}
	return nil
}

// readStore records the log and the documents.
func (d *Drill) readStore(ctx context.Context) error {
	s, err := d.db.Open(ctx)
	if err != nil {
		return fmt.Errorf("reading the store at the end: %w", err)
	}
	defer func() { _ = s.Close() }() // only read
	return d.record(ctx, s)
}

func (d *Drill) record(ctx context.Context, s store.Store) error {
	const page = 500
	for after := (fleet.Head{}); ; {
		commits, err := s.Since(ctx, after, page)
		if err != nil {
			d.rec.Notef(true, "the log cannot be read after revision %d: %v", after.Revision, err)
			break
		}
		for _, c := range commits {
			d.rec.Commit(history.FromFleet(c))
			after = c.Head()
		}
		if len(commits) < page {
			break
		}
	}
	snap, err := s.Load(ctx)
	if err != nil {
		d.rec.Notef(d.cfg.Damage == "", "the documents cannot be read: %v", err)
	}
	stored := history.Stored{Head: snap.Head}
	for _, r := range snap.Records {
		stored.Documents = append(stored.Documents, history.StoredDocument{Kind: r.Kind, ID: r.ID, Revision: r.Revision, Body: r.Body})
	}
	d.rec.Stored(stored)
	return nil
}
