package auth

import (
	"container/list"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/httperror"
)

// Limits on failed authentication. Static tokens are chosen by people and may be guessed, so an address that guesses too often
// is locked out: its tokens are not compared with them, right or wrong. The lock is short, and so is the number of guesses
// between two locks, because valid clients may share the address. Managed tokens and certificates cannot be guessed and never
// cause a lock: a lookup costs one SHA-256.
const (
	failureBurst        = 60          // failures of one address at once
	failureInterval     = time.Second // until one more is allowed
	guessBurst          = 60          // wrong tokens of one address that people may have chosen
	guessInterval       = time.Second / 10
	lockDuration        = time.Second // so ten guesses are possible between two locks
	maxFailureAddresses = 10_000      // a further one replaces the one whose last failure is oldest
	failureLogBurst     = 50          // log lines about failures of all addresses
)

// bucket is a token bucket: full it allows burst failures, and one more each interval.
type bucket struct {
	level float64
	at    time.Time
}

// take takes one out, or returns the time until one is available.
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

// failureTracker counts failed authentications by source address.
type failureTracker struct {
	mu         sync.Mutex
	addresses  map[netip.Prefix]*list.Element
	byAge      list.List // of *source, the newest failure in front
	logBucket  bucket
	suppressed int // failures that were not logged since the last logged one
	// lockedUntil is the latest end of a lock of any address, in Unix nanoseconds. While there is none, polls skip the map.
	lockedUntil atomic.Int64
}

type source struct {
	address     netip.Prefix
	bucket      bucket
	guesses     bucket
	lockedUntil time.Time
}

// record counts a failure, and returns the time for which the address gets 429; 0: it gets the real answer. A guess may lock
// the address out.
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

// lockedFor returns the remaining time of an address's lock; 0: it is not locked out.
func (f *failureTracker) lockedFor(address netip.Prefix, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.addresses[address]
	if !ok {
		return 0
	}
	return max(0, known.Value.(*source).lockedUntil.Sub(now))
}

// isLockedOut reports whether a token must not be compared with the static ones. It runs for every poll, so it first looks at
// one number, which is in the past unless there are guesses.
func (a *Authenticator) isLockedOut(r *http.Request, token string) bool {
	until := a.failures.lockedUntil.Load()
	if until == 0 {
		return false
	}
	now := a.cfg.Now()
	return now.UnixNano() < until && isGuess(token) && a.failures.lockedFor(SourceNetwork(r), now) > 0
}

// isGuess reports whether a token may have been chosen by a person. Managed tokens are 256 random bits and a checksum: an
// unknown one was revoked, and a cluster that goes on polling with it must not lock out others behind its address.
func isGuess(token string) bool { return !fleet.LooksLikeSecret(token) }

// shouldLog reports whether a failure is logged, and the number of failures that were not since the last logged one.
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

// SourceNetwork is the peer of the connection, because a client can forge the headers of a proxy. For IPv6 it is the /64
// network, because the holder of one address has 2^64.
func SourceNetwork(r *http.Request) netip.Prefix {
	end, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	return NetworkOf(end.Addr())
}

// NetworkOf returns the network of an address, as [SourceNetwork] describes it; the zero value for an invalid one.
func NetworkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// recordRequest counts a request that failed to authenticate, and returns the time for which its address gets 429. A request
// during a lock does not prolong it.
func (f *failureTracker) recordRequest(r *http.Request, reason error, now time.Time) time.Duration {
	address := SourceNetwork(r)
	if errors.Is(reason, errLockedOut) {
		return max(1, f.lockedFor(address, now))
	}
	token, _ := bearer(r)
	return f.record(address, errors.Is(reason, errUnknown) && isGuess(token), now)
}

// Report is a counted refusal.
type Report struct {
	Answer     error  // for the client
	Reason     string // one of [Reasons]; empty: no failure of the client, so it is not counted
	Detail     string // for the log: of an external token; may be empty
	Log        bool   // it is to be logged
	Suppressed int    // failures that were not logged since the last logged one
}

// Report counts a refused request, and returns the answer: 429 for an address with too many failures.
func (a *Authenticator) Report(r *http.Request, refusal *RefusedError) Report {
	if refusal.reason != nil && !errors.Is(refusal.reason, ErrUnauthenticated) {
		return Report{Answer: refusal.answer} // nothing is loaded, so the token could not be checked
	}
	now, out := a.cfg.Now(), Report{Answer: refusal.answer, Reason: reasonForbidden}
	if refusal.reason != nil {
		out.Reason = reasonOf(refusal.reason)
		if external, ok := errors.AsType[*externalError](refusal.reason); ok {
			out.Detail = external.reason
		}
		if wait := a.failures.recordRequest(r, refusal.reason, now); wait > 0 {
			out.Reason, out.Answer = reasonThrottled, throttledError(wait)
		}
	}
	out.Suppressed, out.Log = a.failures.shouldLog(now)
	return out
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

// Reasons are all reasons of failures.
var Reasons = [...]string{reasonMissing, reasonMalformed, reasonUnknown, reasonExpired, reasonNoCertificate, reasonForbidden, reasonThrottled}

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

// throttledError is the answer to an address with too many failures.
func throttledError(wait time.Duration) *httperror.Error {
	seconds := int(math.Ceil(wait.Seconds()))
	return &httperror.Error{
		Status: http.StatusTooManyRequests, Code: "too_many_requests",
		Detail:  "too many requests from this address without a valid token: wait, or use a managed token or a client certificate, which are not limited",
		Headers: map[string]string{"Retry-After": strconv.Itoa(max(1, seconds))},
	}
}
