package policy

import (
	"encoding/json"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Input is what rules read of a change. The variables of rules have the names of the fields, in lower case.
type Input struct {
	Change *Change
	// Effect computes the effect. It is called at most once, and only if a rule reads it.
	Effect func() (*Effect, error)
	Recent Recent
	Now    time.Time
}

// Change is the change itself.
type Change struct {
	Kind      string // change, revert, restore, rollout, version or source
	Actor     string
	Author    string
	Reason    string
	Rollout   string // id of the rollout whose operation it is; empty: none
	Source    string // id of the source that makes it; empty: none
	Documents []*Document

	self object // the change as rules read it
	list any    // of the documents, as rules read it
}

// Document is a changed document. Before is nil for a new one, After for a deleted one.
type Document struct {
	Kind, ID, Action string
	Before, After    json.RawMessage

	decoded       bool
	before, after any
	err           error
}

// Recent has the removals without a plan's hash in the last hour, and the number of changed clusters that the policy has seen, this change
// excluded.
type Recent struct{ Removals, Count int }

// Effect is the effect on clusters, sorted by id.
type Effect struct {
	Clusters []*Cluster
	Removals int

	self object // the effect as rules read it
	list any    // of the clusters, as rules read it

	distinctLists map[clusterFields]ref.Val
	entries       map[any]uint64 // ids of the entries of lists
}

// Cluster is the effect on one cluster. Before is nil for one that joins, After for one that leaves.
type Cluster struct {
	ID            string
	Before, After *Version
	Removals      int
	Lists         *Lists // the inputs that differ
}

// latest returns the version after the change, or that before it.
func (c *Cluster) latest() *Version {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// Version is a cluster before or after the change.
type Version struct {
	Environment string
	Labels      map[string]string
}

// ListName is the name of a list of a cluster in rules.
type ListName string

// The lists of rules; those of all resource types are one.
const (
	ListComponents   ListName = "platform_components"
	ListNamespaces   ListName = "namespaces"
	ListRoleBindings ListName = "rolebindings"
	ListResources    ListName = "resources"
)

// Lists are the inputs of a cluster that differ.
type Lists struct {
	// Fill adds the inputs of one list, if it is not nil. It is called at most once for each list, when a rule reads it.
	Fill func(to *Lists, list ListName) error
	At   int // the index of the cluster, for Fill

	Components   []*Entry[api.FluxPlatformComponent]
	Namespaces   []*Entry[api.FluxNamespace]
	RoleBindings []*Entry[api.FluxRoleBinding]
	Resources    map[string][]*Entry[map[string]any] // by resource type

	filled [len(listNames)]bool
	values map[ListName]ref.Val // the lists as rules read them
}

// Entry is an input before and after the change, as polls have it. Before is nil for a new one, After for a removed one. Clusters with
// the same inputs share it. One evaluation at a time reads it.
type Entry[T any] struct {
	ID            string
	Before, After *T

	before, after *structValue // of Before and After, once a rule reads them
}

var _ cel.Activation = (*Input)(nil)

// ResolveName returns a variable of rules.
func (in *Input) ResolveName(name string) (any, bool) {
	switch name {
	case "change":
		in.Change.self = object{changeType, in.Change}
		return &in.Change.self, true
	case "effect":
		return in.effect(), true
	case "recent":
		return &object{recentType, &in.Recent}, true
	case "now":
		return in.Now, true
	default:
		return nil, false
	}
}

// Parent returns nil: rules have no other variables.
func (in *Input) Parent() cel.Activation { return nil }
