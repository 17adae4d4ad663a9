package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// incident is one failure under a steady load, for the figures of docs/production.md.
type incident struct {
	name, store, description string
	// standby is how a second server follows the first.
	standby standby
	// lossy: acknowledged changes may be lost, so the store's history ends for the processes.
	lossy bool
	// mayFail: polls may be refused meanwhile.
	mayFail bool
	do      func(context.Context, *Drill) (target string, err error)
}

type standby int

const (
	noStandby standby = iota
	asynchronous
	synchronous
)

// outage is how long a killed process or server stays away, when that is not up to the service.
const outage = 8 * time.Second

var incidents = []incident{
	{
		name: "only-process-killed", store: rig.StoreSQLite, mayFail: true,
		description: "the only process on SQLite is killed, and started again at once",
		do:          func(ctx context.Context, d *Drill) (string, error) { return d.killAndStart(ctx, 0, "crud-1") },
	},
	{
		name: "one-process-of-two-killed", store: rig.StorePostgres,
		description: "one process for polls and one for changes are killed, and stay away for a while",
		do: func(ctx context.Context, d *Drill) (string, error) {
			return d.killAndStart(ctx, outage, "read-1", "crud-1")
		},
	},
	{
		name: "upgrade", store: rig.StorePostgres,
		description: "each process is restarted in turn",
		do:          func(ctx context.Context, d *Drill) (string, error) { return d.restartInTurn(ctx) },
	},
	{
		name: "primary-killed", store: rig.StorePostgres,
		description: "the only database server is killed, and started again after a while",
		do: func(ctx context.Context, d *Drill) (string, error) {
			pg, err := d.postgres()
			if err != nil {
				return "", err
			}
			pg.Server.Stop(syscall.SIGKILL)
			_ = rig.Rest(ctx, outage)
			return "primary", pg.Server.Restart(ctx)
		},
	},
	{
		name: "synchronous-standby-promoted", store: rig.StorePostgres, standby: synchronous,
		description: "the primary is killed, and its synchronous standby is promoted",
		do:          func(ctx context.Context, d *Drill) (string, error) { return d.promote(ctx) },
	},
	{
		name: "asynchronous-standby-promoted", store: rig.StorePostgres, standby: asynchronous, lossy: true, mayFail: true,
		description: "the primary is killed when its asynchronous standby is 0.2 s behind, and the standby is promoted",
		do: func(ctx context.Context, d *Drill) (string, error) {
			pg, err := d.postgres()
			if err != nil {
				return "", err
			}
			pg.Part()
			_ = rig.Rest(ctx, 200*time.Millisecond)
			return d.promote(ctx)
		},
	},
}

// IncidentDescriptions returns a line for each incident.
func IncidentDescriptions() []string {
	var lines []string
	for _, i := range incidents {
		lines = append(lines, fmt.Sprintf("%s, on %s: %s", i.name, i.store, i.description))
	}
	return lines
}

// Incidents returns the names of the incidents on a store.
func Incidents(storeName string) []string {
	var names []string
	for _, i := range incidents {
		if i.store == storeName {
			names = append(names, i.name)
		}
	}
	return names
}

// incident returns the incident of the run; nil: there is none.
func (c Config) incident() *incident {
	for i := range incidents {
		if incidents[i].name == c.Incident {
			return &incidents[i]
		}
	}
	return nil
}

const (
	// pollInterval is the time between two polls of all clusters together: 500 a second.
	pollInterval = 2 * time.Millisecond
	// endpointProbe is how long a Service takes to notice that a process is gone.
	endpointProbe = time.Second
	// afterIncident is the time under load after the repair.
	afterIncident = 3 * time.Second
)

// runIncident injects one failure while clusters poll at a constant rate and writers change the fleet.
func (d *Drill) runIncident(ctx context.Context, what *incident) error {
	if what.standby != noStandby {
		if err := d.followAs(ctx, what.standby); err != nil {
			return fmt.Errorf("a standby: %w", err)
		}
	}
	stopPolling := d.startSteadyPolls(ctx)
	defer stopPolling()
	stopWriting := d.startWriters(ctx, "w")
	defer stopWriting()
	_ = rig.Rest(ctx, d.cfg.Duration+endpointProbe/3) // between two probes
	from := d.rec.Now()
	target, err := what.do(ctx, d)
	if err != nil {
		return fmt.Errorf("incident %s: %w", what.name, err)
	}
	d.rec.Fault(history.Fault{Kind: what.name, Target: target, From: from, To: d.rec.Now(), Kill: true})
	_ = rig.Rest(ctx, afterIncident)
	stopWriting()
	if what.lossy {
		stopPolling()
		return d.acceptLoss(ctx)
	}
	newest, err := d.settledRevision(ctx)
	if err != nil {
		return err
	}
	d.rec.Newest(newest)
	stopPolling()
	if err := d.heal(ctx, newest); err != nil {
		d.rec.Notef(true, "%v", err)
	}
	for _, p := range d.processes {
		p.End()
	}
	return d.readStore(ctx)
}

func (d *Drill) postgres() (*rig.Postgres, error) {
	pg, ok := d.db.(*rig.Postgres)
	if !ok {
		return nil, errors.New("an incident of Postgres on another store")
	}
	return pg, nil
}

// followAs starts a standby, and waits until it follows as it should.
func (d *Drill) followAs(ctx context.Context, how standby) error {
	pg, err := d.postgres()
	if err != nil {
		return err
	}
	if err := pg.Follow(ctx); err != nil {
		return err
	}
	want := "async"
	if how == synchronous {
		want = "sync"
		if err := pg.Exec(ctx, "postgres", `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for state := ""; state != want; {
		_ = rig.Query(ctx, pg.Server.URL("postgres"), `SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'`, &state) // none yet
		if state != want && !rig.Rest(ctx, 50*time.Millisecond) {
			return fmt.Errorf("its state is %q and not %q", state, want)
		}
	}
	return nil
}

func (d *Drill) promote(ctx context.Context) (string, error) {
	pg, err := d.postgres()
	if err != nil {
		return "", err
	}
	return "primary", pg.FailOver(ctx)
}

func (d *Drill) process(name string) *rig.Process {
	return d.processes[slices.IndexFunc(d.processes, func(p *rig.Process) bool { return p.Name == name })]
}

func (d *Drill) killAndStart(ctx context.Context, after time.Duration, names ...string) (target string, err error) {
	for _, name := range names {
		d.process(name).Kill()
		target += " " + name
	}
	_ = rig.Rest(ctx, after)
	for _, name := range names {
		err = errors.Join(err, d.process(name).Start(ctx))
	}
	return target, err
}

// restartInTurn stops each process by SIGTERM, and the next one when it is ready again.
func (d *Drill) restartInTurn(ctx context.Context) (target string, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Healing)
	defer cancel()
	c := rig.NewClient()
	for _, p := range d.processes {
		target += " " + p.Name
		old := p.Running()
		if err := old.Signal(syscall.SIGTERM); err != nil {
			return target, err
		}
		for { // it is started again when it has ended
			r := p.Running()
			if r != nil && r != old && c.Send(ctx, r.Base, http.MethodGet, "/ready", nil).Status == http.StatusOK {
				break
			}
			if !rig.Rest(ctx, 50*time.Millisecond) {
				return target, fmt.Errorf("%s did not come back: %w", p.Name, ctx.Err())
			}
		}
		_ = rig.Rest(ctx, endpointProbe) // until it receives requests again
	}
	return target, nil
}

// acceptLoss accepts the shorter log, as an operator does, and waits until the service answers again. Then it reads the log that
// the processes had served, from the killed server, which the harness starts again for that.
func (d *Drill) acceptLoss(ctx context.Context) error {
	pg, err := d.postgres()
	if err != nil {
		return err
	}
	var kept int64
	if err := rig.Query(ctx, pg.Server.URL(pg.Database()), `SELECT revision FROM head`, &kept); err != nil {
		return err
	}
	accept := exec.CommandContext(ctx, d.cfg.Binary, "accept", "--yes") //nolint:gosec // the program under test
	accept.Env = []string{"DATABASE_URL=" + pg.Server.URL(pg.Database())}
	if output, err := accept.CombinedOutput(); err != nil {
		return fmt.Errorf("accept: %w: %s", err, output)
	}
	accepted := d.rec.Now()
	since := func() float64 { return float64(d.rec.Now()-accepted) / 1e6 }
	body := []byte(`{"labels":{"after":"failover"}}`)
	for c := rig.NewClient(); !c.Send(ctx, d.process("crud-1").Running().Base, http.MethodPatch, "/namespaces/base", body).OK(); {
		if !rig.Rest(ctx, 20*time.Millisecond) {
			return fmt.Errorf("no change was possible after accept: %w", ctx.Err())
		}
	}
	changed := since()
	if err := d.answered(ctx); err != nil {
		return err
	}
	d.rec.Notef(false, "changes were possible %.1f s after `accept --yes`, and all polls were answered after %.1f s", changed, since())
	for _, p := range d.processes {
		p.End()
	}
	d.rec.Damaged()
	d.rec.Survived(kept)
	if err := pg.Standby.Restart(ctx); err != nil {
		return err
	}
	pg.Server, pg.Standby = pg.Standby, pg.Server
	return d.readStore(ctx)
}

// answered waits until every process answers polls.
func (d *Drill) answered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Healing)
	defer cancel()
	c := rig.NewClient()
	for _, p := range d.processes {
		for c.Send(ctx, p.Running().Base, http.MethodGet, "/ready?for=polls", nil).Status != http.StatusOK {
			if !rig.Rest(ctx, 20*time.Millisecond) {
				return fmt.Errorf("%s answers no polls after accept: %w", p.Name, ctx.Err())
			}
		}
	}
	return nil
}

// startSteadyPolls polls the lists of all clusters in turn at a constant rate, each over a new connection, until the returned
// function is called. As with a Service, each cluster has one of the processes that answered the last probe.
func (d *Drill) startSteadyPolls(ctx context.Context) (stop func()) {
	return workers(ctx, func(ctx context.Context, wg *sync.WaitGroup) {
		routed := d.newRouter()
		for i := range routed.processes {
			wg.Go(func() { routed.probe(ctx, i) })
		}
		c := rig.NewPollClient()
		wg.Go(func() {
			every := time.NewTicker(pollInterval)
			defer every.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-every.C:
				}
				wg.Go(func() { d.pollWithRetries(context.WithoutCancel(ctx), routed, c, n%len(d.endpoints)) })
			}
		})
	})
}

// retries are the pauses after which Flux Operator repeats a poll that was not answered. It repeats no poll that was answered
// with an error.
var retries = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

func (d *Drill) pollWithRetries(ctx context.Context, routed *router, c *rig.Client, endpoint int) {
	for n := 0; ; n++ {
		process := routed.pick(d.endpoints[endpoint].DNS, nil)
		got := d.poll(ctx, c, pollRequest{process: process.Name, running: process.Running(), endpoint: endpoint, again: n < len(retries)})
		if !got.Again {
			return
		}
		_ = rig.Rest(ctx, retries[n])
	}
}
