package fleet

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Body returns the uncompressed body, for clients that do not accept gzip.
func (a *Answer) Body() ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(a.Gzip))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
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

// Answer returns the answer to a cluster's polls of one kind of definition. It is encoded at the first call after a document
// that it depends on has changed. It returns CodeUnresolved if stored data refers to a missing document: never a shorter
// list.
func (s *State) Answer(d *Document, kind Kind) (*Answer, error) {
	list := s.kinds.byKind[kind]
	if list == nil {
		return nil, fmt.Errorf("%q is not a kind of definition", kind)
	}
	e := s.Effective(d)
	if a := e.answers.load(list); a != nil && (a.current.Load() == s.id || s.stillMadeOf(list, a)) {
		a.current.Store(s.id)
		return a, nil
	}
	if list.count(e) == 0 {
		return emptyAnswer() // one value for all clusters and types
	}
	inputs, deps, err := s.inputs(e, list, nil)
	if err != nil {
		return nil, err
	}
	a, err := answerWithReceipts(inputs, d.incarnation())
	if err != nil {
		return nil, err
	}
	a.Count, a.deps = len(deps), deps
	a.current.Store(s.id)
	e.answers.store(s.kinds, list, a)
	return a, nil
}

// answerWithReceipts encodes inputs with their receipts. If the receipts make the answer larger than Flux reads, it encodes
// the inputs without them, as before receipts existed: missing receipts do less harm than an answer that Flux rejects.
func answerWithReceipts(inputs []input, incarnation int) (*Answer, error) {
	all, receipts, err := withReceipts(inputs, incarnation)
	if err != nil {
		return nil, err
	}
	a, err := encodeAnswer(all)
	if err != nil || a.Size <= MaxAnswerBytes {
		if err == nil {
			a.receipts = receipts
		}
		return a, err
	}
	return encodeAnswer(values(inputs))
}

// EmptyAnswer returns the answer of a list without entries. It makes Flux remove everything that the list installed, so use
// it only for lists that never have entries; use State.Answer for all others.
func EmptyAnswer() (*Answer, error) { return emptyAnswer() }

// stillMadeOf reports whether all definitions that an answer depends on are unchanged in this State.
func (s *State) stillMadeOf(list *descriptor, a *Answer) bool {
	for _, dep := range a.deps {
		if s.docs[list.kind][dep.ID] != dep {
			return false
		}
	}
	return true
}

// inputs merges a cluster with its assigned definitions, in the order of assignment; with only, it computes just these
// inputs. A bug here must not look like an empty list, so the list is built only after every reference has been resolved.
func (s *State) inputs(d *Effective, list *descriptor, only map[string]bool) ([]input, []*Document, error) {
	var deps []*Document
	for id := range list.eachID(d) {
		def, ok := s.docs[list.kind][id]
		if !ok {
			return nil, nil, errorf(CodeUnresolved, "cluster %q refers to the %s %q, which is not in the store", d.id, list.rules.noun, id)
		}
		deps = append(deps, def)
	}
	inputs, err := list.buildInputs(&inputContext{state: s, cluster: d}, deps, only)
	return inputs, deps, err
}

// values returns the inputs without their ids.
func values(inputs []input) []any {
	out := make([]any, len(inputs))
	for i, in := range inputs {
		out[i] = in.value
	}
	return out
}

// ClustersAnswer returns the list of all live clusters, encoded at the first call. See the function ClustersAnswer.
func (s *State) ClustersAnswer() (*Answer, error) {
	s.clusters.once.Do(func() { s.clusters.answer, s.clusters.err = ClustersAnswer(s.All(KindCluster)) })
	return s.clusters.answer, s.clusters.err
}

// ClustersAnswer returns the list of the given clusters as inputs. CodeLimitExceeded if it is larger than Flux reads.
func ClustersAnswer(clusters []*Document) (*Answer, error) {
	inputs := make([]any, len(clusters))
	for i, d := range clusters {
		c := d.Cluster()
		inputs[i] = api.FluxClusterEntry{ID: c.ID, ClusterName: c.ClusterName, ClusterDNS: c.ClusterDNS, Environment: c.Environment, Labels: c.Labels}
	}
	a, err := encodeAnswer(inputs)
	if err != nil {
		return nil, err
	}
	if a.Size > MaxAnswerBytes || len(clusters) > MaxInputs {
		return nil, errorf(CodeLimitExceeded, "%s, %d bytes: Flux Operator accepts %d inputs and %d bytes; narrow the list with environment or selector",
			plural(len(clusters), "cluster"), a.Size, MaxInputs, MaxAnswerBytes)
	}
	a.Count = len(clusters)
	return a, nil
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
