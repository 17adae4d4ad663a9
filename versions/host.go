package versions

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	maxPerHost   = 2 // concurrent requests to a host
	firstBackoff = time.Minute
	maxBackoff   = 24 * time.Hour // also the longest Retry-After that is honored
)

// hosts has the state of each host that requests were sent to.
type hosts struct {
	mu  sync.Mutex
	all map[string]*host
}

// host limits the requests to one host.
type host struct {
	slots chan struct{}

	mu       sync.Mutex
	failures int       // scans since the last success
	backoff  time.Time // no request before, after failures
	limited  time.Time // no request before, by Retry-After
}

// get returns the state of a host.
func (h *hosts) get(name string) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.all[name]
	if one == nil {
		one = &host{slots: make(chan struct{}, maxPerHost)}
		h.all[name] = one
	}
	return one
}

// prune removes hosts without requests and failures: documents may name any number of hosts in the course of time.
func (h *hosts) prune(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, one := range h.all {
		one.mu.Lock()
		if len(one.slots) == 0 && now.After(one.limited) && (one.failures == 0 || now.Sub(one.backoff) > maxBackoff) {
			delete(h.all, name)
		}
		one.mu.Unlock()
	}
}

// acquire waits until the host may receive a request.
func (h *host) acquire(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *host) release() { <-h.slots }

// wait returns the time before which no request may be sent; zero: it may be sent now.
func (h *host) wait(now time.Time, ignoreBackoff bool) (until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until = h.limited; !ignoreBackoff && h.backoff.After(until) {
		until = h.backoff
	}
	if !until.After(now) {
		return time.Time{}
	}
	return until
}

// limit records a Retry-After.
func (h *host) limit(now time.Time, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := now.Add(wait); until.After(h.limited) {
		h.limited = until
	}
}

// fail records a failed scan, unless an earlier one of the same moment is recorded, and returns the time of the next request.
func (h *host) fail(now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.backoff.After(now) {
		wait := maxBackoff
		if h.failures < 16 {
			wait = min(wait, firstBackoff<<h.failures)
		}
		h.failures++
		h.backoff = now.Add(wait)
	}
	if h.limited.After(h.backoff) {
		return h.limited
	}
	return h.backoff
}

// succeed ends the back-off.
func (h *host) succeed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.backoff = 0, time.Time{}
}

// hostName returns the name of a host as a key: lower case, without the default port.
func hostName(u *url.URL) string {
	name := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		name = strings.TrimSuffix(name, ":443")
	case "http":
		name = strings.TrimSuffix(name, ":80")
	}
	return name
}
