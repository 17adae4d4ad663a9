package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Clients that disconnect.
var clients = []Attack{
	{"hang-up-sqlite", "clients hang up at any instant of a change; then somebody wants to write", func(a *env) {
		db := a.sqlite()
		a.hangUp(db.URL(""), 8000)
	}},
	{"hang-up-postgres", "the same on Postgres", func(a *env) {
		pg := a.postgres("crud-1")
		a.hangUp(pg.URL("crud-1"), 1000)
	}},
}

// hangUp lets many clients send a change and close the connection a random moment later.
func (a *env) hangUp(database string, times int) {
	p := a.start(rig.Config{Name: "crud-1", Database: database, Seed: a.seed(fleetOf{clusters: 1, namespaces: 10})})
	a.waitForPolls(p)
	base := strings.TrimPrefix(p.Running().Base, "http://")
	write := func(n int) rig.Answer {
		return a.send(p, http.MethodPatch, "/clusters/c0", object{"labels": object{"by": fmt.Sprint(n)}})
	}
	// Clients hang up at a random moment within twice the mean duration of a change.
	began := time.Now()
	for n := range 20 {
		write(n)
	}
	longest := 2 * time.Since(began) / 20
	sent := 0
	for ; sent < times && (sent == 0 || write(sent).OK()); sent += 200 {
		var wg sync.WaitGroup
		for c := range 8 {
			wg.Go(func() {
				for n := range 200 / 8 {
					hangUpOnce(a.ctx, base, sent+200/8*c+n, longest)
				}
			})
		}
		wg.Wait()
	}
	a.notef("%d clients hung up within %s of their change", sent, longest.Round(time.Microsecond))

	failed := 0
	for n := range 20 {
		got := write(n)
		if a.count(!got.OK(), "writes failed afterwards") {
			failed++
			if failed == 1 {
				a.notef("the first: %d %.200s", got.Status, got.Body)
			}
		}
		a.sleep(100 * time.Millisecond)
	}
	if failed > 10 {
		a.count(a.isReady(p), "/ready says ok although writes fail")
	}
	for _, command := range [][]string{{"accept", "--yes"}, {"migrate", "up"}} {
		cmd := exec.CommandContext(a.ctx, a.cfg.Binary, command...) //nolint:gosec // the program under attack
		cmd.Env = []string{"DATABASE_URL=" + database}
		output, err := cmd.CombinedOutput()
		if a.count(err != nil, "`accept` and `migrate` could not open the store") {
			a.notef("%s: %v: %.200s", strings.Join(command, " "), err, output)
		}
	}
}

func hangUpOnce(ctx context.Context, address string, n int, longest time.Duration) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return // the backlog is full; the other clients suffice
	}
	defer func() { _ = conn.Close() }()
	body := fmt.Sprintf(`{"labels":{"v":"%d"}}`, n)
	_, _ = fmt.Fprintf(conn, "PATCH /clusters/c0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		rig.WriteToken, len(body), body)
	time.Sleep(rand.N(longest))
}
