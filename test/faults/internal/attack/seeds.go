package attack

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Servers that start on the wrong store.
var seeds = []Attack{
	{"seed-on-a-lost-store", "the store is lost or another one, and SEED_FILE is still set", (*env).seedOnLostStore},
	{"lookalike-variable", "DATABASE_URI, which is nothing, is set in place of DATABASE_URL", (*env).misspelledVariable},
}

func (a *env) seedOnLostStore() {
	pg := a.postgres("first", "second", "read")
	if err := rig.Exec(a.ctx, pg.Server.URL("postgres"), "CREATE DATABASE elsewhere"); err != nil {
		a.fail("%w", err)
	}
	db := a.sqlite()
	full := a.seed(fleetOf{clusters: 1, namespaces: 61})
	full = rename(a, full, "full.json")
	small := a.seed(fleetOf{clusters: 1, namespaces: 1})
	served := func(what string, c rig.Config) {
		c.Seed = small
		c.Settings = []string{"SEED_ACCEPT=false"}
		p := a.process(c)
		ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
		defer cancel()
		_ = p.Start(ctx) // a server that refuses to start answers no poll
		for range 20 {
			got := a.poll(p, dns(0))
			a.count(got.Status == http.StatusOK, "polls were answered from the seed, "+what)
			a.sleep(50 * time.Millisecond)
		}
		p.Retire()
	}
	lose := func(c rig.Config) {
		c.Seed = full
		p := a.start(c)
		a.waitForPolls(p)
		p.Retire()
	}
	lose(rig.Config{Name: "sqlite-1", Database: db.URL("")})
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(db.Path + end); err != nil && !os.IsNotExist(err) {
			a.fail("%w", err)
		}
	}
	served("SQLite's file was removed", rig.Config{Name: "sqlite-2", Database: db.URL("")})
	other := a.sqlite()
	served("a read-only process had another file", rig.Config{Name: "sqlite-3", Mode: rig.ReadOnly, Database: other.URL("")})
	lose(rig.Config{Name: "postgres-1", Database: pg.Server.URL(pg.Database())})
	served("Postgres had another database", rig.Config{Name: "postgres-2", Database: pg.Server.URL("elsewhere")})

	// With SEED_ACCEPT the seed is served at once.
	meant := a.sqlite()
	p := a.start(rig.Config{Name: "sqlite-4", Database: meant.URL(""), Seed: small})
	a.count(!a.eventually(10*time.Second, func() bool { return a.poll(p, dns(0)).Status == http.StatusOK }), "a seed that was accepted was not served")
}

func rename(a *env, from, to string) string {
	path := filepath.Join(a.cfg.Dir, to)
	if err := os.Rename(from, path); err != nil {
		a.fail("%w", err)
	}
	return path
}

func (a *env) misspelledVariable() {
	for _, name := range []string{"DATABASE_URI", "SEED_FILES", "STATEDIR"} {
		// With only the misspelled name set, the server would create a file in its working directory.
		db := a.sqlite()
		p := a.process(rig.Config{Name: "crud-" + name, Database: db.URL(""), Settings: []string{name + "=" + db.URL("")}})
		ctx, cancel := context.WithTimeout(a.ctx, 3*time.Second)
		started := p.Start(ctx) == nil
		cancel()
		a.count(started, "servers started with a misspelt variable")
		p.Retire()
	}
}
