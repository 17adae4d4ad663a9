package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Status is the state of a Replica, for readiness, metrics and users.
type Status struct {
	// Loaded: there is a State to answer from.
	Loaded bool
	// Following: Run is following the store, and its last attempt succeeded.
	Following bool
	// LastContact is when the store last answered; zero: never.
	LastContact time.Time
	// LastError is why the last attempt to follow failed; nil when it succeeded.
	LastError error
	// QuarantineReason explains why the store's present content is not served although it can be read: its history does not
	// contain the served State. The last good State is served until the store has that history again, or until an operator
	// accepts the new one: see [Accept]. Empty: there is no quarantine.
	QuarantineReason string
	// Age of that State, and the most that reads are answered at: see [Replica.StateForPolls]. MaxAge 0: any.
	Age, MaxAge time.Duration
	// PassiveReason explains why this process takes no automatic actions: see [Replica.MayAct]. Empty: it takes them, or the store has
	// not answered yet.
	PassiveReason string
	// Cold: that State was read from StateDir, and the store has not confirmed it or one that follows it since.
	Cold bool
	// ConfirmedAt is when the store last confirmed the State that was found in StateDir, by the clock on the wall at the
	// time; zero: there was none.
	ConfirmedAt time.Time
	// TooOld: reads are refused because of that.
	TooOld bool
	// Outdated: that State is from StateDir and older than MaxStaleness, and reads are answered from it because StateMaxAge is
	// longer. Another process may have served something newer since.
	Outdated bool
	// StateQuarantined: clusters are not answered, because the loaded State belongs to a quarantined history: see [Quarantine].
	StateQuarantined bool
	// WriteError is the error of the last attempt to commit, or to confirm that no commit is needed. It is nil after a commit
	// has succeeded, or after [Replica.Healthy] found that one would. Refused requests of callers do not count.
	WriteError error
	// FromDisk: that State was read from StateDir, and the store has not answered since.
	FromDisk bool
	// Reloads counts how often another history was accepted in place of the one that was served.
	Reloads int64
	// Stale counts the commits of this process that lost to another process's commit.
	Stale int64
}

// Status returns a copy of the present status.
func (r *Replica) Status() Status {
	r.mu.Lock()
	s := r.status
	r.mu.Unlock()
	if r.cfg.Passive {
		s.PassiveReason = "PASSIVE is true: this process delivers no webhooks, runs no rollouts, moves and scans no versions and ends no freezes"
	}
	v := r.current.Load()
	if state, age, err := r.read(v); state != nil {
		s.Loaded, s.Age, s.MaxAge, s.Cold = true, age, r.cfg.MaxStaleness, v.cold.Load()
		if s.Cold {
			s.MaxAge = r.cfg.StateMaxAge
		}
		s.TooOld, s.StateQuarantined = errors.Is(err, ErrTooOld), v.quarantined.Load()
		s.Outdated = s.Cold && !s.TooOld && r.cfg.MaxStaleness > 0 && age > r.cfg.MaxStaleness
	}
	return s
}

// noteWriting records the result of an attempt to commit or to confirm the head. It ignores attempts that the caller canceled
// and conflicts with another process's commit.
func (r *Replica) noteWriting(ctx context.Context, err error) {
	if errors.Is(err, ErrStale) || errors.Is(err, ErrReadOnly) || errors.Is(err, ErrReplaced) || err != nil && ctx.Err() != nil {
		return
	}
	r.setStatus(func(s *Status) { s.WriteError = err })
}

// contact notes how an attempt to reach the store ended, and whether it is the first one that ended this way.
func (r *Replica) contact(err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = (err == nil) != (r.status.LastError == nil)
	r.status.LastError = err
	if err == nil {
		r.followed = r.cfg.Now()
	}
	if err == nil || asQuarantined(err) != nil { // a quarantined store answers
		r.status.LastContact, r.status.FromDisk = r.cfg.Now(), false
	}
	return changed
}

func (r *Replica) setStatus(f func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.status)
}

// unavailable marks an error as one that trying again later may cure, unless it is marked already or the caller's own
// doing.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
