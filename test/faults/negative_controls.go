package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/attack"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/drill"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/negativecontrols"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// controlRounds are the durations of the attempts to detect a control. Each attempt has another seed.
var controlRounds = []time.Duration{6 * time.Second, 20 * time.Second, 40 * time.Second}

// controls runs every negative control. broken is true if one was not detected.
func (h *harness) controls(ctx context.Context) (broken bool, err error) {
	if !listContains(h.phases, "controls") {
		return false, nil
	}
	for _, c := range negativecontrols.All() {
		if !listContains(h.stores, c.Store) {
			continue
		}
		found, err := h.detects(ctx, c)
		if err != nil {
			return false, err
		}
		if !found {
			broken = true
			fmt.Fprintf(h.stdout, "\nNEGATIVE CONTROL %s WAS NOT FOUND OUT: %s\n", c.Name, c.Description)
		} else {
			fmt.Fprintf(h.stdout, "\nnegative control %s was found out: %s\n", c.Name, c.Description)
		}
	}
	return broken, nil
}

// runControl runs one negative control. broken is true if it was detected.
func (h *harness) runControl(ctx context.Context, name string) (broken bool, err error) {
	for _, c := range negativecontrols.All() {
		if c.Name == name {
			return h.detects(ctx, c)
		}
	}
	return false, fmt.Errorf("there is no negative control %q; -list shows them", name)
}

func (h *harness) detects(ctx context.Context, c negativecontrols.Control) (bool, error) {
	dir := filepath.Join(h.out, "control-"+c.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the database below runs as another user
		return false, err
	}
	binary, err := rig.Build(ctx, h.source, dir, c.Replace...)
	if err != nil {
		return false, fmt.Errorf("negative control %s: %w", c.Name, err)
	}
	cfg := drill.Config{
		Store: c.Store, Binary: binary, Only: c.Faults, Damage: c.Damage, Route: c.Route,
		Hold: time.Second, Rest: 300 * time.Millisecond, WritePace: 10 * time.Millisecond, PollPace: 4 * time.Millisecond,
	}
	// Most of these bugs do not heal, so a short wait is enough.
	cfg.Healing = 20 * time.Second
	for round, duration := range controlRounds {
		if cfg.Duration = duration; c.Damage != "" {
			cfg.Duration = damageLoad
		}
		cfg.Seed = h.seed + uint64(round)
		v, err := h.runDrill(ctx, filepath.Join("control-"+c.Name, fmt.Sprint(round+1)), cfg)
		if err != nil {
			return false, err
		}
		if v.Count(c.Breaks) > 0 {
			return true, nil
		}
	}
	return false, nil
}

func (h *harness) printList() {
	for _, a := range attack.All() {
		fmt.Fprintf(h.stdout, "attack %s: %s\n", a.Name, a.Description)
	}
	for _, store := range []string{rig.StoreSQLite, rig.StorePostgres} {
		fmt.Fprintf(h.stdout, "faults on %s: %s\n", store, strings.Join(drill.Faults(store), ", "))
		fmt.Fprintf(h.stdout, "damages on %s: %s\n", store, strings.Join(drill.Damages(store), ", "))
	}
	for _, line := range drill.IncidentDescriptions() {
		fmt.Fprintf(h.stdout, "failover %s\n", line)
	}
	for _, c := range negativecontrols.All() {
		fmt.Fprintf(h.stdout, "control %s, on %s: %s\n", c.Name, c.Store, c.Description)
	}
}
