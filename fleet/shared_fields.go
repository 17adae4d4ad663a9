package fleet

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// minSharedField is the size in bytes of the encoded fields that clusters share. Smaller ones save less than a lookup costs.
const minSharedField = 64

// sharedFields are the decoded fields of clusters that are decoded together. Clusters with the same text of a field share its
// value, because the clusters of a fleet have few different lists: shared ones take no memory, no decoding, and no work of the
// garbage collector.
type sharedFields struct {
	seed maphash.Seed
	mu   sync.Mutex
	from map[sharedField]clusterField
}

// sharedField identifies a field by its name and the hash of its text.
type sharedField struct {
	name string
	hash uint64
}

// clusterField is the text of a field, and the value of a cluster that was decoded from a document with it.
type clusterField struct {
	text    []byte
	cluster any
}

func newSharedFields() *sharedFields {
	return &sharedFields{seed: maphash.MakeSeed(), from: map[sharedField]clusterField{}}
}

// document is [kindSet.document], but clusters share fields, unless f is nil.
func (f *sharedFields) document(ks *kindSet, rec Record) (*Document, error) {
	if f == nil || rec.Kind != KindCluster || !json.Valid(rec.Body) {
		return ks.document(rec)
	}
	opened, err := jsontext.Open(jsontext.Text(rec.Body))
	fields, ok := opened.(map[string]any)
	if err != nil || !ok {
		return ks.document(rec)
	}
	shared, added := map[string]any{}, map[sharedField][]byte{}
	for name, v := range fields {
		text, ok := v.(jsontext.Text)
		if !ok || len(text) < minSharedField {
			continue
		}
		key := sharedField{name, maphash.Bytes(f.seed, text)}
		if known := f.find(key); bytes.Equal(known.text, text) {
			shared[name] = known.cluster
			delete(fields, name)
		} else {
			added[key] = text
		}
	}
	kind := ks.byName[rec.Kind]
	rest := Record{Kind: rec.Kind, ID: rec.ID}
	if rest.Body, err = jsontext.Canonical(fields); err != nil {
		return nil, err
	}
	value, err := decodeModel(kind, rest)
	if err != nil {
		return nil, err
	}
	for name, cluster := range shared {
		ks.copyFields(value, cluster, []string{name})
	}
	f.add(added, value)
	return ks.newDocument(kind, rec, value)
}

func (f *sharedFields) find(key sharedField) clusterField {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.from[key]
}

func (f *sharedFields) add(fields map[sharedField][]byte, cluster any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, text := range fields {
		f.from[key] = clusterField{text, cluster}
	}
}

// compose returns a document with some content, which shares fields with others unless shared is nil.
func (ks *kindSet) compose(kind Kind, id string, obj map[string]any, shared *sharedFields) (*Document, error) {
	ks.byName[kind].normalize(obj)
	body, err := jsontext.Canonical(obj)
	if err != nil {
		return nil, err
	}
	doc, err := shared.document(ks, Record{Kind: kind, ID: id, Body: body})
	if err != nil {
		return nil, Invalid([]Problem{decodeProblem(err)})
	}
	return doc, nil
}
