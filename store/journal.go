package store

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

// journal is what a Replica keeps in StateDir: a file of a whole State, and a file of what has changed since, to which
// every State is added before it is published. Neither is of use without the other. So while there is a journal that may
// be read after a restart, it ends with the newest State that was ever answered from; and when nothing can be added to
// it, it is removed.
//
// Every record is a header, of the content's length and checksum, and the content. The header is written last: a process
// that is killed leaves a record without one, which was not published, and nothing after it.
type journal struct {
	dir  string
	lock *os.File // nil: the directory is another process's, and nothing in it is touched
	file *os.File // nil: nothing on disk is good
	end  int64
	// note is where the last record begins if it says when the State was confirmed: the next such takes its place. Else -1.
	note int64
	left bool // for good
}

const (
	journalName  = "journal"
	journalMagic = "flux-resourceset journal 1\n"
	lockName     = "lock"
	headerSize   = 12
)

// What records say.
const (
	recordBase        = iota + 1 // the head that the journal begins after
	recordState                  // the next State
	recordConfirmed              // when the store confirmed the State before
	recordQuarantined            // whether that is held
)

var (
	errTaken   = errors.New("another process keeps its state in this directory; give each one its own")
	errLeft    = errors.New("the directory was given up")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func (j *journal) path(name string) string { return filepath.Join(j.dir, name) }

// claim makes the directory this process's. The lock goes with the process, however that ends.
func (j *journal) claim() (first bool, err error) {
	switch {
	case j.left:
		return false, errLeft
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
	removeLeftOvers(j.dir)
	return true, nil
}

// leave lets another process have the directory, with what is in it.
func (j *journal) leave() error {
	err := j.close()
	if j.lock != nil {
		err = errors.Join(err, j.lock.Close())
	}
	j.lock, j.left = nil, true
	return err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// forget makes sure that nothing on disk is taken for the newest State. Either file is of no use without the other.
func (j *journal) forget() error {
	closing := j.close()
	first, second := os.Remove(j.path(journalName)), os.Remove(j.path(stateFileName))
	for _, err := range []error{first, second} {
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return closing
		}
	}
	return errors.Join(closing, first, second)
}

// begin starts a journal of what comes after head. It is of no use until there is a file of that State.
func (j *journal) begin(head fleet.Head) error {
	if err := j.forget(); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path(journalName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return j.start(f, head)
}

func (j *journal) start(f *os.File, head fleet.Head) error {
	j.file, j.end, j.note = f, int64(len(journalMagic)), -1
	if _, err := f.WriteAt([]byte(journalMagic), 0); err != nil {
		return err
	}
	return j.add(recordBase, func(e *encoder) { e.head(head) })
}

// lead adds a State that commits lead to.
func (j *journal) lead(from fleet.Head, next *fleet.State, commits []fleet.Commit) error {
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

// noteConfirmed notes when the store said that the last State is its newest. It is written in one piece, which a kill does not
// tear, and always of one size, so that it can be written over.
func (j *journal) noteConfirmed(at confirmedAt) error {
	begins := j.end
	if j.note >= 0 {
		begins = j.note
	}
	content := binary.BigEndian.AppendUint64([]byte{recordConfirmed << 1}, uint64(microseconds(at.wall))) // a varint and a number
	content = append(binary.BigEndian.AppendUint64(content, uint64(at.elapsed)), at.boot[:]...)           // older versions do not read these
	if _, err := j.file.WriteAt(append(header(len(content), crc32.Checksum(content, castagnoli)), content...), begins); err != nil {
		return err
	}
	j.note, j.end = begins, begins+int64(headerSize+len(content))
	return nil
}

// noteQuarantined notes whether the last State is held.
func (j *journal) noteQuarantined(quarantined bool) error {
	return j.add(recordQuarantined, func(e *encoder) { e.flag(quarantined) })
}

// add adds a record, all or nothing, if there is a journal.
func (j *journal) add(kind int64, content func(*encoder)) error {
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

// replace puts a whole State, which was the newest when the journal ended at cut, in the place of the one on disk, and
// drops from the journal what leads there. At every moment there is a pair of files on disk that leads to the newest.
func (j *journal) replace(whole string, k kept, cut int64) (err error) {
	if err := os.Rename(whole, j.path(stateFileName)); err != nil {
		return errors.Join(err, os.Remove(whole))
	}
	f, err := os.CreateTemp(j.dir, journalName+".*.tmp")
	if err != nil {
		return err
	}
	next := journal{dir: j.dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if err := next.start(f, k.state.Head()); err != nil {
		return err
	}
	if err := next.noteConfirmed(k.confirmed); err != nil {
		return err
	}
	n, err := io.Copy(io.NewOffsetWriter(f, next.end), io.NewSectionReader(j.file, cut, j.end-cut))
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), j.path(journalName)); err != nil {
		return err
	}
	switch {
	case j.note >= 0:
		next.note = j.note - cut + next.end
	case n > 0:
		next.note = -1
	}
	_ = j.file.Close() // nobody reads it again
	j.file, j.end, j.note = f, next.end+n, next.note
	return nil
}

// open reads what is on disk, and goes on from there.
func (j *journal) open(rules fleet.Rules) (k kept, err error) {
	if _, err := os.Stat(j.path(stateFileName)); err != nil {
		return kept{}, err
	}
	path := j.path(journalName)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return kept{}, fmt.Errorf("%w: there is no journal beside it", ErrStateFile)
	}
	if err != nil {
		return kept{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	data, err := io.ReadAll(f)
	if err != nil {
		return kept{}, err
	}
	content, err := decodeJournal(data)
	if err != nil {
		return kept{}, fmt.Errorf("%w: %s: %w", ErrStateFile, path, err)
	}
	if k, err = readStateFile(j.path(stateFileName), content, rules); err != nil {
		return kept{}, err
	}
	if err := f.Truncate(content.end); err != nil {
		return kept{}, err
	}
	j.file, j.end, j.note = f, content.end, -1
	return k, nil
}
