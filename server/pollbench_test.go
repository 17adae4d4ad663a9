package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func pollPath(cluster int) string {
	return fmt.Sprintf("/api/v2/flux/clusters/c%d.k8s.example.com/platform-components", cluster)
}

// pollRequest is a poll as Flux Operator sends it.
func pollRequest(path string, closing bool) []byte {
	connection := ""
	if closing {
		connection = "Connection: close\r\n"
	}
	return []byte("GET " + path + " HTTP/1.1\r\nHost: flux-api\r\nUser-Agent: flux-operator/v0.58.1\r\nAccept: application/json\r\n" +
		"Accept-Encoding: gzip\r\nAuthorization: Bearer " + benchToken + "\r\n" + connection + "\r\n")
}

// bare is the baseline of polls: a handler that writes the same bytes, without any other work.
func bare(b *testing.B, handler http.Handler, path, encoding string) http.Handler {
	b.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Authorization", "Bearer "+benchToken)
	req.Header.Set("Accept-Encoding", encoding)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, req)
	require.Equal(b, http.StatusOK, rec.Code)
	body := rec.Body.Bytes()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		maps.Copy(h, rec.Header())
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body)
	})
}

// endpoint is a server under load.
type endpoint struct {
	addr     string
	tls      *tls.Config   // nil: plain HTTP
	requests [][]byte      // sent in turns
	every    time.Duration // between two of them; 0: as fast as they are answered
	latency  []time.Duration
	p50, p99 time.Duration // of those that cost had sent last
}

// serving starts a server for a benchmark.
func serving(b *testing.B, handler http.Handler, secure bool, requests ...[]byte) *endpoint {
	b.Helper()
	return servingWith(b, handler, secure, nil, requests...)
}

// servingWith starts a server with a certificate; nil: an RSA one of httptest.
func servingWith(b *testing.B, handler http.Handler, secure bool, cert *tls.Certificate, requests ...[]byte) *endpoint {
	b.Helper()
	srv := httptest.NewUnstartedServer(handler)
	b.Cleanup(srv.Close)
	if cert != nil {
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	}
	if !secure {
		srv.Start()
		return &endpoint{addr: srv.Listener.Addr().String(), requests: requests}
	}
	srv.StartTLS()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	return &endpoint{addr: srv.Listener.Addr().String(), requests: requests, tls: &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS13}}
}

// load sends polls over a few connections with a client of minimal cost, and returns their duration.
func (e *endpoint) load(b *testing.B, total int, keepAlive bool) time.Duration {
	b.Helper()
	all, err := e.send(total, keepAlive)
	require.NoError(b, err)
	return all
}

func (e *endpoint) send(total int, keepAlive bool) (time.Duration, error) {
	const connections = 8
	failed := make([]error, connections)
	var wg sync.WaitGroup
	took := make([]time.Duration, total)
	start := time.Now()
	for worker := range connections {
		wg.Go(func() {
			var c *client
			for i := worker; i < total; i += connections {
				if e.every > 0 {
					time.Sleep(time.Until(start.Add(time.Duration(i) * e.every)))
				}
				began := time.Now()
				var err error
				if c == nil {
					c, err = e.dial()
				}
				if err == nil {
					err = c.poll(e.requests[i%len(e.requests)])
				}
				if err != nil {
					failed[worker] = err
					return
				}
				if !keepAlive {
					c.conn.Close()
					c = nil
				}
				took[i] = time.Since(began)
			}
			if c != nil {
				c.conn.Close()
			}
		})
	}
	wg.Wait()
	all := time.Since(start)
	e.latency = append(e.latency, took...)
	return all, errors.Join(failed...)
}

// report gives the latency of all polls so far.
func (e *endpoint) report(b *testing.B, name string) {
	b.Helper()
	slices.Sort(e.latency)
	for _, q := range []int{50, 99} {
		b.ReportMetric(float64(e.latency[len(e.latency)*q/100].Microseconds()), fmt.Sprintf("%s-p%d-us", name, q))
	}
}

type client struct {
	conn net.Conn
	r    *bufio.Reader
}

func (e *endpoint) dial() (*client, error) {
	conn, err := net.Dial("tcp", e.addr)
	if err != nil {
		return nil, err
	}
	if e.tls != nil {
		conn = tls.Client(conn, e.tls)
	}
	return &client{conn, bufio.NewReader(conn)}, nil
}

// poll sends a request and reads the answer, of which it only understands the status and the length.
func (c *client) poll(request []byte) error {
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
			return fmt.Errorf("answer: %s", line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
		}
		if len(line) <= 2 {
			break
		}
	}
	_, err := c.r.Discard(length)
	return err
}

// compare runs two loads in turns, so that a drift of the machine hits both, and reports how the second compares.
func compare(b *testing.B, polls int, keepAlive bool, baseline, ours *endpoint) {
	b.Helper()
	baseline.load(b, polls, keepAlive) // warm up
	ours.load(b, polls, keepAlive)
	baseline.latency, ours.latency = nil, nil
	var base, own time.Duration
	for b.Loop() {
		base += baseline.load(b, polls, keepAlive)
		own += ours.load(b, polls, keepAlive)
	}
	n := float64(polls * b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/base.Seconds(), "baseline/s")
	b.ReportMetric(n/own.Seconds(), "ours/s")
	b.ReportMetric(base.Seconds()/own.Seconds(), "ratio")
	baseline.report(b, "baseline")
	ours.report(b, "ours")
}

// BenchmarkPoll: throughput and latency of polls over TCP against a bare handler that writes the same bytes.
func BenchmarkPoll(b *testing.B) {
	handler, _ := fleetOf(b, 1, 3)
	for _, transport := range []struct {
		name              string
		secure, keepAlive bool
		polls             int
		encoding          string
	}{
		{"keep-alive", false, true, 4000, "gzip"},
		{"connection-per-poll", false, false, 4000, "gzip"},
		{"plain/keep-alive", false, true, 4000, "identity"},
		{"tls/keep-alive", true, true, 4000, "gzip"},
		{"tls/connection-per-poll", true, false, 500, "gzip"},
	} {
		b.Run(transport.name, func(b *testing.B) {
			request := bytes.Replace(pollRequest(pollPath(0), !transport.keepAlive), []byte("gzip"), []byte(transport.encoding), 1)
			compare(b, transport.polls, transport.keepAlive,
				serving(b, bare(b, handler, pollPath(0), transport.encoding), transport.secure, request), serving(b, handler, transport.secure, request))
		})
	}
}

// BenchmarkPollECDSA: the processor time of the server for a poll with a connection of its own, as Flux Operator sends it, with a P-256
// certificate.
func BenchmarkPollECDSA(b *testing.B) {
	handler, _ := fleetOf(b, 10_000, 12)
	cert := newAuthority(b, "server").client(1, "example.com")
	var spread [][]byte
	for i := range 10_000 {
		spread = append(spread, pollRequest(pollPath(i), true))
	}
	compareCPU(b, 10_000, false, servingWith(b, bare(b, handler, pollPath(0), "gzip"), true, &cert, spread[0]), servingWith(b, handler, true, &cert, spread...))
}

// BenchmarkPollFleet: polls of different clusters of a fleet against those of a fleet of one, which is the cost of a poll
// as the fleet grows.
func BenchmarkPollFleet(b *testing.B) {
	one, _ := fleetOf(b, 1, 3)
	for _, clusters := range []int{1000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			many, _ := fleetOf(b, clusters, 3)
			var spread [][]byte
			for i := range clusters {
				spread = append(spread, pollRequest(pollPath(i), false))
			}
			// All of them, so that no answer is encoded while it is measured.
			compare(b, max(10_000, clusters), true, serving(b, one, false, spread[0]), serving(b, many, false, spread...))
		})
	}
}

// BenchmarkPollAllocs: allocations of one poll in the handler, for fleets and answers of several sizes.
func BenchmarkPollAllocs(b *testing.B) {
	for _, size := range []struct{ clusters, components int }{{1, 3}, {1, 1000}, {1000, 3}} {
		b.Run(fmt.Sprintf("clusters=%d/inputs=%d", size.clusters, size.components), func(b *testing.B) {
			handler, _ := fleetOf(b, size.clusters, size.components)
			req := httptest.NewRequest(http.MethodGet, pollPath(0), nil)
			req.Header.Set("Authorization", "Bearer "+benchToken)
			req.Header.Set("Accept-Encoding", "gzip")
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				handler.ServeHTTP(w, req)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// pollsOf is the environment variable that makes the test binary a client of a benchmark: the address, the number of polls,
// whether connections are kept, the nanoseconds from one poll to the next, and whether they have TLS. The requests, sent in turns, are read from the
// standard input, one quoted on each line. It prints the median and the 99th percentile, in nanoseconds.
const pollsOf = "FLUX_RESOURCESET_BENCH_POLLS"

func TestMain(m *testing.M) {
	order := os.Getenv(pollsOf)
	if order == "" {
		os.Exit(m.Run())
	}
	var e endpoint
	var total int
	var keepAlive, secure bool
	_, err := fmt.Sscanf(order, "%s %d %t %d %t", &e.addr, &total, &keepAlive, &e.every, &secure)
	if secure {
		e.tls = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} // only the time of the server is measured
	}
	for lines := bufio.NewScanner(os.Stdin); err == nil && lines.Scan(); {
		var request string
		request, err = strconv.Unquote(lines.Text())
		e.requests = append(e.requests, []byte(request))
	}
	if err == nil {
		_, err = e.send(total, keepAlive)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	slices.Sort(e.latency)
	fmt.Println(int64(e.latency[len(e.latency)/2]), int64(e.latency[len(e.latency)*99/100]))
}

// BenchmarkPollCPU: the processor time of the server for a poll, against that of a bare handler that writes the same bytes.
// The client is another process, so this process uses the server's time only. It is steadier than a rate.
func BenchmarkPollCPU(b *testing.B) {
	handler, _ := fleetOf(b, 1, 3)
	for name, keepAlive := range map[string]bool{"keep-alive": true, "connection-per-poll": false} {
		b.Run(name, func(b *testing.B) {
			request := pollRequest(pollPath(0), !keepAlive)
			compareCPU(b, 20_000, keepAlive, serving(b, bare(b, handler, pollPath(0), "gzip"), false, request), serving(b, handler, false, request))
		})
	}
	// Flux Operator accepts gzip; other clients cost the decompression of each answer. Answers differ, so none is in a processor's cache.
	for _, encoding := range []string{"gzip", "identity"} {
		b.Run("clusters=10000/"+encoding, func(b *testing.B) {
			many, _ := fleetOf(b, 10_000, 12)
			var spread [][]byte
			for i := range 10_000 {
				spread = append(spread, bytes.Replace(pollRequest(pollPath(i), false), []byte("gzip"), []byte(encoding), 1))
			}
			compareCPU(b, 20_000, true, serving(b, bare(b, many, pollPath(0), encoding), false, spread[0]), serving(b, many, false, spread...))
		})
	}
}

// compareCPU is compare by the processor time of the server.
func compareCPU(b *testing.B, polls int, keepAlive bool, baseline, ours *endpoint) {
	b.Helper()
	var base, own time.Duration
	for b.Loop() {
		base += baseline.cost(b, polls, keepAlive)
		own += ours.cost(b, polls, keepAlive)
	}
	n := float64(polls * b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(base.Nanoseconds())/n/1000, "baseline-cpu-us")
	b.ReportMetric(float64(own.Nanoseconds())/n/1000, "ours-cpu-us")
	b.ReportMetric(base.Seconds()/own.Seconds(), "ratio")
}

// cost is the processor time that this process uses while another one polls it.
func (e *endpoint) cost(b *testing.B, polls int, keepAlive bool) time.Duration {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %t %d %t", pollsOf, e.addr, polls, keepAlive, e.every, e.tls != nil))
	var requests bytes.Buffer
	for _, request := range e.requests {
		fmt.Fprintf(&requests, "%q\n", request)
	}
	cmd.Stdin = &requests
	before := used(b)
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", out)
	cost := used(b) - before
	_, err = fmt.Sscan(string(out), &e.p50, &e.p99)
	require.NoError(b, err, "%s", out)
	return cost
}
