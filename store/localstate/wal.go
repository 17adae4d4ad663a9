package localstate

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// WAL is the copy of the State in a directory: a snapshot file with a whole State, and a write-ahead log to which every newer
// State is added before it is published. Neither is of use without the other. So a log that can be read after a restart ends
// with the newest State that was ever served; if a write to it fails, both files must be removed. A WAL is not safe for
// concurrent use.
//
// Every record has a header (length and checksum of the content) and the content. The header is written last: a process that is
// killed leaves at most one record without a header at the end, and the State of that record was not published.
type WAL struct {
	dir  string
	lock *os.File // nil: another process owns the directory, and its files are not touched
	file *os.File // nil: no file on disk may be served
	end  int64
	// note is the offset of the last record if that is a confirmation, which the next confirmation overwrites; else -1.
	note     int64
	released bool // for good
}

const (
	walName    = "journal"
	walMagic   = "flux-resourceset journal 1\n"
	lockName   = "lock"
	headerSize = 12
)

// Kinds of records.
const (
	recordBase        = iota + 1 // the head that the journal begins after
	recordState                  // the next State
	recordConfirmed              // when the store confirmed the State before
	recordQuarantined            // whether that State is quarantined
)

var (
	errLocked   = errors.New("another process keeps its state in this directory; give each one its own")
	errReleased = errors.New("the directory was given up")
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// New returns the files in a directory. It neither reads nor creates them.
func New(dir string) *WAL { return &WAL{dir: dir} }

// Present reports whether a directory has a snapshot, which may be unreadable.
func Present(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, snapshotName))
	return !errors.Is(err, os.ErrNotExist)
}

// Writable reports whether there are files on disk that records can be added to.
func (j *WAL) Writable() bool { return j.file != nil }

// Locked reports whether this process holds the directory.
func (j *WAL) Locked() bool { return j.lock != nil }

// Released reports whether Release was called.
func (j *WAL) Released() bool { return j.released }

// Cut returns the end of the log, where a snapshot of the newest State cuts it: see ReplaceSnapshot. Records before it are not
// overwritten from then on.
func (j *WAL) Cut() int64 {
	j.note = -1
	return j.end
}

func (j *WAL) path(name string) string { return filepath.Join(j.dir, name) }

// Lock locks the directory for this process; first is true if it was not locked by it before. The lock ends with the process,
// also when that is killed. It is an error if another process has the directory, or after Release.
func (j *WAL) Lock() (first bool, err error) {
	switch {
	case j.released:
		return false, errReleased
	case j.lock != nil:
		return false, nil
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return false, err
	}
	f, err := os.OpenFile(j.path(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	if err := lockFile(f); err != nil {
		return false, errors.Join(err, f.Close())
	}
	j.lock = f
	removeTemporary(j.dir)
	return true, nil
}

// Release releases the directory, with its files, for another process.
func (j *WAL) Release() error {
	err := j.close()
	if j.lock != nil {
		err = errors.Join(err, unlockFile(j.lock), j.lock.Close())
	}
	j.lock, j.released = nil, true
	return err
}

func (j *WAL) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// Remove ensures that no file on disk is taken for the newest State. It is enough to remove one of the two files.
func (j *WAL) Remove() error {
	closing := j.close()
	first, second := os.Remove(j.path(walName)), os.Remove(j.path(snapshotName))
	for _, err := range []error{first, second} {
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return closing
		}
	}
	return errors.Join(closing, first, second)
}

// Begin starts a log of the changes after head. It is of no use until the snapshot of that State exists.
func (j *WAL) Begin(head fleet.Head) error {
	if err := j.Remove(); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path(walName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return j.start(f, head)
}

func (j *WAL) start(f *os.File, head fleet.Head) error {
	j.file, j.end, j.note = f, int64(len(walMagic)), -1
	if _, err := f.WriteAt([]byte(walMagic), 0); err != nil {
		return err
	}
	return j.add(recordBase, func(e *encoder) { e.head(head) })
}

// Append adds a State that commits lead to.
func (j *WAL) Append(from fleet.Head, next *fleet.State, commits []fleet.Commit) error {
	if n := int(next.Revision() - from.Revision); n != len(commits) {
		return fmt.Errorf("%d commits do not lead from revision %d to %d", len(commits), from.Revision, next.Revision())
	}
	return j.add(recordState, func(e *encoder) {
		e.head(from)
		e.head(next.Head())
		e.number(microseconds(next.At()))
		for _, c := range commits {
			for _, ch := range c.Changes {
				// As it is after the last of the commits; that it may be there twice does no harm.
				r, ok := next.Record(ch.Kind, ch.ID)
				e.flag(true)
				e.flag(ok)
				if !ok {
					r = fleet.Record{Kind: ch.Kind, ID: ch.ID}
				}
				e.record(r)
			}
		}
		e.flag(false)
	})
}

// SetConfirmed records when the store confirmed the last State as its newest. The record is written in one piece, which a kill
// does not tear, and has a fixed size, so that it can be overwritten.
func (j *WAL) SetConfirmed(at Confirmation) error {
	begins := j.end
	if j.note >= 0 {
		begins = j.note
	}
	content := binary.BigEndian.AppendUint64([]byte{recordConfirmed << 1}, uint64(microseconds(at.Wall))) // a varint and a number
	content = append(binary.BigEndian.AppendUint64(content, uint64(at.Elapsed)), at.Boot[:]...)
	if _, err := j.file.WriteAt(append(header(len(content), crc32.Checksum(content, castagnoli)), content...), begins); err != nil {
		return err
	}
	j.note, j.end = begins, begins+int64(headerSize+len(content))
	return nil
}

// SetQuarantined records whether the last State is quarantined.
func (j *WAL) SetQuarantined(quarantined bool) error {
	return j.add(recordQuarantined, func(e *encoder) { e.flag(quarantined) })
}

// add appends a record, all or nothing. Without an open log it has no effect.
func (j *WAL) add(kind int64, content func(*encoder)) error {
	if j.file == nil {
		return nil
	}
	sum := crc32.New(castagnoli)
	at := io.NewOffsetWriter(j.file, j.end+headerSize)
	e := encoder{out: bufio.NewWriter(io.MultiWriter(at, sum))}
	e.number(kind)
	content(&e)
	if err := e.out.Flush(); err != nil {
		return err
	}
	size, err := at.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := j.file.WriteAt(header(int(size), sum.Sum32()), j.end); err != nil {
		return err
	}
	j.end, j.note = j.end+headerSize+size, -1
	return nil
}

func header(size int, sum uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(size)), sum)
}

// ReplaceSnapshot installs the snapshot file whole, which was the newest State when the log ended at cut, and drops the log
// records before cut. At every moment a pair of files on disk leads to the newest State.
func (j *WAL) ReplaceSnapshot(whole string, k Snapshot, cut int64) (err error) {
	if err := os.Rename(whole, j.path(snapshotName)); err != nil {
		return errors.Join(err, os.Remove(whole))
	}
	f, err := os.CreateTemp(j.dir, walName+".*.tmp")
	if err != nil {
		return err
	}
	next := WAL{dir: j.dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := next.start(f, k.State.Head()); err != nil {
		return err
	}
	if err := next.SetConfirmed(k.Confirmed); err != nil {
		return err
	}
	n, err := io.Copy(io.NewOffsetWriter(f, next.end), io.NewSectionReader(j.file, cut, j.end-cut))
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), j.path(walName)); err != nil {
		return err
	}
	switch {
	case j.note >= 0:
		next.note = j.note - cut + next.end
	case n > 0:
		next.note = -1
	}
	_ = j.file.Close() // it is not read again
	j.file, j.end, j.note = f, next.end+n, next.note
	return nil
}

// Open reads the files on disk and continues the log from there.
func (j *WAL) Open(rules fleet.Rules) (k Snapshot, err error) {
	if _, err := os.Stat(j.path(snapshotName)); err != nil {
		return Snapshot{}, err
	}
	path := j.path(walName)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return Snapshot{}, fmt.Errorf("%w: there is no journal beside it", ErrSnapshot)
	}
	if err != nil {
		return Snapshot{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	data, err := io.ReadAll(f)
	if err != nil {
		return Snapshot{}, err
	}
	content, err := decodeWAL(data)
	if err != nil {
		return Snapshot{}, fmt.Errorf("%w: %s: %w", ErrSnapshot, path, err)
	}
	if k, err = readSnapshot(j.path(snapshotName), content, rules); err != nil {
		return Snapshot{}, err
	}
	if err := f.Truncate(content.end); err != nil {
		return Snapshot{}, err
	}
	j.file, j.end, j.note = f, content.end, -1
	return k, nil
}
