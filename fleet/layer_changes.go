package fleet

import (
	"fmt"
)

// layers checks the clusters of which their layers make something else than before. Those that say nothing themselves and
// share all that they have are looked at once for all.
func (v *verdict) layers(edited map[string]bool) {
	type shared struct {
		was, is     *stack
		environment string
	}
	var groups [][]relayering
	known := map[shared]int{}
	for _, one := range v.relayered {
		edited[one.doc.ID] = true // all is looked at here
		if v.next.kinds.saysNothing(one.doc.alone) {
			key := shared{one.was.stack, one.is.stack, one.doc.Cluster().Environment}
			if at, there := known[key]; there {
				groups[at] = append(groups[at], one)
				continue
			}
			known[key] = len(groups)
		}
		groups = append(groups, []relayering{one})
	}
	for i, f := range v.find(len(groups), func(i int) finding { return v.hasNow(groups[i][0]) }) {
		if f.now != nil {
			v.add(inClusters(f.now, groups[i]), inClusters(f.was, groups[i]))
		}
	}
	v.layersSizes()
}

// hasNow checks what a cluster would have, and what it has if that matters.
func (v *verdict) hasNow(c relayering) finding {
	now, was := &checker{next: v.next, base: v.base, most: maxProblems, work: v.work}, &checker{next: v.base, work: v.work}
	checkHas(now, c.is)
	for _, id := range sortedKeys(c.is.written().cluster.Patches) {
		if isAssigned(c.was.cluster, id) && !isAssigned(c.is.cluster, id) {
			now.warn("the patches of component %q on cluster %q do nothing by now: the component is not on it any more", id, c.is.id)
		}
	}
	if len(now.problems)+len(now.limits)+len(now.warnings) > 0 {
		checkHas(was, c.was)
	}
	return finding{now, was}
}

// layersSizes holds the answers of clusters against Flux's limit. Each has a name of its own, so each is looked at.
func (v *verdict) layersSizes() {
	all := v.relayered
	found := v.find(len(all), func(i int) finding {
		now := &checker{next: v.next, work: v.work}
		checkSizes(now, all[i].is, v.next.kinds.lists...)
		if len(now.limits)+len(now.warnings)+len(now.problems) == 0 {
			return finding{}
		}
		was := &checker{next: v.base, work: v.work}
		checkSizes(was, all[i].was, v.base.kinds.lists...)
		return finding{now, was}
	})
	for i, f := range found {
		if f.now != nil {
			v.add(inCluster(f.now, all[i].doc.ID), inCluster(f.was, all[i].doc.ID))
		}
	}
}

// inClusters is inCluster for clusters of which the first was looked at.
func inClusters(c *checker, group []relayering) *checker {
	n := len(group) - 1
	c = andLike(inCluster(c, group[0].doc.ID), n)
	if n > 0 {
		for i := range c.limits {
			c.limits[i].Detail += fmt.Sprintf(" (and %s like it)", plural(n, "cluster"))
		}
	}
	return c
}
