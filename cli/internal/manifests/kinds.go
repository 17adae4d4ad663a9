// Package manifests reads and writes files of the fleet's documents, and computes the operations that make a fleet match them. The
// server decides whether a document is valid and whether it changes anything.
//
//	files ── Kinds.ReadFiles ──> Document ── Set.Operations ──> Operation ── cli ──> batch or plan
//	                                             ^                  ^
//	                            stored documents │ Fleet            │ EditPatch <── a document, edited
//	                                             v
//	stored documents ── Export ──> one document, or a file for each ── ReadFiles reads both again
//
// Reading order: kinds.go (names of kinds), read.go (files), set.go (operations), diff.go, export.go, edit.go.
package manifests

import (
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
)

const (
	// ResourceKind is the kind of the definitions of all resource types; documents have the type in a field.
	ResourceKind = "resource"
	// ResourcePrefix is the prefix of the kinds of one resource type's definitions.
	ResourcePrefix = "resource/"
	// ResourcesList is the field with their lists in clusters and files.
	ResourcesList = "resources"
)

// ReadOnly are the fields of a document that the server sets.
var ReadOnly = []string{
	"revision", "created_at", "updated_at", "deleted_at", "patch_owners", "layers", "clusters", "reconcile_requested_at",
	"state", "frozen", "generation", "rotated_at", "after", "delivery",
}

// Kind names a kind of document.
type Kind struct {
	Kind    string   // in the API
	Name    string   // in commands and in KIND/NAME
	Title   string   // for people
	List    string   // in a file
	Aliases []string // other names
	Type    string   // the resource type whose definitions the documents are; empty: none
	Refers  bool     // the documents have lists of assignments of the other kinds
}

// Kinds are the kinds of a fleet without those of resource types. A kind comes after those that its documents refer to.
type Kinds []Kind

// OfType returns the kind of a resource type's definitions.
func OfType(id string) Kind {
	return Kind{Kind: ResourcePrefix + id, Name: ResourcePrefix + id, Title: id + " resource", List: ResourcesList, Type: id}
}

// IsResource reports whether a word means the definitions of all resource types.
func IsResource(word string) bool { return word == ResourceKind || word == ResourcesList }

// Find finds a kind by its name in the API, its command, a list or an alias; resource/TYPE for the definitions of a resource type.
func (kinds Kinds) Find(word string) (Kind, bool) {
	for _, k := range kinds {
		if word == k.Kind || word == k.Name || word == k.List || slices.Contains(k.Aliases, word) {
			return k, true
		}
	}
	id, ok := strings.CutPrefix(word, ResourcePrefix)
	if !ok || args.CheckID("TYPE", id) != nil || strings.Contains(id, "/") {
		return Kind{}, false
	}
	return OfType(id), true
}

// Words returns the API's names of the kinds.
func (kinds Kinds) Words() []string {
	names := []string{ResourceKind}
	for _, k := range kinds {
		names = append(names, k.Kind)
	}
	slices.Sort(names)
	return names
}

// Lists returns the lists of a file in the layout of a seed file. The last kind, which refers to the others, is first.
func (kinds Kinds) Lists() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.List)
	}
	last := len(names) - 1
	return slices.Concat(names[last:], names[:last], []string{ResourcesList})
}

// with returns the kinds with those of resource types, before the kinds that refer to them.
func (kinds Kinds) with(types []string) Kinds {
	at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Refers })
	var made []Kind
	for _, id := range types {
		made = append(made, OfType(id))
	}
	return slices.Concat(kinds[:at], made, kinds[at:])
}

// SplitName splits KIND/NAME or resource/TYPE/NAME into the word of the kind and the name.
func SplitName(text string) (word, name string, named bool) {
	word, name, named = strings.Cut(text, "/")
	if named && IsResource(word) {
		id, of, ok := strings.Cut(name, "/")
		return ResourcePrefix + id, of, ok
	}
	return word, name, named
}
