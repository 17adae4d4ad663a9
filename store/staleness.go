package store

import (
	"fmt"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ErrTooOld tells that the store has not confirmed the copy of the fleet for longer than [Config.MaxStaleness] allows. Nothing is
// answered from it: what another process answers may be newer, and clusters that get one and the other in turns remove
// and make things anew, while those that get an error keep what they have.
var ErrTooOld = fmt.Errorf("%w: the copy of the fleet is older than it may be served", ErrUnavailable)

// ErrNotLoaded tells that there is no State to answer from.
var ErrNotLoaded = fmt.Errorf("%w: the fleet is not loaded yet", ErrUnavailable)

// StateForPolls returns the State to answer clusters from, and its age: the time since the store was asked for what it has, when
// it last said that it is this State. It neither waits nor allocates. Of a State from StateDir it is what the wall clock
// said at the start, and [Config.StateMaxAge] counts until the store has been asked.
//
// ErrNotLoaded, ErrTooOld or ErrQuarantined when nothing may be answered.
func (r *Replica) StateForPolls() (*fleet.State, time.Duration, error) {
	v := r.current.Load()
	st, age, err := r.read(v)
	if err == nil && v.quarantined.Load() {
		err = ErrQuarantined
	}
	return st, age, err
}

// StateForReads is Served for people, who may look at what is held.
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

// noteConfirmed notes that the store, asked at that time, had nothing newer than the view's State.
func (v *view) noteConfirmed(asked time.Duration) {
	v.cold.Store(false)
	for {
		before := v.confirmed.Load()
		if before >= int64(asked) || v.confirmed.CompareAndSwap(before, int64(asked)) {
			return
		}
	}
}
