package fleet

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Head returns the point of history of the State.
func (s *State) Head() Head { return s.head }

// Revision returns the number of commits that the State consists of.
func (s *State) Revision() Revision { return s.head.Revision }

// ID returns a value that identifies the State in caches, by ==, without keeping the State itself alive. A State with only the visible
// documents has that of the whole State.
func (s *State) ID() any { return s.id }

// At returns the time of the commit at the head; zero for the empty history.
func (s *State) At() time.Time { return s.at }

// Records yields every document as a store keeps it, in no particular order.
func (s *State) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, docs := range s.docs {
			for _, doc := range docs {
				if !yield(doc.Record) {
					return
				}
			}
		}
	}
}

// Clusters returns the number of live clusters.
func (s *State) Clusters() int { return s.live }

// Count returns the number of documents of a kind, decommissioned clusters included.
func (s *State) Count(kind Kind) int { return len(s.docs[kind]) }

// Has reports whether a document exists, a decommissioned cluster included.
func (s *State) Has(kind Kind, id string) bool { return s.docs[kind][id] != nil }

// Record returns a document as a store keeps it, a decommissioned cluster included.
func (s *State) Record(kind Kind, id string) (Record, bool) {
	doc := s.docs[kind][id]
	if doc == nil {
		return Record{}, false
	}
	return doc.Record, true
}

// Get returns a document. A decommissioned cluster is not found.
func (s *State) Get(kind Kind, id string) (*Document, bool) {
	doc, ok := s.docs[kind][id]
	if !ok || doc.Deleted() {
		return nil, false
	}
	return doc, true
}

// Find is Get with an error for the API.
func (s *State) Find(kind Kind, id string) (*Document, error) {
	doc, ok := s.Get(kind, id)
	if !ok {
		return nil, s.notFound(kind, id)
	}
	return doc, nil
}

// FindIncludingDeleted returns the cluster with an id, decommissioned or not. CodeNotFound if there is none.
func (s *State) FindIncludingDeleted(cluster string) (*Document, error) {
	if doc, ok := s.docs[KindCluster][cluster]; ok {
		return doc, nil
	}
	return nil, s.notFound(KindCluster, cluster)
}

// clustersWhere returns the clusters for which a function returns true.
func (s *State) clustersWhere(concerned func(*api.Cluster) bool) (out []*api.Cluster) {
	for _, d := range s.All(KindCluster) {
		if concerned(d.Cluster()) {
			out = append(out, d.Cluster())
		}
	}
	return out
}

// hasCluster reports whether a live cluster matches.
func (s *State) hasCluster(matches func(*api.Cluster) bool) bool {
	return slices.ContainsFunc(s.All(KindCluster), func(d *Document) bool { return matches(d.Cluster()) })
}

// All returns the documents of a kind sorted by id, without decommissioned clusters.
func (s *State) All(kind Kind) []*Document {
	live := func(d *Document) bool { return !d.Deleted() }
	if kind != KindCluster {
		return s.sorted(kind, live)
	}
	s.liveClusters.once.Do(func() { s.liveClusters.sorted = s.sorted(kind, live) })
	return slices.Clone(s.liveClusters.sorted)
}

// sorted returns some documents of a kind, sorted by id.
func (s *State) sorted(kind Kind, keep func(*Document) bool) []*Document {
	out := make([]*Document, 0, len(s.docs[kind]))
	for _, doc := range s.docs[kind] {
		if keep(doc) {
			out = append(out, doc)
		}
	}
	slices.SortFunc(out, func(a, b *Document) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// ByDNS finds a cluster, live or decommissioned, by its DNS name: in any case, with or without the final dot.
func (s *State) ByDNS(dns string) (*Document, bool) {
	id, ok := s.byDNS[NormalDNS(dns)]
	if !ok {
		return nil, false
	}
	return s.docs[KindCluster][id], true
}

// NormalDNS returns the form in which DNS names are compared: in lower case, without the final dot.
func NormalDNS(name string) string { return lowerASCII(strings.TrimSuffix(name, ".")) }

// lowerASCII changes A to Z and no other letters, as DNS compares names (RFC 4343). In Unicode other characters have
// lower-case letters of ASCII, or fold to them: the Kelvin sign U+212A becomes k, and the long s U+017F equals s. A name
// with one of those is another name, which the rules for names refuse.
func lowerASCII(s string) string {
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	i := 0
	for i < len(s) && !upper(s[i]) { // most names are in lower case: no copy
		i++
	}
	if i == len(s) {
		return s
	}
	lower := []byte(s)
	for ; i < len(lower); i++ {
		if upper(lower[i]) {
			lower[i] += 'a' - 'A'
		}
	}
	return string(lower)
}

// HasComponent reports whether a cluster of the State has a component, enabled or not.
func (s *State) HasComponent(d *Document, component string) bool {
	_, has := s.kinds.descriptor(KindComponent).enabled(s.Effective(d), component)
	return has
}

// EffectiveView returns the effective configuration as the API shows it: like a document that contains all settings, with
// the matching layers.
func (s *State) EffectiveView(d *Document) any {
	e := s.Effective(d)
	view := s.kinds.viewOf(d, e.value)
	c := s.kinds.cluster(view)
	c.Layers, c.Excludes = append([]string{}, s.configured(d).layerIDs()...), nil // also those of a pinned cluster
	c.Patches = make(api.Patches, len(e.cluster.Patches))
	for component, values := range e.cluster.Patches {
		if values = overlayPatches(nil, values); len(values) > 0 {
			c.Patches[component] = values
		}
	}
	return view
}

func (s *State) notFound(kind Kind, id string) *Error { return s.kinds.notFound(kind, id) }

// Noun returns the name of a kind in messages.
func (s *State) Noun(kind Kind) string { return s.kinds.noun(kind) }

// PolledAt returns the kind of definition that clusters poll at an endpoint.
func (s *State) PolledAt(endpoint string) (Kind, bool) {
	a := s.kinds.byEndpoint[endpoint]
	if a == nil {
		return "", false
	}
	return a.kind, true
}

// Limited reports whether the State lacks the documents that a principal may not read.
func (s *State) Limited() bool { return s.visible != nil }

// Whole returns the State with all documents.
func (s *State) Whole() *State {
	if s.visible != nil {
		return s.visible.whole
	}
	return s
}

// ReachesOthers reports whether a visible rollout also reaches clusters that are not visible. Texts about it may name them.
func (s *State) ReachesOthers(rollout *Document) bool {
	return s.visible != nil && s.visible.partial[docKey{rollout.Kind, rollout.ID}]
}

// withoutOthers removes from the view of a rollout what may name clusters that are not visible.
func (s *State) withoutOthers(view *api.Rollout) {
	view.Description, view.PausedBecause, view.Principal, view.Author, view.Operations = "", "", "", "", []api.RevisionOperation{}
	for i := range view.Stages {
		stage := &view.Stages[i]
		stage.Selector, stage.ApprovedBy = "", ""
		stage.ClusterIds = slices.DeleteFunc(slices.Clone(stage.ClusterIds), func(id string) bool { return s.docs[KindCluster][id] == nil })
	}
}

// lowerName returns the DNS name as an orphan record has it.
func lowerName(c *api.Cluster) string { return lowerASCII(c.ClusterDNS) }

// sortDocuments sorts documents by kind and id.
func sortDocuments(docs []*Document) {
	slices.SortFunc(docs, func(a, b *Document) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID)) })
}

// definition returns a definition as a cluster has it: the variant of a rollout that reaches the cluster, or else the stored
// document. Code that computes anything for a cluster must use it in place of [State.Get].
func (s *State) definition(e *Effective, kind Kind, id string) (*Document, bool) {
	if e != nil && e.chain != nil {
		if doc := e.chain.overlay.get(kind, id); doc != nil {
			return doc, true
		}
	}
	doc, ok := s.docs[kind][id]
	return doc, ok
}

// stored returns a stored document; nil: there is none. Clusters may have another one in its place: see [State.definition].
func (s *State) stored(kind Kind, id string) *Document { return s.docs[kind][id] }

// versions returns the versions of a definition that clusters have: the stored document, its variants, and these with the values of references.
func (s *State) versions(kind Kind, id string) []*Document {
	doc := s.docs[kind][id]
	if doc == nil {
		return nil
	}
	out := []*Document{doc}
	if s.layers == nil {
		return out
	}
	for _, v := range s.layers.overlays {
		if other := v.get(kind, id); other != nil {
			out = append(out, other)
		}
	}
	if slices.ContainsFunc(out, func(d *Document) bool { return d.refers }) {
		stored := out
		for key, made := range s.layers.expanded {
			if slices.Contains(stored, key.from) {
				out = append(out, made)
			}
		}
	}
	return out
}
