package fleet

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// Flux deletes the objects that a template no longer renders for an input: that is a removal, although the input stays. So the
// template is executed on the inputs before and after a change.

func newObjectChanges(base, next *State, work work) *objectChanges {
	c := &objectChanges{work: work, known: map[objectChange]bool{}, made: map[objectChange]rendering.Result{}}
	for _, list := range next.kinds.listsWithRemoved(base.kinds) {
		was := base.kinds.byKind[list.kind]
		if list.typed && (list.resourceType().clusterUse == usesWholeCluster || was != nil && was.resourceType().clusterUse == usesWholeCluster) {
			c.perCluster = append(c.perCluster, list.field)
		}
	}
	return c
}

// ofCluster reports whether the removed objects on a cluster may differ from those on others with the same settings and
// environment: its resource types read more of the cluster, or its inputs get other receipts.
func (c *objectChanges) ofCluster(before, after *Effective) bool {
	switch {
	case before == nil || after == nil:
		return false
	case fluxCluster(before.cluster) != fluxCluster(after.cluster):
		return len(before.cluster.Resources) > 0
	}
	return slices.ContainsFunc(c.perCluster, func(id string) bool { return len(before.cluster.Resources[id]) > 0 })
}

// removes reports whether Flux deletes an object of an input that stays. If it is not known which objects there are, any
// change counts. When the work has ended, the result is true and must not be used.
func (c *objectChanges) removes(was, is *resourceType, before, after *resourceInput) bool {
	same := before.equal(after)
	if same && was.Template == is.Template {
		return false
	}
	if c.work.stopped() != nil {
		return true
	}
	change := objectChange{was, is, before.key(was), after.key(is), same}
	removes, known := c.known[change]
	if !known {
		removes = c.compare(was, is, before, after, same)
		c.known[change] = removes
	}
	return removes
}

// compare is removes for inputs or templates that differ.
func (c *objectChanges) compare(was, is *resourceType, before, after *resourceInput, same bool) bool {
	known := was.objectsKnown && is.objectsKnown
	if !known {
		if was.Template != "" && was.Template != is.Template || !sameFields(was.namingFields(), before, after) || !sameFields(is.namingFields(), before, after) {
			return true
		}
		if was.compiled == nil || is.compiled == nil {
			return false
		}
	}
	receipt := Receipt{}
	if !same {
		receipt = changedReceipt
	}
	made, next := c.render(was, before, Receipt{}), c.render(is, after, receipt)
	if made.Err != nil || next.Err != nil {
		return known
	}
	return made.Removes(&next)
}

// changedReceipt is the receipt of an input that differs from the one with the zero receipt.
var changedReceipt = Receipt{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// maxMade is the number of results that are kept for other inputs with the same content.
const maxMade = 1000

// render executes the template of a type on an input.
func (c *objectChanges) render(t *resourceType, in *resourceInput, receipt Receipt) rendering.Result {
	input := objectChange{is: t, after: in.key(t), sameReceipt: receipt == Receipt{}}
	made, known := c.made[input]
	if known {
		return made
	}
	made = c.work.execute(t.ID, func() rendering.Result { return t.renderInput(in, receipt) })
	if c.work.stopped() != nil {
		return made // it may be the error of the work
	}
	if c.made != nil && len(c.made) < maxMade && t.clusterUse != usesWholeCluster {
		c.made[input] = made
	}
	return made
}

// key is a digest of an input as far as the template of its type reads it.
func (in *resourceInput) key(t *resourceType) [sha256.Size]byte {
	texts := []string{in.id}
	switch c := in.cluster; t.clusterUse {
	case usesNoCluster:
	case usesEnvironment:
		texts = append(texts, c.Environment)
	case usesWholeCluster:
		texts = append(texts, c.Name, c.DNS, c.Environment, c.ReconcileRequestedAt)
	}
	body := make([]byte, 0, 512)
	for _, text := range texts {
		body = append(append(body, text...), 0)
	}
	for _, f := range in.fields { // JSON has no zero byte
		body = append(append(append(append(body, f.name...), 0), f.value...), 0)
	}
	return sha256.Sum256(body)
}

// renamed returns the installations that stay on a cluster's lists while an object of them goes.
func (r Result) renamed(before, after *Effective, was []installation) []installation {
	var out []installation
	for _, list := range r.State.kinds.lists[r.State.kinds.compiledCount:] {
		base := r.base.kinds.byKind[list.kind]
		if !slices.ContainsFunc(was, func(i installation) bool { return i.Kind == list.kind }) {
			continue
		}
		is := r.State.typedInputs(after, list.kind)
		var had map[string]resourceInput
		if before != nil && base != nil {
			had = r.base.typedInputs(before, list.kind)
		}
		for _, i := range was {
			in, stays := is[i.ID]
			if i.Kind != list.kind || !stays {
				continue
			}
			old, known := had[i.ID]
			var renamed bool
			if known && i.Identity == "" {
				renamed = r.objects.removes(base.resourceType(), list.resourceType(), &old, &in)
			} else {
				renamed = i.Identity != r.objects.identity(list.resourceType(), &in, changedReceipt)
			}
			if renamed {
				out = append(out, i)
			}
		}
	}
	return out
}

// identity returns a digest of the objects of an input; if they are not known, of the values that may name them.
func (c *objectChanges) identity(t *resourceType, in *resourceInput, receipt Receipt) string {
	if t.objectsKnown {
		if made := c.render(t, in, receipt); made.Err == nil {
			return made.Digest()
		}
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n", t.Template)
	for _, path := range t.namingFields() {
		_, _ = fmt.Fprintf(sum, "%q %s\n", path, in.at(path))
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// identified adds identities to the installations on a cluster before the change, to be stored.
func (r Result) identified(cluster *Effective, installed []installation) []installation {
	inputs := map[Kind]map[string]resourceInput{}
	for n := range installed {
		i := &installed[n]
		list := r.base.kinds.descriptor(i.Kind)
		if list == nil || !list.typed {
			continue
		}
		if inputs[i.Kind] == nil {
			inputs[i.Kind] = r.base.typedInputs(cluster, i.Kind)
		}
		if in, ok := inputs[i.Kind][i.ID]; ok {
			i.Identity = r.objects.identity(list.resourceType(), &in, Receipt{})
		}
	}
	return installed
}
