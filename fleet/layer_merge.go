package fleet

import (
	"cmp"
	"encoding/json"
	"maps"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
)

// entryMerge defines how the entries of a list are merged, and where layers and clusters hold them.
type entryMerge[E any] struct {
	overlay.Rules[E]
	defaults func(l *layer) map[string]overlay.Entry[E] // settings of a layer for entries that it does not assign
	excluded func(own *Effective) []string              // ids that a cluster excludes from its layers; nil: the kind cannot be excluded
	set      func(e *Effective, entries []E)            // sets a cluster's list
	get      func(e *Effective) []E                     // returns a cluster's list
}

// merge merges the lists of layers, the lowest first.
func (f *entryMerge[E]) merge(layers []*layer, entries func(*layer) []overlay.Entry[E]) *overlay.Merged[E] {
	inputs := make([]overlay.Layer[E], len(layers))
	for i, l := range layers {
		if inputs[i].Entries = entries(l); f.defaults != nil {
			inputs[i].Defaults = f.defaults(l)
		}
	}
	return f.Merge(inputs)
}

// merger returns the type-erased merge rules of the definition.
func (d definition[D, E, I]) merger() listMerger {
	f := d.merge
	f.ID = d.entryID
	if f.get == nil {
		f.get = func(e *Effective) []E { return *d.list(e) }
		f.set = func(e *Effective, entries []E) { *d.list(e) = entries }
	}
	return f.forKind(d.kind)
}

// forKind erases the type parameter of the rules for the lists of a kind.
func (f entryMerge[E]) forKind(kind Kind) listMerger {
	return listMerger{
		read: func(list json.RawMessage) (any, error) { return overlay.Read[E](list) },
		ids: func(entries any) []string {
			of := entries.([]overlay.Entry[E])
			ids := make([]string, len(of))
			for i := range of {
				ids[i] = f.ID(&of[i].Value)
			}
			return ids
		},
		merge: func(layers []*layer) any {
			return f.merge(layers, func(l *layer) []overlay.Entry[E] {
				return l.lists[kind].([]overlay.Entry[E])
			})
		},
		apply: func(p any, own, e *Effective) {
			var excluded []string
			if own.cluster.Excludes != nil && f.excluded != nil {
				excluded = f.excluded(own)
			}
			f.set(e, f.Over(p.(*overlay.Merged[E]), f.get(own), excluded))
		},
		copyList: func(from, e *Effective) { f.set(e, f.get(from)) },
		excluded: f.excluded,
	}
}

var componentMerge = entryMerge[api.ComponentAssignment]{
	Rules:    overlay.Rules[api.ComponentAssignment]{Apply: applyComponent, Finalize: finalizeComponent},
	defaults: func(l *layer) map[string]overlay.Entry[api.ComponentAssignment] { return l.componentDefaults },
}

// applyComponent merges setting by setting; the highest layer that sets one wins.
func applyComponent(below, above overlay.Entry[api.ComponentAssignment]) overlay.Entry[api.ComponentAssignment] {
	b, a := below.Value, above.Value
	out := overlay.Entry[api.ComponentAssignment]{Value: api.ComponentAssignment{
		ID: a.ID, Enabled: a.Enabled, OCITag: cmp.Or(a.OCITag, b.OCITag), ComponentPath: cmp.Or(a.ComponentPath, b.ComponentPath),
		ComponentVersion: cmp.Or(a.ComponentVersion, b.ComponentVersion), ValuesFrom: a.ValuesFrom,
	}, EnabledUnset: below.EnabledUnset && above.EnabledUnset}
	if above.EnabledUnset {
		out.Value.Enabled = b.Enabled
	}
	if len(a.ValuesFrom) == 0 {
		out.Value.ValuesFrom = b.ValuesFrom
	}
	return out
}

// finalizeComponent enables an entry for which no document sets enabled.
func finalizeComponent(s overlay.Entry[api.ComponentAssignment]) api.ComponentAssignment {
	if s.EnabledUnset {
		s.Value.Enabled = true
	}
	return s.Value
}

var resourceMerge = entryMerge[api.ResourceAssignment]{Rules: overlay.Rules[api.ResourceAssignment]{
	ID: func(e *api.ResourceAssignment) string { return e.ID }, Apply: applyResource,
}}

// applyResource merges overrides property by property.
func applyResource(below, above overlay.Entry[api.ResourceAssignment]) overlay.Entry[api.ResourceAssignment] {
	switch {
	case len(below.Value.Overrides) == 0:
		return above
	case len(above.Value.Overrides) == 0:
		return below
	}
	out := overlay.Entry[api.ResourceAssignment]{Value: api.ResourceAssignment{ID: above.Value.ID, Overrides: make(map[string]json.RawMessage, len(below.Value.Overrides)+len(above.Value.Overrides))}}
	maps.Copy(out.Value.Overrides, below.Value.Overrides)
	maps.Copy(out.Value.Overrides, above.Value.Overrides)
	return out
}

// resourcesOver merges a cluster's own resources over the resources of its layers.
func (st *layerChain) resourcesOver(own *api.Cluster) map[string][]api.ResourceAssignment {
	if len(st.resources) == 0 && own.Excludes == nil {
		return own.Resources
	}
	out := map[string][]api.ResourceAssignment{}
	maps.Copy(out, own.Resources)
	for id, p := range st.resources {
		var excluded []string
		if own.Excludes != nil {
			excluded = own.Excludes.Resources[id]
		}
		if out[id] = resourceMerge.Over(p, own.Resources[id], excluded); len(out[id]) == 0 {
			delete(out, id)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// newChain merges layers, which are sorted by rising priority.
func (ks *kindSet) newChain(docs []*Document) *layerChain {
	layers := make([]*layer, len(docs))
	for i, d := range docs {
		layers[i] = d.layer()
	}
	st := &layerChain{layers: docs, key: chainKey(docs), lists: map[Kind]any{}, resources: map[string]*overlay.Merged[api.ResourceAssignment]{}, patches: api.Patches{}}
	for _, a := range ks.lists[:ks.compiledCount] {
		st.lists[a.kind] = a.merger.merge(layers)
	}
	for _, l := range layers {
		for typeID := range l.resources {
			if st.resources[typeID] == nil {
				st.resources[typeID] = resourceMerge.merge(layers, func(l *layer) []overlay.Entry[api.ResourceAssignment] { return l.resources[typeID] })
			}
		}
		for component, values := range l.Patches {
			if st.patches[component] == nil {
				st.patches[component] = api.PatchValues{}
			}
			for path, value := range values {
				if st.patches[component][path] = value; string(value) == "null" {
					st.patches[component][path] = nil
				}
			}
		}
		if l.DeletionProtection != nil {
			st.deletionProtection = *l.DeletionProtection
		}
	}
	empty := ks.emptyCluster()
	st.base = &Effective{value: ks.copyValue(empty.value)}
	st.base.cluster = ks.cluster(st.base.value)
	ks.applyCluster(st, empty, st.base)
	return st
}

// chainKey returns the ids of layers as a map key.
func chainKey(layers []*Document) string {
	var key strings.Builder
	for _, d := range layers {
		key.WriteString(d.ID)
		key.WriteByte(0)
	}
	return key.String()
}
