package store

import (
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
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

// bootID identifies the current boot of the machine. Values of sinceBoot from two processes are comparable if their boot ids
// are equal. Nil: unknown.
func bootID() uuid.UUID {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return uuid.Nil
	}
	id, err := uuid.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return uuid.Nil
	}
	return id
}
