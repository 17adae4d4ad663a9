package fleet

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// seedList is a top-level key of a seed file. Without a kind it holds the definitions of all resource types, each of which
// names its type.
type seedList struct {
	key  string
	kind Kind
}

// resourcesList is the key of the definitions of resource types.
const resourcesList = "resources"

// seedLists returns the keys of a seed file, in the order of creation.
func (ks *kindSet) seedLists() []seedList {
	var lists []seedList
	for _, k := range ks.kinds {
		if k.name == KindLayer { // before all documents that refer to it
			lists = append(lists, seedList{key: resourcesList})
		}
		lists = append(lists, seedList{k.collection, k.name})
		if a := ks.descriptor(k.name); a != nil && a.seedAlias != "" {
			lists = append(lists, seedList{a.seedAlias, k.name})
		}
	}
	return lists
}

// ParseSeed parses a seed file: one JSON object with lists of documents under the names of their collections: `clusters`,
// `platform_components` and so on. As in files of the reference implementation, `_id` is accepted as the key of a document,
// and null as an absent value.
func ParseSeed(body []byte) (Seed, error) { return compiledIn.parseSeed(body) }

func (ks *kindSet) parseSeed(body []byte) (Seed, error) {
	v, found := jsontext.Split(body)
	if len(found) > 0 {
		return nil, Invalid(problemsOf(found))
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, notAnObject()
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
			doc := SeedDocument{Kind: list.kind, At: jsontext.Pointer(list.key, i)}
			if doc.text, ok = item.(jsontext.Text); !ok {
				problems = append(problems, doc.problems(errNoObject)...)
			}
			seed = append(seed, doc)
		}
	}
	for _, key := range sortedKeys(obj) {
		problems = append(problems, Problem{Pointer: jsontext.Pointer(key), Detail: "is not a list that a seed has; it has clusters, " + ks.collections()})
	}
	return seed, Invalid(problems)
}

// collections returns the collections of all definitions, for messages.
func (ks *kindSet) collections() string {
	var names []string
	for _, list := range ks.seedLists() {
		if a := ks.descriptor(list.kind); list.kind != KindCluster && (a == nil || a.field == list.key) {
			names = append(names, list.key)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

var errNoObject = errors.New("must be an object")

// NewSeedDocument returns a seed document of parsed JSON.
func NewSeedDocument(kind Kind, at string, item any) (d SeedDocument, err error) {
	d.Kind, d.At = kind, at
	d.obj, err = d.take(item)
	return d, err
}

// read returns the document as parsed JSON, unless it has problems.
func (d *SeedDocument) read(shape Shape) (obj map[string]any, err error) {
	if obj = d.obj; d.text != nil {
		item, problems := d.text.Parse()
		if err = Invalid(problemsOf(problems)); err == nil {
			obj, err = d.take(item)
		}
	}
	if err == nil && shape != nil && obj != nil {
		err = Invalid(shape(d.Kind, obj))
	}
	return obj, err
}

// take identifies the document in parsed JSON, and converts it to the current form.
func (d *SeedDocument) take(item any) (map[string]any, error) {
	obj, ok := item.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	if d.Kind == "" {
		id, _ := obj["type"].(string)
		if id == "" {
			return nil, errors.New("type: is required: the resource type it is of")
		}
		d.Kind = ResourceKind(id)
	}
	if obj["deleted_at"] != nil {
		return nil, errors.New("is a decommissioned cluster (deleted_at): leave it out")
	}
	if key, ok := obj["_id"]; ok {
		if id := obj["id"]; id != nil && id != key {
			return nil, errors.New("has an _id and another id; one of them is enough")
		}
		unstructured.SetDefault(obj, "id", key)
		delete(obj, "_id")
	}
	dropNulls(obj)
	d.ID, _ = obj["id"].(string)
	return obj, nil
}

// dropNulls removes the nulls that the reference implementation writes for unset options: in the document itself and in the
// entries of its lists. Other nulls are left for validation to refuse.
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

// Create adds every document of the seed to a Tx. Problems are reported together, each with its place in the seed.
func (s Seed) Create(tx *Tx) error { return s.create(tx, nil) }

// create is Create. If shape is not nil and finds problems, only these are reported.
func (s Seed) create(tx *Tx, shape Shape) error {
	return tx.runOperation(api.RevisionOperation{Op: "seed"}, func() error {
		var misshapen, problems []Problem
		for i := range s {
			d := &s[i]
			obj, err := d.read(shape)
			if err != nil {
				misshapen = append(misshapen, d.problems(err)...)
			}
			if len(misshapen) > 0 {
				continue
			}
			if err := d.create(tx, obj); err != nil {
				problems = append(problems, d.problems(err)...)
			}
		}
		tx.seed = s
		if len(misshapen) > 0 {
			return Invalid(misshapen)
		}
		return Invalid(problems)
	})
}

// create adds the document to a Tx, and keeps it for further attempts.
func (d *SeedDocument) create(tx *Tx, obj map[string]any) (err error) {
	switch {
	case d.doc == nil:
		if d.doc, err = tx.create(d.Kind, obj); err == nil {
			d.text, d.obj = nil, nil
		}
	case tx.base.Revision() == 0 && tx.raw(d.Kind, d.ID) == nil:
		tx.record(d.Kind, d.ID, d.doc)
	default:
		_, err = tx.Create(d.Kind, d.doc.Body)
	}
	return err
}

// Shape returns the problems of parsed JSON as a document of a kind, without regard to other documents.
type Shape func(kind Kind, value any) []Problem

// Check returns the problems of the seed as the content of an empty fleet, in which every document must have the shape.
func (s Seed) Check(rules Rules, shape Shape) error {
	if s.Checked() {
		return nil
	}
	empty, err := NewState(rules, Head{}, time.Time{}, nil)
	if err != nil {
		return err
	}
	tx := empty.Begin()
	if err := s.create(tx, shape); err != nil {
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

// Checked reports whether the seed has passed Check.
func (s Seed) Checked() bool { return len(s) == 0 || s[len(s)-1].under != nil }

// Locate maps the problems that Finish found in the seed's documents to their places in the seed.
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
		located.Detail = summarizeProblems(located.Problems)
	}
	return &located
}

// problems returns the problems of an error, at the document's place in the seed.
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
