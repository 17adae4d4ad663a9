package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/fluxsettings"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
)

// entryMerge defines how the entries of a list are merged.
type entryMerge[E any] struct {
	overlay.Rules[E]
	defaults func(l *layer) map[string]overlay.Entry[E] // settings of a layer for entries that it does not assign
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

var componentMerge = entryMerge[api.ComponentAssignment]{
	Rules:    overlay.Rules[api.ComponentAssignment]{Apply: applyComponent, Finalize: finalizeComponent},
	defaults: func(l *layer) map[string]overlay.Entry[api.ComponentAssignment] { return l.componentDefaults },
}

// applyComponent merges setting by setting; the highest layer that sets one wins. The digest follows the version, images are
// merged by name, and Flux settings one by one.
func applyComponent(below, above overlay.Entry[api.ComponentAssignment]) overlay.Entry[api.ComponentAssignment] {
	b, a := below.Value, above.Value
	out := overlay.Entry[api.ComponentAssignment]{Value: api.ComponentAssignment{
		ID: a.ID, Enabled: a.Enabled, OCITag: cmp.Or(a.OCITag, b.OCITag), ComponentPath: cmp.Or(a.ComponentPath, b.ComponentPath),
		ComponentVersion: cmp.Or(a.ComponentVersion, b.ComponentVersion), ValuesFrom: a.ValuesFrom,
		OCIDigest: digestOver(b.OCIDigest, &a), Images: imagesOver(b.Images, a.Images), Flux: fluxsettings.Merge(b.Flux, a.Flux),
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

// chainKey returns the ids of layers as a map key.
func chainKey(layers []*Document) string {
	var key strings.Builder
	for _, d := range layers {
		key.WriteString(d.ID)
		key.WriteByte(0)
	}
	return key.String()
}

// settingNames returns, by id, the names of the settings that a layer has for definitions, besides their assignment.
func (l *layer) settingNames(a *descriptor) map[string]map[string]bool {
	leaves := map[string]map[string]bool{}
	add := func(id, leaf string, set bool) {
		if !set {
			return
		}
		if leaves[id] == nil {
			leaves[id] = map[string]bool{}
		}
		leaves[id][leaf] = true
	}
	settings := func(id string, o api.LayerOverride) {
		add(id, "oci_tag", o.OCITag != "")
		add(id, "oci_digest", o.OCIDigest != "")
		add(id, "component_path", o.ComponentPath != "")
		add(id, "component_version", o.ComponentVersion != "")
		add(id, "values_from", len(o.ValuesFrom) > 0)
		add(id, "images", len(o.Images) > 0)
		add(id, "flux", len(o.Flux) > 0)
	}
	switch {
	case a.typed:
		for _, s := range l.resources[a.field] {
			for property := range s.Value.Overrides {
				add(s.Value.ID, property, true)
			}
		}
	case a.kind == KindComponent:
		for _, e := range l.PlatformComponents {
			settings(e.ID, entryOverride(e))
			add(e.ID, "enabled", e.Enabled != nil)
		}
		for id, o := range l.Overrides {
			settings(id, o)
		}
	}
	return leaves
}

// entryOverride returns the settings of a layer's entry besides its id.
func entryOverride(e api.LayerComponent) api.LayerOverride {
	return api.LayerOverride{
		OCITag: e.OCITag, OCIDigest: e.OCIDigest, ComponentPath: e.ComponentPath, ComponentVersion: e.ComponentVersion,
		ValuesFrom: e.ValuesFrom, Images: e.Images, Flux: e.Flux,
	}
}

// sortByPriority sorts layers, the lowest first. Priorities are unique, except in a database that was edited by hand.
func sortByPriority(layers map[string]*Document) []*Document {
	return slices.SortedFunc(maps.Values(layers), func(a, b *Document) int {
		return cmp.Or(cmp.Compare(a.layer().Priority, b.layer().Priority), cmp.Compare(a.ID, b.ID))
	})
}

func (d *Document) layer() *layer { return d.value.(*layer) }

// matches reports whether the layer applies to a cluster.
func (l *layer) matches(c *api.Cluster) bool {
	return l.All || l.Selector != "" && l.selectorErr == nil && l.selector.Matches(c)
}

// assignedIDs returns the ids that the layer assigns of a kind.
func (l *layer) assignedIDs(a *descriptor) []string {
	if !a.typed {
		return a.layerIDs(l.lists[a.kind])
	}
	var ids []string
	for _, s := range l.resources[a.field] {
		ids = append(ids, s.Value.ID)
	}
	return ids
}

// setBy returns the document that sets a path of a component's patches on a cluster, for messages.
func (e *Effective) setBy(component, path string) string {
	if e.own == nil || hasKey(e.own.cluster.Patches[component], path) {
		return fmt.Sprintf("cluster %q", e.id)
	}
	for _, d := range slices.Backward(e.chain.layers) {
		if hasKey(d.layer().Patches[component], path) {
			return fmt.Sprintf("layer %q", d.ID)
		}
	}
	return fmt.Sprintf("platform component %q", component)
}
