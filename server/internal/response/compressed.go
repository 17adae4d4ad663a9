package response

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/gzip"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// MaxCompressed is the limit of a compressed answer in bytes.
const MaxCompressed = 64 << 20

// Compressed is a buffered answer, compressed with gzip.
type Compressed struct{ bytes.Buffer }

// Write implements io.Writer. It fails when the answer exceeds MaxCompressed.
func (p *Compressed) Write(b []byte) (int, error) {
	if p.Len()+len(b) > MaxCompressed {
		return 0, &fleet.Error{Code: fleet.CodeLimitExceeded, Detail: fmt.Sprintf(
			"the answer is larger than %d MiB, compressed: change fewer clusters, or less on each, at a time", MaxCompressed>>20)}
	}
	return p.Buffer.Write(b)
}

// Compress encodes a whole answer. It returns the error of stop, which it calls between list items.
func Compress(v any, stop func() error) (*Compressed, error) {
	p := &Compressed{}
	zw, err := gzip.NewWriterLevel(p, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := Write(zw, v, stop); err != nil {
		return nil, err
	}
	return p, zw.Close()
}
