package clusterstatus

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
const settleTime = 45 * time.Second

// maxWithdrawn is how many inputs of a list are remembered one by one; beyond that all of the list are taken for withdrawn.
const maxRemoved = 10_000 // as many as a list has

// maxTold is how many inputs of a list other processes are told, in each of two sets; beyond that they are told tooMany.
const (
	maxSharedInputs = 512
	tooMany         = "*"
)

// inputs are the receipts of what a list asks for; not known, when it is not.
type inputSet struct {
	receipts []fleet.Receipt // shared with the answer that they are of
	known    bool
}

func (in inputSet) without(other inputSet) []fleet.Receipt {
	kept := other.set()
	return slices.DeleteFunc(slices.Clone(in.receipts), func(r fleet.Receipt) bool { _, ok := kept[r]; return ok || r == fleet.Receipt{} })
}

// set is of the receipts.
func (in inputSet) set() map[fleet.Receipt]struct{} {
	out := make(map[fleet.Receipt]struct{}, len(in.receipts))
	for _, r := range in.receipts {
		out[r] = struct{}{}
	}
	return out
}

// withdrawn are the inputs of a list that a cluster was asked for and then was not, within the time in which that matters.
type removedInputs struct {
	byInput []receipt // by their input, each with when it was
	allAt   int64     // so many were that they are not told apart; 0: never
}

func (w *removedInputs) find(r fleet.Receipt) (int, bool) {
	return slices.BinarySearchFunc(w.byInput, r, func(one receipt, r fleet.Receipt) int { return bytes.Compare(one.input[:], r[:]) })
}

// add notes that a cluster was given one list and then another one: what is in the first and not in the second is withdrawn. Of
// what is not known nothing is in it.
func (w *removedInputs) addDifference(before, after inputSet, at int64) {
	w.addAll(before.without(after), at)
}

func (w *removedInputs) addAll(receipts []fleet.Receipt, at int64) {
	w.expire(at)
	for _, r := range receipts {
		w.add(r, at)
	}
}

func (w *removedInputs) add(r fleet.Receipt, at int64) {
	switch i, there := w.find(r); {
	case there:
		w.byInput[i].at = max(w.byInput[i].at, at)
	case len(w.byInput) < maxRemoved:
		w.byInput = slices.Insert(w.byInput, i, receipt{r, at})
	default:
		w.allAt = max(w.allAt, at)
	}
}

// forget drops what does not matter any more at a time.
func (w *removedInputs) expire(at int64) {
	before := at - settleTime.Milliseconds()
	w.byInput = slices.DeleteFunc(w.byInput, func(one receipt) bool { return one.at < before })
	if len(w.byInput) == 0 {
		w.byInput = nil
	}
	if w.allAt < before {
		w.allAt = 0
	}
}

// until is the time up to which a receipt of an input does not count, because the input was removed. Where too many were removed to be told apart, it may
// have been one of those.
func (w *removedInputs) blockedUntil(r receipt) (at int64) {
	if w.allAt > 0 && r.at >= w.allAt {
		at = w.allAt + settleTime.Milliseconds()
	}
	if i, there := w.find(r.input); there {
		at = max(at, w.byInput[i].at+settleTime.Milliseconds())
	}
	return at
}

// asked notes what is in the list that a cluster was given last, or was given before another one overtook it.
func (c *cluster) recordServed(list fleet.Asked, at int64) {
	p, now := c.poll(list.List), inputSet{list.Receipts, true}
	switch {
	case p == nil:
	case p.etag != list.ETag:
		p.removed.addDifference(now, p.served, at)
	case !p.served.known:
		p.removed.addDifference(p.previous, now, at)
		p.served, p.previous = now, inputSet{}
	}
}

// overtaken notes that another process gave the cluster a list at a time, before or after ours.
func (p *listPoll) reconcileRemotePoll(etag string, other inputSet, at int64) {
	if p.etag == etag {
		return
	}
	ours := p.lastKnown()
	switch {
	case at < p.since:
		p.removed.addDifference(other, ours, p.since)
	case at <= p.last: // between two times of ours
		p.removed.addDifference(ours, other, at)
		p.removed.addDifference(other, ours, p.last)
	default:
		p.removed.addDifference(ours, other, at)
	}
}

// text is how other processes are told of inputs; empty when nobody knows them.
func (in inputSet) encode() string {
	switch {
	case !in.known:
		return ""
	case len(in.receipts) > maxSharedInputs:
		return tooMany
	}
	raw := make([]byte, 0, len(in.receipts)*len(fleet.Receipt{}))
	for _, r := range in.receipts {
		raw = append(raw, r[:]...)
	}
	return "=" + base64.RawStdEncoding.EncodeToString(raw)
}

// readInputs reads what text wrote. What cannot be read is not known.
func decodeInputs(text string) inputSet {
	raw, ok := decodePacked(text, len(fleet.Receipt{}))
	in := inputSet{known: ok}
	for chunk := range slices.Chunk(raw, len(fleet.Receipt{})) {
		in.receipts = append(in.receipts, fleet.Receipt(chunk))
	}
	return in
}

// unpack reads items of a size.
func decodePacked(text string, size int) (raw []byte, ok bool) {
	text, ok = strings.CutPrefix(text, "=")
	if !ok || len(text) > base64.RawStdEncoding.EncodedLen(maxSharedInputs*size) {
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
func (w *removedInputs) encode(at int64) string {
	w.expire(at)
	if w.allAt > 0 || len(w.byInput) > maxSharedInputs {
		return tooMany
	}
	if len(w.byInput) == 0 {
		return ""
	}
	raw := make([]byte, 0, len(w.byInput)*(len(fleet.Receipt{})+ageBytes))
	for _, one := range w.byInput {
		raw = binary.BigEndian.AppendUint16(append(raw, one.input[:]...), uint16(max(0, at-one.at))) // at most settle: forget
	}
	return "=" + base64.RawStdEncoding.EncodeToString(raw)
}

// read takes over what another process told of a time.
func (w *removedInputs) decode(text string, at int64) {
	if text == tooMany {
		w.allAt = max(w.allAt, at)
	}
	const size = len(fleet.Receipt{}) + ageBytes
	raw, _ := decodePacked(text, size)
	for chunk := range slices.Chunk(raw, size) {
		w.add(fleet.Receipt(chunk), at-int64(binary.BigEndian.Uint16(chunk[size-ageBytes:])))
	}
}
