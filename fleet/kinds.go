package fleet

import (
	"encoding/json"
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
	for _, list := range [][]kindRules{kinds, internalKinds} {
		for _, k := range list {
			if k.name == name {
				return k, true
			}
		}
	}
	return kindRules{}, false
}

var nouns = map[Kind]string{
	KindCluster: "cluster", KindComponent: "platform component", KindNamespace: "namespace", KindRoleBinding: "role binding",
	KindToken: "token", KindBudget: "removal budget", KindForgotten: "forgotten cluster",
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
	// put replaces the entry at an index by what its text says; one behind the last adds it. The list itself stays
	// as it is, since other States have it too.
	put func(c *api.Cluster, at int, text json.RawMessage) error
	// remove takes the entry at an index away, and leaves the list itself as it is.
	remove func(c *api.Cluster, at int)
}

var assignments = []assigned{
	assignedIn(KindComponent, "platform_components",
		func(c *api.Cluster) *[]api.ComponentAssignment { return &c.PlatformComponents }, func(e *api.ComponentAssignment) string { return e.ID }),
	assignedIn(KindNamespace, "namespaces",
		func(c *api.Cluster) *[]api.NamespaceRef { return &c.Namespaces }, func(e *api.NamespaceRef) string { return e.ID }),
	assignedIn(KindRoleBinding, "rolebindings",
		func(c *api.Cluster) *[]api.RoleBindingRef { return &c.Rolebindings }, func(e *api.RoleBindingRef) string { return e.ID }),
}

func assignedIn[T any](kind Kind, field string, list func(*api.Cluster) *[]T, id func(*T) string) assigned {
	return assigned{
		kind: kind, field: field,
		each: func(c *api.Cluster) iter.Seq[string] { return idsOf(*list(c), id) },
		put: func(c *api.Cluster, at int, text json.RawMessage) error {
			var entry T
			if err := json.Unmarshal(text, &entry); err != nil {
				return err
			}
			entries := *list(c)
			*list(c) = slices.Concat(entries[:at], []T{entry}, entries[min(at+1, len(entries)):])
			return nil
		},
		remove: func(c *api.Cluster, at int) {
			*list(c) = slices.Delete(slices.Clone(*list(c)), at, at+1)
		},
	}
}

// ids is each as a list.
func (a assigned) ids(c *api.Cluster) []string { return slices.Collect(a.each(c)) }

// has tells whether a cluster is assigned a definition.
func (a assigned) has(c *api.Cluster, id string) bool { return a.index(c, id) >= 0 }

// index is where a definition stands in a cluster's list, or -1.
func (a assigned) index(c *api.Cluster, id string) int {
	i := 0
	for have := range a.each(c) {
		if have == id {
			return i
		}
		i++
	}
	return -1
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

// dropEmptyList removes a list that is null or has nothing in it, where that means the same as absent.
func dropEmptyList(obj map[string]any, field string) {
	v, ok := obj[field]
	if list, isList := v.([]any); ok && (v == nil || isList && len(list) == 0) {
		delete(obj, field)
	}
}
