package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/attack"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// attacks runs the attacks, or those that -only names. broken is true if the service failed one.
func (h *harness) attacks(ctx context.Context) (broken bool, err error) {
	if !listContains(h.phases, "attacks") {
		return false, nil
	}
	if h.cli == "" {
		if h.cli, err = rig.BuildCLI(ctx, h.source, h.out); err != nil {
			return false, err
		}
	}
	dir := filepath.Join(h.out, "attacks")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the databases run as another user
		return false, err
	}
	report, err := os.Create(filepath.Join(dir, "report.txt"))
	if err != nil {
		return false, err
	}
	defer func() { _ = report.Close() }() // the report is also printed
	for _, atk := range attack.All() {
		if h.only != "" && !listContains(h.only, atk.Name) {
			continue
		}
		made, err := attack.Run(ctx, attack.Config{Binary: h.binary, CLI: h.cli, Dir: dir}, atk)
		if err != nil {
			return false, err
		}
		made.Write(io.MultiWriter(h.stdout, report))
		broken = broken || made.Broken()
	}
	if broken {
		fmt.Fprintln(h.stdout, "\nthe service fell for attacks")
	}
	return broken, nil
}
