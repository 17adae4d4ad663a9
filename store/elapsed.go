package store

import (
	"sync/atomic"
	"time"
)

// lifeClock measures ages. Nobody can set it, and it goes on while the process is stopped and while the machine is
// suspended, which Go's own monotonic clock does not count.
//
// The system's clock that does is a system call, half a microsecond, and every poll reads this one; so it is only asked
// again when a moment has gone by on Go's clock, and in between its lead over that is remembered. What is suspended
// within that moment is seen after it.
type lifeClock struct {
	began  time.Time
	looked atomic.Int64 // when the system was asked, as time since began; 0: never
	lead   atomic.Int64
}

const (
	lookAgain = time.Millisecond
	// atOnce is the longest that reading both clocks takes when nothing comes between.
	atOnce = 200 * time.Microsecond
)

func newLifeClock() *lifeClock { return &lifeClock{began: time.Now()} }

func (c *lifeClock) elapsed() time.Duration {
	now := time.Since(c.began)
	if last := c.looked.Load(); last != 0 && int64(now)-last < int64(lookAgain) {
		return now + time.Duration(c.lead.Load())
	}
	system := sinceBoot(c.began)
	if time.Since(c.began)-now < atOnce {
		c.lead.Store(int64(system - now))
		c.looked.Store(max(1, int64(now)))
	}
	return system
}
