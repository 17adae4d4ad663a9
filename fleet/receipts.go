package fleet

import (
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

// receiptOf is the digest of an input's canonical JSON, which is the same whatever the order of the fields in our code.
func receiptOf(body []byte) (r Receipt, err error) {
	canonical, err := jsontext.Sorted(body)
	if err != nil {
		return r, err
	}
	sum := sha256.Sum256(canonical)
	copy(r[:], sum[:])
	return r, nil
}

// sealed is an input as it is served: as it was made, with its receipt behind it. Plans and guards see inputs without, since
// a receipt says nothing that the input does not.
func sealed(value any) (json.RawMessage, Receipt, error) {
	body, err := jsontext.Canonical(value)
	if err != nil {
		return nil, Receipt{}, err
	}
	r, err := receiptOf(body)
	if err != nil {
		return nil, r, err
	}
	if n := len(body); n < 3 || body[n-1] != '}' { // {} has no id
		return nil, r, fmt.Errorf("an input is no object: %.40q", body)
	}
	return fmt.Appendf(body[:len(body)-1], `,"receipt":%q}`, r), r, nil
}

// sealAll seals inputs, in their order.
func sealAll(inputs []input) ([]any, []Receipt, error) {
	out, receipts := make([]any, len(inputs)), make([]Receipt, len(inputs))
	for i, in := range inputs {
		var err error
		if out[i], receipts[i], err = sealed(in.value); err != nil {
			return nil, nil, err
		}
	}
	return out, receipts, nil
}
