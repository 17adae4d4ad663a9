// Package localstate keeps the newest State of a process in a directory, so that a restart without the store does not serve an
// older one. It exists because a State that was served once must not be followed by an older one: clusters would uninstall.
//
// The directory holds a snapshot of a whole State (snapshot.go) and a write-ahead log of the changes since (wal.go), to which a
// State is added before it is published. wal_read.go applies the log to the snapshot. A lock file keeps other processes out.
package localstate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ErrSnapshot means that a snapshot file is damaged, or is not a snapshot.
var ErrSnapshot = errors.New("the file is not a whole state of a fleet")

// Snapshot is a State as it is on disk.
type Snapshot struct {
	State       *fleet.State
	Confirmed   Confirmation
	Quarantined bool // it is not for clusters: see store.Quarantine
}

// Confirmation is when the store last confirmed that a State is its newest, on two clocks.
type Confirmation struct {
	Wall    time.Time     // the clock on the wall
	Elapsed time.Duration // store.Config.Elapsed
	Boot    uuid.UUID     // store.Config.BootID
}

// The file is a line that names the format, the compressed content, and the SHA-256 of both. The content is when the
// State was confirmed, whether it is quarantined, the head, the number of records, and the records.
const (
	snapshotName  = "last-good.state"
	snapshotMagic = "flux-resourceset state 2\n"
	// longestField is more than any field of a record has.
	longestField = 1 << 28
)

// WriteSnapshot writes a State to a temporary file in dir, and returns its name when it is whole and on disk.
func WriteSnapshot(dir string, k Snapshot) (name string, err error) {
	f, err := os.CreateTemp(dir, snapshotName+".*.tmp") // 0600: patch values are confidential
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	sum := sha256.New()
	if err := encodeSnapshot(io.MultiWriter(f, sum), k); err != nil {
		return "", err
	}
	if _, err := f.Write(sum.Sum(nil)); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

// removeTemporary removes temporary files of killed processes, so that they do not accumulate. Failures are ignored: such a
// file does no harm until the disk is full, and then the write itself reports it.
func removeTemporary(dir string) {
	for _, file := range []string{snapshotName, walName} {
		names, _ := filepath.Glob(filepath.Join(dir, file+".*.tmp")) // only a pattern can be wrong
		for _, name := range names {
			_ = os.Remove(name)
		}
	}
}

// SyncDir makes renames in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readSnapshot reads a file of WriteSnapshot and applies the journal to it. fs.ErrNotExist: there is no file. ErrSnapshot:
// it cannot be trusted, and no part of it is returned.
func readSnapshot(path string, changes *walContent, rules fleet.Rules) (Snapshot, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Snapshot{}, err
	}
	k, err := decodeSnapshot(data, changes, rules)
	if err != nil {
		return Snapshot{}, fmt.Errorf("%w: %s: %w", ErrSnapshot, path, err)
	}
	return k, nil
}

// encoder writes fields. Its buffer keeps the first error until it is flushed.
type encoder struct {
	out     *bufio.Writer
	scratch []byte
}

func (e *encoder) number(n int64) {
	e.scratch = binary.AppendVarint(e.scratch[:0], n)
	_, _ = e.out.Write(e.scratch)
}

func (e *encoder) text(b []byte) {
	e.number(int64(len(b)))
	_, _ = e.out.Write(b)
}

func (e *encoder) head(h fleet.Head) {
	e.number(int64(h.Revision))
	_, _ = e.out.Write(h.ID[:])
}

func (e *encoder) flag(on bool) {
	if on {
		e.number(1)
	} else {
		e.number(0)
	}
}

func (e *encoder) record(r fleet.Record) {
	e.text([]byte(r.Kind))
	e.text([]byte(r.ID))
	e.text(r.Body)
	e.head(fleet.Head{Revision: r.Revision, ID: r.CommitID})
	e.number(microseconds(r.CreatedAt))
	e.number(microseconds(r.UpdatedAt))
}

func encodeSnapshot(w io.Writer, k Snapshot) error {
	if _, err := io.WriteString(w, snapshotMagic); err != nil {
		return err
	}
	zw, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	e, s := encoder{out: bufio.NewWriter(zw)}, k.State
	e.number(microseconds(k.Confirmed.Wall))
	e.flag(k.Quarantined)
	records := 0
	for range s.Records() {
		records++
	}
	e.head(s.Head())
	e.number(microseconds(s.At()))
	e.number(int64(records))
	for r := range s.Records() {
		e.record(r)
	}
	return errors.Join(e.out.Flush(), zw.Close())
}

// microseconds keeps the zero time apart, which has none.
func microseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func decodeSnapshot(data []byte, changes *walContent, rules fleet.Rules) (Snapshot, error) {
	content, ok := bytes.CutPrefix(data, []byte(snapshotMagic))
	if !ok {
		return Snapshot{}, errors.New("it was not written by this version of flux-resourceset")
	}
	if len(content) < sha256.Size {
		return Snapshot{}, io.ErrUnexpectedEOF
	}
	end := len(data) - sha256.Size
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return Snapshot{}, errors.New("its checksum is wrong")
	}
	zr, err := gzip.NewReader(bytes.NewReader(content[:len(content)-sha256.Size]))
	if err != nil {
		return Snapshot{}, err
	}
	d := decoder{in: bufio.NewReader(zr)}
	k := Snapshot{Confirmed: Confirmation{Wall: moment(d.number())}, Quarantined: d.flag()}
	head := d.head()
	at, count := moment(d.number()), d.number()
	var records []fleet.Record
	for n := int64(0); n < count && d.err == nil; n++ {
		records = append(records, d.record())
	}
	if d.err != nil {
		return Snapshot{}, d.err
	}
	head, at, records, err = changes.leadOn(head, at, records)
	if err != nil {
		return Snapshot{}, err
	}
	if changes.confirmed != nil {
		k.Confirmed = *changes.confirmed
	}
	if changes.quarantined != nil {
		k.Quarantined = *changes.quarantined
	}
	k.State, err = fleet.NewState(rules, head, at, records)
	return k, err
}

// decoder reads fields until one fails; then err is the reason, and all later fields are zero.
type decoder struct {
	in  *bufio.Reader
	err error
}

func (d *decoder) number() int64 {
	if d.err != nil {
		return 0
	}
	var n int64
	n, d.err = binary.ReadVarint(d.in)
	return n
}

func (d *decoder) flag() bool { return d.number() != 0 }

func (d *decoder) head() (h fleet.Head) {
	h.Revision = fleet.Revision(d.number())
	d.read(h.ID[:])
	return h
}

func (d *decoder) record() fleet.Record {
	r := fleet.Record{Kind: fleet.Kind(d.text()), ID: string(d.text()), Body: d.text()}
	h := d.head()
	r.Revision, r.CommitID = h.Revision, h.ID
	r.CreatedAt, r.UpdatedAt = moment(d.number()), moment(d.number())
	return r
}

func (d *decoder) text() []byte {
	n := d.number()
	if n < 0 || n > longestField {
		d.err = errors.Join(d.err, fmt.Errorf("a field of %d bytes", n))
	}
	if d.err != nil {
		return nil
	}
	b := make([]byte, n)
	d.read(b)
	return b
}

func (d *decoder) read(b []byte) {
	if d.err == nil {
		_, d.err = io.ReadFull(d.in, b)
	}
}
