// Package attack has scenarios that each try one way to make the service lose a write, serve an older revision, accept
// an unauthorized request, or stop. Each starts real servers on a real database, repeats one action often enough to be
// sure, and counts the failures of the service.
//
// Reading order: attack.go (Run and Report), env.go (servers, requests and counters), then one file for each group of
// attacks.
package attack

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// Attack is one scenario.
type Attack struct {
	Name string
	// Description is one line for reports.
	Description string
	run         func(*env)
}

// All returns the attacks in groups.
func All() []Attack {
	return slices.Concat(writes, clients, authority, staleness, failovers, files, seeds, slowLinks, floods, guards, freezes, commands)
}

// Names returns the names of all attacks.
func Names() []string {
	var names []string
	for _, a := range All() {
		names = append(names, a.Name)
	}
	return names
}

// Count is the number of failures of one kind, and the number of tries.
type Count struct {
	Description string
	Bad, Of     int
}

// Report is the result of an attack.
type Report struct {
	Attack Attack
	Counts []Count
	Notes  []string
	Took   time.Duration
}

// Broken reports whether the service failed.
func (r Report) Broken() bool {
	return slices.ContainsFunc(r.Counts, func(c Count) bool { return c.Bad > 0 })
}

// Write prints the report.
func (r Report) Write(w io.Writer) {
	verdict := "kept"
	if r.Broken() {
		verdict = "BROKEN"
	}
	fmt.Fprintf(w, "\nattack %s: %s (%.0f s)\n  %s\n", r.Attack.Name, verdict, r.Took.Seconds(), r.Attack.Description)
	for _, c := range r.Counts {
		fmt.Fprintf(w, "  %6d of %-6d %s\n", c.Bad, c.Of, c.Description)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
}

// Config has the programs of an attack. All fields are required.
type Config struct {
	Binary string // the server
	CLI    string // the command line client
	Dir    string // for logs and files; it is made
}

// Run runs an attack. An error means that the attack could not be carried out, not that the service failed.
func Run(ctx context.Context, cfg Config, what Attack) (Report, error) {
	dir, err := filepath.Abs(filepath.Join(cfg.Dir, what.Name))
	if err != nil {
		return Report{}, err
	}
	if err := os.RemoveAll(dir); err != nil { // remains of an earlier run
		return Report{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the database runs as another user
		return Report{}, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	cfg.Dir = dir
	a := &env{cfg: cfg, ctx: ctx, rec: history.NewRecorder(history.Run{Drill: what.Name}), counts: map[string]int{}}
	ended := make(chan struct{})
	go func() { // in its own goroutine, so that fail can end it
		defer close(ended)
		defer a.close()
		what.run(a)
	}()
	<-ended
	r := Report{Attack: what, Counts: a.made, Notes: a.notes, Took: time.Since(began)}
	for _, n := range a.rec.History().Notes {
		if n.Wrong && strings.Contains(n.Text, "panicked") {
			r.Counts = append(r.Counts, Count{n.Text, 1, 1})
		}
	}
	switch {
	case a.err != nil:
		return r, fmt.Errorf("attack %s: %w", what.Name, a.err)
	case len(r.Counts) == 0 || slices.ContainsFunc(r.Counts, func(c Count) bool { return c.Of == 0 }):
		return r, fmt.Errorf("attack %s tried nothing", what.Name)
	}
	return r, nil
}

// attackTimeout bounds an attack.
const attackTimeout = 10 * time.Minute

// fail ends the attack, because it cannot be carried out. Like testing.T's FailNow it must be called by the attack's own
// goroutine.
func (a *env) fail(format string, args ...any) {
	a.err = fmt.Errorf(format, args...)
	runtime.Goexit()
}
