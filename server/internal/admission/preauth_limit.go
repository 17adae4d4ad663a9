package admission

import (
	"net/http"
	"net/netip"
	"sync"

	"github.com/labstack/echo/v4"
)

// maxPreauth is the limit of concurrent requests that are not authenticated yet, maxPreauthPerAddress that of one address (of
// IPv6, the /64). Each takes memory until its client has received the answer, and a client may delay that for a minute, on a
// thousand streams of HTTP/2.
const (
	maxPreauth           = 256
	maxPreauthPerAddress = 128
)

// PreauthLimit counts the requests that are not authenticated yet.
type PreauthLimit struct {
	mu         sync.Mutex
	perAddress map[netip.Prefix]int
	total      int
}

// NewPreauthLimit returns a limit that counts no request yet.
func NewPreauthLimit() *PreauthLimit { return &PreauthLimit{perAddress: map[netip.Prefix]int{}} }

// Acquire counts a request of an address, and returns false at a limit.
func (p *PreauthLimit) Acquire(address netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total >= maxPreauth || p.perAddress[address] >= maxPreauthPerAddress {
		return false
	}
	p.total++
	p.perAddress[address]++
	return true
}

// Release ends the count of a request of an address.
func (p *PreauthLimit) Release(address netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	if p.perAddress[address]--; p.perAddress[address] == 0 {
		delete(p.perAddress, address)
	}
}

// StatusOnly discards the body of an answer.
type StatusOnly struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w StatusOnly) WriteHeader(status int) {
	w.Header().Set(echo.HeaderContentLength, "0")
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (StatusOnly) Write(p []byte) (int, error) { return len(p), nil }

// Unwrap is called by http.ResponseController.
func (w StatusOnly) Unwrap() http.ResponseWriter { return w.ResponseWriter }
