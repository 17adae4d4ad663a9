package store

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/localstate"
)

// disk is the write-ahead log in StateDir, and the state of its writes.
type disk struct {
	*localstate.WAL

	failed bool          // and that was logged
	noted  time.Duration // the confirmation that was noted last, as Elapsed has it
}

// Restore publishes the last State that an earlier process left in StateDir, and reports whether there was one. Polls are then
// answered before the store is reachable, unless the State is too old: see [Replica.StateForPolls]. It must not run beside Run.
// The store's history must continue from this State: see [Accept].
//
// A damaged file, or one of another format, is not an error: Restore logs the problem, and the Replica waits for the store.
func (r *Replica) Restore(ctx context.Context) bool {
	from := r.current.Load()
	if r.cfg.StateDir == "" || from.state != nil {
		return false
	}
	k, err := r.openDisk()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		r.cfg.Logger.ErrorContext(ctx, "the last good state cannot be used; waiting for the store", slog.Any("error", err))
		return false
	}
	age := r.coldAge(k.Confirmed)
	v := newView(k.State, r.cfg.Elapsed()-age)
	v.cold.Store(true)
	v.quarantined.Store(k.Quarantined)
	if !r.swap(from, v, func() {}) {
		return false
	}
	r.onDisk = k.State
	r.setStatus(func(s *Status) { s.FromDisk, s.ConfirmedAt = true, k.Confirmed.Wall })
	about := []slog.Attr{
		r.revision(), slog.Int("clusters", k.State.Clusters()), slog.Time("confirmed_at", k.Confirmed.Wall),
		slog.Duration("age", age), slog.Duration("max_age", r.cfg.StateMaxAge), slog.Bool("quarantined", k.Quarantined),
	}
	if _, _, err := r.read(v); err != nil {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the last good state on disk is too old to be served; waiting for the store", about...)
	} else {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "serving the last good state from disk until the store answers", about...)
	}
	return true
}

func (r *Replica) openDisk() (localstate.Snapshot, error) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if _, err := r.disk.Lock(); err != nil {
		return localstate.Snapshot{}, err
	}
	return r.disk.Open(r.cfg.Rules)
}

// clockSlack is how far the clocks of two processes may be apart.
const clockSlack = time.Minute

// coldAge is how long ago the store confirmed a State that was found on disk. In doubt it is more than StateMaxAge.
//
// The clock on the wall can be set, so it alone is not believed where another process may have served something newer since:
// the machine's own clock has to agree, which it cannot once the machine was started again. A confirmation in the future
// shows that the clock on the wall was wrong then or is now.
func (r *Replica) coldAge(at localstate.Confirmation) time.Duration {
	tooOld := r.cfg.StateMaxAge + clockSlack
	age := r.cfg.Now().Sub(at.Wall)
	if age < -clockSlack {
		return tooOld
	}
	if at.Boot != uuid.Nil && at.Boot == r.cfg.BootID {
		passed := r.cfg.Elapsed() - at.Elapsed
		if passed < 0 { // a virtual machine was set back
			return tooOld
		}
		return max(age, passed)
	}
	if r.cfg.StateMaxAge > 0 && r.cfg.StateMaxAge <= r.cfg.MaxStaleness {
		return max(age, tooOld)
	}
	return max(0, age)
}

// keepNext appends a State to the write-ahead log, which ends with from.
func (r *Replica) keepNext(from fleet.Head, next *fleet.State, commits []fleet.Commit) {
	r.toDisk(func(j *localstate.WAL) error { return j.Append(from, next, commits) })
}

// keepNothing removes the files on disk before a State that does not follow from them is published, so that a restart cannot
// serve them. keep writes the new State soon after.
func (r *Replica) keepNothing() {
	r.toDisk(func(j *localstate.WAL) error { return j.Remove() })
}

// setQuarantined sets whether a view is quarantined, in memory and on disk.
func (r *Replica) setQuarantined(v *view, quarantined bool) {
	if v.quarantined.Load() == quarantined {
		return
	}
	r.publishing.Lock()
	defer r.publishing.Unlock()
	v.quarantined.Store(quarantined)
	if r.current.Load() == v {
		r.toDisk(func(j *localstate.WAL) error { return j.SetQuarantined(quarantined) })
	}
}

// noteConfirmed confirms a view, and notes it now and then.
func (r *Replica) noteConfirmed(v *view, asked time.Duration) {
	v.noteConfirmed(asked)
	if r.cfg.StateDir == "" {
		return
	}
	every := r.cfg.KeepInterval
	if r.cfg.StateMaxAge > 0 {
		every = min(every, r.cfg.StateMaxAge/10)
	}
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if r.current.Load() != v || !r.disk.Writable() || asked-r.disk.noted < every {
		return
	}
	r.disk.noted = asked
	r.toDisk(func(j *localstate.WAL) error { return j.SetConfirmed(r.confirmedAt(asked)) })
}

// confirmedAt is a time of Elapsed as it is kept on disk.
func (r *Replica) confirmedAt(at time.Duration) localstate.Confirmation {
	return localstate.Confirmation{Wall: r.cfg.Now().Add(at - r.cfg.Elapsed()), Elapsed: at, Boot: r.cfg.BootID}
}

// toDisk writes to the write-ahead log while no other State is published. If the write fails the State is published all the same, since
// polls need it, and the files on disk, which are then out of date, are removed.
func (r *Replica) toDisk(write func(*localstate.WAL) error) {
	if r.cfg.StateDir == "" || r.disk.Released() {
		return
	}
	j := r.disk.WAL
	err := r.ours()
	if err == nil {
		err = write(j)
	}
	if err != nil && j.Locked() {
		err = errors.Join(err, j.Remove())
	}
	r.noteDisk(err)
}

// ours locks the directory for this process. If the lock was not held since the start, the files in it belong to another
// process and are removed.
func (r *Replica) ours() error {
	first, err := r.disk.Lock()
	if first {
		err = r.disk.Remove()
	}
	return err
}

// noteDisk logs when writing to StateDir begins or ceases to fail.
func (r *Replica) noteDisk(err error) {
	if err == nil || r.disk.failed {
		return
	}
	r.disk.failed = true
	r.cfg.Logger.Error("the last good state cannot be written to disk; until it can, a restart has to wait for the store",
		slog.String("dir", r.cfg.StateDir), slog.Any("error", err))
}

// keep writes the whole State to StateDir when it has changed, until ctx ends, and once more then. That keeps the
// write-ahead log short, and creates a missing one.
func (r *Replica) keep(ctx context.Context) {
	done := r.onDisk
	for ctx.Err() == nil {
		start, now := time.Now(), r.current.Load()
		wake := now.replaced
		if r.keepWhole(&done) {
			wake = nil
		}
		// A large fleet that is written to all the time must not keep a core busy with this.
		sleepUntil(ctx, max(r.cfg.KeepInterval, 20*time.Since(start)), wake)
	}
	r.keepWhole(&done)
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if err := r.disk.Release(); err != nil {
		r.cfg.Logger.ErrorContext(ctx, "the directory of the last good state cannot be left", slog.Any("error", err))
	}
}

// keepWhole writes the whole State, unless that is done, and reports whether it tried.
func (r *Replica) keepWhole(done **fleet.State) bool {
	k, cut, err := r.beginWhole(*done)
	if k.State == nil {
		return false
	}
	if err == nil {
		err = r.writeWhole(k, cut)
	}
	r.publishing.Lock()
	defer r.publishing.Unlock()
	r.noteDisk(err)
	if err != nil || !r.disk.Writable() {
		return true
	}
	*done = k.State
	if r.disk.failed {
		r.disk.failed = false
		r.cfg.Logger.Info("the last good state is written to disk again")
	}
	return true
}

// beginWhole returns the State to write as a snapshot and the end of the write-ahead log at that State. No State: the snapshot is up to
// date.
func (r *Replica) beginWhole(done *fleet.State) (k localstate.Snapshot, cut int64, err error) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	v, j := r.current.Load(), r.disk.WAL
	if v.state == nil || v.state == done && j.Writable() {
		return localstate.Snapshot{}, 0, nil
	}
	k = localstate.Snapshot{State: v.state, Confirmed: r.confirmedAt(time.Duration(v.confirmed.Load())), Quarantined: v.quarantined.Load()}
	if err := r.ours(); err != nil {
		return k, 0, err
	}
	if !j.Writable() {
		if err := j.Begin(v.state.Head()); err != nil {
			return k, 0, errors.Join(err, j.Remove())
		}
	}
	return k, j.Cut(), nil
}

func (r *Replica) writeWhole(k localstate.Snapshot, cut int64) error {
	name, err := localstate.WriteSnapshot(r.cfg.StateDir, k)
	if err != nil {
		return err
	}
	if err := r.replaceWhole(name, k, cut); err != nil {
		return err
	}
	return localstate.SyncDir(r.cfg.StateDir)
}

func (r *Replica) replaceWhole(name string, k localstate.Snapshot, cut int64) error {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if !r.disk.Writable() { // something else was published, or the write-ahead log could not be written
		return os.Remove(name)
	}
	return r.disk.ReplaceSnapshot(name, k, cut)
}

func sleep(ctx context.Context, d time.Duration) { sleepUntil(ctx, d, nil) }

// sleepUntil is sleep that may be woken.
func sleepUntil(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}
