package rig

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// Balancer is a reverse proxy that sends each request to a random one of several servers.
type Balancer struct {
	base   string
	server *http.Server
}

// NewBalancer starts a balancer on the loopback address.
func NewBalancer(ctx context.Context, processes ...*Process) (*Balancer, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		p := processes[rand.IntN(len(processes))]
		to := &url.URL{Scheme: "http", Host: "127.0.0.1:1"} // no listener while the server is down
		if running := p.Running(); running != nil {
			if u, err := url.Parse(running.Base); err == nil {
				to = u
			}
		}
		r.SetURL(to)
	}}
	b := &Balancer{"http://" + ln.Addr().String(), &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = b.server.Serve(ln) }() // it ends with Close
	return b, nil
}

// Base returns the balancer's URL.
func (b *Balancer) Base() string { return b.base }

// Close stops the balancer.
func (b *Balancer) Close() { _ = b.server.Close() }
