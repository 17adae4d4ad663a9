//go:build !linux

package store

import "time"

// sinceBoot stands in for a clock that counts suspensions: whether this one does is the system's choice.
func sinceBoot(began time.Time) time.Duration { return time.Since(began) }
