// Command faults injects faults around real servers under load, and checks that they keep their promises:
// docs/reliability.md. It is for developers and is not shipped.
//
// Reading order: main.go (phases and exit codes), internal/drill (load and faults), internal/attack (single scenarios),
// internal/history (the record of a run), internal/check (the rules), internal/negativecontrols (bugs that the checks
// must detect), internal/rig (processes, databases and networks).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/attack"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/check"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/drill"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Exit codes.
const (
	exitOK     = 0 // every promise was kept; for a negative control: it was detected
	exitBroken = 1 // a promise was broken; for a negative control: it was not detected
	exitError  = 2 // the run could not be made
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// routeOwn gives each poller its own process.
const routeOwn = "own"

type options struct {
	stores   string
	duration time.Duration
	seed     uint64
	only     string
	phases   string
	control  string
	source   string
	binary   string
	cli      string
	out      string
	recheck  string
	promises string
	stateDir bool
	route    string
	stale    time.Duration
	hold     time.Duration
	list     bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := options{}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.stores, "store", "sqlite,postgres", "`STORES` to run on, separated by commas")
	flags.DurationVar(&o.duration, "duration", 2*time.Minute, "how `LONG` faults are injected under load, on each store")
	flags.Uint64Var(&o.seed, "seed", 0, "`NUMBER` that decides what is left to chance; 0: a new one")
	flags.StringVar(&o.only, "only", "", "inject only these faults, damages, incidents of failover and attacks, `NAMES` separated by commas")
	flags.StringVar(&o.phases, "phases", "attacks,load,damage,failover,controls", "what to run: attacks, load, damage, failover, controls, separated by commas")
	flags.StringVar(&o.control, "control", "", "run only the negative control of this `NAME`, and fail as it makes the promises fail")
	flags.StringVar(&o.source, "source", ".", "`DIRECTORY` with the server's source")
	flags.StringVar(&o.binary, "binary", "", "`PROGRAM` to run in place of one built of the source")
	flags.StringVar(&o.cli, "cli", "", "the command line client's `PROGRAM`, for attacks; default: one built of the source")
	flags.StringVar(&o.out, "out", "", "`DIRECTORY` for logs, histories and reports; default: a new temporary one")
	flags.StringVar(&o.recheck, "recheck", "", "judge a saved history `FILE` again, and run nothing")
	flags.StringVar(&o.promises, "promises", "", "hold the service to these `PROMISES` only, as reports name them, separated by commas")
	flags.BoolVar(&o.stateDir, "state-dir", true, "under load, processes keep their fleet on disk")
	flags.StringVar(&o.route, "route", "own", "under load, where polls are sent: own (each poller has a process), random (each poll to any process), affinity (a cluster's polls to one process while it is ready)")
	flags.DurationVar(&o.stale, "staleness", 0, "MAX_STALENESS of processes under load; default: half of the longest fault")
	flags.DurationVar(&o.hold, "hold", 0, "how `LONG` the longest fault lasts under load; default: 3s, less in a short run")
	flags.BoolVar(&o.list, "list", false, "list attacks, faults, damages and negative controls")
	if err := flags.Parse(args); err != nil {
		return exitError
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "faults: %q is not a flag\n", flags.Arg(0))
		return exitError
	}
	h := harness{options: o, stdout: stdout}
	broken, err := h.run(ctx)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "faults: %v\n", err)
		return exitError
	case broken:
		return exitBroken
	}
	return exitOK
}

type harness struct {
	options
	stdout   io.Writer
	revision string
}

// run reports whether a promise was broken.
func (h *harness) run(ctx context.Context) (broken bool, err error) {
	switch {
	case h.list:
		h.printList()
		return false, nil
	case h.recheck != "":
		saved, err := history.Load(h.recheck)
		if err != nil {
			return false, err
		}
		return len(h.judge(h.stdout, saved).Violations) > 0, nil
	}
	if err := h.validate(); err != nil {
		return false, err
	}
	if h.seed == 0 {
		h.seed = rand.Uint64N(1_000_000) + 1
	}
	if h.out == "" {
		if h.out, err = os.MkdirTemp("", "faults"); err != nil {
			return false, err
		}
		err = os.Chmod(h.out, 0o755) //nolint:gosec // the database below runs as another user
	} else {
		err = os.MkdirAll(h.out, 0o755) //nolint:gosec // likewise
	}
	if err != nil {
		return false, err
	}
	h.revision = rig.Revision(ctx, h.source)
	fmt.Fprintf(h.stdout, "logs, histories and reports are in %s\n", h.out)
	if h.control != "" {
		return h.runControl(ctx, h.control)
	}
	if h.binary == "" {
		if h.binary, err = rig.Build(ctx, h.source, h.out); err != nil {
			return false, err
		}
	}
	for _, phase := range []func(context.Context) (bool, error){h.attacks, h.loads, h.damages, h.failovers, h.controls} {
		wrong, err := phase(ctx)
		if err != nil {
			return false, err
		}
		broken = broken || wrong
	}
	if broken {
		fmt.Fprintln(h.stdout, "\nPROMISES WERE BROKEN")
	} else {
		fmt.Fprintln(h.stdout, "\nevery promise was kept")
	}
	return broken, nil
}

// validate refuses unknown names: a run that injects nothing would keep every promise.
func (h *harness) validate() error {
	known := attack.Names()
	for _, store := range h.storeList() {
		if store != rig.StoreSQLite && store != rig.StorePostgres {
			return fmt.Errorf("there is no store %q; it is sqlite or postgres", store)
		}
		known = slices.Concat(known, drill.Faults(store), drill.Damages(store), drill.Incidents(store))
	}
	for name := range strings.SplitSeq(h.only, ",") {
		if name != "" && !slices.Contains(known, name) {
			return fmt.Errorf("there is no attack, fault or damage %q on %s; -list shows them", name, h.stores)
		}
	}
	if !slices.Contains([]string{routeOwn, history.RouteRandom, history.RouteAffinity}, h.route) {
		return fmt.Errorf("there is no route %q; it is own, random or affinity", h.route)
	}
	for name := range strings.SplitSeq(h.promises, ",") {
		if name != "" && !slices.Contains(check.Rules(), check.Rule(name)) {
			return fmt.Errorf("there is no promise %q; it is one of %v", name, check.Rules())
		}
	}
	for phase := range strings.SplitSeq(h.phases, ",") {
		if !slices.Contains([]string{"attacks", "load", "damage", "failover", "controls"}, phase) {
			return fmt.Errorf("there is no phase %q; it is attacks, load, damage, failover or controls", phase)
		}
	}
	return nil
}

func listContains(list, name string) bool { return slices.Contains(strings.Split(list, ","), name) }

func (h *harness) storeList() []string { return strings.Split(h.stores, ",") }

func (h *harness) loads(ctx context.Context) (broken bool, err error) {
	if !listContains(h.phases, "load") {
		return false, nil
	}
	for _, store := range h.storeList() {
		cfg := drill.Config{Store: store, Duration: h.duration, Seed: h.seed, Log: h.stdout, Forgetful: !h.stateDir, Staleness: h.stale, Hold: h.hold}
		if h.route != routeOwn {
			cfg.Route = h.route
		}
		if h.only != "" {
			cfg.Only = strings.Split(h.only, ",")
		}
		v, err := h.runDrill(ctx, "load-"+store, cfg)
		if err != nil {
			return false, err
		}
		broken = broken || len(v.Violations) > 0
	}
	return broken, nil
}

// damageLoad is the time under load before the store is damaged.
const damageLoad = 2 * time.Second

func (h *harness) damages(ctx context.Context) (broken bool, err error) {
	if !listContains(h.phases, "damage") {
		return false, nil
	}
	for _, store := range h.storeList() {
		for _, damage := range drill.Damages(store) {
			if h.only != "" && !listContains(h.only, damage) {
				continue
			}
			v, err := h.runDrill(ctx, "damage-"+damage+"-"+store, drill.Config{Store: store, Duration: damageLoad, Seed: h.seed, Damage: damage})
			if err != nil {
				return false, err
			}
			broken = broken || len(v.Violations) > 0
		}
	}
	return broken, nil
}

// steadyLoad is the longest time under load before an incident.
const steadyLoad = 3 * time.Second

// failovers measures what clusters notice of each incident.
func (h *harness) failovers(ctx context.Context) (broken bool, err error) {
	if !listContains(h.phases, "failover") {
		return false, nil
	}
	for _, store := range h.storeList() {
		for _, name := range drill.Incidents(store) {
			if h.only != "" && !listContains(h.only, name) {
				continue
			}
			v, err := h.runDrill(ctx, "incident-"+name, drill.Config{Store: store, Duration: min(h.duration, steadyLoad), Seed: h.seed, Incident: name})
			if err != nil {
				return false, err
			}
			broken = broken || len(v.Violations) > 0
		}
	}
	return broken, nil
}

// runDrill makes one run, saves its history and checks it.
func (h *harness) runDrill(ctx context.Context, name string, cfg drill.Config) (v check.Verdict, err error) {
	cfg.Dir, cfg.Revision = filepath.Join(h.out, name), h.revision
	if cfg.Binary == "" {
		cfg.Binary = h.binary
	}
	if err := os.RemoveAll(cfg.Dir); err != nil { // of an earlier run with the same -out
		return v, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil { //nolint:gosec // the database below runs as another user
		return v, err
	}
	made, err := drill.Run(ctx, cfg)
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	file := filepath.Join(cfg.Dir, "history.jsonl.gz")
	if err := made.Save(file); err != nil {
		return v, err
	}
	f, err := os.Create(filepath.Join(cfg.Dir, "report.txt"))
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v = h.judge(io.MultiWriter(h.stdout, f), made)
	fmt.Fprintf(h.stdout, "  history: %s\n", file)
	return v, nil
}

func (h *harness) judge(w io.Writer, made *history.History) check.Verdict {
	v := check.History(made)
	if h.promises != "" {
		v.Violations = slices.DeleteFunc(v.Violations, func(x check.Violation) bool { return !listContains(h.promises, string(x.Rule)) })
	}
	report(w, made, v)
	return v
}
