package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// A Receipt names what an input says. A cluster that has applied an input asks for its receipt, so that we know of exactly
// which version it speaks. It is derived: the same input has the same receipt on every process and after every restart.
type Receipt [8]byte

// receiptBytes is what a receipt adds to an encoded input.
const receiptBytes = len(`,"receipt":""`) + 2*len(Receipt{})

// String is the receipt as it is served: 16 hexadecimal digits.
func (r Receipt) String() string { return hex.EncodeToString(r[:]) }

// ParseReceipt reads what String wrote, and nothing else.
func ParseReceipt(text string) (r Receipt, ok bool) {
	if len(text) != 2*len(r) {
		return r, false
	}
	if _, err := hex.Decode(r[:], []byte(text)); err != nil {
		return Receipt{}, false
	}
	return r, r.String() == text // no capitals: there is one way to write it
}

// incarnationField is a field of a cluster's document: how many clusters of its DNS name were deleted, with something on them, before it was created. The first cluster
// of a name has none.
//
// A cluster that is created again gets new receipts with it, also for inputs that are what they were. Flux Operator sends the receipt of an
// input that has not changed once an hour, and what the previous cluster of that name has sent does not count for this one.
const incarnationField = "incarnation"

// incarnation is that of a cluster's document.
func (d *Document) incarnation() int {
	if d == nil || !bytes.Contains(d.Body, []byte(`"`+incarnationField+`"`)) { // cheap, and nearly always so
		return 0
	}
	var doc struct {
		Incarnation int `json:"incarnation"`
	}
	if json.Unmarshal(d.Body, &doc) != nil {
		return 0
	}
	return doc.Incarnation
}

// incarnation is that of a cluster which is created under an id and a DNS name.
func (tx *Tx) incarnation(id, dns string) (n int) {
	if old, ok := tx.base.ByDNS(dns); ok && (old.ID != id || old.Deleted()) {
		n = old.incarnation() + 1
	}
	doc := tx.base.docs[KindOrphan][lowerASCII(dns)]
	if doc == nil {
		return n
	}
	previous := doc.value.(*orphanRecord)
	if len(previous.Installed) > 0 { // else nothing on the cluster sends receipts of before
		return max(n, previous.Incarnation+1)
	}
	return max(n, previous.Incarnation)
}

// receiptOf is the digest of an input's canonical JSON, which is the same whatever the order of the fields in our code, and of the
// cluster's incarnation, if it is not the first.
func receiptOf(body []byte, incarnation int) (r Receipt, err error) {
	canonical, err := jsontext.Sorted(body)
	if err != nil {
		return r, err
	}
	if incarnation > 0 {
		canonical = fmt.Appendf(canonical, "\n%d", incarnation)
	}
	sum := sha256.Sum256(canonical)
	copy(r[:], sum[:])
	return r, nil
}

// sealed is an input as it is served: as it was made, with its receipt behind it. Plans and guards see inputs without, since
// a receipt says nothing that the input does not.
func withReceipt(value any, incarnation int) (json.RawMessage, Receipt, error) {
	body, err := jsontext.Canonical(value)
	if err != nil {
		return nil, Receipt{}, err
	}
	r, err := receiptOf(body, incarnation)
	if err != nil {
		return nil, r, err
	}
	if n := len(body); n < 3 || body[n-1] != '}' { // {} has no id
		return nil, r, fmt.Errorf("an input is no object: %.40q", body)
	}
	return fmt.Appendf(body[:len(body)-1], `,"receipt":%q}`, r), r, nil
}

// sealAll seals inputs, in their order.
func withReceipts(inputs []input, incarnation int) ([]any, []Receipt, error) {
	out, receipts := make([]any, len(inputs)), make([]Receipt, len(inputs))
	for i, in := range inputs {
		var err error
		if out[i], receipts[i], err = withReceipt(in.value, incarnation); err != nil {
			return nil, nil, err
		}
	}
	return out, receipts, nil
}
