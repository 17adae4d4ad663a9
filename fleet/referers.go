package fleet

import (
	"fmt"
	"maps"
	"strings"
)

// referers checks, in documents that do not change themselves, only what a changed definition can break: a catalog
// entry used by 10,000 clusters must stay cheap to change.
func (v *verdict) referers(edits []edit) {
	changed := map[Kind]map[string]bool{}
	edited := map[string]bool{}
	for _, e := range edits {
		if e.kind == KindCluster {
			edited[e.id] = true
			continue
		}
		if internal(e.kind) {
			continue
		}
		if changed[e.kind] == nil {
			changed[e.kind] = map[string]bool{}
		}
		changed[e.kind][e.id] = true
	}
	if len(changed) == 0 {
		return
	}
	regrammared := v.regrammared(changed[KindComponent])
	var suspects []*Document
	largest := v.next.largestBounds()
	for id, doc := range v.next.docs[KindCluster] {
		if !edited[id] && !doc.Deleted() && suspect(doc, changed, regrammared, largest) {
			suspects = append(suspects, doc)
		}
	}
	sortDocuments(suspects)
	for _, doc := range suspects {
		if v.stop.now() != nil {
			return
		}
		now, was := &checker{next: v.next}, &checker{next: v.base}
		for r, a := range assignments {
			if a.hasAny(doc.Cluster(), changed[a.kind]) {
				checkSizes(now, doc, Resource(r))
				if old, ok := v.base.Get(KindCluster, doc.ID); ok && len(now.limits) > 0 {
					checkSizes(was, old, Resource(r))
				}
			}
		}
		for id := range regrammared {
			if len(doc.Cluster().Patches[id]) > 0 {
				checkClusterPatches(now, doc.Cluster(), id)
				if len(now.problems)+len(now.warnings) > 0 {
					checkClusterPatches(was, doc.Cluster(), id)
				}
			}
		}
		v.add(inCluster(now, doc.ID), inCluster(was, doc.ID))
	}
}

// regrammared are the changed components whose change can make a cluster's patches unfit: those that became another type,
// or whose own patches, which a cluster's are laid over, are others now.
func (v *verdict) regrammared(components map[string]bool) map[string]bool {
	out := map[string]bool{}
	for id := range components {
		was, had := v.base.Get(KindComponent, id)
		is, has := v.next.Get(KindComponent, id)
		if !had || !has || was.Component().Type != is.Component().Type || !maps.EqualFunc(was.Component().Patches, is.Component().Patches, sameBytes) {
			out[id] = true
		}
	}
	return out
}

// suspect tells whether a changed definition can break anything on a cluster. Nearly always it cannot, and that must be
// quick to see: there is no need to look for the definition on a cluster that has no patches for it and whose answers
// would be small with the largest definitions there are.
func suspect(d *Document, changed map[Kind]map[string]bool, regrammared map[string]bool, largest map[Kind]int) bool {
	c := d.Cluster()
	for id := range regrammared {
		if len(c.Patches[id]) > 0 {
			return true
		}
	}
	for r, n := range []int{len(c.PlatformComponents), len(c.Namespaces), len(c.Rolebindings)} {
		kind := assignments[r].kind
		if len(changed[kind]) > 0 && envelopeBytes+d.bound+n*(largest[kind]+d.block) >= adviseAnswerBytes {
			return true
		}
	}
	return false
}

// largestBounds is the bound of the largest definition of each kind.
func (s *State) largestBounds() map[Kind]int {
	largest := map[Kind]int{}
	for _, a := range assignments {
		for _, doc := range s.docs[a.kind] {
			largest[a.kind] = max(largest[a.kind], doc.bound)
		}
	}
	return largest
}

// inCluster moves the problems of a cluster that the request does not contain to the request as a whole.
func inCluster(c *checker, id string) *checker {
	for i, p := range c.problems {
		c.problems[i] = Problem{Pointer: "", Detail: fmt.Sprintf("cluster %q: %s: %s", id, strings.TrimPrefix(p.Pointer, "/"), p.Detail)}
	}
	for i, p := range c.limits {
		c.limits[i].Pointer = ""
		c.limits[i].Detail = p.Detail
	}
	return c
}
