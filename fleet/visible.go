package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A principal whose right to read has limits reads a State that has only the visible documents: those within the limits, and those
// that determine the inputs of visible clusters. All reads of such a State are correct without further checks. The configurations of
// visible clusters are those of the whole State, so rollouts that are not visible still determine them.

// VisibleTo returns the State as rights permit to read it: the State itself if they permit to read everything. The result is for
// reads only: changes of it are refused.
func (s *State) VisibleTo(r Rights) *State {
	if s == nil || s.visible != nil || r.Everywhere(RightRead) {
		return s
	}
	v := &visibility{whole: s, partial: map[docKey]bool{}}
	for _, a := range r.grants {
		if a.may(RightRead) {
			v.grants = append(v.grants, a)
		}
	}
	out := &State{
		kinds: s.kinds, rules: s.rules, head: s.head, at: s.at, newest: s.newest, docs: make(map[Kind]map[string]*Document, len(s.docs)), id: s.id,
		shared: &sharedObjects{}, definitions: s.definitions, access: s.access, visible: v, refers: s.refers, referring: s.referring,
	}
	for kind := range s.docs {
		out.docs[kind] = map[string]*Document{}
	}
	out.addCovered()
	out.addOfClusters()
	out.addRollouts()
	out.addFreezes()
	out.kinds = s.kinds.withTypes(out.docs[KindResourceType])
	for kind := range out.docs {
		if out.kinds.byName[kind] == nil {
			delete(out.docs, kind) // of an invisible resource type
		}
	}
	_ = out.index() // the names are unique in the whole State
	return out
}

// Detached returns a State with only the visible documents of a result of VisibleTo. The errors, warnings and plans of its changes
// name no other documents. It belongs to no store, so no change of it is committed.
func (s *State) Detached() (*State, error) {
	var records []Record
	for r := range s.Records() {
		if !s.visible.partial[docKey{r.Kind, r.ID}] {
			records = append(records, r)
		}
	}
	detached, err := NewState(s.rules, s.head, s.at, records)
	if err == nil {
		detached.detached = true
	}
	return detached, err
}

// visibleBase returns the base as the principal may read it. It is computed once for all checks.
func (tx *Tx) visibleBase() *State {
	if tx.scope.visible == nil {
		tx.scope.visible = tx.base.VisibleTo(tx.scope.rights)
	}
	return tx.scope.visible
}

// hides reports whether the principal may not read a stored document. A detached State has only documents that it may read.
func (tx *Tx) hides(doc *Document) bool {
	if tx.ReadsEverything() || tx.base.detached || tx.base.docs[doc.Kind][doc.ID] == nil {
		return false
	}
	return tx.visibleBase().docs[doc.Kind][doc.ID] == nil
}

// checkReadable refuses a change of documents or answers that the principal may not read, before or after the change, if its right to
// read has limits. The server requires this right for every request.
func (tx *Tx) checkReadable(edits []edit, res *Result) error {
	if tx.scope == nil || tx.scope.rights.Everywhere(RightRead) || !tx.scope.rights.Include(RightRead) {
		return nil
	}
	before, after := tx.visibleBase(), res.State.VisibleTo(tx.scope.rights)
	var outside []Problem
	reached, err := tx.reached(edits, res)
	if err != nil {
		return err
	}
	for of := range reached {
		if !before.readsSelected(tx.base.docs[of.kind][of.id]) || !before.readsSelected(res.State.docs[of.kind][of.id]) {
			outside = append(outside, Problem{Kind: of.kind, ID: of.id, Detail: "its selector does not contain the limits of an access document that lets you read clusters"})
			continue
		}
		for _, s := range []*State{before, after} {
			if s.visible.whole.docs[of.kind][of.id] != nil && (s.docs[of.kind][of.id] == nil || s.visible.partial[of]) {
				outside = append(outside, Problem{Kind: of.kind, ID: of.id, Detail: "no access document of yours permits to read it"})
				break
			}
		}
	}
	if len(outside) == 0 {
		return nil
	}
	slices.SortFunc(outside, func(a, b Problem) int { return strings.Compare(string(a.Kind)+a.ID, string(b.Kind)+b.ID) })
	return outOfScope(outside)
}

// scopeErrorFirst returns an error of the principal's scope in place of another error of the same change. Other errors depend on documents
// that the principal may not read, such as the variables of other clusters: it could find their values by trying.
func (tx *Tx) scopeErrorFirst(edits []edit, res *Result, err error) error {
	if tx.ReadsEverything() || tx.base.detached || tx.work.stopped() != nil {
		return err
	}
	refused := cmp.Or(tx.checkClustersInScope(res), tx.checkReadable(edits, res))
	if e, ok := errors.AsType[*Error](refused); ok && e.Code == CodeOutOfScope {
		return refused
	}
	return err
}

// readsSelected reports whether all clusters that a layer or a freeze may ever select are visible. Otherwise the answers to a change of the
// document would reveal the clusters that its selector matches. Other documents have no selector, or answers that do not depend on it.
func (s *State) readsSelected(d *Document) bool {
	var selector Selector
	switch {
	case d != nil && d.Kind == KindLayer:
		selector = d.layer().selector // of all clusters: empty
	case d != nil && d.Kind == KindFreeze:
		selector = d.freeze().selector
	default:
		return true
	}
	return slices.ContainsFunc(s.visible.grants, func(a *access) bool {
		return a.On == nil || a.coversKind(KindCluster) && (a.On.Selector == "" || selector.selector != nil && selector.within(a.selector))
	})
}

// reached returns the documents that a commit changes, and the clusters whose answers it changes, now or later.
func (tx *Tx) reached(edits []edit, res *Result) (map[docKey]bool, error) {
	out, check := map[docKey]bool{}, scopeCheck{tx: tx}
	for _, e := range edits {
		switch {
		case check.isDerived(e):
		case e.kind == KindVersionAutomation:
			out[docKey{KindComponent, e.id}] = true
		default:
			out[docKey{e.kind, e.id}] = true
		}
	}
	clusters, err := res.affected(true)
	if err != nil {
		return nil, err
	}
	late, err := res.affectedLater()
	if err != nil {
		return nil, err
	}
	if staged := tx.changedByRollouts(); len(staged) > 0 {
		for id := range res.State.docs[KindCluster] {
			if a, reaches := res.reachedByRollouts(id, staged); reaches {
				late = append(late, a)
			}
		}
	}
	for _, a := range append(clusters, late...) {
		for _, e := range []*Effective{a.before, a.after} {
			if e != nil {
				out[docKey{KindCluster, e.id}] = true
			}
		}
	}
	return out, nil
}

// ReadGrants identifies the documents of one revision that the State has: equal texts, equal documents. It is empty for a State with all
// documents.
func (s *State) ReadGrants() string {
	if s.visible == nil {
		return ""
	}
	return "limited " + Rights{grants: s.visible.grants}.ReadGrants()
}

// ReadGrants identifies what rights permit to read in one State: equal texts, equal results of VisibleTo.
func (r Rights) ReadGrants() string {
	var ids []string
	for _, a := range r.grants {
		if a.may(RightRead) {
			ids = append(ids, a.ID)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// covers reports whether the limits of a right to read include a version of a document.
func (v *visibility) covers(check scopeCheck, d *Document) bool {
	return slices.ContainsFunc(v.grants, func(a *access) bool { return a.On == nil || check.covers(grant{access: a}, d) })
}

// addCovered adds the documents within the limits. Rollouts and freezes follow other rules.
func (s *State) addCovered() {
	check := scopeCheck{tx: s.visible.whole.Begin()}
	for kind, docs := range s.visible.whole.docs {
		if !s.visible.whole.kinds.useOf(kind).readable || kind == KindRollout || !slices.ContainsFunc(s.visible.grants, func(a *access) bool { return a.On == nil || a.coversKind(kind) }) {
			continue
		}
		for id, d := range docs {
			if s.visible.covers(check, d) {
				s.docs[kind][id] = d
			}
		}
	}
}

// addOfClusters adds the layers that match visible clusters, and the definitions that these clusters and visible layers refer to.
func (s *State) addOfClusters() {
	whole := s.visible.whole
	chains, pinned := map[*layerChain]bool{}, map[string]*pinnedCluster{}
	effective := map[string]*Effective{}
	for id, d := range s.docs[KindCluster] {
		if e := whole.configured(d); e != d.own {
			effective[id] = e
			chains[e.chain] = true
		}
		if p := whole.pinned[id]; p != nil {
			pinned[id], s.docs[KindPin][id] = p, p.pin
			s.addDefinitions(p.served)
		}
		s.addDefinitions(whole.configured(d))
	}
	for chain := range chains {
		for _, l := range chain.layers { // it may be the variant of a rollout
			s.docs[KindLayer][l.ID] = whole.docs[KindLayer][l.ID]
			s.addReferenced(l)
		}
	}
	for _, l := range s.docs[KindLayer] {
		s.addReferenced(l)
	}
	for _, a := range whole.kinds.lists {
		for id := range maps.Clone(s.docs[a.kind]) { // those within the limits depend on others too
			s.addDefinition(a, id, true)
		}
		if a.typed && len(s.docs[a.kind]) > 0 {
			s.docs[KindResourceType][a.typeDoc.ID] = whole.docs[KindResourceType][a.typeDoc.ID]
		}
	}
	if s.pinned = pinned; whole.layers != nil {
		s.layers = &layerResolution{ascending: sortByPriority(s.docs[KindLayer]), version: whole.layers.version, effective: effective}
	}
}

// addDefinitions adds the definitions that a cluster refers to.
func (s *State) addDefinitions(e *Effective) {
	for _, a := range s.kinds.lists {
		for id := range a.entries(e) {
			s.addDefinition(a, id, false)
		}
	}
}

// addReferenced adds the definitions that a layer refers to.
func (s *State) addReferenced(d *Document) {
	for _, a := range s.kinds.lists {
		for _, id := range d.layer().referencedIDs(a) {
			s.addDefinition(a, id, false)
		}
	}
}

// addDefinition adds a definition and those that it depends on; again: also if it was added before.
func (s *State) addDefinition(a *descriptor, id string, again bool) {
	if s.docs[a.kind][id] != nil && !again || s.visible.whole.docs[a.kind][id] == nil {
		return
	}
	s.docs[a.kind][id] = s.visible.whole.docs[a.kind][id]
	for _, d := range s.visible.whole.versions(a.kind, id) {
		for _, other := range a.dependsOn(d) {
			s.addDefinition(a, other, false)
		}
	}
}

// addRollouts adds the rollouts that change only visible documents.
func (s *State) addRollouts() {
	whole := s.visible.whole
	for id, d := range whole.docs[KindRollout] {
		changed, layers := map[Kind]map[string]bool{}, map[string]bool{}
		visible := true
		for _, ch := range d.rollout().Changes {
			visible = visible && s.docs[ch.Kind][ch.ID] != nil
			if ch.Kind == KindLayer {
				layers[ch.ID] = true
				continue
			}
			if changed[ch.Kind] == nil {
				changed[ch.Kind] = map[string]bool{}
			}
			changed[ch.Kind][ch.ID] = true
		}
		if !visible {
			continue
		}
		s.docs[KindRollout][id] = d
		s.visible.partial[docKey{KindRollout, id}] = s.visible.reachesOthers(s, d.rollout(), changed, layers)
	}
}

// reachesOthers reports whether a rollout names invisible clusters, or changes a document that one of them uses.
func (v *visibility) reachesOthers(s *State, r *rollout, changed map[Kind]map[string]bool, layers map[string]bool) bool {
	for _, stage := range r.Stages {
		if slices.ContainsFunc(stage.ClusterIDs, func(id string) bool { return s.docs[KindCluster][id] == nil }) {
			return true
		}
	}
	for id, d := range v.whole.docs[KindCluster] {
		if s.docs[KindCluster][id] != nil {
			continue
		}
		for _, e := range []*Effective{v.whole.Effective(d), v.whole.configured(d)} {
			if v.whole.kinds.refersTo(e, changed) || slices.ContainsFunc(e.layerIDs(), func(id string) bool { return layers[id] }) {
				return true
			}
		}
	}
	return false
}

// addFreezes adds the freezes that concern a visible cluster.
func (s *State) addFreezes() {
	for id, d := range s.visible.whole.docs[KindFreeze] {
		for _, cluster := range s.docs[KindCluster] {
			if !cluster.Deleted() && d.freeze().matches(cluster.Cluster()) {
				s.docs[KindFreeze][id] = d
				break
			}
		}
	}
}

// Shows reports whether a change in the log is visible: the document is visible now, or was deleted, and the limits include both
// versions. A cluster that joined the selector of an access document has no visible history from before.
func (s *State) Shows(ch Change) bool {
	if s.visible == nil {
		return true
	}
	now := s.docs[ch.Kind][ch.ID]
	if ch.Kind == KindPin {
		return s.docs[KindCluster][ch.ID] != nil // the history does not show its content
	}
	if !s.visible.whole.kinds.useOf(ch.Kind).readable || now == nil && s.visible.whole.docs[ch.Kind][ch.ID] != nil {
		return false
	}
	for _, body := range []json.RawMessage{ch.Before, ch.After} {
		if body == nil {
			continue
		}
		d, err := s.visible.whole.kinds.document(Record{Kind: ch.Kind, ID: ch.ID, Body: body})
		if err != nil || !s.showsVersion(d, now) {
			return false
		}
	}
	return true
}

// showsVersion reports whether a version of a document is visible, given the visible document; nil: it was deleted.
func (s *State) showsVersion(d, now *Document) bool {
	if d.Kind == KindRollout {
		return now != nil && !s.ReachesOthers(now) && !slices.ContainsFunc(d.rollout().Changes, func(ch rolloutChange) bool { return s.docs[ch.Kind][ch.ID] == nil })
	}
	if s.visible.covers(scopeCheck{tx: s.visible.whole.Begin()}, d) {
		return true
	}
	if now == nil || d.Kind == KindCluster {
		return false
	}
	var selects func(*api.Cluster) bool
	switch d.Kind {
	case KindLayer:
		selects = d.layer().matches
	case KindFreeze:
		selects = d.freeze().matches
	default:
		return true
	}
	for _, cluster := range s.docs[KindCluster] {
		if selects(cluster.Cluster()) {
			return true
		}
	}
	return false
}

// ShowsOperations reports whether the requested operations of a commit concern only visible documents, among them those that it
// changed. Operations leave no change of a document on which they had no effect, but they name and count it.
func (s *State) ShowsOperations(c Commit, changed []api.ChangeRef) bool {
	operations, _, _ := c.Requested()
	return s.visible == nil || !slices.ContainsFunc(operations, func(op api.RevisionOperation) bool { return !s.showsOperation(op, changed) })
}

func (s *State) showsOperation(op api.RevisionOperation, changed []api.ChangeRef) bool {
	hides := func(kind Kind) func(string) bool {
		return func(id string) bool {
			return s.docs[kind][id] == nil && !slices.ContainsFunc(changed, func(ch api.ChangeRef) bool { return ch.Kind == string(kind) && ch.ID == id })
		}
	}
	if op.ID != "" && hides(Kind(op.Kind))(op.ID) || slices.ContainsFunc(op.ClusterIds, hides(KindCluster)) || slices.ContainsFunc(op.Layers, hides(KindLayer)) {
		return false
	}
	if op.Selector != "" {
		selector, err := ParseSelector(op.Selector)
		return err == nil && slices.ContainsFunc(s.visible.grants, func(a *access) bool {
			return a.coversKind(KindCluster) && (a.On.Selector == "" || selector.selector != nil && selector.within(a.selector))
		})
	}
	return op.Unchanged == 0 || op.ID != "" && op.Clusters == len(op.ClusterIds) && op.LayerCount == len(op.Layers)
}

// HiddenKind returns the kind of a document that is not visible. It does not name a resource type that is not visible.
func (s *State) HiddenKind(kind Kind) string {
	if typeID, typed := kind.ResourceType(); typed && s.docs[KindResourceType][typeID] == nil {
		return "resource"
	}
	return string(kind)
}

// MayHaveHistory reports whether changes of a document may be visible.
func (s *State) MayHaveHistory(kind Kind, id string) bool {
	return s.docs[kind][id] != nil || s.Whole().docs[kind][id] == nil
}
