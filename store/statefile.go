package store

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

// ErrStateFile tells that a file of the last good State is damaged, or is none.
var ErrStateFile = errors.New("the file is not a whole state of a fleet")

// The file is a line that names the format, the compressed content, and the SHA-256 of both. The content is the head,
// the number of records, and the records.
const (
	stateFileName  = "last-good.state"
	stateFileMagic = "flux-resourceset state 1\n"
	// longestField is more than any field of a record has.
	longestField = 1 << 28
)

// writeStateFile writes a State to dir, which it makes when it is not there. The file that was there before is replaced
// when the new one is whole and on disk.
func writeStateFile(dir string, s *fleet.State) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	removeLeftOvers(dir)
	f, err := os.CreateTemp(dir, stateFileName+".*.tmp") // 0600: patch values are nobody else's business
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	sum := sha256.New()
	if err := encodeState(io.MultiWriter(f, sum), s); err != nil {
		return err
	}
	if _, err := f.Write(sum.Sum(nil)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, stateFileName)); err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(dir))
}

// leftOver is how old a temporary file is that nobody writes any more. Others may be another replica's.
const leftOver = time.Hour

// removeLeftOvers removes what processes that were killed while they wrote have left, so that it does not add up. What
// cannot be removed is in nobody's way until the disk is full, which the write itself reports.
func removeLeftOvers(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, stateFileName+".*.tmp")) // only a pattern can be wrong
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > leftOver {
			_ = os.Remove(name)
		}
	}
}

// syncDir makes a rename in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readStateFile reads what writeStateFile wrote. fs.ErrNotExist when there is no file, ErrStateFile when it cannot be
// trusted: nothing of it is returned then.
func readStateFile(dir string, rules fleet.Rules) (*fleet.State, error) {
	path := filepath.Join(dir, stateFileName)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := decodeState(data, rules)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrStateFile, path, err)
	}
	return s, nil
}

func encodeState(w io.Writer, s *fleet.State) error {
	if _, err := io.WriteString(w, stateFileMagic); err != nil {
		return err
	}
	zw, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(zw) // keeps its first error until Flush
	var scratch []byte
	number := func(n int64) { scratch = binary.AppendVarint(scratch[:0], n); _, _ = out.Write(scratch) }
	text := func(b []byte) { number(int64(len(b))); _, _ = out.Write(b) }
	point := func(rev fleet.Revision, id uuid.UUID) { number(int64(rev)); _, _ = out.Write(id[:]) }

	records := 0
	for range s.Records() {
		records++
	}
	point(s.Head().Revision, s.Head().ID)
	number(microseconds(s.At()))
	number(int64(records))
	for r := range s.Records() {
		text([]byte(r.Kind))
		text([]byte(r.ID))
		text(r.Body)
		point(r.Revision, r.CommitID)
		number(microseconds(r.CreatedAt))
		number(microseconds(r.UpdatedAt))
	}
	return errors.Join(out.Flush(), zw.Close())
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

func decodeState(data []byte, rules fleet.Rules) (*fleet.State, error) {
	content, ok := bytes.CutPrefix(data, []byte(stateFileMagic))
	if !ok {
		return nil, errors.New("it was not written by this version of flux-resourceset")
	}
	if len(content) < sha256.Size {
		return nil, io.ErrUnexpectedEOF
	}
	end := len(data) - sha256.Size
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return nil, errors.New("its checksum is wrong")
	}
	zr, err := gzip.NewReader(bytes.NewReader(content[:len(content)-sha256.Size]))
	if err != nil {
		return nil, err
	}
	d := stateDecoder{in: bufio.NewReader(zr)}
	head := fleet.Head{Revision: d.revision(), ID: d.id()}
	at, count := moment(d.number()), d.number()
	var records []fleet.Record
	for n := int64(0); n < count && d.err == nil; n++ {
		records = append(records, fleet.Record{
			Kind: fleet.Kind(d.text()), ID: string(d.text()), Body: d.text(),
			Revision: d.revision(), CommitID: d.id(), CreatedAt: moment(d.number()), UpdatedAt: moment(d.number()),
		})
	}
	if d.err != nil {
		return nil, d.err
	}
	return fleet.NewState(rules, head, at, records)
}

// stateDecoder reads fields until one cannot be read; then err says why, and all that follow are zero.
type stateDecoder struct {
	in  *bufio.Reader
	err error
}

func (d *stateDecoder) number() int64 {
	if d.err != nil {
		return 0
	}
	var n int64
	n, d.err = binary.ReadVarint(d.in)
	return n
}

func (d *stateDecoder) revision() fleet.Revision { return fleet.Revision(d.number()) }

func (d *stateDecoder) id() (id uuid.UUID) {
	d.read(id[:])
	return id
}

func (d *stateDecoder) text() []byte {
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

func (d *stateDecoder) read(b []byte) {
	if d.err == nil {
		_, d.err = io.ReadFull(d.in, b)
	}
}
