package drill

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

	"github.com/flux-resourceset/flux-resourceset/cmd/faults/internal/rig"
)

// patience is how long a client waits for an answer. A stopped process does not answer at all.
const patience = 8 * time.Second

// client sends requests to processes.
type client struct{ http *http.Client }

func newClient() *client {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	return &client{&http.Client{
		Timeout:   patience,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: 5 * time.Second},
	}}
}

// answer of status 0: there was none, or it was cut off. unsent: nobody took the request.
type answer struct {
	status   int
	unsent   bool
	revision int64 // -1: not stated
	etag     string
	body     []byte
}

// send makes a request; headers are names and values in turn.
func (c *client) send(ctx context.Context, base, method, path string, body []byte, headers ...string) answer {
	none := answer{revision: -1}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		panic(err) // the harness makes its own addresses
	}
	req.Header.Set("Authorization", "Bearer "+rig.WriteToken)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		none.unsent = errors.Is(err, syscall.ECONNREFUSED)
		return none
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return none
	}
	a := answer{status: resp.StatusCode, revision: -1, etag: resp.Header.Get("ETag"), body: got}
	if rev, err := strconv.ParseInt(resp.Header.Get("X-Fleet-Revision"), 10, 64); err == nil {
		a.revision = rev
	}
	return a
}

// rest waits, and tells whether there is a next time.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
