package rig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// timeout bounds a request. A stopped process does not answer at all.
const timeout = 8 * time.Second

// Client sends requests to processes.
type Client struct{ http *http.Client }

// NewClient returns a client with its own connections.
func NewClient() *Client {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	return &Client{&http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: 5 * time.Second},
	}}
}

// NewPollClient returns a client with a new connection for each request, as Flux Operator has.
func NewPollClient() *Client {
	return &Client{&http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Answer with Status 0: no complete answer. Unsent: no connection.
type Answer struct {
	Status   int
	Unsent   bool
	Revision int64 // -1: not stated
	ETag     string
	Body     []byte
}

// OK reports a status of 2xx.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Send sends a request; headers are names and values in turn. It carries the write token, unless headers override it.
func (c *Client) Send(ctx context.Context, base, method, path string, body []byte, headers ...string) Answer {
	none := Answer{Revision: -1}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		panic(err) // addresses are made by the harness
	}
	req.Header.Set("Authorization", "Bearer "+WriteToken)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		none.Unsent = errors.Is(err, syscall.ECONNREFUSED)
		return none
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return none
	}
	a := Answer{Status: resp.StatusCode, Revision: -1, ETag: resp.Header.Get("ETag"), Body: got}
	if rev, err := strconv.ParseInt(resp.Header.Get("X-Fleet-Revision"), 10, 64); err == nil {
		a.Revision = rev
	}
	return a
}

// Rest waits for d. It returns false if ctx ended.
func Rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
