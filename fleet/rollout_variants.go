package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/threeway"
)

// A variant is the document that clusters of started stages have in place of the stored one: the change of the rollout,
// merged into the stored document. So other fields of the document can change during the rollout.

// openRollouts are the rollouts of a State that are not completed or aborted.
type openRollouts struct {
	open       []*Document // sorted by id
	delivering []*Document // those with a started stage
	changed    map[docKey]bool
	all        *variants // of all open rollouts
}

// rolloutMask is a set of delivering rollouts, by their index.
type rolloutMask uint32

// variants are the variants of some rollouts. Clusters that the same rollouts reach share them.
type variants struct {
	rollouts []*Document
	from     []*Document // the stored documents
	docs     map[docKey]*Document
	layers   bool // some document is a layer
}

// get returns the variant of a document; nil: there is none.
func (v *variants) get(kind Kind, id string) *Document {
	if v == nil {
		return nil
	}
	return v.docs[docKey{kind, id}]
}

// definition returns a definition as a cluster has it: the variant of a rollout that reaches the cluster, or else the stored
// document. Code that computes anything for a cluster must use it in place of [State.Get].
func (s *State) definition(e *Effective, kind Kind, id string) (*Document, bool) {
	if e != nil && e.chain != nil {
		if doc := e.chain.variants.get(kind, id); doc != nil {
			return doc, true
		}
	}
	doc, ok := s.docs[kind][id]
	return doc, ok
}

// versions returns the versions of a definition that clusters have: the stored document, and its variants.
func (s *State) versions(kind Kind, id string) []*Document {
	doc := s.docs[kind][id]
	if doc == nil {
		return nil
	}
	out := []*Document{doc}
	if s.layers != nil {
		for _, v := range s.layers.variants {
			if other := v.get(kind, id); other != nil {
				out = append(out, other)
			}
		}
	}
	return out
}

// sameDocument reports whether two documents have the same content, so that inputs built from them are equal.
func sameDocument(a, b *Document) bool {
	return a == b || a != nil && b != nil && a.rules == b.rules && bytes.Equal(a.Body, b.Body)
}

// reindexRollouts computes the open rollouts after edits of another State. It returns CodeInRollout if a variant cannot be
// merged: then a write changes a field that a rollout changes, or the store holds content that must not be served. changed:
// the variants may differ from those before.
func (s *State) reindexRollouts(before *State, edits []edit) (changed bool, err error) {
	if before != nil {
		s.rollouts = before.rollouts
		if changed = before.rollouts.affectedBy(edits); !changed {
			return false, nil
		}
	} else if len(s.docs[KindRollout]) == 0 {
		return false, nil
	}
	s.rollouts = nil
	open := sortedRollouts(s.docs[KindRollout], (*rollout).open)
	if len(open) == 0 {
		return true, nil
	}
	s.rollouts = &openRollouts{open: open, delivering: sortedRollouts(s.docs[KindRollout], (*rollout).delivers), changed: map[docKey]bool{}}
	if len(s.rollouts.delivering) > 32 {
		return true, fmt.Errorf("there are %d active rollouts; this version can read 32", len(s.rollouts.delivering))
	}
	for _, d := range open {
		for _, ch := range d.rollout().Changes {
			s.rollouts.changed[docKey{ch.Kind, ch.ID}] = true
		}
	}
	s.rollouts.all, err = s.kinds.variantsOf(s, open, nil)
	if err == nil {
		err = s.checkMergeOrder()
	}
	return true, err
}

// affectedBy reports whether edits may change variants.
func (o *openRollouts) affectedBy(edits []edit) bool {
	for _, e := range edits {
		if e.kind == KindRollout || o != nil && (o.changed[docKey{e.kind, e.id}] || e.kind == KindResourceType) {
			return true
		}
	}
	return false
}

// variantsOf returns the variants of some rollouts. known are earlier ones, which are reused if they are the same.
func (ks *kindSet) variantsOf(s *State, rollouts []*Document, known *variants) (*variants, error) {
	v := &variants{rollouts: rollouts, docs: map[docKey]*Document{}}
	for _, d := range rollouts {
		for _, ch := range d.rollout().Changes {
			v.from = append(v.from, s.docs[ch.Kind][ch.ID])
			v.layers = v.layers || ch.Kind == KindLayer
		}
	}
	if known != nil && slices.Equal(known.rollouts, v.rollouts) && slices.Equal(known.from, v.from) {
		return known, nil
	}
	var failed failures
	for _, d := range rollouts {
		for _, ch := range d.rollout().Changes {
			key := docKey{ch.Kind, ch.ID}
			now := v.docs[key]
			if now == nil {
				now = s.docs[ch.Kind][ch.ID]
			}
			if now == nil {
				continue // see checkRolloutDocuments
			}
			doc, conflicts, err := ks.variant(ch, now)
			if err == nil {
				err = inRollout(ks, d.ID, ch, conflicts)
			}
			if e, ok := errors.AsType[*Error](err); ok {
				failed.add(e.Code, e.Problems...)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("rollout %q: %w", d.ID, err)
			}
			// The clusters have the variant since the last change of the rollout or the document, at the latest.
			doc.CreatedAt, doc.UpdatedAt = now.CreatedAt, later(d.UpdatedAt, now.UpdatedAt)
			v.docs[key] = doc
		}
	}
	return v, failed.err()
}

// variant merges one change of a rollout into the current document. It is the merge of a revert with before and after
// exchanged, and strict: a field that the rollout changes must be as before the rollout.
func (ks *kindSet) variant(ch rolloutChange, now *Document) (*Document, []jsontext.MergeConflict, error) {
	merged, conflicts, err := threeway.Merge(threeway.Versions{Made: ch.Before, Now: now.Body, Before: ch.After}, threeway.Options{Strict: true})
	if err != nil || len(conflicts) > 0 {
		return nil, conflicts, err
	}
	doc, err := ks.compose(ch.Kind, ch.ID, merged)
	return doc, nil, err
}

// inRollout returns the error for conflicts with a change of a rollout, or nil.
func inRollout(ks *kindSet, rollout string, ch rolloutChange, conflicts []jsontext.MergeConflict) error {
	if len(conflicts) == 0 {
		return nil
	}
	noun, problems := ks.noun(ch.Kind), make([]Problem, len(conflicts))
	for i, c := range conflicts {
		problems[i] = Problem{Pointer: c.Pointer, Kind: ch.Kind, ID: ch.ID, Detail: fmt.Sprintf(
			"%s %q: rollout %q changes this field from %s to %s, and it would be %s: complete or abort the rollout first",
			noun, ch.ID, rollout, excerpt(c.Base), excerpt(c.Theirs), excerpt(c.Ours))}
	}
	return &Error{Code: CodeInRollout, Detail: summarizeProblems(problems), Problems: problems}
}

// checkMergeOrder refuses two rollouts whose changes of a document depend on their order, such as two entries added at the
// same place of a list: completing one of them would change answers.
func (s *State) checkMergeOrder() error {
	by := map[docKey][]rolloutChange{}
	owner := map[docKey][]string{}
	for _, d := range s.rollouts.open {
		for _, ch := range d.rollout().Changes {
			key := docKey{ch.Kind, ch.ID}
			by[key], owner[key] = append(by[key], ch), append(owner[key], d.ID)
		}
	}
	for key, changes := range by {
		now := s.docs[key.kind][key.id]
		for i := range changes {
			for j := range i {
				if now == nil {
					continue
				}
				one, err := s.kinds.inOrder(now, changes[i], changes[j])
				if err != nil {
					return err
				}
				other, err := s.kinds.inOrder(now, changes[j], changes[i])
				if err != nil {
					return err
				}
				if !bytes.Equal(one, other) {
					return errorf(CodeInRollout, "rollouts %q and %q change the order of a list of the %s %q: complete or abort one of them first",
						owner[key][j], owner[key][i], s.kinds.noun(key.kind), key.id)
				}
			}
		}
	}
	return nil
}

// inOrder returns a document after the changes of two rollouts.
func (ks *kindSet) inOrder(now *Document, changes ...rolloutChange) ([]byte, error) {
	for _, ch := range changes {
		doc, conflicts, err := ks.variant(ch, now)
		if err == nil {
			err = inRollout(ks, "", ch, conflicts)
		}
		if err != nil {
			return nil, err
		}
		now = doc
	}
	return now.Body, nil
}

// checkRolloutDocuments refuses to delete a document that an open rollout changes.
func (s *State) checkRolloutDocuments() error {
	if s.rollouts == nil {
		return nil
	}
	var problems []Problem
	for _, d := range s.rollouts.open {
		for _, ch := range d.rollout().Changes {
			if s.docs[ch.Kind][ch.ID] == nil {
				problems = append(problems, Problem{Kind: ch.Kind, ID: ch.ID, Detail: fmt.Sprintf("the %s %q cannot be deleted while rollout %q changes it: complete or abort the rollout first", s.kinds.noun(ch.Kind), ch.ID, d.ID)})
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &Error{Code: CodeInRollout, Detail: summarizeProblems(problems), Problems: problems}
}

// checkVariants checks the fleet as it would be if all open rollouts were completed, so that a change cannot make a variant
// invalid: the variants, and the documents that changed.
func (v *txValidation) checkVariants(edits []edit) error {
	if v.next.rollouts == nil {
		return nil
	}
	var docs []*Document
	relevant := false
	is := v.next.withVariants()
	for _, e := range edits {
		relevant = relevant || e.kind != KindCluster && !isInternal(e.kind)
		if doc := is.docs[e.kind][e.id]; doc != nil && e.kind != KindCluster && e.kind != KindRollout && !isInternal(e.kind) && v.next.rollouts.all.get(e.kind, e.id) == nil {
			docs = append(docs, doc)
		}
	}
	if !relevant {
		return nil
	}
	for _, doc := range v.next.rollouts.all.docs {
		docs = append(docs, doc)
	}
	sortDocuments(docs)
	was := v.base.withVariants()
	var problems []Problem
	for _, doc := range docs {
		if v.work.stopped() != nil || len(problems) >= maxProblems {
			break
		}
		now, before := check(is, doc, maxProblems, v.work), &checker{}
		if len(now.problems) == 0 {
			continue
		}
		for _, s := range []*State{was, v.next} { // a problem of the stored document is reported there
			if old := s.docs[doc.Kind][doc.ID]; old != nil {
				before.problems = append(before.problems, check(s, old, 0, v.work).problems...)
			}
		}
		for _, p := range now.problems {
			if !slices.ContainsFunc(before.problems, p.noWorseThan) {
				p.Detail = fmt.Sprintf("%s %q, with the changes of the rollouts that are not completed or aborted: %s", doc.rules.noun, doc.ID, p.at(p.Pointer))
				p.Pointer, p.Kind, p.ID = "", doc.Kind, doc.ID
				problems = append(problems, p)
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &Error{Code: CodeInRollout, Detail: summarizeProblems(problems), Problems: problems}
}

// withVariants returns the State with the variants of all open rollouts in place of the stored documents, to check documents
// only: the layers of clusters are those of this State.
func (s *State) withVariants() *State {
	if s.rollouts == nil {
		return s
	}
	out := &State{kinds: s.kinds, rules: s.rules, docs: map[Kind]map[string]*Document{}, byDNS: s.byDNS, layers: s.layers, shared: s.shared, definitions: s.definitions}
	for kind, docs := range s.docs {
		out.docs[kind] = docs
	}
	copied := map[Kind]bool{}
	for key, doc := range s.rollouts.all.docs {
		if !copied[key.kind] {
			copied[key.kind] = true
			docs := make(map[string]*Document, len(s.docs[key.kind]))
			for id, d := range s.docs[key.kind] {
				docs[id] = d
			}
			out.docs[key.kind] = docs
		}
		out.docs[key.kind][key.id] = doc
	}
	return out
}

// reachedBy returns the delivering rollouts that reach a cluster.
func (l *layerResolution) reachedBy(d *Document) (mask rolloutMask) {
	if len(l.delivering) == 0 || d.Deleted() {
		return 0
	}
	for i, r := range l.delivering {
		if r.rollout().reaches(d.Cluster()) {
			mask |= 1 << i
		}
	}
	return mask
}

// addVariants computes the variants of a set of rollouts, unless they are known. was has those of an earlier State.
func (l *layerResolution) addVariants(s *State, mask rolloutMask, was *layerResolution) error {
	if mask == 0 || l.variants[mask] != nil {
		return nil
	}
	var rollouts []*Document
	for i, r := range l.delivering {
		if mask&(1<<i) != 0 {
			rollouts = append(rollouts, r)
		}
	}
	v, err := s.kinds.variantsOf(s, rollouts, was.variants[mask])
	if err != nil {
		return err
	}
	l.variants[mask] = v
	return nil
}

// variantsDiffer returns the definitions that a cluster has in another version than before because rollouts reach it.
func (r Result) variantsDiffer(was, is *Effective) (keys []docKey) {
	looked := map[docKey]bool{}
	for _, e := range []*Effective{was, is} {
		if e == nil || e.chain == nil || e.chain.variants == nil {
			continue
		}
		for key := range e.chain.variants.docs {
			if key.kind == KindLayer || looked[key] {
				continue
			}
			looked[key] = true
			before, _ := r.base.definition(was, key.kind, key.id)
			after, _ := r.State.definition(is, key.kind, key.id)
			if !sameDocument(before, after) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// variantRedeployed reports whether the deployment of a definition differs between two versions that a cluster has.
func (r Result) variantRedeployed(was, is *Effective, key docKey) bool {
	a := r.State.kinds.descriptor(key.kind)
	before, had := r.base.definition(was, key.kind, key.id)
	after, has := r.State.definition(is, key.kind, key.id)
	return a != nil && had && has && a.redeployed(before, after)
}

// rolloutsOn returns the rollouts that reach a cluster.
func (e *Effective) rolloutsOn() []*Document {
	if e.chain == nil || e.chain.variants == nil {
		return nil
	}
	return e.chain.variants.rollouts
}

// matchesWith reports whether a layer applies to a cluster, in the version that the cluster has.
func (v *variants) matchesWith(layer *Document, c *api.Cluster) (*Document, bool) {
	if other := v.get(KindLayer, layer.ID); other != nil {
		layer = other
	}
	return layer, layer.layer().matches(c)
}

// key is the part of a chain's key that stands for the variants.
func (v *variants) key() string {
	var key strings.Builder
	for _, d := range v.rollouts {
		key.WriteByte(1)
		key.WriteString(d.ID)
	}
	return key.String()
}

// warnStagesChanged warns that a change of a cluster moves it between started and other stages of rollouts.
func warnStagesChanged(c *checker, before, after *Document) {
	if c.base == nil || after.Deleted() || before.Deleted() {
		return
	}
	was, is := c.base.Effective(before).rolloutsOn(), c.next.Effective(after).rolloutsOn()
	for _, m := range []struct {
		verb string
		ids  []string
	}{{"gets the change", missing(idsOf(is), idsOf(was))}, {"loses the change", missing(idsOf(was), idsOf(is))}} {
		for _, id := range m.ids {
			one, had := c.base.docs[KindRollout][id]
			other, has := c.next.docs[KindRollout][id]
			if had && has {
				c.warn("cluster %q moves from stage %q to stage %q of rollout %q and %s", after.ID,
					one.rollout().stageName(before.Cluster()), other.rollout().stageName(after.Cluster()), id, m.verb)
			}
		}
	}
}

// stageName returns the name of the stage of a cluster.
func (r *rollout) stageName(c *api.Cluster) string {
	if at := r.stageOf(c); at < len(r.Stages) {
		return r.Stages[at].Name
	}
	return ""
}

// confirmedByRollout reports whether the removals of a stage belong to those that the author of the rollout confirmed with
// the plan_hash of the whole change: those of all stages so far are not more.
func (r Result) confirmedByRollout() bool {
	if r.base.rollouts == nil {
		return false
	}
	var started *Change
	for i, ch := range r.Commit.Changes {
		switch {
		case isInternal(ch.Kind):
		case ch.Kind != KindRollout || started != nil:
			return false
		default:
			started = &r.Commit.Changes[i]
		}
	}
	if started == nil || started.Before == nil || started.After == nil {
		return false
	}
	was, is := r.base.docs[KindRollout][started.ID], r.State.docs[KindRollout][started.ID]
	if is.rollout().ConfirmedRemovals == 0 || is.rollout().Started <= was.rollout().Started {
		return false
	}
	without := *was.rollout()
	without.State, without.Started = rolloutProposed, 0
	doc, err := r.base.kinds.newRecord(KindRollout, was.ID, &without)
	if err != nil {
		return false
	}
	edits := []edit{{KindRollout, was.ID, doc}}
	c := r.Commit
	c.Changes = []Change{*started}
	base, err := r.base.with(c, edits, true)
	if err != nil {
		return false
	}
	all := Result{Commit: c, State: r.State, base: base, layerChanges: r.State.layerChanges(base, edits), filters: r.filters, work: r.work}
	names, err := all.affected(false)
	return err == nil && all.computeRemovals(names).count <= is.rollout().ConfirmedRemovals
}
