package drill

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// fault is a temporary disturbance. do ends it before it returns, even if the context ends.
type fault struct {
	name string
	do   func(*nemesis) (outcome, error)
}

// outcome describes an injected fault. An empty target: the fault had nothing to act on.
type outcome struct {
	target string
	note   string
	kill   bool
}

// nemesis injects faults, one at a time. Two run concurrently: one for faults of the database, one for faults of
// processes.
type nemesis struct {
	*Drill
	ctx context.Context //nolint:containedctx // it bounds the injection
	rng *rand.Rand
}

// holdFault waits for the duration of this fault.
func (in *nemesis) holdFault() {
	_ = rig.Rest(in.ctx, in.cfg.Hold/10+time.Duration(in.rng.Int64N(int64(in.cfg.Hold*9/10))))
}

// repairTimeout bounds the repair of a fault, including the recovery of a database.
const repairTimeout = 90 * time.Second

// repairContext is for repairs: it outlives the end of the injection.
func (in *nemesis) repairContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(in.ctx), repairTimeout)
}

func (in *nemesis) anyProcess() *rig.Process { return in.processes[in.rng.IntN(len(in.processes))] }

var processFaults = []fault{
	{"kill-server", func(in *nemesis) (outcome, error) { return in.killServers(in.anyProcess()) }},
	{"kill-writing-server", func(in *nemesis) (outcome, error) {
		cruds := in.cruds()
		return in.killServers(cruds[in.rng.IntN(len(cruds))])
	}},
	{"kill-all-servers", func(in *nemesis) (outcome, error) { return in.killServers(in.processes...) }},
	{"pause-server", (*nemesis).pauseServer},
}

// commitDelay is longer than a new connection takes, and shorter than the server looks for the outcome of a commit.
const commitDelay = 700 * time.Millisecond

var postgresFaults = []fault{
	{"kill-postmaster", (*nemesis).killPostmaster},
	{"kill-backend", (*nemesis).killBackend},
	{"restart-postgres", (*nemesis).restartPostgres},
	{"lock-head", (*nemesis).lockHead},
	{"full-disk", (*nemesis).fullDisk},
	{"cut-commit", func(in *nemesis) (outcome, error) {
		return in.troubleNetwork(testrig.Trouble{Commit: testrig.UnansweredCommit})
	}},
	{"lose-commit", func(in *nemesis) (outcome, error) {
		return in.troubleNetwork(testrig.Trouble{Commit: testrig.LostCommit(commitDelay)})
	}},
	{"delay-commit", func(in *nemesis) (outcome, error) {
		return in.troubleNetwork(testrig.Trouble{Commit: testrig.LateCommit(commitDelay)})
	}},
	{"cut-commit-and-refuse", (*nemesis).cutCommitAndRefuse},
	{"start-without-database", (*nemesis).startWithoutDatabase},
	{"cut-answers", (*nemesis).cutAnswers},
	{"cut", (*nemesis).cutConnections},
	{"refuse", func(in *nemesis) (outcome, error) { return in.troubleNetwork(testrig.Trouble{Refuse: true}) }},
	{"delay", func(in *nemesis) (outcome, error) {
		return in.troubleNetwork(testrig.Trouble{Delay: time.Duration(1+in.rng.IntN(120)) * time.Millisecond})
	}},
	{"silence", func(in *nemesis) (outcome, error) { return in.troubleNetwork(testrig.Trouble{Silent: true}) }},
}

var sqliteFaults = []fault{
	{"lock-file", (*nemesis).lockFile},
	{"read-long", (*nemesis).readLong},
	{"full-disk", (*nemesis).fullDisk},
}

// Faults returns the names of the faults that can be injected under load on a store.
func Faults(storeName string) []string {
	var names []string
	for _, f := range slices.Concat(processFaults, databaseFaults(storeName)) {
		names = append(names, f.name)
	}
	return names
}

func databaseFaults(storeName string) []fault {
	if storeName == rig.StorePostgres {
		return postgresFaults
	}
	return sqliteFaults
}

// runNemeses injects faults for the run's duration.
func (d *Drill) runNemeses(ctx context.Context) error {
	during, cancel := context.WithTimeout(ctx, d.cfg.Duration)
	defer cancel()
	var wg sync.WaitGroup
	for lane, faults := range [][]fault{databaseFaults(d.cfg.Store), processFaults} {
		faults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
			return len(d.cfg.Only) > 0 && !slices.Contains(d.cfg.Only, f.name) || f.name == "full-disk" && d.db.Volume() == nil
		})
		in := &nemesis{Drill: d, ctx: during, rng: d.rng(uint64(lane))}
		wg.Go(func() { in.inject(faults) })
	}
	<-during.Done()
	wg.Wait()
	return ctx.Err()
}

// inject injects the faults in random order, each once before any is repeated.
func (in *nemesis) inject(faults []fault) {
	for len(faults) > 0 {
		in.rng.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for _, f := range faults {
			if !rig.Rest(in.ctx, time.Duration(in.rng.Int64N(int64(2*in.cfg.Rest)+1))) {
				return
			}
			from := in.rec.Now()
			what, err := f.do(in)
			if err != nil {
				in.rec.Notef(true, "fault %s could not be made, or not made good: %v", f.name, err)
			}
			if what.target == "" {
				continue
			}
			in.rec.Fault(history.Fault{Kind: f.name, Target: what.target, Note: what.note, Kill: what.kill, From: from, To: in.rec.Now()})
			acknowledged, polls := in.rec.Counts()
			fmt.Fprintf(in.cfg.Log, "%7.1fs  %-8s %-22s %-16s %6d acknowledged writes, %7d polls\n",
				float64(in.rec.Now())/1e6, in.cfg.Store, f.name, what.target, acknowledged, polls)
		}
	}
}

func (in *nemesis) killServers(which ...*rig.Process) (outcome, error) {
	what := outcome{kill: true}
	for _, p := range which {
		if p.Kill() {
			what.target += " " + p.Name
		}
	}
	if in.rng.IntN(2) == 0 {
		in.holdFault()
	}
	ctx, cancel := in.repairContext()
	defer cancel()
	for _, p := range which {
		if err := p.Start(ctx); err != nil {
			return what, err
		}
	}
	return what, nil
}

func (in *nemesis) pauseServer() (outcome, error) {
	p := in.anyProcess()
	resume := p.Pause()
	if resume == nil {
		return outcome{}, nil
	}
	in.holdFault()
	resume()
	return outcome{target: p.Name}, nil
}

func (in *nemesis) postgres() *rig.Postgres {
	p, ok := in.db.(*rig.Postgres)
	if !ok {
		panic("a fault of Postgres on another store")
	}
	return p
}

func (in *nemesis) sqlite() *rig.SQLite {
	s, ok := in.db.(*rig.SQLite)
	if !ok {
		panic("a fault of SQLite on another store")
	}
	return s
}

func (in *nemesis) killPostmaster() (outcome, error) {
	return in.endPostgres(syscall.SIGKILL, outcome{target: "postmaster", kill: true})
}

func (in *nemesis) restartPostgres() (outcome, error) {
	return in.endPostgres(syscall.SIGINT, outcome{target: "postmaster"})
}

func (in *nemesis) endPostgres(by syscall.Signal, what outcome) (outcome, error) {
	pg := in.postgres()
	pg.Server.Stop(by)
	if in.rng.IntN(2) == 0 {
		in.holdFault()
	}
	ctx, cancel := in.repairContext()
	defer cancel()
	return what, pg.Server.Restart(ctx)
}

func (in *nemesis) killBackend() (outcome, error) {
	ctx, cancel := in.repairContext()
	defer cancel()
	pid, err := in.postgres().KillBackend(ctx)
	if err != nil || pid == 0 {
		return outcome{}, err
	}
	return outcome{target: fmt.Sprintf("backend %d", pid), kill: true}, in.postgres().Revive(ctx)
}

// lockHead blocks every commit, as a forgotten transaction does.
func (in *nemesis) lockHead() (outcome, error) {
	ctx, cancel := in.repairContext()
	defer cancel()
	conn, err := in.postgres().Connect(ctx, in.postgres().Database())
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = conn.Close(ctx) }() // it rolls back
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return outcome{}, err
	}
	if _, err := conn.Exec(ctx, "SELECT FROM head FOR UPDATE"); err != nil {
		return outcome{}, err
	}
	in.holdFault()
	return outcome{target: "head"}, nil
}

// troubleNetwork disturbs the connections of one process, or of all.
func (in *nemesis) troubleNetwork(t testrig.Trouble) (outcome, error) {
	proxies, target := in.someProxies()
	for _, p := range proxies {
		p.Set(t)
		if t.Refuse {
			p.Cut()
		}
	}
	in.holdFault()
	for _, p := range proxies {
		p.Set(testrig.Trouble{})
	}
	return outcome{target: target}, nil
}

func (in *nemesis) someProxies() (proxies []*testrig.Proxy, target string) {
	pg := in.postgres()
	if in.rng.IntN(3) == 0 {
		for _, p := range pg.Proxies {
			proxies = append(proxies, p)
		}
		return proxies, "everybody"
	}
	name := in.anyProcess().Name
	return []*testrig.Proxy{pg.Proxies[name]}, name
}

func (in *nemesis) cutConnections() (outcome, error) {
	proxies, target := in.someProxies()
	for _, p := range proxies {
		p.Cut()
	}
	return outcome{target: target}, nil
}

// cutAnswers cuts connections at a random byte of the database's answers.
func (in *nemesis) cutAnswers() (outcome, error) {
	var mu sync.Mutex
	size := 200 << in.rng.IntN(7)
	return in.troubleNetwork(testrig.Trouble{CutAfter: func() int {
		mu.Lock()
		defer mu.Unlock()
		return in.rng.IntN(size)
	}})
}

// cutCommitAndRefuse drops the answers to commits, and refuses connections for longer than the server looks for their
// outcome.
func (in *nemesis) cutCommitAndRefuse() (outcome, error) {
	cruds := in.cruds()
	name := cruds[in.rng.IntN(len(cruds))].Name
	p := in.postgres().Proxies[name]
	p.Set(testrig.Trouble{Commit: testrig.UnansweredCommit})
	_ = rig.Rest(in.ctx, in.cfg.WritePace)
	p.Set(testrig.Trouble{Commit: testrig.UnansweredCommit, Refuse: true})
	in.holdFault()
	p.Set(testrig.Trouble{})
	return outcome{target: name}, nil
}

// startWithoutDatabase restarts a process while it cannot reach the database.
func (in *nemesis) startWithoutDatabase() (outcome, error) {
	process := in.anyProcess()
	p := in.postgres().Proxies[process.Name]
	p.Set(testrig.Trouble{Refuse: true})
	p.Cut()
	what, err := in.killServers(process)
	in.holdFault()
	p.Set(testrig.Trouble{})
	return what, err
}

func (in *nemesis) fullDisk() (outcome, error) {
	ctx, cancel := in.repairContext()
	defer cancel()
	v := in.db.Volume()
	if err := v.Fill(ctx); err != nil {
		return outcome{}, err
	}
	in.holdFault()
	if err := v.Free(ctx); err != nil {
		return outcome{}, err
	}
	if pg, ok := in.db.(*rig.Postgres); ok {
		return outcome{target: "volume"}, pg.Revive(ctx)
	}
	return outcome{target: "volume"}, nil
}

func (in *nemesis) lockFile() (outcome, error) {
	return in.whileInTransaction("writer", `BEGIN IMMEDIATE`)
}

// readLong holds a read transaction, so that the write-ahead log cannot be checkpointed.
func (in *nemesis) readLong() (outcome, error) {
	return in.whileInTransaction("reader", `BEGIN`, `SELECT revision FROM head`)
}

func (in *nemesis) whileInTransaction(target string, statements ...string) (outcome, error) {
	ctx, cancel := in.repairContext()
	defer cancel()
	return outcome{target: target}, in.sqlite().With(ctx, func(conn *sql.Conn) error {
		for _, s := range statements {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		in.holdFault()
		_, err := conn.ExecContext(ctx, `ROLLBACK`)
		return err
	})
}
