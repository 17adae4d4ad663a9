package rig

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
)

// Gate stands between one cluster and the API, so that the API can fail for that cluster alone.
type Gate struct {
	URL     string
	address string
	targets []http.Handler // asked in turn, as the pods behind a Service

	mu     sync.Mutex
	server *http.Server
	status int               // answered instead of asking; 0 to ask
	hang   chan struct{}     // not nil: nothing is answered until it is closed
	swap   *strings.Replacer // not nil: changes the path of polls, as a wrong URL or a cache does
	polls  map[string]int
	asked  int

	refuseReceipts bool
	receipts       []Receipt
	onReceipt      func(r Receipt, status int)
}

// NewGate opens a gate to the read-only servers.
func (w *Env) NewGate(ctx context.Context) (*Gate, error) {
	g := &Gate{address: "127.0.0.1:0", polls: map[string]int{}}
	for _, target := range w.ReadURLs {
		to, err := url.Parse(target)
		if err != nil {
			return nil, err
		}
		proxy := httputil.NewSingleHostReverseProxy(to)
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
		g.targets = append(g.targets, proxy)
	}
	if err := g.listen(ctx); err != nil {
		return nil, err
	}
	g.URL = "http://" + g.address
	return g, nil
}

func (g *Gate) listen(ctx context.Context) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", g.address)
	if err != nil {
		return err
	}
	g.address = ln.Addr().String()
	server := &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	g.mu.Lock()
	g.server = server
	g.mu.Unlock()
	go func() { _ = server.Serve(ln) }()
	return nil
}

func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	status, hang, swap := g.status, g.hang, g.swap
	receipt, isReceipt := receiptOf(r.URL)
	if isReceipt && g.refuseReceipts {
		status = http.StatusServiceUnavailable
	}
	if !isReceipt {
		g.polls[path.Base(r.URL.Path)]++
	}
	g.asked++
	target := g.targets[g.asked%len(g.targets)]
	g.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return
	}
	if status != 0 {
		http.Error(w, `{"error":"a fault of the test's"}`, status)
		return
	}
	if !isReceipt {
		if swap != nil {
			r.URL.Path = swap.Replace(r.URL.Path)
		}
		target.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	target.ServeHTTP(answer, r)
	g.recordReceipt(receipt, answer.Code)
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // fails when the cluster is gone
}

// Open lets requests through again, after any of the faults below.
func (g *Gate) Open(ctx context.Context) error {
	g.mu.Lock()
	g.status, g.swap = 0, nil
	if g.hang != nil {
		close(g.hang)
		g.hang = nil
	}
	closed := g.server == nil
	g.mu.Unlock()
	if closed {
		return g.listen(ctx)
	}
	return nil
}

// Close refuses connections.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.server.Close()
	g.server = nil
}

// Answer answers every request with a status and a body that is not the API's.
func (g *Gate) Answer(status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status = status
}

// AnswerAs answers the polls of a cluster with the answers for another one.
func (g *Gate) AnswerAs(dns, other string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.swap = strings.NewReplacer(dns, other)
}

// Hang accepts requests and never answers them.
func (g *Gate) Hang() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hang = make(chan struct{})
}

// Polls waits until every endpoint was asked n times more.
func (g *Gate) Polls(ctx context.Context, n int) error {
	g.mu.Lock()
	start := maps.Clone(g.polls)
	g.mu.Unlock()
	return Eventually(ctx, func(context.Context) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, name := range Resources {
			if got := g.polls[name] - start[name]; got < n {
				return fmt.Errorf("%s was asked for %d times, not %d", name, got, n)
			}
		}
		return nil
	})
}
