package fleet

import (
	"fmt"
)

// checkLayerChanges checks the clusters whose effective configuration changes through their layers.
func (v *txValidation) checkLayerChanges(edited map[string]bool) {
	for _, one := range v.layerChanges {
		edited[one.doc.ID] = true // it is checked completely here
	}
	groups := v.layerGroups()
	for i, f := range v.checkEach(len(groups), func(i int) checkResult { return v.checkEffective(groups[i][0]) }) {
		if f.now != nil {
			v.add(inClusters(f.now, groups[i]), inClusters(f.was, groups[i]))
		}
	}
	v.checkLayerSizes()
}

// layerGroups groups the layer changes, so that checking one member of a group is sufficient: clusters without settings of their
// own and with the same layers are one group.
func (v *txValidation) layerGroups() (groups [][]layerChange) {
	type shared struct {
		was, is     *layerChain
		environment string
	}
	known := map[shared]int{}
	for _, one := range v.layerChanges {
		if v.next.kinds.hasNoSettings(one.doc.own) {
			key := shared{one.was.chain, one.is.chain, one.doc.Cluster().Environment}
			if at, present := known[key]; present {
				groups[at] = append(groups[at], one)
				continue
			}
			known[key] = len(groups)
		}
		groups = append(groups, []layerChange{one})
	}
	return groups
}

// checkEffective checks a cluster's configuration after the change, and before it if that matters.
func (v *txValidation) checkEffective(c layerChange) checkResult {
	now, was := &checker{next: v.next, base: v.base, limit: maxProblems, work: v.work}, &checker{next: v.base, work: v.work}
	checkEffective(now, c.is)
	for _, id := range sortedKeys(c.is.withoutLayers().cluster.Patches) {
		if isAssigned(c.was.cluster, id) && !isAssigned(c.is.cluster, id) {
			now.warn("the patches of component %q on cluster %q have no effect any more: the component is no longer on it", id, c.is.id)
		}
	}
	if len(now.problems)+len(now.limits)+len(now.warnings) > 0 {
		checkEffective(was, c.was)
	}
	return checkResult{now, was}
}

// checkLayerSizes checks the answers of clusters against Flux's limit. Each answer contains the cluster's name, so each
// cluster is checked.
func (v *txValidation) checkLayerSizes() {
	all := v.layerChanges
	found := v.checkEach(len(all), func(i int) checkResult {
		now := &checker{next: v.next, work: v.work}
		checkSizes(now, all[i].is, v.next.kinds.lists...)
		if len(now.limits)+len(now.warnings)+len(now.problems) == 0 {
			return checkResult{}
		}
		was := &checker{next: v.base, work: v.work}
		checkSizes(was, all[i].was, v.base.kinds.lists...)
		return checkResult{now, was}
	})
	for i, f := range found {
		if f.now != nil {
			v.add(inCluster(f.now, all[i].doc.ID), inCluster(f.was, all[i].doc.ID))
		}
	}
}

// inClusters is inCluster for a group of clusters, of which the first was checked.
func inClusters(c *checker, group []layerChange) *checker {
	n := len(group) - 1
	c = andLike(inCluster(c, group[0].doc.ID), n)
	if n > 0 {
		for i := range c.limits {
			c.limits[i].Detail += fmt.Sprintf(" (and %s like it)", plural(n, "cluster"))
		}
	}
	return c
}
