package localstate

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// walContent is the decoded content of a journal.
type walContent struct {
	base        fleet.Head
	states      []walState
	confirmed   *Confirmation // nil: not noted
	quarantined *bool         // nil: not recorded
	end         int64         // of the last whole record
}

// walState is the difference from one State to the next.
type walState struct {
	from, to fleet.Head
	at       time.Time
	records  []fleet.Record // one without a body was removed
}

var errWAL = errors.New("the journal is damaged")

// decodeWAL reads a journal up to its end, or up to a record that its writer did not finish and never published. Any other
// incomplete record is damage, and the records after it are unknown: the journal is refused.
func decodeWAL(data []byte) (*walContent, error) {
	rest, ok := bytes.CutPrefix(data, []byte(walMagic))
	if !ok {
		return nil, fmt.Errorf("%w: it was not written by this version of flux-resourceset", errWAL)
	}
	c, n := &walContent{}, 0
	for ; len(rest) >= headerSize; n++ {
		size, sum := binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:])
		if size == 0 && sum == 0 {
			break
		}
		if size > uint64(len(rest)-headerSize) {
			return nil, fmt.Errorf("%w: it ends within record %d", errWAL, n)
		}
		content := rest[headerSize : headerSize+size]
		if crc32.Checksum(content, castagnoli) != sum {
			return nil, fmt.Errorf("%w: the checksum of record %d is wrong", errWAL, n)
		}
		if err := c.take(content, n); err != nil {
			return nil, fmt.Errorf("%w: record %d: %w", errWAL, n, err)
		}
		rest = rest[headerSize+size:]
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: it does not say what it begins after", errWAL)
	}
	c.end = int64(len(data) - len(rest))
	return c, nil
}

// take adds one record.
func (c *walContent) take(content []byte, n int) error {
	d := decoder{in: bufio.NewReader(bytes.NewReader(content))}
	kind := d.number()
	if (kind == recordBase) != (n == 0) {
		return fmt.Errorf("it is of kind %d", kind)
	}
	switch kind {
	case recordBase:
		c.base = d.head()
	case recordState:
		s := walState{from: d.head(), to: d.head(), at: moment(d.number())}
		last := c.base
		if len(c.states) > 0 {
			last = c.states[len(c.states)-1].to
		}
		for d.flag() {
			there := d.flag()
			r := d.record()
			if !there {
				r.Body = nil
			}
			s.records = append(s.records, r)
		}
		if d.err == nil && (s.from != last || s.to.Revision <= s.from.Revision) {
			return fmt.Errorf("%s leads on from %s, and not from %s", formatHead(s.to), formatHead(s.from), formatHead(last))
		}
		c.states = append(c.states, s)
	case recordConfirmed:
		c.confirmed = d.confirmed()
	case recordQuarantined:
		quarantined := d.flag()
		c.quarantined = &quarantined
	default:
		return fmt.Errorf("it is of kind %d", kind)
	}
	return d.err
}

// leadOn applies the journal to the records of a snapshot. It refuses a journal that does not start at that State.
func (c *walContent) leadOn(head fleet.Head, at time.Time, records []fleet.Record) (fleet.Head, time.Time, []fleet.Record, error) {
	passed := c.base == head
	type key struct {
		kind fleet.Kind
		id   string
	}
	changed := map[key]fleet.Record{}
	for _, s := range c.states {
		if passed {
			for _, r := range s.records {
				changed[key{r.Kind, r.ID}] = r
			}
			at = s.at
		}
		passed = passed || s.to == head
	}
	if !passed {
		return head, at, nil, fmt.Errorf("%w: it does not lead on from %s", errWAL, formatHead(head))
	}
	var out []fleet.Record
	for _, r := range records {
		if _, again := changed[key{r.Kind, r.ID}]; !again {
			out = append(out, r)
		}
	}
	for _, r := range changed {
		if r.Body != nil {
			out = append(out, r)
		}
	}
	if len(c.states) > 0 {
		head = c.states[len(c.states)-1].to
	}
	return head, at, out, nil
}

// confirmed reads a record of SetConfirmed.
func (d *decoder) confirmed() *Confirmation {
	var number [8]byte
	d.read(number[:])
	at := &Confirmation{Wall: moment(int64(binary.BigEndian.Uint64(number[:])))}
	d.read(number[:])
	at.Elapsed = time.Duration(binary.BigEndian.Uint64(number[:]))
	d.read(at.Boot[:])
	return at
}

// formatHead is store.FormatHead, which imports this package.
func formatHead(h fleet.Head) string { return fmt.Sprintf("%d:%s", h.Revision, h.ID) }
