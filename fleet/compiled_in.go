package fleet

import (
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// NewDocument reads a document from a store, without the other documents of a State.
func NewDocument(rec Record) (*Document, error) {
	if id, ok := rec.Kind.ResourceType(); ok {
		rules := &resourceKind(id, nil).rules
		return (&kindSet{byName: map[Kind]*kindRules{rec.Kind: rules}, cluster: compiledIn.cluster}).document(rec)
	}
	return compiledIn.document(rec)
}

// compiledIn are the kinds that are built into this program.
var compiledIn = newKindSet(func(c *api.Cluster) *api.Cluster { return c },
	componentKind.describe(),
	namespaceKind.describe(),
	roleBindingKind.describe(),
)

// newKindSet returns the kinds of a fleet without resource types: clusters of the model M with lists of some definitions.
func newKindSet[M any](cluster func(*M) *api.Cluster, lists ...*descriptor) *kindSet {
	ks := &kindSet{compiledCount: len(lists), copyFields: fieldCopier[M]()}
	ks.cluster = func(value any) *api.Cluster {
		if model, ok := value.(*M); ok {
			return cluster(model)
		}
		return nil
	}
	ks.copyValue = func(value any) any {
		model := *value.(*M)
		return &model
	}
	ks.emptyCluster = func() *Effective {
		model := new(M)
		return &Effective{value: model, cluster: cluster(model)}
	}
	clusters := &kindRules{
		name: KindCluster, noun: "cluster", collection: "clusters",
		empty:     func() any { return new(M) },
		normalize: ks.normalizeCluster,
		check:     checkCluster,
		changed:   changedCluster,
		view: func(d *Document) any {
			return ks.viewOf(d, d.value)
		},
	}
	for slot, list := range lists {
		list.slot = slot
	}
	ks.others = otherKinds{
		layers: layerRules(ks), clusters: clusters, types: &typeKind, resources: resourceKind,
		internal: []*kindRules{&tokenKind, &budgetKind, &orphanKind, &rolloutKind, &strategyKind, &freezeKind, &pinKind, &accessKind, &sessionEndKind, &webhookKind, &versionAutomationKind, &sourceKind, &sourceStateKind, &sourceDocumentsKind, &policyKind, &approvalKind},
	}
	ks.setLists(lists)
	return ks
}

// Kinds returns the names of all kinds of documents that describe the fleet, definitions before the clusters that refer to
// them, without the kinds of resource types. Tokens do not describe the fleet.
func Kinds() []Kind { return compiledIn.names() }

// Definitions returns the kinds of definitions that clusters have lists of, without those of resource types.
func Definitions() []Kind {
	names := make([]Kind, len(compiledIn.lists))
	for i, a := range compiledIn.lists {
		names[i] = a.kind
	}
	return names
}

// Collection returns the name of all documents of a kind in the API and in seed files; empty if they are not accessible
// there.
func (k Kind) Collection() string {
	if rules := compiledIn.byName[k]; rules != nil {
		return rules.collection
	}
	return k.collection("")
}

// Endpoint returns the last part of the path at which clusters poll a kind of definition; empty for other kinds.
func (k Kind) Endpoint() string {
	if a := compiledIn.descriptor(k); a != nil {
		return a.endpoint
	}
	id, _ := k.ResourceType()
	return id
}

// NewState builds a State from the records of a store. It fails on a record that it cannot read: a State without it would
// answer clusters wrongly.
func NewState(rules Rules, head Head, at time.Time, records []Record) (*State, error) {
	return compiledIn.state(rules, head, at, records)
}

// Empty returns a State without documents under the same rules.
func (s *State) Empty() (*State, error) { return NewState(s.rules, Head{}, time.Time{}, nil) }
