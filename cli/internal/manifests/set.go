package manifests

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
)

const (
	// fewDocuments is the largest number of documents of a kind that are read one by one. For more, the list is read.
	fewDocuments = 20
	// The largest number of documents, and of their bytes, that are all sent. The server accepts several times as much.
	sentDocuments = 2000
	sentBytes     = 1 << 20
)

// Fleet is the stored fleet.
type Fleet interface {
	// Get returns a document; nil if it does not exist.
	Get(k documents.Kind, id string) (json.RawMessage, error)
	// List returns all documents of a kind; none if its resource type does not exist.
	List(k documents.Kind) ([]json.RawMessage, error)
	// ResourceTypes returns the ids of all resource types.
	ResourceTypes() ([]string, error)
	// Differing returns the documents that operations would change. Of operations that the fleet of now refuses, all may differ.
	Differing(ops []Operation) ([]Name, error)
}

// Name is the name of a document in the API.
type Name struct{ Kind, ID string }

// Operation is one operation of a change.
type Operation struct {
	Op       string // put or delete
	Kind     documents.Kind
	ID       string
	Document map[string]json.RawMessage // nil for delete
}

// Set is the documents to apply, and the kinds of which all other documents are deleted.
type Set struct {
	Kinds     documents.Kinds
	Documents []documents.Document
	Prune     []documents.Kind
	// PruneResources: definitions of all resource types are pruned.
	PruneResources bool
	// Compares: the fleet's versions of the documents are read for Diff.
	Compares bool

	types []string // types of the documents, and of definitions that may be pruned
	// found holds the fleet's documents of the kinds that were read, by kind and id.
	found map[string]map[string]json.RawMessage
}

// load reads the fleet's documents of the kinds that are compared or pruned.
func (s *Set) load(fleet Fleet) error {
	s.found = map[string]map[string]json.RawMessage{}
	if err := s.findTypes(fleet); err != nil {
		return err
	}
	for _, k := range s.Kinds.With(s.types) {
		found := map[string]json.RawMessage{}
		s.found[k.Kind] = found
		ids := s.ids(k)
		switch {
		case s.prunes(k):
		case !s.Compares && !s.large():
			continue
		case len(ids) <= fewDocuments:
			for _, id := range ids {
				doc, err := fleet.Get(k, id)
				if err != nil {
					return err
				}
				if doc != nil {
					found[id] = doc
				}
			}
			continue
		}
		list, err := fleet.List(k)
		if err != nil {
			return err
		}
		for _, doc := range list {
			id, err := idOf(doc)
			if err != nil {
				return err
			}
			found[id] = doc
		}
	}
	return nil
}

// ids returns the ids of the documents of a kind.
func (s *Set) ids(k documents.Kind) []string {
	var ids []string
	for _, d := range s.Documents {
		if d.Kind.Kind == k.Kind {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

func idOf(doc json.RawMessage) (string, error) {
	var d struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(doc, &d)
	return d.ID, err
}

// prunes reports whether documents of a kind that are missing in the files are deleted.
func (s *Set) prunes(k documents.Kind) bool {
	return k.Type != "" && s.PruneResources || slices.ContainsFunc(s.Prune, func(p documents.Kind) bool { return p.Kind == k.Kind })
}

// findTypes finds the resource types of the documents and of the definitions to prune.
func (s *Set) findTypes(fleet Fleet) error {
	ids := map[string]bool{}
	for _, d := range s.Documents {
		ids[d.Kind.Type] = true
	}
	for _, k := range s.Prune {
		ids[k.Type] = true
	}
	if s.PruneResources {
		types, err := fleet.ResourceTypes()
		if err != nil {
			return err
		}
		for _, id := range types {
			ids[id] = true
		}
	}
	delete(ids, "")
	s.types = render.SortedKeys(ids)
	return nil
}

// Operations returns the operations that apply the documents. The server decides whether a document exists and changes anything, at the
// revision of the change itself. For a large set of documents, those that match the fleet of now are left out after the server has
// confirmed it, so that a small change is a small request. Definitions come before the
// clusters that refer to them, and are deleted after them. There is always an operation: the API requires at least one, and a plan
// of no change has a hash, too.
func (s *Set) Operations(fleet Fleet) ([]Operation, error) {
	if err := s.load(fleet); err != nil {
		return nil, err
	}
	given, err := s.supplied()
	if err != nil {
		return nil, err
	}
	if s.large() {
		if err := confirm(fleet, given); err != nil {
			return nil, err
		}
	}
	var ops []Operation
	for _, g := range given {
		if !g.same || !s.large() {
			ops = append(ops, g.Operation)
		}
	}
	for _, k := range slices.Backward(s.Kinds.With(s.types)) {
		for _, id := range s.idsToPrune(k) {
			ops = append(ops, Operation{Op: "delete", Kind: k, ID: id})
		}
	}
	if len(ops) == 0 {
		d := s.Documents[0]
		ops = append(ops, Operation{"put", d.Kind, d.ID, d.Fields})
	}
	return ops, nil
}

// suppliedOperation is the operation of a document in the files.
type suppliedOperation struct {
	Operation
	size int
	same bool // the fleet seems to have the same document
}

// supplied returns the operations of the documents in the files, compared with the fleet that was read.
func (s *Set) supplied() ([]suppliedOperation, error) {
	var given []suppliedOperation
	for _, k := range s.Kinds.With(s.types) {
		for _, d := range s.Documents {
			if d.Kind.Kind != k.Kind {
				continue
			}
			g := suppliedOperation{Operation: Operation{"put", k, d.ID, d.Fields}, size: d.Size()}
			if now, exists := s.found[k.Kind][d.ID]; exists {
				changes, err := render.Changes(d.Fields, now)
				if err != nil {
					return nil, err
				}
				g.same = len(changes) == 0
			}
			given = append(given, g)
		}
	}
	return given, nil
}

// large reports whether the documents exceed the limits below which all are sent.
func (s *Set) large() bool {
	size := 0
	for _, d := range s.Documents {
		size += d.Size()
	}
	return size > sentBytes || len(s.Documents) > sentDocuments
}

// confirm checks with the server that the documents which seem to match the fleet do match it, in parts of the usual size: the
// fleet may have been read from a process that lagged, or may have changed since. It clears the mark of those that differ.
func confirm(fleet Fleet, given []suppliedOperation) error {
	var part []Operation
	size, differing := 0, map[Name]bool{}
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		names, err := fleet.Differing(part)
		for _, name := range names {
			differing[name] = true
		}
		part, size = nil, 0
		return err
	}
	for _, g := range given {
		if !g.same {
			continue
		}
		if len(part) == sentDocuments || size+g.size > sentBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		part, size = append(part, g.Operation), size+g.size
	}
	if err := flush(); err != nil {
		return err
	}
	for i := range given {
		given[i].same = given[i].same && !differing[Name{given[i].Kind.Kind, given[i].ID}]
	}
	return nil
}

// idsToPrune returns the ids of a kind that the files do not have.
func (s *Set) idsToPrune(k documents.Kind) []string {
	if !s.prunes(k) {
		return nil
	}
	rest := maps.Clone(s.found[k.Kind])
	for _, id := range s.ids(k) {
		delete(rest, id)
	}
	return render.SortedKeys(rest)
}
