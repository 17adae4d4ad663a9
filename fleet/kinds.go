package fleet

import (
	"iter"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// kindRules is what the fleet knows about one kind of document. A new kind is one of these, in a file of its own.
type kindRules struct {
	name  Kind
	noun  string     // as messages call it
	empty func() any // pointer to the model to decode into
	// normalize fills in defaults and brings values into the one form that is stored. It may meet values of any
	// type, and leaves those that are wrong for check and the decoder to refuse.
	normalize func(obj map[string]any)
	// check reports what is wrong with a document in a State, and advice about it.
	check func(c *checker, d *Document)
	// bound is what the document adds at most to the encoded answer of a cluster; see sizes.go.
	bound func(value any) int
}

// kinds lists every kind of document that describes the fleet, definitions before the clusters that refer to them.
var kinds = []kindRules{componentKind, namespaceKind, roleBindingKind, clusterKind}

func kindOf(name Kind) (kindRules, bool) {
	if name == KindToken {
		return tokenKind, true
	}
	for _, k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	return kindRules{}, false
}

var nouns = map[Kind]string{
	KindCluster: "cluster", KindComponent: "platform component", KindNamespace: "namespace", KindRoleBinding: "role binding",
	KindToken: "token",
}

// Kinds are the names of all kinds of documents that describe the fleet, definitions before the clusters that refer to
// them. Tokens do not.
func Kinds() []Kind {
	names := make([]Kind, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// assigned is one kind of definition that clusters are assigned: where its list is in a cluster's document.
type assigned struct {
	kind  Kind
	field string
	// each yields the ids of a cluster's list, in order.
	each func(c *api.Cluster) iter.Seq[string]
}

var assignments = []assigned{
	{KindComponent, "platform_components", func(c *api.Cluster) iter.Seq[string] {
		return idsOf(c.PlatformComponents, func(e *api.ComponentAssignment) string { return e.ID })
	}},
	{KindNamespace, "namespaces", func(c *api.Cluster) iter.Seq[string] {
		return idsOf(c.Namespaces, func(e *api.NamespaceRef) string { return e.ID })
	}},
	{KindRoleBinding, "rolebindings", func(c *api.Cluster) iter.Seq[string] {
		return idsOf(c.Rolebindings, func(e *api.RoleBindingRef) string { return e.ID })
	}},
}

// ids is each as a list.
func (a assigned) ids(c *api.Cluster) []string { return slices.Collect(a.each(c)) }

// has tells whether a cluster is assigned a definition.
func (a assigned) has(c *api.Cluster, id string) bool {
	for have := range a.each(c) {
		if have == id {
			return true
		}
	}
	return false
}

// hasAny tells whether a cluster is assigned one of some definitions.
func (a assigned) hasAny(c *api.Cluster, ids map[string]bool) bool {
	if len(ids) == 0 {
		return false
	}
	for have := range a.each(c) {
		if ids[have] {
			return true
		}
	}
	return false
}

func assignmentOf(kind Kind) (assigned, bool) {
	for _, a := range assignments {
		if a.kind == kind {
			return a, true
		}
	}
	return assigned{}, false
}

func idsOf[T any](entries []T, id func(*T) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range entries {
			if !yield(id(&entries[i])) {
				return
			}
		}
	}
}

// readOnly are the fields the server fills in. In a request they are ignored, so that what a GET answered can be
// sent back.
var readOnly = []string{"revision", "created_at", "updated_at", "deleted_at", "patch_owners"}

func setDefault(obj map[string]any, field string, value any) {
	if obj[field] == nil {
		obj[field] = value
	}
}

// dropEmpty removes fields that are null, or empty strings or zero where that means the same as absent.
func dropEmpty(obj map[string]any, fields ...string) {
	for _, f := range fields {
		if v, ok := obj[f]; ok && (v == nil || v == "") {
			delete(obj, f)
		}
	}
}
