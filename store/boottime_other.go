//go:build !linux

package store

import (
	"time"

	"github.com/google/uuid"
)

// sinceBoot stands in for a clock that counts suspensions: whether this one does is the system's choice.
func sinceBoot(began time.Time) time.Duration { return time.Since(began) }

// bootID is unknown: sinceBoot counts from the start of the process.
func bootID() uuid.UUID { return uuid.Nil }
