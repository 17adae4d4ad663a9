package fleet

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// maxSharedText limits the texts of shared fields in bytes, and with them the clusters that they are from. Beyond it, sharing begins anew.
const maxSharedText = 16 << 20

// minSharedField is the size in bytes of the encoded fields that clusters share. Smaller ones save less than a lookup costs.
const minSharedField = 64

// sharedFields are the decoded fields of clusters that are decoded together. Clusters with the same text of a field share its
// value, because the clusters of a fleet have few different lists: shared ones take no memory, no decoding, and no work of the
// garbage collector.
type sharedFields struct {
	seed maphash.Seed
	mu   sync.Mutex
	from map[sharedField]clusterField
	size int // of the texts in from
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
	value, err := f.decode(ks, rec, fields)
	if err != nil {
		return nil, err
	}
	return ks.newDocument(ks.byName[rec.Kind], rec, value)
}

// decode returns the model of a cluster with these fields. It removes shared fields from the map. Without f, no fields are shared.
func (f *sharedFields) decode(ks *kindSet, of Record, fields map[string]any) (any, error) {
	shared, added := map[string]any{}, map[sharedField][]byte{}
	for name, v := range fields {
		text, ok := v.(jsontext.Text)
		if !ok || f == nil || len(text) < minSharedField {
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
	rest := Record{Kind: of.Kind, ID: of.ID}
	var err error
	if rest.Body, err = jsontext.Canonical(fields); err != nil {
		return nil, err
	}
	value, err := decodeModel(ks.byName[of.Kind], rest)
	if err != nil {
		return nil, err
	}
	for name, cluster := range shared {
		ks.copyFields(value, cluster, []string{name})
	}
	if f != nil {
		f.add(added, value)
	}
	return value, nil
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
		if f.size += len(text); f.size > maxSharedText {
			f.from, f.size = map[sharedField]clusterField{}, len(text)
		}
		f.from[key] = clusterField{text, cluster}
	}
}

// compose returns a document with this content. In a cluster with a document before, a field that is still Text is unchanged: its value is
// copied from there. Other fields may be shared with other clusters.
func (ks *kindSet) compose(kind Kind, id string, before *Document, obj map[string]any, shared *sharedFields) (doc *Document, err error) {
	rules, rec := ks.byName[kind], Record{Kind: kind, ID: id}
	rules.normalize(obj)
	if kind != KindCluster {
		if rec.Body, err = jsontext.Canonical(obj); err != nil {
			return nil, err
		}
		doc, err = ks.document(rec)
		return doc, invalidContent(err)
	}
	var unchanged []string
	changed := make(map[string]any, len(obj))
	for field, v := range obj {
		if _, ok := v.(jsontext.Text); ok && before != nil {
			unchanged = append(unchanged, field)
			continue
		}
		text, err := jsontext.Canonical(v)
		if err != nil {
			return nil, err
		}
		changed[field], obj[field] = jsontext.Text(text), jsontext.Text(text)
	}
	value, err := shared.decode(ks, rec, changed)
	if err != nil {
		return nil, invalidContent(err)
	}
	if len(unchanged) > 0 {
		ks.copyFields(value, before.value, unchanged)
	}
	if rec.Body, err = jsontext.Canonical(obj); err != nil {
		return nil, err
	}
	doc, err = ks.newDocument(rules, rec, value)
	return doc, invalidContent(err)
}

// invalidContent returns the error of a document whose content cannot be decoded.
func invalidContent(err error) error {
	if err == nil {
		return nil
	}
	return Invalid([]Problem{decodeProblem(err)})
}
