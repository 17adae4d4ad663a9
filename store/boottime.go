package store

import (
	"sync/atomic"
	"time"
)

// bootClock measures ages. It cannot be set, and it continues while the process is stopped and while the machine is suspended.
// Go's own monotonic clock does not count suspensions.
//
// The system clock with this property costs a system call (half a microsecond), and every poll reads the clock. So the system
// is asked again only after askEvery on Go's clock; in between, the remembered difference is added to Go's clock. A suspension
// within askEvery shows up after it.
type bootClock struct {
	began time.Time
	asked atomic.Int64 // when the system was asked, as time since began; 0: never
	lead  atomic.Int64
}

const (
	askEvery = time.Millisecond
	// maxGap is the longest time to read both clocks without an interruption.
	maxGap = 200 * time.Microsecond
)

func newBootClock() *bootClock { return &bootClock{began: time.Now()} }

func (c *bootClock) elapsed() time.Duration {
	now := time.Since(c.began)
	if last := c.asked.Load(); last != 0 && int64(now)-last < int64(askEvery) {
		return now + time.Duration(c.lead.Load())
	}
	system := sinceBoot(c.began)
	if time.Since(c.began)-now < maxGap {
		c.lead.Store(int64(system - now))
		c.asked.Store(max(1, int64(now)))
	}
	return system
}
