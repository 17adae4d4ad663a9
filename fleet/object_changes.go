package fleet

import (
	"bytes"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// Flux deletes the objects that a template no longer renders for an input: that is a removal, although the input stays. So the
// template is executed on the inputs before and after a change.

// objectChanges compares the objects of inputs before and after one change.
type objectChanges struct {
	work  work
	known map[objectChange]bool
}

// objectChange is an input before and after a change, as far as its template reads it.
type objectChange struct {
	was, is       *resourceType
	before, after string
	sameReceipt   bool
}

func newObjectChanges(work work) *objectChanges {
	return &objectChanges{work: work, known: map[objectChange]bool{}}
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

// render executes the template of a type on an input.
func (c *objectChanges) render(t *resourceType, in *resourceInput, receipt Receipt) rendering.Result {
	made := t.renderInput(in, receipt)
	c.work.Spend(made.Units() / unitsPerStep)
	return made
}

// key identifies an input as far as the template of its type reads it.
func (in *resourceInput) key(t *resourceType) string {
	part := resourceInput{id: in.id, fields: in.fields}
	switch t.clusterUse {
	case usesEnvironment:
		part.cluster.Environment = in.cluster.Environment
	case usesWholeCluster:
		part.cluster = in.cluster
	}
	body, _ := part.MarshalJSON() // its fields are encoded already
	return string(body)
}

// equal reports whether two inputs have the same content.
func (in *resourceInput) equal(other *resourceInput) bool {
	a, b := in.fields, other.fields
	return in.id == other.id && in.cluster == other.cluster && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] ||
		slices.EqualFunc(a, b, func(x, y inputField) bool { return x.name == y.name && bytes.Equal(x.value, y.value) }))
}

// wholeInput is the path of all fields of an input.
const wholeInput = ""

// namingFields returns the fields of an input that determine its objects if the template does not show that.
func (t *resourceType) namingFields() []string {
	if t.Identity != nil {
		return *t.Identity
	}
	return []string{wholeInput}
}

// sameFields reports whether two inputs have the same values at some paths.
func sameFields(paths []string, a, b *resourceInput) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !bytes.Equal(a.at(path), b.at(path)) })
}
