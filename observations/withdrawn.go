package observations

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// settle is how long a cluster may take from being given a list until nothing that it had from the list before can send a receipt
// any more: until it has applied the new one, and collected what is not in it. A receipt says of which input it is, and not of
// which time; so one of an input that was withdrawn and came back within this time may be of before. A provider that was told so
// asks again after 0.75 s and then twice as long each time: the seventh time 47 s later.
const settle = 45 * time.Second

// maxWithdrawn is how many inputs of a list are remembered one by one; beyond that all of the list are taken for withdrawn.
const maxWithdrawn = 4 * maxReceipts

// maxTold is how many inputs of a list other processes are told, in each of two sets; beyond that they learn that there are too many.
const maxTold = 512

// inputs are the receipts of what a list asks for; not known, when it is not.
type inputs struct {
	receipts []fleet.Receipt // shared with the answer that they are of
	known    bool
}

func (in inputs) without(other inputs) []fleet.Receipt {
	kept := make(map[fleet.Receipt]struct{}, len(other.receipts))
	for _, r := range other.receipts {
		kept[r] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(in.receipts), func(r fleet.Receipt) bool { _, ok := kept[r]; return ok || r == fleet.Receipt{} })
}

// withdrawn are the inputs of a list that a cluster was asked for and then was not, within the time in which that matters.
type withdrawn struct {
	at  map[fleet.Receipt]int64
	all int64 // so many were that they are not told apart; 0: never
}

// add notes that a cluster which had been given one list was given another one. Where that is not known, all may be withdrawn;
// where nobody knows the one before, which is so at the beginning, nothing is.
func (w *withdrawn) add(before, after inputs, at int64) { w.note(before.without(after), at) }

func (w *withdrawn) note(receipts []fleet.Receipt, at int64) {
	w.forget(at)
	if len(receipts) == 0 {
		return
	}
	if len(w.at)+len(receipts) > maxWithdrawn {
		w.all, w.at = max(w.all, at), nil
		return
	}
	if w.at == nil {
		w.at = make(map[fleet.Receipt]int64, len(receipts))
	}
	for _, r := range receipts {
		w.at[r] = max(w.at[r], at)
	}
}

// forget drops what does not matter any more at a time.
func (w *withdrawn) forget(at int64) {
	before := at - settle.Milliseconds()
	maps.DeleteFunc(w.at, func(_ fleet.Receipt, was int64) bool { return was < before })
	if len(w.at) == 0 {
		w.at = nil
	}
	if w.all < before {
		w.all = 0
	}
}

// since is when an input was withdrawn, if a receipt of a time may be of before. Another process may say so by a clock that is ahead.
func (w *withdrawn) since(r fleet.Receipt, at int64) (was int64, ok bool) {
	was = max(w.at[r], w.all)
	return was, was > 0 && max(at-was, was-at) < settle.Milliseconds()
}

// told are inputs as other processes are told of them. nil: nobody knows, or there are too many.
func (in inputs) told() *string {
	if !in.known || len(in.receipts) > maxTold {
		return nil
	}
	raw := make([]byte, 0, len(in.receipts)*len(fleet.Receipt{}))
	for _, r := range in.receipts {
		raw = append(raw, r[:]...)
	}
	text := base64.RawStdEncoding.EncodeToString(raw)
	return &text
}

// heard reads what told wrote. What cannot be read is not known.
func heard(text *string) inputs {
	if text == nil || len(*text) > base64.RawStdEncoding.EncodedLen(maxTold*len(fleet.Receipt{})) {
		return inputs{}
	}
	raw, err := base64.RawStdEncoding.DecodeString(*text)
	if err != nil || len(raw)%len(fleet.Receipt{}) != 0 {
		return inputs{}
	}
	in := inputs{known: true}
	for chunk := range slices.Chunk(raw, len(fleet.Receipt{})) {
		in.receipts = append(in.receipts, fleet.Receipt(chunk))
	}
	return in
}

// told are those that are remembered at a time.
func (w *withdrawn) told(at int64) *string {
	w.forget(at)
	byValue := func(a, b fleet.Receipt) int { return bytes.Compare(a[:], b[:]) }
	return inputs{slices.SortedFunc(maps.Keys(w.at), byValue), w.all == 0}.told()
}

// hear takes over what another process told. That they were withdrawn a little earlier than it says makes no difference.
func (w *withdrawn) hear(text *string, at int64) { w.note(heard(text).receipts, at) }
