package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// checkDependents checks unchanged documents, but only for problems that a changed definition can cause: a change of a
// catalog entry that 10,000 clusters use must stay cheap.
func (v *txValidation) checkDependents(edits []edit) {
	changed := map[Kind]map[string]bool{}
	edited := map[string]bool{}
	for _, e := range edits {
		if e.kind == KindCluster {
			edited[e.id] = true
			continue
		}
		if neverServed(e.kind) {
			continue
		}
		if changed[e.kind] == nil {
			changed[e.kind] = map[string]bool{}
		}
		changed[e.kind][e.id] = true
	}
	v.checkRetyped(edits)
	v.next.addChangedTypes(v.base, changed)
	v.checkLayerChanges(edited)
	if len(changed) == 0 {
		return
	}
	redefined, releases := v.redefined(changed), v.changedReleases(changed[KindComponent])
	if len(redefined) > 0 {
		v.checkLayerReferences(changed[KindLayer], redefined)
	}
	var candidates []*Effective
	largest, components := v.next.largestBounds(changed), v.next.kinds.descriptor(KindComponent)
	for id, doc := range v.next.docs[KindCluster] {
		if e := v.next.configured(doc); !edited[id] && !doc.Deleted() && (v.candidate(e, changed, redefined, largest) || components.hasAny(e, releases)) {
			candidates = append(candidates, e)
		}
	}
	slices.SortFunc(candidates, func(a, b *Effective) int { return strings.Compare(a.id, b.id) })
	all := dependentsOf(candidates, redefined)
	for i, f := range v.checkEach(len(all), func(i int) checkResult { return v.checkDependent(all[i], changed, releases) }) {
		if f.now != nil {
			v.add(andLike(inCluster(f.now, all[i].has.id), all[i].like), andLike(inCluster(f.was, all[i].has.id), all[i].like))
		}
	}
}

// dependent is a cluster with an unchanged document.
type dependent struct {
	has       *Effective
	redefined map[Kind]map[string]bool // nil: its configuration is checked on another cluster with the same one
	like      int                      // number of other clusters with the same configuration
}

// dependentsOf groups clusters without settings of their own: all clusters with the same layers have the same problems.
func dependentsOf(clusters []*Effective, redefined map[Kind]map[string]bool) []*dependent {
	out := make([]*dependent, len(clusters))
	known := map[*layerChain]*dependent{}
	for i, has := range clusters {
		out[i] = &dependent{has: has, redefined: redefined}
		if !has.shared {
			continue
		}
		if first := known[has.chain]; first != nil {
			first.like++
			out[i].redefined = nil
		} else {
			known[has.chain] = out[i]
		}
	}
	return out
}

// checkLayerReferences checks the settings that unchanged layers have for redefined definitions, whether or not a cluster
// has them: a later change of a label may apply them to a cluster, and the author of that change could not correct them.
func (v *txValidation) checkLayerReferences(edited map[string]bool, redefined map[Kind]map[string]bool) {
	for _, doc := range v.next.sorted(KindLayer, func(d *Document) bool { return !edited[d.ID] }) {
		if v.work.stopped() != nil {
			return
		}
		now, was := &checker{next: v.next, work: v.work}, &checker{next: v.base, work: v.work}
		checkLayerReference(now, doc.layer(), redefined)
		if len(now.problems)+len(now.warnings) > 0 {
			checkLayerReference(was, doc.layer(), redefined)
		}
		v.add(inDocument(now, doc), inDocument(was, doc))
	}
}

// checkLayerReference checks the settings of a layer for some definitions.
func checkLayerReference(c *checker, l *layer, definitions map[Kind]map[string]bool) {
	for _, id := range sortedKeys(definitions[KindComponent]) {
		if len(l.Patches[id]) > 0 {
			checkLayerPatches(c, l, id)
		}
		checkLayerFlux(c, l, id)
	}
	for _, typeID := range sortedKeys(l.Resources) {
		for i, e := range l.Resources[typeID] {
			if definitions[ResourceKind(typeID)][e.ID] {
				checkOverridesOf(c, nil, typeID, &e, jsontext.Pointer("resources", typeID, i, "overrides"))
			}
		}
	}
}

// checkRetyped checks unchanged definitions of changed resource types.
func (v *txValidation) checkRetyped(edits []edit) {
	edited := map[docKey]bool{}
	for _, e := range edits {
		edited[docKey{e.kind, e.id}] = true
	}
	for _, e := range edits {
		if e.kind != KindResourceType || e.doc == nil {
			continue
		}
		for _, doc := range v.next.sorted(ResourceKind(e.id), func(d *Document) bool { return !edited[docKey{d.Kind, d.ID}] }) {
			if v.work.stopped() != nil || len(v.problems) >= maxProblems {
				return
			}
			now, was := check(v.next, doc, 0, v.work), &checker{next: v.base, work: v.work}
			if before := v.base.docs[doc.Kind][doc.ID]; before != nil && len(now.problems)+len(now.warnings) > 0 {
				was = check(v.base, before, 0, v.work)
			}
			v.add(inDocument(now, doc), inDocument(was, doc))
		}
	}
}

// inDocument moves the problems of a document outside the request to the request as a whole.
func inDocument(c *checker, doc *Document) *checker {
	for i, p := range c.problems {
		c.problems[i] = Problem{Detail: fmt.Sprintf("%s %q: %s: %s", doc.rules.noun, doc.ID, strings.TrimPrefix(p.Pointer, "/"), p.Detail)}
	}
	return c
}

// checkDependent checks a cluster with an unchanged document.
func (v *txValidation) checkDependent(d *dependent, changed map[Kind]map[string]bool, releases map[string]bool) checkResult {
	now, was := &checker{next: v.next, work: v.work, valid: &v.valid}, &checker{next: v.base, work: v.work}
	for _, a := range v.next.kinds.lists {
		if a.hasAny(d.has, changed[a.kind]) {
			checkSizes(now, d.has, a)
			if old, ok := v.base.Get(KindCluster, d.has.id); ok && len(now.limits) > 0 {
				checkSizes(was, v.base.configured(old), a)
			}
		}
	}
	for _, a := range v.next.kinds.lists {
		for _, id := range sortedKeys(d.redefined[a.kind]) {
			if a.overriddenOn(d.has.cluster, id) {
				a.overrides.recheck(now, d.has, id)
				if len(now.problems)+len(now.warnings) > 0 {
					a.overrides.recheck(was, d.has, id)
				}
			}
		}
	}
	if d.redefined != nil && v.next.kinds.descriptor(KindComponent).hasAny(d.has, releases) {
		checkReleases(now, d.has)
		if old, ok := v.base.Get(KindCluster, d.has.id); ok && len(now.problems) > 0 {
			checkReleases(was, v.base.configured(old))
		}
	}
	return checkResult{now, was}
}

// changedReleases returns the changed components that may now be the same Helm release as another component.
func (v *txValidation) changedReleases(changed map[string]bool) map[string]bool {
	out := map[string]bool{}
	for id := range changed {
		was, had := v.base.Get(KindComponent, id)
		is, has := v.next.Get(KindComponent, id)
		if had && has && is.Component().Type == TypeHelm && v.next.catalog().releases[is.Component().ReleaseName] && releaseChanged(was, is) {
			out[id] = true
		}
	}
	return out
}

// redefined returns the changed definitions whose change can invalidate settings of clusters.
func (v *txValidation) redefined(changed map[Kind]map[string]bool) map[Kind]map[string]bool {
	out := map[Kind]map[string]bool{}
	for _, a := range v.next.kinds.lists {
		for id := range changed[a.kind] {
			was, had := v.base.Get(a.kind, id)
			is, has := v.next.Get(a.kind, id)
			if a.overrides != nil && (!had || !has || a.overrides.invalidates(was, is)) {
				if out[a.kind] == nil {
					out[a.kind] = map[string]bool{}
				}
				out[a.kind][id] = true
			}
		}
	}
	return out
}

// candidate reports whether a changed definition can cause a problem on a cluster. It rarely can, and that must be cheap to
// detect: a cluster without settings for the definition, whose answers would be small enough with the largest definitions,
// needs no closer look.
func (v *txValidation) candidate(d *Effective, changed, redefined map[Kind]map[string]bool, largest map[Kind]int) bool {
	for _, a := range v.next.kinds.lists {
		for _, id := range sortedKeys(redefined[a.kind]) {
			if a.overriddenOn(d.cluster, id) {
				return true
			}
		}
		if len(changed[a.kind]) > 0 && envelopeBytes+a.overrideBound(d)+a.count(d)*(largest[a.kind]+d.block+receiptBytes) >= adviseAnswerBytes {
			return true
		}
	}
	return false
}

// largestBounds returns the bound of the largest definition of each kind with changes.
func (s *State) largestBounds(changed map[Kind]map[string]bool) map[Kind]int {
	largest := map[Kind]int{}
	for _, a := range s.kinds.lists {
		if len(changed[a.kind]) == 0 {
			continue
		}
		for id := range s.docs[a.kind] {
			for _, doc := range s.versions(a.kind, id) {
				largest[a.kind] = max(largest[a.kind], doc.bound)
			}
		}
	}
	return largest
}
