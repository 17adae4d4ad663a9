// Package rig runs a real cluster without containers: etcd, the Kubernetes API server and controller manager, Flux
// Operator, helm-controller and kustomize-controller as processes of this machine, with stand-ins for
// source-controller (the real one runs for one namespace) and for the nodes, beside the real server and command line. Linux only.
package rig

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/flux-resourceset/flux-resourceset/internal/testrig"
)

// Tokens of the servers.
const (
	ReadToken  = "demo-read"
	WriteToken = "demo-write"
)

// Resources are the names of a cluster's providers and ResourceSets.
var Resources = []string{"platform-components", "namespaces", "rolebindings"}

// Config of a world; the zero value is good.
type Config struct {
	// Progress receives messages about slow steps; nil for none.
	Progress io.Writer
	// Bin is a folder with our programs, built already; empty to build them from the checkout.
	Bin string
	// Store of the fleet: sqlite, with one crud and one read-only server, or postgres, with one crud and two read-only
	// ones. Empty for sqlite.
	Store string
	// RealSources are namespaces whose sources the real source-controller fetches, a process for each, in place of the stand-in.
	RealSources []string
}

// Env is a control plane with Flux on it, and a fleet.
type Env struct {
	// Kube is the cluster.
	Kube client.WithWatch
	// KubeURL and Kubeconfig are for people.
	KubeURL, Kubeconfig string
	// API changes the fleet. URL and ReadURLs are the crud and the read-only servers'.
	API      API
	URL      string
	ReadURLs []string
	// Registry has TLS; the crud server trusts its certificate.
	Registry *Registry
	// ReadDatabaseURL is where read-only servers find the fleet.
	ReadDatabaseURL string

	root, dir, bin string
	cp             *controlPlane
	pg             *postgres // nil with SQLite
	events         *events
	cancel         context.CancelFunc

	mu        sync.Mutex
	processes []*testrig.Process // ours
}

// Start brings up everything, with the demo fleet as the content of the store. Stop it even when it answers an error.
func Start(ctx context.Context, config Config) (*Env, error) {
	if config.Progress == nil {
		config.Progress = io.Discard
	}
	// The Kubernetes client requires a logger.
	log.SetLogger(logr.Discard())
	w := &Env{cancel: func() {}}
	var err error
	if w.root, err = root(); err != nil {
		return w, err
	}
	if w.dir, err = runDir(w.root); err != nil {
		return w, err
	}
	built, err := tools(ctx, w.root, config.Progress, fluxTools...)
	if err != nil {
		return w, err
	}
	if w.bin = config.Bin; w.bin == "" {
		w.bin = filepath.Join(w.dir, "bin")
		if err := testrig.Build(ctx, w.root, w.bin, "dev"); err != nil {
			return w, err
		}
	}
	ready, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	w.cp, err = startControlPlane(ready, w.dir, built, argsWithoutNode())
	if err != nil {
		return w, err
	}
	w.Kube, w.KubeURL, w.Kubeconfig = w.cp.client, w.cp.url, w.cp.kubeconfig
	if err := w.cp.defineFlux(ready, built); err != nil {
		return w, err
	}
	file, err := os.Create(filepath.Join(w.dir, "stand-ins.log"))
	if err != nil {
		return w, err
	}
	logger := slog.New(slog.NewTextHandler(file, nil))
	standIns, cancelStandIns := context.WithCancel(context.Background())
	w.cancel = cancelStandIns
	if w.events, err = startEvents(standIns, logger); err != nil {
		return w, err
	}
	if err := w.cp.startFlux(ready, w.dir, built, w.events.url); err != nil {
		return w, err
	}
	for _, namespace := range config.RealSources {
		if err := w.cp.startSourceController(ready, w.dir, built["source-controller"], w.events.url, namespace); err != nil {
			return w, err
		}
	}
	startPods(standIns, w.Kube, logger)
	if err := startSources(standIns, w.Kube, "127.0.0.1", logger, w.events, config.RealSources); err != nil {
		return w, err
	}
	if w.Registry, err = startTLSRegistry(standIns, w.registryCA()); err != nil {
		return w, err
	}
	return w, w.startFleet(ready, config.Store)
}

// DeleteObservations deletes the status of all clusters from the store.
func (w *Env) DeleteObservations(ctx context.Context) error {
	if w.pg == nil {
		return os.Remove(filepath.Join(w.dir, "fleet.db-observations"))
	}
	if err := w.pg.sql(ctx, "fleet", "DROP TABLE observations"); err != nil {
		return err
	}
	return Eventually(ctx, w.pg.letReaderRead) // when it is there again
}

func (w *Env) registryCA() string { return filepath.Join(w.dir, "registry-ca.pem") }

func (w *Env) startFleet(ctx context.Context, kind string) error {
	file := "sqlite://" + filepath.Join(w.dir, "fleet.db") + "?mode=rwc"
	database, readers := file, 1
	w.ReadDatabaseURL = file
	switch kind {
	case "", "sqlite":
	case "postgres":
		var err error
		if w.pg, err = startPostgres(ctx, w.dir); err != nil {
			return err
		}
		database, readers = w.pg.URLAs("fleet_owner", "fleet"), 2
		w.ReadDatabaseURL = w.pg.URLAs("fleet_reader", "fleet")
	default:
		return fmt.Errorf("store %q: it must be sqlite or postgres", kind)
	}
	crud, err := w.StartServer(ctx, ServerConfig{Name: "server-crud", Settings: map[string]string{
		"API_MODE": "crud", "DATABASE_URL": database, "SEED_FILE": filepath.Join(w.root, "examples", "demo", "seed.json"), "SEED_ACCEPT": "true",
		"AUTH_TOKEN": ReadToken, "CRUD_AUTH_TOKEN": WriteToken, "ALLOW_SHORT_TOKENS": "true", "GATES_TRUST_SHARED_TOKEN": "true", "MAX_REMOVALS": "1000", // the tests share it, and an hour
		"REQUIRE_SECOND_PERSON": "true", "REGISTRY_CA_FILE": w.registryCA(), "VERSION_SCAN_ALLOW_PRIVATE": "true",
	}})
	if err != nil {
		return err
	}
	w.URL, w.API = crud.URL, API{Token: WriteToken, url: crud.URL}
	if w.pg != nil {
		if err := w.pg.letReaderRead(ctx); err != nil {
			return err
		}
	}
	for i := range readers {
		read, err := w.StartServer(ctx, ServerConfig{Name: fmt.Sprintf("server-read-only-%d", i+1), Settings: map[string]string{
			"API_MODE": "read-only", "DATABASE_URL": w.ReadDatabaseURL, "AUTH_TOKEN": ReadToken, "ALLOW_SHORT_TOKENS": "true",
		}})
		if err != nil {
			return err
		}
		w.ReadURLs = append(w.ReadURLs, read.URL)
	}
	return nil
}

// Bin is where our programs are.
func (w *Env) Bin() string { return w.bin }

// keep ends a process with the world.
func (w *Env) keep(proc *testrig.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, proc)
}

// Stop ends everything. The logs stay until the next run.
func (w *Env) Stop() {
	w.cancel()
	if w.cp != nil {
		w.cp.stop()
	}
	w.mu.Lock()
	for _, proc := range w.processes {
		stop(proc)
	}
	w.mu.Unlock()
	if w.pg != nil {
		w.pg.End()
	}
	for _, data := range []string{"etcd", "bin", "artifacts"} {
		_ = os.RemoveAll(filepath.Join(w.dir, data))
	}
}

// Logs are the ends of all logs.
func (w *Env) Logs(lines int) string { return logs(w.dir, lines) }

func logs(dir string, lines int) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, file := range files {
		log, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&text, "==== %s\n%s\n", file, testrig.Tail(string(log), lines))
	}
	return text.String()
}
