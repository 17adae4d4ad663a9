package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// Settings that clusters and layers have for a definition of a resource type.

// entryOf returns the index of a cluster's entry for a definition if it has overrides, or -1.
func entryOf(c *api.Cluster, typeID, id string) int {
	return slices.IndexFunc(c.Resources[typeID], func(e api.ResourceAssignment) bool { return e.ID == id && len(e.Overrides) > 0 })
}

// checkOverrides checks the overrides of one definition on a cluster.
func checkOverrides(c *checker, has *Effective, typeID string, at int) {
	if at < 0 {
		return
	}
	e := &has.cluster.Resources[typeID][at]
	if has.chain == nil {
		checkOverridesOf(c, has, typeID, e, jsontext.Pointer("resources", typeID, at, "overrides"))
		return
	}
	found := &checker{next: c.next, limit: c.limit, work: c.work}
	checkOverridesOf(found, has, typeID, e, "")
	for _, p := range found.problems {
		c.problems = append(c.problems, has.inOverrides(typeID, e.ID, p))
	}
}

// inOverrides places a problem of a resource's overrides in the cluster's own document, if that has them; otherwise it has
// no pointer, and names the layers that set them.
func (e *Effective) inOverrides(typeID, id string, p Problem) Problem {
	property, _, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
	property = strings.NewReplacer("~1", "/", "~0", "~").Replace(property)
	sets := func(entries []api.ResourceAssignment) bool {
		return slices.ContainsFunc(entries, func(a api.ResourceAssignment) bool {
			return a.ID == id && (hasKey(a.Overrides, property) || property == "" && len(a.Overrides) > 0)
		})
	}
	if own := e.own.cluster.Resources[typeID]; sets(own) {
		p.Pointer = jsontext.Pointer("resources", typeID, entryOf(e.own.cluster, typeID, id), "overrides") + p.Pointer
		if property != "" {
			return p
		}
	} else {
		p.Detail = fmt.Sprintf("%s %q: overrides%s: %s", typeID, id, p.Pointer, p.Detail)
		p.Pointer = ""
	}
	var by []string
	for _, d := range slices.Backward(e.chain.layers) {
		if sets(d.layer().Resources[typeID]) {
			by = append(by, fmt.Sprintf("layer %q", d.ID))
		}
	}
	if len(by) > 0 {
		if property != "" {
			by = by[:1] // the highest one wins
		}
		p.Detail += fmt.Sprintf(" (set by %s)", strings.Join(by, ", "))
	}
	return p
}

// checkOverridesOf checks the overrides of an entry, on a cluster or in a layer's document; has is nil for a layer.
func checkOverridesOf(c *checker, has *Effective, typeID string, e *api.ResourceAssignment, where string) {
	if len(e.Overrides) == 0 || has == nil && slices.ContainsFunc(slices.Collect(maps.Values(e.Overrides)), variables.In[json.RawMessage]) {
		return // the results of references are checked on clusters
	}
	doc, ok := c.next.definition(has, ResourceKind(typeID), e.ID)
	if !ok {
		return // reported at the assignment
	}
	r := doc.value.(*resource)
	schema := r.typ().schema
	if schema == nil {
		return
	}
	spec, err := r.spec()
	if err != nil {
		c.problem(where, "%v", err)
		return
	}
	overrides, err := decodeOverrides(e.Overrides)
	if err != nil {
		c.problem(where, "%v", err)
		return
	}
	problems := schema.CheckOverrides(spec, overrides, r.typ().Overridable, c.work.Work)
	c.spec(where, problems)
	if len(problems) == 0 && r.typ().mayDelete(e.Overrides) {
		made := r.rendered(e.Overrides, c.work)
		if wrong := r.typ().wrongRemoval(&made); wrong != "" {
			c.problem(where, "%s", wrong)
		}
	}
}

// overridesSize returns an upper bound, in bytes, of the size that a cluster's overrides add to its answer. Only objects in
// them can gain defaults.
func overridesSize(of *Document, entries []api.ResourceAssignment) int {
	n := 0
	for i := range entries {
		if len(entries[i].Overrides) == 0 {
			continue
		}
		nested := false
		for name, value := range entries[i].Overrides {
			n += len(name) + len(`"":,`) + len(value)
			nested = nested || strings.ContainsRune(string(value), '{')
		}
		if !nested || of == nil {
			continue
		}
		if fields, err := filledOverrides(of.value.(*resourceType).schema, entries[i].Overrides); err == nil {
			for _, f := range fields {
				n += len(f.value)
			}
		}
	}
	return n
}
