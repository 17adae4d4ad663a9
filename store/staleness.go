package store

import (
	"fmt"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ErrTooOld means that the store has not confirmed the copy of the fleet for longer than [Config.MaxStaleness]. The copy is not served:
// another process may answer with a newer State, and clusters that receive alternating answers remove and recreate objects,
// while clusters that receive an error keep theirs.
var ErrTooOld = fmt.Errorf("%w: the copy of the fleet is older than it may be served", ErrUnavailable)

// ErrNotLoaded means that no State is loaded yet.
var ErrNotLoaded = fmt.Errorf("%w: the fleet is not loaded yet", ErrUnavailable)

// StateForPolls returns the State to answer clusters from, and its age: the time since the last head query that confirmed it as
// the newest. It neither waits nor allocates. The age of a State from StateDir is based on the wall clock at the start, and
// [Config.StateMaxAge] limits it until the store has been asked.
//
// It returns ErrNotLoaded, ErrTooOld or ErrQuarantined if polls must not be answered.
func (r *Replica) StateForPolls() (*fleet.State, time.Duration, error) {
	v := r.current.Load()
	st, age, err := r.read(v)
	if err == nil && v.quarantined.Load() {
		err = ErrQuarantined
	}
	return st, age, err
}

// StateForReads is StateForPolls for users, who may read a quarantined State.
func (r *Replica) StateForReads() (*fleet.State, time.Duration, error) {
	return r.read(r.current.Load())
}

func (r *Replica) read(v *view) (*fleet.State, time.Duration, error) {
	if v.state == nil {
		return nil, 0, ErrNotLoaded
	}
	// In this order: a process may be stopped for hours between any two of these lines.
	age := max(0, r.cfg.Elapsed()-time.Duration(v.confirmed.Load()))
	limit := r.cfg.MaxStaleness
	if v.cold.Load() {
		limit = r.cfg.StateMaxAge
	}
	if limit > 0 && age > limit {
		return v.state, age, ErrTooOld
	}
	return v.state, age, nil
}

// noteConfirmed records that the store, queried at that time, had no State newer than the view's.
func (v *view) noteConfirmed(asked time.Duration) {
	v.cold.Store(false)
	for {
		before := v.confirmed.Load()
		if before >= int64(asked) || v.confirmed.CompareAndSwap(before, int64(asked)) {
			return
		}
	}
}
