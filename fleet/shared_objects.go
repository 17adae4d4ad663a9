package fleet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// Flux Operator applies all objects as one field manager. If two ResourceSets apply the same object, each application
// removes the fields that only the other sets, for as long as both exist. So the service refuses that: on one cluster, one
// definition renders an object.

// sharedByDefinitions returns the shared objects of the State. In a new process it executes the templates of all
// definitions, so it ends with the work, and its result is then incomplete and must not be used. The next call continues,
// because each definition caches its objects.
func (s *State) sharedByDefinitions(work work) map[docKey][]rendering.Object {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	if s.shared.by != nil {
		return s.shared.by
	}
	first := map[rendering.Object]docKey{}
	by := map[docKey][]rendering.Object{}
	note := func(o rendering.Object, key docKey) {
		if !slices.Contains(by[key], o) {
			by[key] = append(by[key], o)
		}
	}
	for _, a := range s.kinds.lists[s.kinds.compiledCount:] {
		if !a.hasTemplate() {
			continue
		}
		for id := range s.docs[a.kind] {
			if work.stopped() != nil {
				return nil
			}
			key := docKey{a.kind, id}
			for _, o := range s.objectsOfVersions(a.kind, id, work) {
				if other, present := first[o]; present {
					note(o, other)
					note(o, key)
					continue
				}
				first[o] = key
			}
		}
	}
	for o, key := range first {
		if other, ok := s.makerOf(o); ok {
			note(o, other)
			note(o, key)
		}
	}
	if work.stopped() != nil {
		return nil // the objects of the last definition may be missing
	}
	s.shared.by = by
	return by
}

// objectsOfVersions returns the objects that a definition renders, in any version that clusters have of it.
func (s *State) objectsOfVersions(kind Kind, id string, work work) (objects []rendering.Object) {
	for _, doc := range s.versions(kind, id) {
		if doc.refers {
			continue // no cluster has it as it is stored
		}
		for _, o := range doc.value.(*resource).rendered(nil, work).Objects {
			if !slices.Contains(objects, o) {
				objects = append(objects, o)
			}
		}
	}
	return objects
}

// makerOf returns the definition of a compiled-in kind that renders an object, as the shipped templates name it.
func (s *State) makerOf(o rendering.Object) (docKey, bool) {
	for _, a := range s.kinds.lists[:s.kinds.compiledCount] {
		if id := s.renderedFor(a, o); id != "" {
			return docKey{a.kind, id}, true
		}
	}
	return docKey{}, false
}

// renderedFor returns the id of the definition of a compiled-in kind that may render an object, in any version that is on a cluster;
// empty if there is none.
func (s *State) renderedFor(a *descriptor, o rendering.Object) string {
	switch {
	case a.idOf != nil:
		if id := a.idOf(o); s.docs[a.kind][id] != nil {
			return id
		}
	case a.object != nil && slices.ContainsFunc(s.versions(a.kind, o.Name), func(d *Document) bool { return a.object(d) == o }):
		return o.Name
	}
	return ""
}

// checkSharedObjects refuses clusters on which two definitions render the same object, unless they did so before.
func (v *txValidation) checkSharedObjects(edits []edit) {
	if !slices.ContainsFunc(v.next.kinds.lists, (*descriptor).hasTemplate) {
		return
	}
	for _, has := range v.sharingCandidates(edits) {
		if v.work.stopped() != nil || len(v.conflicts) >= maxProblems {
			return
		}
		found := v.next.objectConflicts(has, v.work)
		if len(found) == 0 {
			continue
		}
		var before []Problem
		if was, ok := v.base.Get(KindCluster, has.id); ok {
			before = v.base.objectConflicts(v.base.configured(was), v.work)
		}
		v.conflicts = append(v.conflicts, v.newProblems(found, before)...)
	}
}

// sharingCandidates returns the clusters with a change that affects which definition renders an object.
func (v *txValidation) sharingCandidates(edits []edit) []*Effective {
	var out []*Effective
	looked := map[string]bool{}
	add := func(doc *Document) {
		if doc != nil && !doc.Deleted() && !looked[doc.ID] {
			looked[doc.ID] = true
			out = append(out, v.next.configured(doc))
		}
	}
	retyped := slices.ContainsFunc(edits, func(e edit) bool {
		_, typed := e.kind.ResourceType()
		return typed || e.kind == KindResourceType
	})
	if shared := len(v.next.sharedByDefinitions(v.work)) > 0; retyped || shared && v.next.shared != v.base.shared {
		for _, doc := range v.next.All(KindCluster) {
			if shared || len(v.next.configured(doc).cluster.Resources) > 0 {
				add(doc)
			}
		}
		return out
	}
	for _, e := range edits {
		if e.kind == KindCluster {
			add(v.next.docs[KindCluster][e.id])
		}
	}
	for _, r := range v.layerChanges {
		add(v.next.docs[KindCluster][r.doc.ID])
	}
	return out
}

// objectConflicts returns the objects that two definitions on a cluster render.
func (s *State) objectConflicts(has *Effective, work work) []Problem {
	shares := s.sharedByDefinitions(work)
	elsewhere := s.overriddenObjects(has, work)
	if len(shares) == 0 && len(elsewhere) == 0 {
		return nil
	}
	makers := map[rendering.Object]docKey{}
	var found []Problem
	for _, a := range s.kinds.lists {
		for id, on := range a.entries(has) {
			key := docKey{a.kind, id}
			objects := shares[key]
			if len(elsewhere) > 0 {
				objects = s.objectsOn(has, key, elsewhere, work)
			}
			for _, o := range objects {
				other, taken := makers[o]
				switch {
				case !on:
				case !taken:
					makers[o] = key
				case other == key || !s.makesObject(has, key, o, work): // most objects belong to one definition, and need not be rendered for the cluster
				case !s.makesObject(has, other, o, work):
					makers[o] = key
				default:
					found = append(found, s.conflict(has, o, other, key))
				}
			}
		}
	}
	return found
}

// conflict returns the problem of two definitions that render the same object.
func (s *State) conflict(has *Effective, o rendering.Object, a, b docKey) Problem {
	if compareKeys(a, b) > 0 { // independent of the order on the cluster, so that it is the same problem
		a, b = b, a
	}
	name := func(key docKey) string { return fmt.Sprintf("%s %q", s.kinds.noun(key.kind), key.id) }
	return Problem{Kind: KindCluster, ID: has.id, Detail: fmt.Sprintf(
		"cluster %q: the %s and the %s both make %s; Flux applies both as one field manager, so that each application removes the fields of the other",
		has.id, name(a), name(b), o)}
}

// compareKeys orders documents by kind and id.
func compareKeys(a, b docKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
}

// overriddenObjects returns the objects of definitions that a cluster overrides.
func (s *State) overriddenObjects(has *Effective, work work) map[docKey][]rendering.Object {
	var out map[docKey][]rendering.Object
	for _, a := range s.kinds.lists[s.kinds.compiledCount:] {
		if !a.hasTemplate() {
			continue
		}
		for _, e := range has.cluster.Resources[a.field] {
			doc, ok := s.definition(has, a.kind, e.ID)
			if len(e.Overrides) == 0 || !ok {
				continue
			}
			if work.stopped() != nil {
				return nil
			}
			r := doc.value.(*resource)
			if objects := r.rendered(e.Overrides, work).Objects; !slices.Equal(objects, r.rendered(nil, work).Objects) {
				if out == nil {
					out = map[docKey][]rendering.Object{}
				}
				out[docKey{a.kind, e.ID}] = objects
			}
		}
	}
	return out
}

// objectsOn returns all objects of a definition on a cluster; elsewhere holds those that the cluster's overrides change.
func (s *State) objectsOn(has *Effective, key docKey, elsewhere map[docKey][]rendering.Object, work work) []rendering.Object {
	if objects, ok := elsewhere[key]; ok {
		return objects
	}
	doc, _ := s.definition(has, key.kind, key.id)
	if doc == nil {
		return nil
	}
	if r, ok := doc.value.(*resource); ok {
		return r.rendered(nil, work).Objects
	}
	if a := s.kinds.descriptor(key.kind); a.object != nil {
		return []rendering.Object{a.object(doc)}
	}
	return nil
}

// makesObject reports whether a definition renders an object on this very cluster: a template may depend on the cluster's
// name or environment.
func (s *State) makesObject(has *Effective, key docKey, o rendering.Object, work work) bool {
	doc, _ := s.definition(has, key.kind, key.id)
	if doc == nil {
		return false
	}
	r, ok := doc.value.(*resource)
	if !ok {
		a := s.kinds.descriptor(key.kind)
		return a.object == nil || a.object(doc) == o
	}
	for _, e := range has.cluster.Resources[r.of.ID] {
		if e.ID == key.id {
			made := work.execute(r.typ().ID, func() rendering.Result { return r.renderOn(fluxCluster(has.cluster), e.Overrides) })
			return slices.Contains(made.Objects, o)
		}
	}
	return false
}
