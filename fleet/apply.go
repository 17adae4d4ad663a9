package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
)

// state is NewState for the kinds of the set.
func (ks *kindSet) state(rules Rules, head Head, at time.Time, records []Record) (*State, error) {
	types, records, err := ks.types(records)
	if err != nil {
		return nil, err
	}
	ks = ks.withTypes(types)
	if err := ks.checkEndpoints(); err != nil {
		return nil, err
	}
	s := &State{kinds: ks, rules: rules, head: head, at: at, docs: map[Kind]map[string]*Document{}, byDNS: map[string]string{}, id: &stateID{}, shared: &sharedObjects{}, definitions: &definitionsID{}, references: newReferences()}
	for kind := range ks.byName {
		s.docs[kind] = map[string]*Document{}
	}
	docs, shared := make([]*Document, len(records)), newSharedFields()
	err = parallel.Errors(len(records), func(i int) (err error) {
		docs[i], err = shared.document(ks, records[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	docs = slices.AppendSeq(docs, maps.Values(types))
	s.newest = at
	for _, doc := range docs {
		s.docs[doc.Kind][doc.ID] = doc
		s.countReferring(doc, 1)
		s.newest = later(s.newest, doc.UpdatedAt)
	}
	s.listReferring()
	if err := s.index(); err != nil {
		return nil, err
	}
	s.indexTokens()
	s.indexAccess()
	s.indexManaged()
	rolloutsChanged, err := s.reindexRollouts(nil, nil, true)
	if err != nil {
		return nil, err
	}
	if err := s.recomputeLayers(nil, nil, rolloutsChanged, true); err != nil { // stored states are served even above the limits
		return nil, err
	}
	return s, s.applyPins(nil)
}

// types separates the resource types from the records, since reading the other records requires them.
func (ks *kindSet) types(records []Record) (types map[string]*Document, rest []Record, err error) {
	if !slices.ContainsFunc(records, func(r Record) bool { return r.Kind == KindResourceType }) {
		return nil, records, nil
	}
	types = map[string]*Document{}
	for _, rec := range records {
		if rec.Kind != KindResourceType {
			rest = append(rest, rec)
			continue
		}
		if types[rec.ID], err = ks.document(rec); err != nil {
			return nil, nil, err
		}
	}
	return types, rest, nil
}

// index builds the index by DNS name and counts live clusters. It returns an error if clusters share a name.
func (s *State) index() (err error) {
	s.byDNS, s.live = make(map[string]string, len(s.docs[KindCluster])), 0
	for id, doc := range s.docs[KindCluster] {
		dns := lowerASCII(doc.Cluster().ClusterDNS)
		if other, taken := s.byDNS[dns]; taken {
			err = fmt.Errorf("clusters %q and %q have the same cluster_dns %q", other, id, dns)
		}
		s.byDNS[dns] = id
		if !doc.Deleted() {
			s.live++
		}
	}
	return err
}

// Apply returns the State after the next commit of the log. It trusts the commit to be valid, but refuses one with another
// revision than the next.
func (s *State) Apply(c Commit) (*State, error) {
	if c.Revision != s.head.Revision+1 {
		return nil, fmt.Errorf("commit %d does not follow revision %d", c.Revision, s.head.Revision)
	}
	kinds, edits, err := s.kindsAfter(c)
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", c.Revision, err)
	}
	var shared *sharedFields
	if len(edits) > 1 {
		shared = newSharedFields()
	}
	err = parallel.Errors(len(edits), func(i int) (err error) {
		ch := c.Changes[i]
		if ch.After != nil && edits[i].doc == nil {
			edits[i].doc, err = shared.document(kinds, Record{Kind: ch.Kind, ID: ch.ID, Body: ch.After})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", c.Revision, err)
	}
	next, err := s.with(c, edits, true)
	if err != nil {
		return nil, err
	}
	if err := next.kinds.checkEndpoints(); err != nil {
		return nil, fmt.Errorf("revision %d: %w", c.Revision, err)
	}
	if orphans := next.unknownTypeKinds(); len(orphans) > 0 {
		return nil, fmt.Errorf("revision %d has documents of kind %q, which this version does not know", c.Revision, orphans[0])
	}
	return next, nil
}

// kindsAfter returns the kinds that a commit's changes must be read with, and its changes as edits, of which only the
// resource types are decoded.
func (s *State) kindsAfter(c Commit) (*kindSet, []edit, error) {
	kinds, edits := s.kinds, make([]edit, len(c.Changes))
	for i, ch := range c.Changes {
		edits[i] = edit{kind: ch.Kind, id: ch.ID}
		if ch.Kind != KindResourceType {
			continue
		}
		if ch.After != nil {
			var err error
			if edits[i].doc, err = kinds.document(Record{Kind: ch.Kind, ID: ch.ID, Body: ch.After}); err != nil {
				return nil, nil, err
			}
		}
		kinds = kinds.withType(ch.ID, edits[i].doc)
	}
	return kinds, edits, nil
}

// unknownTypeKinds returns the kinds of definitions without an existing resource type.
func (s *State) unknownTypeKinds() (kinds []Kind) {
	for kind, docs := range s.docs {
		if len(docs) > 0 && s.kinds.byName[kind] == nil {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// with returns the State after edits, with the revision and times of the commit that makes them. It copies only the maps of
// the kinds that changed. If clusters share a DNS name it returns an error and a State, which may only be used to find
// further problems. Committed edits are accepted whatever their layerCost is.
func (s *State) with(c Commit, edits []edit, committed bool) (*State, error) {
	next := &State{kinds: s.kinds, rules: s.rules, head: c.Head(), at: c.At, newest: later(s.newest, c.At), docs: maps.Clone(s.docs), byDNS: s.byDNS, live: s.live, id: &stateID{}, holders: s.holders, access: s.access, managed: s.managed, refers: s.refers, referring: s.referring}
	copied := map[Kind]bool{}
	reindex := false
	for _, e := range edits {
		if next.docs[e.kind] == nil {
			if _, ok := e.kind.ResourceType(); !ok {
				return nil, fmt.Errorf("revision %d changes a document of kind %q, which this version does not know", c.Revision, e.kind)
			}
		}
		if !copied[e.kind] {
			next.docs[e.kind] = maps.Clone(s.docs[e.kind])
			if copied[e.kind] = true; next.docs[e.kind] == nil {
				next.docs[e.kind] = map[string]*Document{} // a new type; an unknown one is found later
			}
		}
		before := s.docs[e.kind][e.id]
		next.countReferring(before, -1)
		next.countReferring(e.doc, 1)
		reindex = reindex || e.kind == KindCluster && indexedDiffers(before, e.doc)
		if e.doc == nil {
			delete(next.docs[e.kind], e.id)
			continue
		}
		stamped := *e.doc
		stamped.Revision, stamped.CommitID, stamped.UpdatedAt, stamped.CreatedAt = c.Revision, c.ID, c.At, c.At
		if before != nil && (!before.Deleted() || stamped.Deleted()) {
			stamped.CreatedAt = before.CreatedAt
		}
		next.docs[e.kind][e.id] = &stamped
	}
	if copied[KindResourceType] {
		next.kinds = s.kinds.withTypes(next.docs[KindResourceType])
	}
	if err := next.rereadResources(s, copied); err != nil {
		return nil, err
	}
	if next.refers > 0 || s.refers > 0 {
		next.listReferring()
	}
	if next.shared, next.definitions = s.shared, s.definitions; next.definitionsDiffer(copied) {
		next.shared, next.definitions = &sharedObjects{}, &definitionsID{}
	}
	rolloutsChanged, err := next.reindexRollouts(s, edits, committed)
	if err != nil {
		return nil, err
	}
	if rolloutsChanged {
		next.shared = &sharedObjects{} // variants render objects too
	}
	if err := next.recomputeLayers(s, edits, rolloutsChanged, committed); err != nil {
		return nil, err
	}
	if next.layers != s.layers && next.layers.expansionsID() != s.layers.expansionsID() {
		next.shared = &sharedObjects{} // other values of references render other objects
	}
	next.references = s.references.after(next, s, edits)
	if err := next.applyPins(s); err != nil {
		return nil, err
	}
	if copied[KindToken] {
		next.indexTokens()
	}
	if copied[KindAccess] {
		next.indexAccess()
	}
	if copied[KindSourceDocuments] {
		next.indexManaged()
	}
	if reindex {
		if err := next.index(); err != nil {
			return next, fmt.Errorf("revision %d: %w", c.Revision, err)
		}
	}
	return next, nil
}

// rereadResources decodes the definitions of resource types with the types of this State: an unchanged document has another
// value if its type has changed, and a document composed during a change may have been decoded with a type that changed
// again.
func (s *State) rereadResources(before *State, copied map[Kind]bool) error {
	for kind := range s.docs {
		if _, typed := kind.ResourceType(); typed && s.kinds.byName[kind] == nil && len(s.docs[kind]) == 0 {
			delete(s.docs, kind)
		}
	}
	for _, a := range s.kinds.lists[s.kinds.compiledCount:] {
		if before.kinds.byKind[a.kind] == a && !copied[a.kind] {
			continue
		}
		if !copied[a.kind] {
			if s.docs[a.kind] = maps.Clone(s.docs[a.kind]); s.docs[a.kind] == nil {
				s.docs[a.kind] = map[string]*Document{}
			}
		}
		for id, doc := range s.docs[a.kind] {
			if doc.rules == &a.rules {
				continue
			}
			again, err := s.kinds.document(doc.Record)
			if err != nil {
				return fmt.Errorf("revision %d: %w", s.head.Revision, err)
			}
			s.docs[a.kind][id] = again
		}
	}
	return nil
}

// indexedDiffers reports whether a field of a cluster that State.index uses has changed.
func indexedDiffers(before, after *Document) bool {
	return before == nil || after == nil || before.Deleted() != after.Deleted() ||
		before.Cluster().ClusterDNS != after.Cluster().ClusterDNS
}

// definitionsDiffer reports whether a commit changes the objects that definitions render.
func (s *State) definitionsDiffer(changed map[Kind]bool) bool {
	if changed[KindResourceType] {
		return true
	}
	return slices.ContainsFunc(s.kinds.lists, func(a *descriptor) bool { return changed[a.kind] })
}
