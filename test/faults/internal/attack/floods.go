package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/flux-resourceset/flux-resourceset/test/bench"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/rig"
)

// Requests for more resources than the server has.
var floods = []Attack{
	{"plan-flood", "30 connections with a read token make plans of 5,000 clusters without a pause, and somebody wants to write", (*env).planFlood},
	{"endless-validation", "a spec that takes the validator minutes is sent by clients that hang up, and somebody wants to write and to plan", (*env).endlessValidation},
	{"window-zero", "HTTP/2 clients without a token ask for much and never open the window for it", (*env).windowZero},
	{"revocation-in-bulk", "a token is revoked while batches over 5,000 clusters follow each other", (*env).revocationInBulk},
}

// resident returns the resident memory of a process in MiB, 0 if it cannot be read.
func resident(p *rig.Process) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Running().PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0]) // the kernel writes a number
			return kb >> 10
		}
	}
	return 0
}

// trackMemory samples a process's memory until the returned function is called, which returns the maximum in MiB.
func (a *env) trackMemory(p *rig.Process) (most func() int) {
	ctx, cancel := context.WithCancel(a.ctx)
	top := make(chan int, 1)
	go func() {
		highest := 0
		for rig.Rest(ctx, 50*time.Millisecond) {
			highest = max(highest, resident(p))
		}
		top <- highest
	}()
	return func() int { cancel(); return <-top }
}

// runClients repeats work in several clients until the returned function is called.
func (a *env) runClients(clients int, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				work(ctx)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// realisticSeed writes a seed of 5,000 clusters with the proportions of a large platform.
func (a *env) realisticSeed() string {
	var seed bytes.Buffer
	if err := bench.Realistic(5000).WriteSeed(&seed); err != nil {
		a.fail("%w", err)
	}
	return a.file("seed.json", seed.Bytes())
}

// largestPlan changes every component of every cluster, with a different effect on each cluster.
func largestPlan() []byte {
	var ops []string
	for n := range bench.Realistic(1).Components {
		ops = append(ops, fmt.Sprintf(`{"op":"set_component","all":true,"component_id":%q,"component_version":"9.9.9"}`, bench.ComponentID(n)))
	}
	for n := range 5 {
		ops = append(ops, fmt.Sprintf(`{"op":"patch_values","all":true,"component_id":%q,"values":{"ingress.hosts[0].host":"planned"}}`, bench.ComponentID(n)))
	}
	return []byte(`{"operations":[` + strings.Join(ops, ",") + `]}`)
}

func labelBatch(v any) string {
	return fmt.Sprintf(`{"operations":[{"op":"set_labels","all":true,"labels":{"v":"%v"}}]}`, v)
}

func (a *env) planFlood() {
	db := a.sqlite()
	p := a.start(rig.Config{Name: "crud-1", Database: db.URL(""), Seed: a.realisticSeed()})
	a.waitFor("the fleet is loaded", func() bool { return a.send(p, http.MethodGet, "/ready", nil).OK() })
	began := time.Now()
	alone := a.send(p, http.MethodPost, "/batch", labelBatch("alone"))
	a.notef("a batch without the flood: %d after %.1f s", alone.Status, time.Since(began).Seconds())
	before := resident(p)
	most := a.trackMemory(p)
	plan := largestPlan()
	stop := a.runClients(30, func(ctx context.Context) { sendAndForget(ctx, p, plan) })
	a.sleep(2 * time.Second)
	for n := range 5 {
		began := time.Now()
		got := a.send(p, http.MethodPost, "/batch", labelBatch(n))
		took := time.Since(began)
		a.count(!got.OK() || took > 5*time.Second, "batches did not pass within 5 s")
		a.notef("batch: %d after %.1f s", got.Status, took.Seconds())
	}
	stop()
	top := most()
	a.notef("memory: %d MiB before, %d MiB at most", before, top)
	a.count(top > 1024, "the process had more than 1 GiB")
}

// endlessValidation creates a type with an enum of 4,000 objects, and sends a list of 90,000 for it.
func (a *env) endlessValidation() {
	db := a.sqlite()
	p := a.start(rig.Config{Name: "crud-1", Database: db.URL(""), Seed: a.seed(fleetOf{clusters: 1, namespaces: 1})})
	a.waitFor("the fleet is loaded", func() bool { return a.send(p, http.MethodGet, "/ready", nil).OK() })
	values := make([]string, 4000)
	for i := range values {
		values[i] = fmt.Sprintf(`{"k":%d}`, i)
	}
	made := a.send(p, http.MethodPost, "/resource_types", `{"id":"endless","schema":{"type":"object","additionalProperties":false,`+
		`"properties":{"a":{"type":"array","default":[],"items":{"enum":[`+strings.Join(values, ",")+`]}}}}}`)
	a.notef("the type: %d", made.Status)
	spec := `{"a":[` + strings.TrimSuffix(strings.Repeat(`{"k":400000},`, 90_000), ",") + `]}`
	body := []byte(`{"operations":[{"op":"create","kind":"resource","type":"endless","document":{"id":"x","spec":` + spec + `}}]}`)
	stop := a.runClients(4, func(ctx context.Context) { sendAndForget(ctx, p, body) })
	a.sleep(2 * time.Second)
	for n := range 5 {
		for _, path := range []string{"/batch", "/plan"} {
			began := time.Now()
			got := a.send(p, http.MethodPost, path, labelBatch(n))
			took := time.Since(began)
			a.count(!got.OK() || took > 8*time.Second, "batches and plans did not pass within 8 s")
			a.notef("%s: %d after %.1f s", path, got.Status, took.Seconds())
		}
	}
	stop()
	a.count(!a.send(p, http.MethodGet, "/ready", nil).OK(), "the process was not ready afterwards")
}

// sendAndForget sends a plan and holds the connection open without reading the rest of the answer.
func sendAndForget(ctx context.Context, p *rig.Process, plan []byte) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(p.Running().Base, "http://"))
	if err != nil {
		_ = rig.Rest(ctx, 100*time.Millisecond)
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = fmt.Fprintf(conn, "POST /plan HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		rig.ReadToken, len(plan), plan)
	first := make([]byte, 12)
	if _, err := io.ReadFull(conn, first); err != nil || strings.HasSuffix(string(first), "429") {
		_ = rig.Rest(ctx, time.Second)
		return
	}
	_ = rig.Rest(ctx, 20*time.Second)
}

func (a *env) revocationInBulk() {
	pg := a.postgres("crud-1", "read-1")
	crud := a.start(rig.Config{Name: "crud-1", Database: pg.URL("crud-1"), Seed: a.realisticSeed()})
	read := a.start(rig.Config{Name: "read-1", Mode: rig.ReadOnly, Database: pg.URL("read-1")})
	a.waitFor("the fleet is loaded", func() bool { return a.isReady(crud) && a.isReady(read) })
	n := 0
	stop := a.runClients(1, func(ctx context.Context) {
		n++
		_ = rig.NewClient().Send(ctx, crud.Running().Base, http.MethodPost, "/batch", []byte(labelBatch(n))) // only the load matters
	})
	defer stop()
	for i := range 5 {
		got := a.send(crud, http.MethodPost, "/tokens", object{"name": fmt.Sprintf("bulk-%d", i), "role": "read"})
		id, secret, ok := secretOf(got)
		if !ok {
			a.notef("no token: %d", got.Status)
			continue
		}
		works := func() bool {
			return a.poll(read, bench.ClusterDNS(0), "Authorization", "Bearer "+secret).Status == http.StatusOK
		}
		if !a.eventually(30*time.Second, works) {
			a.notef("a new token did not work within 30 s")
			continue
		}
		var revoked rig.Answer
		a.waitFor("the token is revoked", func() bool {
			revoked = a.send(crud, http.MethodDelete, "/tokens/"+id, nil)
			return revoked.OK() || revoked.Status == http.StatusNotFound
		})
		began := time.Now()
		a.eventually(30*time.Second, func() bool { return !works() })
		took := time.Since(began)
		a.notef("the revocation took %.2f s to reach the replica", took.Seconds())
		a.count(took > 1500*time.Millisecond, "revoked tokens worked for longer than a second")
	}
}

// windowZero opens streams whose answers can never be sent, because the flow control window is 0.
func (a *env) windowZero() {
	cert, key, err := selfSigned()
	if err != nil {
		a.fail("%w", err)
	}
	db := a.sqlite()
	p := a.start(rig.Config{
		Name: "crud-1", Database: db.URL(""), Seed: a.seed(fleetOf{clusters: 1, namespaces: 1}),
		Settings: []string{"TLS_CERT_FILE=" + a.file("tls.crt", cert), "TLS_KEY_FILE=" + a.file("tls.key", key)},
	})
	before := resident(p)
	most := a.trackMemory(p)
	var conns []net.Conn
	var wg sync.WaitGroup
	for range 900 { // a process may have 1,024 open files
		conn, err := a.openStreams(strings.TrimPrefix(p.Running().Base, "https://"), 40, &wg)
		if err != nil {
			continue // refused by the server
		}
		conns = append(conns, conn)
	}
	a.sleep(5 * time.Second)
	top := most()
	for _, c := range conns {
		_ = c.Close()
	}
	wg.Wait()
	a.notef("memory: %d MiB before, %d MiB at most", before, top)
	a.count(top-before > 128, "requests without a token took more than 128 MiB")
}

// openStreams requests the spec and other large documents on several streams of one connection with a flow control
// window of 0.
func (a *env) openStreams(address string, streams int, wg *sync.WaitGroup) (net.Conn, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the attack made the certificate
		NextProtos:         []string{"h2"},
	}}
	conn, err := dialer.DialContext(a.ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, err
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return nil, err
	}
	wg.Go(func() { // discards the server's frames
		reader := http2.NewFramer(nil, conn)
		for {
			if _, err := reader.ReadFrame(); err != nil {
				return
			}
		}
	})
	for n := range streams {
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", []string{"/openapi.json", "/openapi.yaml", "/metrics", "/docs/"}[n%4]}, {"accept-encoding", "gzip"}} {
			if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				return nil, err
			}
		}
		err := framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: uint32(2*n + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
		})
		if err != nil {
			return conn, nil //nolint:nilerr // the server closed the connection; the streams so far count
		}
	}
	return conn, nil
}

func selfSigned() (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(cryptorand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}
