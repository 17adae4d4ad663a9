package store

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the machine started, pauses included.
func sinceBoot(began time.Time) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Since(began)
	}
	return time.Duration(now.Nano())
}
