package rig

import (
	"path/filepath"
	"time"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// start runs a program with its output in a log of its own.
func start(logs string, p testrig.Program) (*testrig.Process, error) {
	p.Log = filepath.Join(logs, p.Name+".log")
	return testrig.Run(p)
}

// stop asks a process to end, and kills it if it does not. How it ends is in its log.
func stop(p *testrig.Process) { _ = p.StopWithin(5 * time.Second) }
