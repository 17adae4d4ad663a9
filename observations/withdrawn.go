package observations

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// settle is how long a cluster may take from being given a list until nothing that it had from the list before can send a receipt
// any more: until it has applied the new one, and collected what is not in it. A receipt says of which input it is, and not of
// which time; so one of an input that was withdrawn and came back within this time may be of before. A provider that was told so
// asks again after 0.75 s and then twice as long each time: the seventh time 47 s later.
const settle = 45 * time.Second

// maxWithdrawn is how many inputs of a list are remembered one by one; beyond that all of the list are taken for withdrawn.
const maxWithdrawn = 10_000 // as many as a list has

// maxTold is how many inputs of a list other processes are told, in each of two sets; beyond that they are told tooMany.
const (
	maxTold = 512
	tooMany = "*"
)

// inputs are the receipts of what a list asks for; not known, when it is not.
type inputs struct {
	receipts []fleet.Receipt // shared with the answer that they are of
	known    bool
}

func (in inputs) without(other inputs) []fleet.Receipt {
	kept := other.set()
	return slices.DeleteFunc(slices.Clone(in.receipts), func(r fleet.Receipt) bool { _, ok := kept[r]; return ok || r == fleet.Receipt{} })
}

// set is of the receipts.
func (in inputs) set() map[fleet.Receipt]struct{} {
	out := make(map[fleet.Receipt]struct{}, len(in.receipts))
	for _, r := range in.receipts {
		out[r] = struct{}{}
	}
	return out
}

// withdrawn are the inputs of a list that a cluster was asked for and then was not, within the time in which that matters.
type withdrawn struct {
	one []receipt // by their input, each with when it was
	all int64     // so many were that they are not told apart; 0: never
}

func (w *withdrawn) find(r fleet.Receipt) (int, bool) {
	return slices.BinarySearchFunc(w.one, r, func(one receipt, r fleet.Receipt) int { return bytes.Compare(one.input[:], r[:]) })
}

// add notes that a cluster was given one list and then another one: what is in the first and not in the second is withdrawn. Of
// what is not known nothing is in it.
func (w *withdrawn) add(before, after inputs, at int64) { w.note(before.without(after), at) }

func (w *withdrawn) note(receipts []fleet.Receipt, at int64) {
	w.forget(at)
	for _, r := range receipts {
		w.keep(r, at)
	}
}

func (w *withdrawn) keep(r fleet.Receipt, at int64) {
	switch i, there := w.find(r); {
	case there:
		w.one[i].at = max(w.one[i].at, at)
	case len(w.one) < maxWithdrawn:
		w.one = slices.Insert(w.one, i, receipt{r, at})
	default:
		w.all = max(w.all, at)
	}
}

// forget drops what does not matter any more at a time.
func (w *withdrawn) forget(at int64) {
	before := at - settle.Milliseconds()
	w.one = slices.DeleteFunc(w.one, func(one receipt) bool { return one.at < before })
	if len(w.one) == 0 {
		w.one = nil
	}
	if w.all < before {
		w.all = 0
	}
}

// until is the time up to which a receipt of an input does not count, because the input was removed. Where too many were removed to be told apart, it may
// have been one of those.
func (w *withdrawn) until(r receipt) (at int64) {
	if w.all > 0 && r.at >= w.all {
		at = w.all + settle.Milliseconds()
	}
	if i, there := w.find(r.input); there {
		at = max(at, w.one[i].at+settle.Milliseconds())
	}
	return at
}

// asked notes what is in the list that a cluster was given last, or was given before another one overtook it.
func (c *cluster) asked(list fleet.Asked, at int64) {
	p, now := c.poll(list.List), inputs{list.Receipts, true}
	switch {
	case p == nil:
	case p.etag != list.ETag:
		p.withdrawn.add(now, p.asked, at)
	case !p.asked.known:
		p.withdrawn.add(p.before, now, at)
		p.asked, p.before = now, inputs{}
	}
}

// overtaken notes that another process gave the cluster a list at a time, before or after ours.
func (p *polled) overtaken(etag string, other inputs, at int64) {
	if p.etag == etag {
		return
	}
	ours := p.inputs()
	switch {
	case at < p.since:
		p.withdrawn.add(other, ours, p.since)
	case at <= p.last: // between two times of ours
		p.withdrawn.add(ours, other, at)
		p.withdrawn.add(other, ours, p.last)
	default:
		p.withdrawn.add(ours, other, at)
	}
}

// text is how other processes are told of inputs; empty when nobody knows them.
func (in inputs) text() string {
	switch {
	case !in.known:
		return ""
	case len(in.receipts) > maxTold:
		return tooMany
	}
	raw := make([]byte, 0, len(in.receipts)*len(fleet.Receipt{}))
	for _, r := range in.receipts {
		raw = append(raw, r[:]...)
	}
	return "=" + base64.RawStdEncoding.EncodeToString(raw)
}

// readInputs reads what text wrote. What cannot be read is not known.
func readInputs(text string) inputs {
	raw, ok := unpack(text, len(fleet.Receipt{}))
	in := inputs{known: ok}
	for chunk := range slices.Chunk(raw, len(fleet.Receipt{})) {
		in.receipts = append(in.receipts, fleet.Receipt(chunk))
	}
	return in
}

// unpack reads items of a size.
func unpack(text string, size int) (raw []byte, ok bool) {
	text, ok = strings.CutPrefix(text, "=")
	if !ok || len(text) > base64.RawStdEncoding.EncodedLen(maxTold*size) {
		return nil, false
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(raw)%size != 0 {
		return nil, false
	}
	return raw, true
}

// ageBytes are those of an age in milliseconds, of which settle has fewer than two bytes can count.
const ageBytes = 2

// text is how other processes are told of what was withdrawn: each with how long that was before a time.
func (w *withdrawn) text(at int64) string {
	w.forget(at)
	if w.all > 0 || len(w.one) > maxTold {
		return tooMany
	}
	if len(w.one) == 0 {
		return ""
	}
	raw := make([]byte, 0, len(w.one)*(len(fleet.Receipt{})+ageBytes))
	for _, one := range w.one {
		raw = binary.BigEndian.AppendUint16(append(raw, one.input[:]...), uint16(max(0, at-one.at))) // at most settle: forget
	}
	return "=" + base64.RawStdEncoding.EncodeToString(raw)
}

// read takes over what another process told of a time.
func (w *withdrawn) read(text string, at int64) {
	if text == tooMany {
		w.all = max(w.all, at)
	}
	const size = len(fleet.Receipt{}) + ageBytes
	raw, _ := unpack(text, size)
	for chunk := range slices.Chunk(raw, size) {
		w.keep(fleet.Receipt(chunk), at-int64(binary.BigEndian.Uint16(chunk[size-ageBytes:])))
	}
}
