package fleet

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	kgzip "github.com/klauspost/compress/gzip"
)

// MaxAnswerBytes is the largest body Flux Operator reads from an ExternalService (900 KiB after decompression).
const MaxAnswerBytes = 900 << 10

const envelopeBytes = len(`{"inputs":[]}` + "\n")

// MaxInputs is the maximum number of inputs of one answer: every provider that we ship sets filter.limit to it. Flux
// silently drops further inputs and removes their objects.
const MaxInputs = 10_000

// gzipReaders are reused: a new one allocates 40 KiB, which costs more than to decompress a usual answer.
var gzipReaders = sync.Pool{New: func() any { return new(kgzip.Reader) }}

// Body returns the uncompressed body, for clients that do not accept gzip. Flux Operator does, so no copy is kept.
func (a *Answer) Body() ([]byte, error) {
	zr, _ := gzipReaders.Get().(*kgzip.Reader)
	defer gzipReaders.Put(zr)
	if err := zr.Reset(bytes.NewReader(a.Gzip)); err != nil {
		return nil, err
	}
	body := make([]byte, a.Size)
	if _, err := io.ReadFull(zr, body); err != nil {
		return nil, err
	}
	if n, err := io.Copy(io.Discard, zr); n > 0 || err != nil { // reads the checksum
		return nil, cmp.Or(err, fmt.Errorf("the answer has more than %d bytes", a.Size))
	}
	return body, nil
}

// newAnswers returns an empty cache with slots for the compiled-in lists.
func newAnswers(fixed int) *answers { return &answers{fixed: make([]atomic.Pointer[Answer], fixed)} }

// load returns the cached answer of a list, or nil.
func (a *answers) load(list *descriptor) *Answer {
	if list.slot >= 0 {
		return a.fixed[list.slot].Load()
	}
	if all := a.typed.Load(); all != nil {
		return (*all)[list]
	}
	return nil
}

// store keeps an answer, and drops the answers of lists that the State no longer has.
func (a *answers) store(ks *kindSet, list *descriptor, answer *Answer) {
	if list.slot >= 0 {
		a.fixed[list.slot].Store(answer)
		return
	}
	for {
		old := a.typed.Load()
		next := map[*descriptor]*Answer{list: answer}
		if old != nil {
			for other, kept := range *old {
				if other != list && ks.byKind[other.kind] == other {
					next[other] = kept
				}
			}
		}
		if a.typed.CompareAndSwap(old, &next) {
			return
		}
	}
}

// emptyAnswer is the answer of every list without entries.
var emptyAnswer = sync.OnceValues(func() (*Answer, error) { return encodeAnswer([]any{}) })

// EmptyAnswer returns the answer of a list without entries. It makes Flux remove everything that the list installed, so use
// it only for lists that never have entries; use State.Answer for all others.
func EmptyAnswer() (*Answer, error) { return emptyAnswer() }

// values returns the inputs without their ids.
func values(inputs []input) []any {
	out := make([]any, len(inputs))
	for i, in := range inputs {
		out[i] = in.value
	}
	return out
}

// encodeInputs writes the body of an answer.
func encodeInputs(w io.Writer, inputs []any) error {
	if text, ok := joined(inputs); ok {
		_, err := w.Write(text)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Inputs []any `json:"inputs"`
	}{inputs})
}

// joined writes encoded inputs as the encoder would, without parsing them again; not ok if one is not encoded.
func joined(inputs []any) (text []byte, ok bool) {
	size := envelopeBytes
	for _, in := range inputs {
		encoded, ok := in.(json.RawMessage)
		if !ok {
			return nil, false
		}
		size += len(encoded) + 1
	}
	text = append(make([]byte, 0, size), `{"inputs":[`...)
	for i, in := range inputs {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, in.(json.RawMessage)...)
	}
	return append(text, "]}\n"...), len(inputs) > 0
}

// gzipWriters are reused: a new one allocates 800 KiB.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// encodeAnswer encodes and compresses inputs, and computes the ETag in the same pass.
func encodeAnswer(inputs []any) (*Answer, error) {
	var zipped bytes.Buffer
	zw, _ := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(zw)
	zw.Reset(&zipped)
	hash := sha256.New()
	var size counter
	if err := encodeInputs(io.MultiWriter(zw, hash, &size), inputs); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return &Answer{Gzip: bytes.Clone(zipped.Bytes()), Size: int(size), ETag: fmt.Sprintf("\"%x\"", hash.Sum(nil)[:12])}, nil
}
