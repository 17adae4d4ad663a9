package server

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// Limits on failed authentication. A request with a good token or certificate is never held against them: who sent it
// is found out first, and that costs one SHA-256, so a flood cannot keep good clients behind the same address out.
const (
	failureBurst     = 60          // of one address, at once
	failureEvery     = time.Second // and one more for each
	failureAddresses = 10_000      // remembered; the one that failed the longest time ago is forgotten first
	failureLogBurst  = 50          // lines of the log about failures, of all addresses together
)

// bucket is a token bucket: full it allows burst failures, and one more each interval.
type bucket struct {
	level float64
	at    time.Time
}

// take takes one out, or says when there will be one.
func (b *bucket) take(now time.Time, burst int, every time.Duration) (wait time.Duration) {
	if b.at.IsZero() {
		b.level = float64(burst)
	} else if passed := now.Sub(b.at); passed > 0 {
		b.level = math.Min(float64(burst), b.level+float64(passed)/float64(every))
	}
	b.at = now
	if b.level < 1 {
		return time.Duration((1 - b.level) * float64(every))
	}
	b.level--
	return 0
}

// failures counts failed authentications by source address.
type failures struct {
	mu         sync.Mutex
	addresses  map[netip.Prefix]*list.Element
	byAge      list.List // of *source, the newest failure in front
	log        bucket
	suppressed int // failures that were not logged since the last one that was
}

type source struct {
	address netip.Prefix
	bucket  bucket
}

// failed notes a failure, and returns how long the address has to wait before it is answered again; 0: not at all.
func (f *failures) failed(address netip.Prefix, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.addresses == nil {
		f.addresses = map[netip.Prefix]*list.Element{}
	}
	known, ok := f.addresses[address]
	if !ok {
		if len(f.addresses) >= failureAddresses {
			oldest := f.byAge.Remove(f.byAge.Back()).(*source)
			delete(f.addresses, oldest.address)
		}
		known = f.byAge.PushFront(&source{address: address})
		f.addresses[address] = known
	}
	f.byAge.MoveToFront(known)
	return known.Value.(*source).bucket.take(now, failureBurst, failureEvery)
}

// mayLog tells whether a failure is logged, and how many were not since the last one that was.
func (f *failures) mayLog(now time.Time) (suppressed int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log.take(now, failureLogBurst, failureEvery) > 0 {
		f.suppressed++
		return 0, false
	}
	suppressed, f.suppressed = f.suppressed, 0
	return suppressed, true
}

// sourceAddress is the other end of the connection: headers that a proxy may have set can be set by anybody. Of IPv6 it
// is the network, since whoever has one address has 2^64.
func sourceAddress(r *http.Request) netip.Prefix {
	end, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := end.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// refused counts and logs a request that was not let through, and limits those of nobody known.
func (s *Server) refused(c echo.Context, who principal, reason error, answer error) error {
	now := s.cfg.Now()
	why := reasonForbidden
	if reason != nil {
		why = reasonOf(reason)
		if wait := s.failures.failed(sourceAddress(c.Request()), now); wait > 0 {
			why, answer = reasonThrottled, throttled(wait)
		}
	}
	s.metrics.authFailures.WithLabelValues(why).Inc()
	if suppressed, ok := s.failures.mayLog(now); ok {
		s.logRefused(c, who, why, suppressed)
	}
	return answer
}

func (s *Server) logRefused(c echo.Context, who principal, why string, suppressed int) {
	attrs := []slog.Attr{
		slog.String("request_id", requestID(c)), slog.String("reason", why), slog.String("method", c.Request().Method),
		slog.String("route", c.Path()), slog.String("remote", c.Request().RemoteAddr),
	}
	if who.actor != "" {
		attrs = append(attrs, slog.String("actor", who.actor))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("not_logged_before", suppressed))
	}
	s.cfg.Logger.LogAttrs(context.WithoutCancel(c.Request().Context()), slog.LevelWarn, "request refused", attrs...)
}

// Reasons of failures, as the metric and the log name them.
const (
	reasonMissing     = "missing"
	reasonMalformed   = "malformed"
	reasonUnknown     = "unknown"
	reasonExpired     = "expired"
	reasonUncertified = "no_certificate"
	reasonForbidden   = "forbidden"
	reasonThrottled   = "throttled"
)

func reasonOf(err error) string {
	switch {
	case errors.Is(err, errMissing):
		return reasonMissing
	case errors.Is(err, errMalformed):
		return reasonMalformed
	case errors.Is(err, errExpired):
		return reasonExpired
	case errors.Is(err, errUncertified):
		return reasonUncertified
	}
	return reasonUnknown
}

// throttled is the answer to who has failed too often.
func throttled(wait time.Duration) *publicError {
	seconds := int(math.Ceil(wait.Seconds()))
	return &publicError{
		status: http.StatusTooManyRequests, code: "too_many_requests",
		detail:  "too many requests without a valid token came from this address; those with one are answered as ever",
		headers: map[string]string{"Retry-After": strconv.Itoa(max(1, seconds))},
	}
}
