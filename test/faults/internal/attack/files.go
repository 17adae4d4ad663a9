package attack

import (
	"fmt"
	"net/http"
	"os"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Files of SQLite are removed or replaced under a running server.
var files = []Attack{
	{"wal-removed", "fleet.db-wal is removed under a running server", func(a *env) {
		a.damageFiles(func(db string) error { return os.Remove(db + "-wal") })
	}},
	{"wal-replaced", "fleet.db-wal is replaced by an empty file", func(a *env) {
		a.damageFiles(func(db string) error {
			if err := os.WriteFile(db+"-new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(db+"-new", db+"-wal")
		})
	}},
	{"wal-truncated", "fleet.db-wal is truncated", func(a *env) {
		a.damageFiles(func(db string) error { return os.Truncate(db+"-wal", 0) })
	}},
	{"shm-removed", "fleet.db-shm is removed", func(a *env) {
		a.damageFiles(func(db string) error { return os.Remove(db + "-shm") })
	}},
	{"db-removed", "fleet.db is removed with all that belongs to it", func(a *env) {
		a.damageFiles(func(db string) error {
			for _, end := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(db + end); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"db-replaced", "fleet.db is replaced by a copy of itself", func(a *env) {
		a.damageFiles(func(db string) error {
			content, err := os.ReadFile(db)
			if err != nil {
				return err
			}
			if err := os.WriteFile(db+"-new", content, 0o600); err != nil {
				return err
			}
			return os.Rename(db+"-new", db)
		})
	}},
}

// damageFiles damages the files and writes, then kills and restarts the server and looks for the acknowledged writes.
func (a *env) damageFiles(spoil func(db string) error) {
	for range 3 {
		db := a.sqlite()
		c := rig.Config{Name: "crud-1", Database: db.URL(""), Seed: a.seed(fleetOf{clusters: 1, namespaces: 3})}
		p := a.start(c)
		a.waitForPolls(p)
		a.setLabel(p, "before")
		if err := spoil(db.Path); err != nil {
			a.fail("%w", err)
		}
		var acknowledged []string
		for n := range 10 {
			id := fmt.Sprintf("after-%d", n)
			if a.send(p, http.MethodPost, "/namespaces", object{"id": id}).OK() {
				acknowledged = append(acknowledged, id)
			}
		}
		a.notef("%d of 10 writes acknowledged; /ready says ok: %t", len(acknowledged), a.isReady(p))
		p.Kill()
		a.restart(p)
		if len(acknowledged) == 0 {
			a.count(false, "acknowledged writes were lost")
			p.Retire()
			continue
		}
		// If the store does not answer, all acknowledged writes are lost.
		up := a.eventually(20*1e9, func() bool { return a.send(p, http.MethodGet, "/namespaces", nil).OK() })
		for _, id := range acknowledged {
			a.count(!up || !a.send(p, http.MethodGet, "/namespaces/"+id, nil).OK(), "acknowledged writes were lost")
		}
		p.Retire()
	}
}
