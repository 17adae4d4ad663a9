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
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// Limits on failed authentication. Static tokens are chosen by people and may be guessed, so an address that guesses too
// often is locked out: what it sends is not compared with them, be it right or wrong. The lock is short, and guesses are
// few between two, since good clients may share the address. Managed tokens and certificates cannot be guessed and are
// never held against anybody: looking one up costs one SHA-256.
const (
	failureBurst        = 60          // of one address, at once
	failureInterval     = time.Second // and one more for each
	guessBurst          = 60          // of one address: wrong tokens that a person may have chosen
	guessInterval       = time.Second / 10
	lockDuration        = time.Second // when there were too many; so there are ten guesses between two locks
	maxFailureAddresses = 10_000      // remembered; the one that failed the longest time ago is forgotten first
	failureLogBurst     = 50          // lines of the log about failures, of all addresses together
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
type failureTracker struct {
	mu         sync.Mutex
	addresses  map[netip.Prefix]*list.Element
	byAge      list.List // of *source, the newest failure in front
	logBucket  bucket
	suppressed int // failures that were not logged since the last one that was
	// lastLock is when the last lock of any address ends, in Unix nanoseconds: until there is one, polls need not look closer.
	lockedUntil atomic.Int64
}

type source struct {
	address     netip.Prefix
	bucket      bucket
	guesses     bucket
	lockedUntil time.Time // until then
}

// failed notes a failure, and returns how long the address has to wait before it is answered again; 0: not at all. One
// that was a guess may lock the address out.
func (f *failureTracker) record(address netip.Prefix, guess bool, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.addresses == nil {
		f.addresses = map[netip.Prefix]*list.Element{}
	}
	known, ok := f.addresses[address]
	if !ok {
		if len(f.addresses) >= maxFailureAddresses {
			oldest := f.byAge.Remove(f.byAge.Back()).(*source)
			delete(f.addresses, oldest.address)
		}
		known = f.byAge.PushFront(&source{address: address})
		f.addresses[address] = known
	}
	f.byAge.MoveToFront(known)
	from := known.Value.(*source)
	if guess {
		from.guesses.take(now, guessBurst, guessInterval)
		if from.guesses.level < 1 {
			from.lockedUntil = now.Add(lockDuration)
			f.lockedUntil.Store(max(f.lockedUntil.Load(), from.lockedUntil.UnixNano()))
		}
	}
	return from.bucket.take(now, failureBurst, failureInterval)
}

// lockedFor is for how long nothing from the address is compared with the static tokens; 0: it is.
func (f *failureTracker) lockedFor(address netip.Prefix, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.addresses[address]
	if !ok {
		return 0
	}
	return max(0, known.Value.(*source).lockedUntil.Sub(now))
}

// lockedOut tells whether a token is not to be compared with the static ones. It is asked for every poll, so it looks at
// a number first that is in the past as long as nobody guesses.
func (s *Server) isLockedOut(r *http.Request, token string) bool {
	until := s.failures.lockedUntil.Load()
	if until == 0 {
		return false
	}
	now := s.cfg.Now()
	return now.UnixNano() < until && isGuess(token) && s.failures.lockedFor(sourceAddress(r), now) > 0
}

// isGuess tells whether a token may be one that somebody thought up. Managed tokens are 256 random bits and a checksum: one
// that is not known was revoked, and a cluster that goes on polling with it must not lock out its neighbours.
func isGuess(token string) bool { return !fleet.LooksLikeSecret(token) }

// mayLog tells whether a failure is logged, and how many were not since the last one that was.
func (f *failureTracker) shouldLog(now time.Time) (suppressed int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logBucket.take(now, failureLogBurst, failureInterval) > 0 {
		f.suppressed++
		return 0, false
	}
	suppressed, f.suppressed = f.suppressed, 0
	return suppressed, true
}

// sourceAddress is the other end of the connection: headers that a proxy may have set can be set by anybody. Of IPv6 it
// is the network, since whoever has one address has 2^64.
func sourceAddress(r *http.Request) netip.Prefix { return networkOf(r.RemoteAddr) }

// prefixOf is the network of an address with a port, as [sourceAddress] describes it.
func networkOf(address string) netip.Prefix {
	end, err := netip.ParseAddrPort(address)
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

// noted notes a request that was refused because of nobody known, and returns how long its address has to wait. One that
// came during a lock does not prolong it.
func (f *failureTracker) recordRequest(r *http.Request, reason error, now time.Time) time.Duration {
	address := sourceAddress(r)
	if errors.Is(reason, errLockedOut) {
		return max(1, f.lockedFor(address, now))
	}
	token, _ := bearer(r)
	return f.record(address, errors.Is(reason, errUnknown) && isGuess(token), now)
}

// refused counts and logs a request that was not let through, and limits those of nobody known.
func (s *Server) reportRefusal(c echo.Context, r *refusal) error {
	if r.reason != nil && !errors.Is(r.reason, errUnauthenticated) {
		return r.answer // nobody can tell yet
	}
	now, answer := s.cfg.Now(), r.answer
	why := reasonForbidden
	if r.reason != nil {
		why = reasonOf(r.reason)
		if wait := s.failures.recordRequest(c.Request(), r.reason, now); wait > 0 {
			why, answer = reasonThrottled, throttledError(wait)
		}
	}
	s.metrics.authFailures.WithLabelValues(why).Inc()
	if suppressed, ok := s.failures.shouldLog(now); ok {
		s.logRefused(c, r.principal, why, suppressed)
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
	reasonMissing       = "missing"
	reasonMalformed     = "malformed"
	reasonUnknown       = "unknown"
	reasonExpired       = "expired"
	reasonNoCertificate = "no_certificate"
	reasonForbidden     = "forbidden"
	reasonThrottled     = "throttled"
)

func reasonOf(err error) string {
	switch {
	case errors.Is(err, errMissing):
		return reasonMissing
	case errors.Is(err, errMalformed):
		return reasonMalformed
	case errors.Is(err, errExpired):
		return reasonExpired
	case errors.Is(err, errNoCertificate):
		return reasonNoCertificate
	}
	return reasonUnknown
}

// throttled is the answer to who has failed too often.
func throttledError(wait time.Duration) *publicError {
	seconds := int(math.Ceil(wait.Seconds()))
	return &publicError{
		status: http.StatusTooManyRequests, code: "too_many_requests",
		detail:  "too many requests without a valid token came from this address; those with a managed token or a certificate are answered as ever",
		headers: map[string]string{"Retry-After": strconv.Itoa(max(1, seconds))},
	}
}
