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

// Answer is what a cluster receives for one resource, encoded once for all polls.
type Answer struct {
	Gzip  []byte // the body, compressed: every Flux Operator accepts that
	Size  int    // of the body before compression, in bytes
	ETag  string // strong, over the body
	Count int    // of inputs

	// receipts are those of the inputs, in their order. None when there was no room for them.
	receipts []Receipt

	deps    []*Document // the definitions it was made of, in order
	current atomic.Pointer[stateID]
}

// Body is the answer as it is for those who do not accept gzip.
func (a *Answer) Body() ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(a.Gzip))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}

// answers are the encoded answers of one version of a cluster's document, which are made when first asked for: those of
// the lists that are compiled in by their places, those of resource types by the very kind that a version of the type is.
// So no list can be answered with what another one, or the type as it was, has left here.
type answers struct {
	fixed []atomic.Pointer[Answer]
	typed atomic.Pointer[map[*descriptor]*Answer] // never changed, only replaced
}

func newAnswers(fixed int) *answers { return &answers{fixed: make([]atomic.Pointer[Answer], fixed)} }

func (a *answers) load(list *descriptor) *Answer {
	if list.slot >= 0 {
		return a.fixed[list.slot].Load()
	}
	if all := a.typed.Load(); all != nil {
		return (*all)[list]
	}
	return nil
}

// store keeps an answer, and lets go of those of lists that a State does not have.
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

// emptyAnswer is that of every list with nothing in it.
var emptyAnswer = sync.OnceValues(func() (*Answer, error) { return encodeAnswer([]any{}) })

// Answer returns what the cluster receives of one kind of definition. It is encoded when it is first asked for after a
// document it is made of has changed. CodeUnresolved when stored data refers to a document that is not there: no answer
// then, never a shorter one.
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
		return emptyAnswer() // kept once, not for each cluster and type
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

// sealedAnswer encodes inputs with their receipts. Where these make it more than Flux reads it is encoded without: such an
// answer is of before there were receipts, and a cluster that Flux tells nothing new is worse off than one without receipts.
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

// EmptyAnswer is that of a list with nothing in it, which tells Flux to remove what it has: for lists alone that never have
// anything, see State.Answer for all others.
func EmptyAnswer() (*Answer, error) { return emptyAnswer() }

func (s *State) stillMadeOf(list *descriptor, a *Answer) bool {
	for _, dep := range a.deps {
		if s.docs[list.kind][dep.ID] != dep {
			return false
		}
	}
	return true
}

// inputs merges a cluster with the definitions it is assigned, in the order of assignment; only says which inputs are
// made, nil all. A mistake in here must not look like an empty list, so the list is only made once everything has been
// resolved.
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

func values(inputs []input) []any {
	out := make([]any, len(inputs))
	for i, in := range inputs {
		out[i] = in.value
	}
	return out
}

// ClustersAnswer is the list of all live clusters, encoded when it is first asked for. See the function of that name.
func (s *State) ClustersAnswer() (*Answer, error) {
	s.clusters.once.Do(func() { s.clusters.answer, s.clusters.err = ClustersAnswer(s.All(KindCluster)) })
	return s.clusters.answer, s.clusters.err
}

// ClustersAnswer is the list of the given clusters as inputs. CodeLimitExceeded when it is more than Flux reads.
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

// joined is what the encoder makes of inputs that are encoded, all of them, which it would read once more.
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

// gzipWriters are kept for reuse: a new one takes 800 KiB.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

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
