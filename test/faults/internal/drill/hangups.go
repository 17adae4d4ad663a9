package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// runHangUps sends changes and closes the connection at a random moment. Their outcome is unknown.
func (w *writer) runHangUps(ctx context.Context) {
	for rig.Rest(ctx, time.Duration(w.rng.Int64N(int64(2*w.pace)+1))) {
		p := w.anyCRUD()
		r := p.Running()
		if r == nil {
			continue
		}
		w.count++
		id := fmt.Sprintf("%s-%d", w.name, w.count)
		rec := history.Write{Process: p.Name, Incarnation: r.Incarnation, ID: id, Op: "hang-up", From: w.drill.rec.Now(), Revision: -1}
		w.hangUp(ctx, r, id)
		rec.To = w.drill.rec.Now()
		w.drill.rec.Write(rec)
	}
}

func (w *writer) hangUp(ctx context.Context, r *rig.Running, id string) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(r.Base, "http://"))
	if err != nil {
		return // the process is gone
	}
	defer func() { _ = conn.Close() }()
	body := fmt.Sprintf(`{"patches":{"app":{"by.%s":%q}}}`, w.name, id)
	_, _ = fmt.Fprintf(conn, "PATCH /clusters/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Request-Id: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", w.home, rig.WriteToken, id, len(body), body)
	_ = rig.Rest(ctx, time.Duration(w.rng.Int64N(int64(10*time.Millisecond))))
}

// runRevocations repeatedly creates a token, writes with it through any process, and revokes it during the writes.
func (w *writer) runRevocations(ctx context.Context) {
	for n := 0; rig.Rest(ctx, w.pace); n++ {
		p := w.anyCRUD()
		r := p.Running()
		if r == nil {
			continue
		}
		body := fmt.Sprintf(`{"name":"%s-t%d","role":"write"}`, w.name, n)
		got := w.client.Send(ctx, r.Base, http.MethodPost, "/tokens", []byte(body))
		var made struct{ ID, Token string }
		if !got.OK() || json.Unmarshal(got.Body, &made) != nil {
			continue
		}
		using, stop := context.WithTimeout(ctx, 3*w.drill.cfg.Hold)
		done := make(chan struct{})
		user := &writer{drill: w.drill, name: fmt.Sprintf("%s-u%d", w.name, n), home: w.home, client: w.client, rng: w.drill.rng(uint64(5000 + n)), pace: w.pace}
		go func() {
			defer close(done)
			user.useToken(using, made.Token)
		}()
		_ = rig.Rest(ctx, time.Duration(w.rng.Int64N(int64(10*w.pace)+1)))
		for using.Err() == nil { // through any process that answers
			if r := w.anyCRUD().Running(); r != nil {
				got := w.client.Send(ctx, r.Base, http.MethodDelete, "/tokens/"+made.ID, nil)
				if got.OK() || got.Status == http.StatusNotFound {
					break
				}
			}
			_ = rig.Rest(using, w.pace)
		}
		_ = rig.Rest(using, 4*w.pace)
		stop()
		<-done
	}
}

func (w *writer) useToken(ctx context.Context, secret string) {
	for rig.Rest(ctx, w.pace/4) {
		p := w.anyCRUD()
		r := p.Running()
		if r == nil {
			continue
		}
		w.count++
		id := fmt.Sprintf("%s-%d", w.name, w.count)
		w.send(ctx, p, r, id, &change{
			op: "by-token", method: http.MethodPatch, path: "/clusters/" + w.home, token: secret,
			body:  object{"patches": object{"app": object{"by.token": id}}},
			wants: []history.Want{{Kind: fleet.KindCluster, ID: w.home, Has: strconv.Quote(id)}},
		})
	}
}

// anyCRUD returns a random process in mode crud, as a load balancer does.
func (w *writer) anyCRUD() *rig.Process {
	cruds := w.drill.cruds()
	return cruds[w.rng.IntN(len(cruds))]
}
