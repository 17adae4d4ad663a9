package store

import (
	"sync/atomic"
	"time"
)

// bootClock measures ages. Nobody can set it, and it goes on while the process is stopped and while the machine is
// suspended, which Go's own monotonic clock does not count.
//
// The system's clock that does is a system call, half a microsecond, and every poll reads this one; so it is only asked
// again when a moment has gone by on Go's clock, and in between its lead over that is remembered. What is suspended
// within that moment is seen after it.
type bootClock struct {
	began time.Time
	asked atomic.Int64 // when the system was asked, as time since began; 0: never
	lead  atomic.Int64
}

const (
	askEvery = time.Millisecond
	// maxGap is the longest that reading both clocks takes when nothing comes between.
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
