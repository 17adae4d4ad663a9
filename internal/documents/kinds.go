// Package documents reads documents of a fleet from files, for the CLI's apply and the server's sources. It knows the names of kinds;
// the server decides whether a document is valid.
//
//	text of a file ── Reader.Add ──> Document, with its file and position
//
// Reading order: kinds.go (names of kinds), read.go (files).
package documents

import (
	"slices"
	"strings"
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
	"state", "frozen", "generation", "rotated_at", "after", "delivery", "status",
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

// All returns the kinds of a fleet.
func All() Kinds {
	return Kinds{
		{Kind: "platform_component", Name: "component", Title: "platform component", List: "platform_components", Aliases: []string{"components", "platform-component"}},
		{Kind: "namespace", Name: "namespace", Title: "namespace", List: "namespaces", Aliases: []string{"namespaces", "ns"}},
		{Kind: "rolebinding", Name: "rolebinding", Title: "role binding", List: "rolebindings", Aliases: []string{"rolebindings", "rb"}},
		{Kind: "resource_type", Name: "resource-type", Title: "resource type", List: "resource_types", Aliases: []string{"rt", "resource-types"}},
		{Kind: "strategy", Name: "strategy", Title: "strategy", List: "strategies"},
		{Kind: "freeze", Name: "freeze", Title: "freeze", List: "freezes"},
		{Kind: "access", Name: "access", Title: "access document", List: "access"},
		{Kind: "webhook", Name: "webhook", Title: "webhook", List: "webhooks"},
		{Kind: "source", Name: "source", Title: "source", List: "sources"},
		{Kind: "policy", Name: "policy", Title: "policy", List: "policies"},
		{Kind: "layer", Name: "layer", Title: "layer", List: "layers", Aliases: []string{"layers"}, Refers: true},
		{Kind: "cluster", Name: "cluster", Title: "cluster", List: "clusters", Aliases: []string{"clusters"}, Refers: true},
	}
}

// OfType returns the kind of a resource type's definitions.
func OfType(id string) Kind {
	return Kind{Kind: ResourcePrefix + id, Name: ResourcePrefix + id, Title: id + " resource", List: ResourcesList, Type: id}
}

// IsResource reports whether a word means the definitions of all resource types.
func IsResource(word string) bool {
	return word == ResourceKind || word == ResourcesList || word == "res"
}

// Find finds a kind by its name in the API, its command, a list or an alias; resource/TYPE for the definitions of a resource type.
func (kinds Kinds) Find(word string) (Kind, bool) {
	for _, k := range kinds {
		if word == k.Kind || word == k.Name || word == k.List || slices.Contains(k.Aliases, word) {
			return k, true
		}
	}
	id, ok := strings.CutPrefix(word, ResourcePrefix)
	if !ok || !validID(id) || strings.Contains(id, "/") {
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

// With returns the kinds with those of resource types, before the kinds that refer to them.
func (kinds Kinds) With(types []string) Kinds {
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

// validID rejects ids that would change the path of a request: an empty one, or a step up.
func validID(id string) bool { return id != "" && id != "." && id != ".." }

// listOf joins names for a sentence: a, b and c.
func listOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
