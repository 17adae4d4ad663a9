package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// String returns the receipt in the form that is served: 16 hexadecimal digits.
func (r Receipt) String() string { return hex.EncodeToString(r[:]) }

// ParseReceipt parses exactly the form that String returns.
func ParseReceipt(text string) (r Receipt, ok bool) {
	if len(text) != 2*len(r) {
		return r, false
	}
	if _, err := hex.Decode(r[:], []byte(text)); err != nil {
		return Receipt{}, false
	}
	return r, r.String() == text // no upper case: each receipt has one text
}

// incarnation returns that of a cluster's document.
func (d *Document) incarnation() int {
	if d == nil || !jsontext.MayHaveKey(d.Body, incarnationField) {
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

// receiptOf returns the digest of an input's canonical JSON, which does not depend on the order of fields in our code, and
// of the cluster's incarnation, if it is not the first.
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

// withReceipt returns an input in its served form, with its receipt as the last field. Plans and guards compare inputs
// without receipts, since a receipt follows from the input.
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

// withReceipts adds receipts to inputs, in their order.
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
