package sqlstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// Packed is the stored form of the documents of one change.
//
// The document after a change is the one before the next change, or the current document, so it is not stored again. The
// document before a change is stored as the difference from the one after it. So a document is computed from a complete one by
// going back through the changes since. Now and then a change stores its After completely, which bounds that walk.
type Packed struct {
	Before []byte // nil when the document did not exist
	After  []byte // nil unless it is kept whole
	Sum    int64  // of After, to verify every read
	Bytes  int64  // how large Before and After are together
}

// wholeEvery is how many changes there are for one that keeps its document whole. The log grows by that part of it, and
// reading the past of a document goes through about as many changes.
const wholeEvery = 16

// packChange packs one change of a commit.
func packChange(commit uuid.UUID, seq int, ch fleet.Change) Packed {
	p := Packed{Sum: sum(ch.After), Bytes: int64(len(ch.Before) + len(ch.After))}
	if ch.Before != nil {
		p.Before = pack(ch.Before, ch.After)
	}
	if ch.After != nil && (int(commit[len(commit)-1])+seq)%wholeEvery == 0 {
		p.After = pack(ch.After, nil)
	}
	return p
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is a checksum of a body and its length, and 0 for none.
func sum(body []byte) int64 {
	if body == nil {
		return 0
	}
	return int64(len(body))<<32 | int64(crc32.Checksum(body, castagnoli))
}

// A packed body is its sum, how many bytes it has in common with the start and with the end of its base, how the rest is
// kept, and the rest.
const (
	restPlain = iota
	restZstd
)

// smallest is how long a rest has to be to become smaller by compressing it.
const smallest = 64

func pack(body, base []byte) []byte {
	prefix, suffix := store.CommonEnds(body, base)
	rest := body[prefix : len(body)-suffix]
	out := binary.BigEndian.AppendUint64(make([]byte, 0, 32+len(rest)/4), uint64(sum(body)))
	out = binary.AppendUvarint(out, uint64(prefix))
	out = binary.AppendUvarint(out, uint64(suffix))
	if len(rest) >= smallest {
		if packed := encoder().EncodeAll(rest, append(out, restZstd)); len(packed) < len(out)+len(rest) {
			return packed
		}
	}
	return append(append(out, restPlain), rest...)
}

// unpack returns ErrCorrupt for input that pack did not produce with the same base.
func unpack(packed, base []byte) ([]byte, error) {
	corrupt := func(what string) ([]byte, error) {
		return nil, fmt.Errorf("%w: a document in the log cannot be put together: %s", store.ErrCorrupt, what)
	}
	if len(packed) < 8 {
		return corrupt("its beginning is missing")
	}
	want := int64(binary.BigEndian.Uint64(packed))
	packed = packed[8:]
	prefix, n := binary.Uvarint(packed)
	if n <= 0 || prefix > uint64(len(base)) {
		return corrupt("what it is based on is too short")
	}
	packed = packed[n:]
	suffix, n := binary.Uvarint(packed)
	if n <= 0 || suffix > uint64(len(base))-prefix || len(packed) == n {
		return corrupt("what it is based on is too short")
	}
	how, rest := packed[n], packed[n+1:]
	size := want >> 32
	if size < 0 || uint64(size) < prefix+suffix {
		return corrupt("its length is wrong")
	}
	body := append(make([]byte, 0, min(size, 64<<20)), base[:prefix]...)
	switch how {
	case restPlain:
		body = append(body, rest...)
	case restZstd:
		var err error
		if body, err = decoder().DecodeAll(rest, body); err != nil {
			return corrupt(err.Error())
		}
	default:
		return corrupt("it is packed in a way that this version does not know")
	}
	body = append(body, base[uint64(len(base))-suffix:]...)
	if sum(body) != want {
		return corrupt("its checksum is wrong")
	}
	return body, nil
}

// One encoder and one decoder serve the whole process; EncodeAll and DecodeAll may be called concurrently. The window bounds
// their memory.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // only a broken build gets there
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(1<<30), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err)
		}
		return d
	})
)
