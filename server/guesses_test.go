package server_test

import (
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// guess sends that many wrong tokens and returns how they were answered.
func (w *world) guess(n int) map[int]int {
	w.t.Helper()
	statuses := map[int]int{}
	for i := range n {
		statuses[w.get("/clusters", bearer("guess-"+strconv.Itoa(i))...).status]++
	}
	return statuses
}

// A guess does not reveal whether it is right: an address with too many wrong tokens is locked out, and its tokens are not
// compared with the static ones. A lock ends by itself, and after a few guesses there is another.
func TestGuessesLockAddressOut(t *testing.T) {
	t.Parallel()
	w := certified(t, options{}, demoDNS)
	ci, cluster := w.issue(`{"name":"ci","role":"write"}`), w.issue(pollBody)
	static := []string{readToken, readPrevious, writeToken, writePrevious}
	locked := func() {
		t.Helper()
		for _, token := range static {
			refused := w.get("/clusters", bearer(token)...).problem(429, "too_many_requests")
			require.Equal(t, "1", refused.header.Get("Retry-After"))
			require.NotContains(t, refused.header, "X-Fleet-Revision")
			w.get(demoPolls+"/namespaces", bearer(token)...).problem(429, "too_many_requests")
			w.get("/metrics", bearer(token)...).problem(429, "too_many_requests")
			w.unchanged(func() { w.patch(demoCluster, `{"environment":"qa"}`, bearer(token)...).want(429) })
		}
		w.get(demoPolls+"/namespaces", bearer(cluster.secret)...).want(200)
		w.get(demoPolls+"/namespaces", "Authorization", "", certificateHeader, demoDNS).want(200)
		w.get("/clusters", bearer(ci.secret)...).want(200)
		w.get("/health", "Authorization", "").want(200)
	}
	open := func() {
		t.Helper()
		for _, token := range static {
			w.get(demoPolls+"/namespaces", bearer(token)...).want(200)
		}
	}
	require.Equal(t, map[int]int{401: 59}, w.guess(59))
	open()
	require.Equal(t, map[int]int{401: 1, 429: 100}, w.guess(101))
	locked()
	w.clock.advance(999 * time.Millisecond)
	require.Equal(t, map[int]int{429: 100}, w.guess(100), "guesses during a lock do not prolong it")
	locked()
	w.clock.advance(time.Millisecond)
	open()
	w.guess(9)
	open()
	w.guess(1)
	locked()
	w.clock.advance(time.Minute)
	open()
	require.Equal(t, map[int]int{401: 59}, w.guess(59), "and all is forgotten")
	open()
}

// Only guesses count: neither requests without a token, nor a revoked managed token, with which a cluster may go on polling.
func TestOnlyGuessesLock(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 500 {
		w.get("/clusters", "Authorization", "")
		w.get("/clusters", "Authorization", "Basic eA==")
		w.get("/clusters", bearer(fleet.FormatSecret([32]byte{1}))...)
		w.delete("/clusters/nobody", bearer(readToken)...).want(401)
	}
	w.get("/clusters").want(200)
	w.guess(60)
	w.get("/clusters").want(429)
}

// A lock is one address's.
func TestGuessesLockOutOneAddress(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.guess(60)
	w.get("/clusters").want(429)
	from := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}
	t.Cleanup(from.CloseIdleConnections)
	w.client.Transport = &contractTransport{t: t, next: from, audit: w.audit}
	w.get("/clusters").want(200)
}
