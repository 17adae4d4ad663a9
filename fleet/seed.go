package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/object"
)

// Seed is a set of documents to start a fleet from, as a seed file or another program's database holds them.
type Seed []SeedDocument

// SeedDocument is one document of a seed; At is where it stands, for messages.
type SeedDocument struct {
	Kind Kind
	ID   string
	At   string

	// A seed is read, held against the contract, checked and committed, and may be 10,000 clusters: what one step has
	// worked out the next one takes over.
	obj   map[string]any // until it is made a document
	doc   *Document
	under *Rules // by which the whole seed has been found valid
}

// Value is the document as parsed JSON, which must not be changed.
func (d SeedDocument) Value() (any, error) {
	if d.obj != nil {
		return d.obj, nil
	}
	return ParseJSON(d.doc.Body)
}

// Valid tells whether the seed it is part of has passed Check.
func (d SeedDocument) Valid() bool { return d.under != nil }

// seedList is a top-level key of a seed file. Without a kind it has the definitions of all resource types, which say of
// which they are.
type seedList struct {
	key  string
	kind Kind
}

// resourcesList is the key of the definitions of resource types.
const resourcesList = "resources"

func (ks *kindSet) seedLists() []seedList {
	var lists []seedList
	for _, k := range ks.kinds {
		if k.name == KindLayer { // before everything that refers to them
			lists = append(lists, seedList{key: resourcesList})
		}
		lists = append(lists, seedList{k.collection, k.name})
		if a := ks.assigned(k.name); a != nil && a.seedAlias != "" {
			lists = append(lists, seedList{a.seedAlias, k.name})
		}
	}
	return lists
}

// ParseSeed reads a seed file: one JSON object with lists of documents under `clusters`, `platform_components` and so on,
// as their collections are called. `_id` is accepted as the key of a document, and null as an absent value, as the
// reference's files have them.
func ParseSeed(body []byte) (Seed, error) { return compiledIn.parseSeed(body) }

func (ks *kindSet) parseSeed(body []byte) (Seed, error) {
	obj, err := ParseObject(body)
	if err != nil {
		return nil, err
	}
	var seed Seed
	var problems []Problem
	for _, list := range ks.seedLists() {
		items, ok := obj[list.key].([]any)
		if !ok && obj[list.key] != nil {
			problems = append(problems, Problem{Pointer: jsontext.Pointer(list.key), Detail: "must be a list of documents"})
		}
		delete(obj, list.key)
		for i, item := range items {
			doc, err := list.document(jsontext.Pointer(list.key, i), item)
			if err != nil {
				problems = append(problems, Problem{Pointer: jsontext.Pointer(list.key, i), Detail: err.Error()})
				continue
			}
			seed = append(seed, doc)
		}
	}
	for _, key := range sortedKeys(obj) {
		problems = append(problems, Problem{Pointer: jsontext.Pointer(key), Detail: "is not a list that a seed has; it has clusters, " + ks.collections()})
	}
	return seed, Invalid(problems)
}

// document makes a seed's document of an item of the list.
func (l seedList) document(at string, item any) (SeedDocument, error) {
	kind := l.kind
	if obj, ok := item.(map[string]any); ok && kind == "" {
		id, _ := obj["type"].(string)
		if id == "" {
			return SeedDocument{}, errors.New("type: is required: the resource type it is of")
		}
		kind = ResourceKind(id)
	}
	return NewSeedDocument(kind, at, item)
}

// collections names those of the definitions.
func (ks *kindSet) collections() string {
	var names []string
	for _, list := range ks.seedLists() {
		if a := ks.assigned(list.kind); list.kind != KindCluster && (a == nil || a.field == list.key) {
			names = append(names, list.key)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// NewSeedDocument makes a seed's document of parsed JSON.
func NewSeedDocument(kind Kind, at string, item any) (SeedDocument, error) {
	obj, ok := item.(map[string]any)
	if !ok {
		return SeedDocument{}, errors.New("must be an object")
	}
	if obj["deleted_at"] != nil {
		return SeedDocument{}, errors.New("is a decommissioned cluster (deleted_at): leave it out")
	}
	if key, ok := obj["_id"]; ok {
		if id := obj["id"]; id != nil && id != key {
			return SeedDocument{}, errors.New("has an _id and another id; one of them is enough")
		}
		object.SetDefault(obj, "id", key)
		delete(obj, "_id")
	}
	dropNulls(obj)
	id, _ := obj["id"].(string)
	return SeedDocument{Kind: kind, ID: id, At: at, obj: obj}, nil
}

// dropNulls removes what the reference writes for an option that is not set: in the document itself and in the entries
// of its lists. Elsewhere null is left for validation to refuse.
func dropNulls(obj map[string]any) {
	for field, v := range obj {
		if v == nil {
			delete(obj, field)
		}
		items, _ := v.([]any)
		for _, item := range items {
			entry, _ := item.(map[string]any)
			maps.DeleteFunc(entry, func(_ string, v any) bool { return v == nil })
		}
	}
}

// Create adds every document of the seed to a Tx. Problems are reported together, each at its place in the seed.
func (s Seed) Create(tx *Tx) error {
	return tx.as(api.RevisionOperation{Op: "seed"}, func() error {
		var problems []Problem
		for i := range s {
			if err := s[i].create(tx); err != nil {
				problems = append(problems, s[i].problems(err)...)
			}
		}
		tx.seed = s
		return Invalid(problems)
	})
}

func (d *SeedDocument) create(tx *Tx) (err error) {
	switch {
	case d.doc == nil:
		if d.doc, err = tx.create(d.Kind, d.obj); err == nil {
			d.obj = nil
		}
	case tx.base.Revision() == 0 && tx.raw(d.Kind, d.ID) == nil:
		tx.record(d.Kind, d.ID, d.doc)
	default:
		_, err = tx.Create(d.Kind, d.doc.Body)
	}
	return err
}

// Check tells what is wrong with the seed as the content of an empty fleet.
func (s Seed) Check(rules Rules) error {
	empty, err := NewState(rules, Head{}, time.Time{}, nil)
	if err != nil {
		return err
	}
	tx := empty.Begin()
	if err := s.Create(tx); err != nil {
		return err
	}
	if _, err := tx.Finish(Commit{}); err != nil {
		return s.Locate(err)
	}
	for i := range s {
		s[i].under = &rules
	}
	return nil
}

// settles tells whether a Tx does nothing but create what Check has found valid.
func (s Seed) settles(tx *Tx) bool {
	if len(s) == 0 || tx.base.Revision() != 0 || len(tx.edits) != len(s) || s[0].under == nil || !slices.Equal(s[0].under.Environments, tx.base.rules.Environments) {
		return false
	}
	for _, d := range s {
		if d.under != s[0].under || d.doc == nil || tx.edits[docKey{d.Kind, d.ID}] != d.doc {
			return false
		}
	}
	return true
}

// Locate gives the problems that Finish found in the seed's documents their place in the seed.
func (s Seed) Locate(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	located := *e
	located.Problems = nil
	for _, p := range e.Problems {
		for _, doc := range s {
			if doc.Kind == p.Kind && doc.ID == p.ID {
				p.Pointer = doc.At + p.Pointer
				break
			}
		}
		located.Problems = append(located.Problems, p)
	}
	if len(located.Problems) > 0 {
		located.Detail = summary(located.Problems)
	}
	return &located
}

func (d SeedDocument) problems(err error) []Problem {
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) == 0 {
		return []Problem{{Pointer: d.At, Detail: fmt.Sprint(err)}}
	}
	out := make([]Problem, len(e.Problems))
	for i, p := range e.Problems {
		out[i] = Problem{Pointer: d.At + p.Pointer, Detail: p.Detail}
	}
	return out
}
