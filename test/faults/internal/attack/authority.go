package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// A permission is checked at one moment and used at another.
var authority = []Attack{
	{"revoked-while-writing", "a write token is revoked while the body of a change is on its way", (*env).revokedWhileWriting},
	{"moved-dns", "a DNS name becomes another cluster's while the poll of its old owner waits for a revision", (*env).movedDNS},
}

// token creates a managed token and returns its id and its secret.
func (a *env) token(p *rig.Process, of object) (id, secret string) {
	got := a.mustSend(p, http.MethodPost, "/tokens", of)
	id, secret, ok := secretOf(got)
	if !ok {
		a.fail("making a token: %s", got.Body)
	}
	a.waitForRevision(p, got.Revision)
	return id, secret
}

// secretOf decodes the answer to the creation of a token.
func secretOf(got rig.Answer) (id, secret string, ok bool) {
	var made struct{ ID, Token string }
	err := json.Unmarshal(got.Body, &made)
	return made.ID, made.Token, err == nil && made.Token != ""
}

func (a *env) revokedWhileWriting() {
	_, one, other := a.twoWriters(fleetOf{clusters: 1, namespaces: 1})
	for _, via := range []*rig.Process{one, other} {
		var wg sync.WaitGroup
		for n := range 10 {
			id, secret := a.token(one, object{"name": fmt.Sprintf("%s-%d", via.Name, n), "role": "write"})
			a.waitFor("the token works", func() bool {
				return a.send(via, http.MethodGet, "/clusters/c0", nil, "Authorization", "Bearer "+secret).OK()
			})
			body := fmt.Sprintf(`{"labels":{"by":"revoked-%d"}}`, n)
			slow, err := openWrite(a.ctx, via, secret, body)
			if err != nil {
				a.fail("%w", err)
			}
			a.mustSend(one, http.MethodDelete, "/tokens/"+id, nil)
			wg.Go(func() {
				time.Sleep(1500 * time.Millisecond) // every process has seen the revocation by then
				status := slow.finish()
				a.count(status >= 200 && status < 300, "changes were made with a token that was revoked a second before")
			})
		}
		wg.Wait()
	}
}

// slowWrite is a change of which half the body has been sent.
type slowWrite struct {
	conn net.Conn
	rest string
}

func openWrite(ctx context.Context, p *rig.Process, secret, body string) (*slowWrite, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(p.Running().Base, "http://"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "PATCH /clusters/c0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		secret, len(body), body[:len(body)/2])
	return &slowWrite{conn, body[len(body)/2:]}, err
}

// finish sends the rest and returns the status, 0 without an answer.
func (w *slowWrite) finish() int {
	defer func() { _ = w.conn.Close() }()
	_ = w.conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = w.conn.Write([]byte(w.rest)) // it may have been answered already
	resp, err := http.ReadResponse(bufio.NewReader(w.conn), nil)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

func (a *env) movedDNS() {
	db := a.sqlite()
	p := a.start(rig.Config{Name: "crud-1", Database: db.URL(""), Seed: a.seed(fleetOf{clusters: 2, namespaces: 3})})
	a.waitForPolls(p)
	a.mustSend(p, http.MethodPut, "/clusters/c1/namespaces/n0", nil)
	a.mustSend(p, http.MethodPost, "/namespaces", object{"id": "secret-of-c1"})
	a.mustSend(p, http.MethodPut, "/clusters/c1/namespaces/secret-of-c1", nil)
	_, secret := a.token(p, object{"name": "poll-c0", "role": "poll", "cluster_id": "c0"})
	move := func(id, to string) { a.mustSend(p, http.MethodPatch, "/clusters/"+id, object{"cluster_dns": to}) }
	for range 20 {
		now := a.mustSend(p, http.MethodGet, "/clusters/c0", nil).Revision
		answered := make(chan rig.Answer, 1)
		go func() {
			name, value := minRevision(now + 2)
			answered <- a.poll(p, dns(0), name, value, "Authorization", "Bearer "+secret)
		}()
		a.sleep(50 * time.Millisecond) // the poll waits
		move("c0", "elsewhere.attack.example.com")
		move("c1", dns(0))
		got := <-answered
		a.count(got.Status == http.StatusOK && strings.Contains(string(got.Body), "secret-of-c1"), "polls were answered with another cluster's inputs")
		move("c1", dns(1))
		move("c0", dns(0))
	}
}
