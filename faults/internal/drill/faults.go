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

	"github.com/flux-resourceset/flux-resourceset/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/faults/internal/rig"
)

// fault does something bad, for a while, and makes it good again before it returns, even when its context ends.
type fault struct {
	name string
	do   func(*injector) (done, error)
}

// done says what a fault did. An empty target: there was nothing to do it to.
type done struct {
	target string
	note   string
	kill   bool
}

// injector is what faults are made with. One injects faults of the database, another faults of processes, at the same
// time and each one at a time.
type injector struct {
	*Drill
	ctx context.Context //nolint:containedctx // it is the time that faults have
	rng *rand.Rand
}

// hold waits for as long as this fault lasts.
func (in *injector) hold() {
	_ = rig.Rest(in.ctx, in.cfg.Hold/10+time.Duration(in.rng.Int64N(int64(in.cfg.Hold*9/10))))
}

// mending is how long it may take to make a fault good, a database that recovers included.
const mending = 90 * time.Second

// good is a context for making good.
func (in *injector) good() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(in.ctx), mending)
}

func (in *injector) anyProcess() *rig.Process { return in.processes[in.rng.IntN(len(in.processes))] }

var processFaults = []fault{
	{"kill-server", func(in *injector) (done, error) { return in.killServers(in.anyProcess()) }},
	{"kill-writing-server", func(in *injector) (done, error) {
		cruds := in.cruds()
		return in.killServers(cruds[in.rng.IntN(len(cruds))])
	}},
	{"kill-all-servers", func(in *injector) (done, error) { return in.killServers(in.processes...) }},
	{"pause-server", (*injector).pauseServer},
}

var postgresFaults = []fault{
	{"kill-postmaster", (*injector).killPostmaster},
	{"kill-backend", (*injector).killBackend},
	{"restart-postgres", (*injector).restartPostgres},
	{"lock-head", (*injector).lockHead},
	{"full-disk", (*injector).fullDisk},
	{"cut-commit", func(in *injector) (done, error) { return in.network(rig.Trouble{Commit: rig.CommitUnanswered}) }},
	{"lose-commit", func(in *injector) (done, error) { return in.network(rig.Trouble{Commit: rig.CommitLost}) }},
	{"delay-commit", func(in *injector) (done, error) { return in.network(rig.Trouble{Commit: rig.CommitLate}) }},
	{"cut-commit-and-refuse", (*injector).cutCommitAndRefuse},
	{"start-without-database", (*injector).startWithoutDatabase},
	{"cut-answers", (*injector).cutAnswers},
	{"cut", (*injector).cut},
	{"refuse", func(in *injector) (done, error) { return in.network(rig.Trouble{Refuse: true}) }},
	{"delay", func(in *injector) (done, error) {
		return in.network(rig.Trouble{Delay: time.Duration(1+in.rng.IntN(120)) * time.Millisecond})
	}},
	{"silence", func(in *injector) (done, error) { return in.network(rig.Trouble{Silent: true}) }},
}

var sqliteFaults = []fault{
	{"lock-file", (*injector).lockFile},
	{"read-long", (*injector).readLong},
	{"full-disk", (*injector).fullDisk},
}

// Faults are the names of all that can be injected under load on a store.
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

// breakThings injects faults until time is up.
func (d *Drill) breakThings(ctx context.Context) error {
	during, cancel := context.WithTimeout(ctx, d.cfg.Duration)
	defer cancel()
	var wg sync.WaitGroup
	for lane, faults := range [][]fault{databaseFaults(d.cfg.Store), processFaults} {
		faults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
			return len(d.cfg.Only) > 0 && !slices.Contains(d.cfg.Only, f.name) || f.name == "full-disk" && d.db.Volume() == nil
		})
		in := &injector{Drill: d, ctx: during, rng: d.rng(uint64(lane))}
		wg.Go(func() { in.inject(faults) })
	}
	<-during.Done()
	wg.Wait()
	return ctx.Err()
}

// inject injects every fault once before it injects one again.
func (in *injector) inject(faults []fault) {
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

func (in *injector) killServers(which ...*rig.Process) (done, error) {
	what := done{kill: true}
	for _, p := range which {
		if p.Kill() {
			what.target += " " + p.Name
		}
	}
	if in.rng.IntN(2) == 0 {
		in.hold()
	}
	ctx, cancel := in.good()
	defer cancel()
	for _, p := range which {
		if err := p.Start(ctx); err != nil {
			return what, err
		}
	}
	return what, nil
}

func (in *injector) pauseServer() (done, error) {
	p := in.anyProcess()
	resume := p.Pause()
	if resume == nil {
		return done{}, nil
	}
	in.hold()
	resume()
	return done{target: p.Name}, nil
}

func (in *injector) postgres() *rig.Postgres {
	p, ok := in.db.(*rig.Postgres)
	if !ok {
		panic("a fault of Postgres on another store")
	}
	return p
}

func (in *injector) sqlite() *rig.SQLite {
	s, ok := in.db.(*rig.SQLite)
	if !ok {
		panic("a fault of SQLite on another store")
	}
	return s
}

func (in *injector) killPostmaster() (done, error) {
	return in.endPostgres(syscall.SIGKILL, done{target: "postmaster", kill: true})
}

func (in *injector) restartPostgres() (done, error) {
	return in.endPostgres(syscall.SIGINT, done{target: "postmaster"})
}

func (in *injector) endPostgres(by syscall.Signal, what done) (done, error) {
	pg := in.postgres()
	pg.Server.Stop(by)
	if in.rng.IntN(2) == 0 {
		in.hold()
	}
	ctx, cancel := in.good()
	defer cancel()
	return what, pg.Server.Restart(ctx)
}

func (in *injector) killBackend() (done, error) {
	ctx, cancel := in.good()
	defer cancel()
	pid, err := in.postgres().KillBackend(ctx)
	if err != nil || pid == 0 {
		return done{}, err
	}
	return done{target: fmt.Sprintf("backend %d", pid), kill: true}, in.postgres().Revive(ctx)
}

// lockHead holds up every commit, as a transaction that was forgotten does.
func (in *injector) lockHead() (done, error) {
	ctx, cancel := in.good()
	defer cancel()
	conn, err := in.postgres().Connect(ctx, in.postgres().Database())
	if err != nil {
		return done{}, err
	}
	defer func() { _ = conn.Close(ctx) }() // it rolls back
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return done{}, err
	}
	if _, err := conn.Exec(ctx, "SELECT FROM head FOR UPDATE"); err != nil {
		return done{}, err
	}
	in.hold()
	return done{target: "head"}, nil
}

// network troubles the connections of one process, or of all.
func (in *injector) network(t rig.Trouble) (done, error) {
	proxies, target := in.someProxies()
	for _, p := range proxies {
		p.Set(t)
		if t.Refuse {
			p.Cut()
		}
	}
	in.hold()
	for _, p := range proxies {
		p.Set(rig.Trouble{})
	}
	return done{target: target}, nil
}

func (in *injector) someProxies() (proxies []*rig.Proxy, target string) {
	pg := in.postgres()
	if in.rng.IntN(3) == 0 {
		for _, p := range pg.Proxies {
			proxies = append(proxies, p)
		}
		return proxies, "everybody"
	}
	name := in.anyProcess().Name
	return []*rig.Proxy{pg.Proxies[name]}, name
}

func (in *injector) cut() (done, error) {
	proxies, target := in.someProxies()
	for _, p := range proxies {
		p.Cut()
	}
	return done{target: target}, nil
}

// cutAnswers cuts connections in the middle of what the server says, wherever that is.
func (in *injector) cutAnswers() (done, error) {
	var mu sync.Mutex
	size := 200 << in.rng.IntN(7)
	return in.network(rig.Trouble{CutAfter: func() int {
		mu.Lock()
		defer mu.Unlock()
		return in.rng.IntN(size)
	}})
}

// cutCommitAndRefuse takes away the answers to commits and with them the possibility to look them up, for longer than the
// server tries.
func (in *injector) cutCommitAndRefuse() (done, error) {
	cruds := in.cruds()
	name := cruds[in.rng.IntN(len(cruds))].Name
	p := in.postgres().Proxies[name]
	p.Set(rig.Trouble{Commit: rig.CommitUnanswered})
	_ = rig.Rest(in.ctx, in.cfg.WritePace)
	p.Set(rig.Trouble{Commit: rig.CommitUnanswered, Refuse: true})
	in.hold()
	p.Set(rig.Trouble{})
	return done{target: name}, nil
}

// startWithoutDatabase starts a process again that does not reach the database for a while.
func (in *injector) startWithoutDatabase() (done, error) {
	process := in.anyProcess()
	p := in.postgres().Proxies[process.Name]
	p.Set(rig.Trouble{Refuse: true})
	p.Cut()
	what, err := in.killServers(process)
	in.hold()
	p.Set(rig.Trouble{})
	return what, err
}

func (in *injector) fullDisk() (done, error) {
	ctx, cancel := in.good()
	defer cancel()
	v := in.db.Volume()
	if err := v.Fill(ctx); err != nil {
		return done{}, err
	}
	in.hold()
	if err := v.Free(ctx); err != nil {
		return done{}, err
	}
	if pg, ok := in.db.(*rig.Postgres); ok {
		return done{target: "volume"}, pg.Revive(ctx)
	}
	return done{target: "volume"}, nil
}

func (in *injector) lockFile() (done, error) {
	return in.whileInTransaction("writer", `BEGIN IMMEDIATE`)
}

// readLong keeps the write-ahead log from being folded into the file.
func (in *injector) readLong() (done, error) {
	return in.whileInTransaction("reader", `BEGIN`, `SELECT revision FROM head`)
}

func (in *injector) whileInTransaction(target string, statements ...string) (done, error) {
	ctx, cancel := in.good()
	defer cancel()
	return done{target: target}, in.sqlite().With(ctx, func(conn *sql.Conn) error {
		for _, s := range statements {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		in.hold()
		_, err := conn.ExecContext(ctx, `ROLLBACK`)
		return err
	})
}
