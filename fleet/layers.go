package fleet

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/overlay"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

const (
	// maxLayers limits the selectors that a changed cluster is matched with.
	maxLayers = 200
	// maxPriority is the limit in the API.
	maxPriority = 1_000_000
)

// layerRules returns the rules of layers.
func layerRules(ks *kindSet) *kindRules {
	return &kindRules{
		name: KindLayer, noun: "layer", collection: "layers",
		empty:     func() any { return new(layer) },
		normalize: ks.normalizeLayer,
		complete:  func(value any, body json.RawMessage) error { return ks.decodeLayer(value.(*layer), body) },
		check:     func(c *checker, d *Document) { checkLayer(c, d.layer()) },
		view: func(d *Document) any {
			l := d.layer().Layer
			l.Revision, l.CreatedAt, l.UpdatedAt = int64(d.Revision), d.CreatedAt, d.UpdatedAt
			return &l
		},
	}
}

// normalizeLayer sets defaults, and converts a layer's object to its stored form.
func (ks *kindSet) normalizeLayer(obj map[string]any) {
	unstructured.SetDefault(obj, "description", "")
	unstructured.SetDefault(obj, "overrides", map[string]any{})
	unstructured.SetDefault(obj, "patches", map[string]any{})
	unstructured.DropEmpty(obj, "selector", "deletion_protection")
	if all, isBool := obj["all"].(bool); obj["all"] == nil || isBool && !all {
		delete(obj, "all")
	}
	for _, a := range ks.lists[:ks.compiledCount] {
		unstructured.SetDefault(obj, a.field, []any{})
		normalizeEntries(a.entriesIn(obj), normalizeLayerEntry)
	}
	normalizeResources(obj)
	overrides, _ := obj["overrides"].(map[string]any)
	for id, o := range overrides {
		entry, ok := o.(map[string]any)
		if ok {
			normalizeLayerEntry(entry)
		}
		if o == nil || ok && len(entry) == 0 {
			delete(overrides, id)
		}
	}
	patches, _ := obj["patches"].(map[string]any)
	for id, p := range patches {
		if values, ok := p.(map[string]any); p == nil || ok && len(values) == 0 {
			delete(patches, id)
		}
	}
}

// replaceSelection handles a PUT that selects clusters in another way: selector and all replace each other.
func replaceSelection(stored, request map[string]any) {
	if request["selector"] != nil && request["all"] == nil {
		delete(stored, "all")
	}
	if all, _ := request["all"].(bool); all && request["selector"] == nil {
		delete(stored, "selector")
	}
}

// normalizeLayerEntry omits unset fields.
func normalizeLayerEntry(entry map[string]any) {
	unstructured.DropEmpty(entry, "enabled", "oci_tag", "oci_digest", "component_path", "component_version")
	unstructured.DropEmptyList(entry, "values_from")
	unstructured.DropEmptyList(entry, "images")
	normalizeFlux(entry)
}

// decodeLayer computes the values that layers are merged from.
func (ks *kindSet) decodeLayer(l *layer, body json.RawMessage) error {
	l.selector, l.selectorErr = ParseSelector(l.Selector)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return typeError(err)
	}
	l.noPriority = fields["priority"] == nil
	initNilLists(&l.Layer)
	l.lists, l.entryCounts = map[Kind]any{}, map[Kind]int{}
	for _, a := range ks.lists[:ks.compiledCount] {
		if text := fields[a.field]; !a.addedLater && (text == nil || string(text) == "null") {
			return errors.New("one of its lists is missing")
		}
		entries, err := a.readLayer(fields[a.field])
		if err != nil {
			return typeError(err)
		}
		l.lists[a.kind], l.entryCounts[a.kind] = entries, len(a.layerIDs(entries))
	}
	l.resources = map[string][]overlay.Entry[api.ResourceAssignment]{}
	for typeID, entries := range l.Resources {
		for _, e := range entries {
			l.resources[typeID] = append(l.resources[typeID], overlay.Entry[api.ResourceAssignment]{Value: e})
		}
		l.entryCounts[ResourceKind(typeID)] = len(entries)
	}
	l.componentDefaults = make(map[string]overlay.Entry[api.ComponentAssignment], len(l.Overrides))
	for id, o := range l.Overrides {
		l.componentDefaults[id] = overlay.Entry[api.ComponentAssignment]{EnabledUnset: true, Value: api.ComponentAssignment{
			ID: id, OCITag: o.OCITag, ComponentPath: o.ComponentPath, ComponentVersion: o.ComponentVersion, ValuesFrom: o.ValuesFrom,
			OCIDigest: o.OCIDigest, Images: o.Images, Flux: o.Flux,
		}}
	}
	return nil
}

// initNilLists makes those lists of a layer empty that did not exist when it was stored: the API shows all lists.
func initNilLists(l *api.Layer) {
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		omitted := strings.HasSuffix(v.Type().Field(i).Tag.Get("json"), ",omitempty")
		if f := v.Field(i); f.Kind() == reflect.Slice && f.IsNil() && !omitted {
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
		}
	}
}

// referencedIDs returns all definitions of a kind that the layer assigns or has settings for.
func (l *layer) referencedIDs(a *descriptor) []string {
	ids := l.assignedIDs(a)
	if a.kind == KindComponent {
		ids = append(append(ids, sortedKeys(l.Overrides)...), sortedKeys(l.Patches)...)
	}
	return ids
}

// checkLayer checks a layer's document.
func checkLayer(c *checker, l *layer) {
	c.dnsLabel("/id", l.ID)
	c.text("/description", l.Description, 1024)
	switch {
	case l.noPriority:
		c.problem("/priority", "is required")
	case l.Priority < 0 || l.Priority > maxPriority:
		c.problem("/priority", "must be 0 to %d", maxPriority)
	}
	checkLayerSelector(c, l)
	c.variables(l.Variables, func(f *freeze) bool { return c.next.shareClusters(f, l) })
	for _, typeID := range sortedKeys(l.Resources) {
		if c.next.kinds.descriptor(ResourceKind(typeID)) == nil {
			c.problem(jsontext.Pointer("resources", typeID), "there is no resource type %q", typeID)
		}
	}
	for _, a := range c.next.kinds.lists {
		checkIDs(c, a, l.assignedIDs(a))
	}
	for i, e := range l.PlatformComponents {
		if c.full() {
			return
		}
		at := jsontext.Pointer("platform_components", i)
		c.settings(at, e.ID, entryOverride(e))
		checkDuplicateSettings(c, at, e, l.Overrides[e.ID])
	}
	checkLayerComponents(c, l)
	for _, typeID := range sortedKeys(l.Resources) {
		for i, e := range l.Resources[typeID] {
			if c.full() {
				return
			}
			checkOverridesOf(c, nil, typeID, &e, jsontext.Pointer("resources", typeID, i, "overrides"))
		}
	}
	adviseShadowed(c, l)
}

// checkLayerSelector checks that exactly one of selector and all is set, and warns if no cluster matches.
func checkLayerSelector(c *checker, l *layer) {
	switch {
	case l.All && l.Selector != "":
		c.problem("/selector", "set either selector or all, not both")
	case l.All:
	case strings.TrimSpace(l.Selector) == "" || l.selectorErr == nil && l.selector.selector.Empty():
		c.problem("/selector", "is required and must not be empty; for every cluster, set all to true")
	case l.selectorErr != nil:
		c.problem("/selector", "%v", l.selectorErr)
	}
	if c.next.layers != nil && len(c.problems) == 0 && !c.next.layers.matchesAny(l.ID) {
		c.warn("layer %q matches no cluster", l.ID)
	}
}

// settings checks the settings of a component besides its id.
func (c *checker) settings(at, component string, o api.LayerOverride) {
	c.text(at+"/component_path", o.ComponentPath, 1024)
	c.valuesFrom(at+"/values_from", o.ValuesFrom)
	c.artifact(at, o.ComponentVersion, o.OCITag, o.OCIDigest, o.Images)
	if doc, ok := c.next.Get(KindComponent, component); ok {
		c.flux(at+"/flux", doc.Component().Type, o.Flux)
	}
}

// checkDuplicateSettings refuses a field that a layer sets both in an entry and in overrides.
func checkDuplicateSettings(c *checker, at string, e api.LayerComponent, o api.LayerOverride) {
	for _, setting := range []struct {
		field string
		twice bool
	}{
		{"oci_tag", e.OCITag != "" && o.OCITag != ""},
		{"component_path", e.ComponentPath != "" && o.ComponentPath != ""},
		{"component_version", e.ComponentVersion != "" && o.ComponentVersion != ""},
		{"values_from", len(e.ValuesFrom) > 0 && len(o.ValuesFrom) > 0},
		{"oci_digest", e.OCIDigest != "" && o.OCIDigest != ""},
		{"images", len(e.Images) > 0 && len(o.Images) > 0},
		{"flux", len(e.Flux) > 0 && len(o.Flux) > 0},
	} {
		if setting.twice {
			c.problem(at+jsontext.Pointer(setting.field), "is also set in %s", jsontext.Pointer("overrides", e.ID, setting.field))
		}
	}
	switch { // a version and its digest are one setting, so they are in one place
	case e.OCIDigest != "" && o.OCIDigest == "" && setsVersion(o.ComponentVersion, o.OCITag, ""):
		c.problem(at+"/oci_digest", "%s sets another version: move both into one of the two", jsontext.Pointer("overrides", e.ID))
	case o.OCIDigest != "" && e.OCIDigest == "" && setsVersion(e.ComponentVersion, e.OCITag, ""):
		c.problem(jsontext.Pointer("overrides", e.ID, "oci_digest"), "%s sets another version: move both into one of the two", at)
	}
}

// checkLayerComponents checks a layer's overrides and patches of components, whether or not the layer assigns them.
func checkLayerComponents(c *checker, l *layer) {
	for _, id := range sortedKeys(l.Overrides) {
		if c.full() {
			return
		}
		at := jsontext.Pointer("overrides", id)
		if _, ok := c.next.Get(KindComponent, id); !ok {
			c.problem(at, "there is no platform component %q", id)
		}
		c.settings(at, id, l.Overrides[id])
	}
	for _, id := range sortedKeys(l.Patches) {
		if c.full() {
			return
		}
		at := jsontext.Pointer("patches", id)
		if n := encodedSize(l.Patches[id]); n > maxPatchesBytes {
			c.problem(at, "%d bytes; the patches of one component are at most %d", n, maxPatchesBytes)
		}
		if _, ok := c.next.Get(KindComponent, id); !ok {
			c.problem(at, "there is no platform component %q", id)
			continue
		}
		checkLayerPatches(c, l, id)
	}
}

// checkLayerPatches checks a layer's patches of a component against the component's type.
func checkLayerPatches(c *checker, l *layer, id string) {
	doc, ok := c.next.Get(KindComponent, id)
	if !ok {
		return // reported at the reference
	}
	// A path that is null must still be a valid path, and must not contradict another path of the layer.
	set := make(api.PatchValues, len(l.Patches[id]))
	for path, value := range l.Patches[id] {
		if set[path] = value; string(value) == "null" {
			set[path] = json.RawMessage("0")
		}
	}
	kind := doc.Component().Type
	c.patches(jsontext.Pointer("patches", id), kind, set, patchProblems(kind, placeholderValues(set)))
}

// checkPriorities refuses layers with the same priority, between which the winner would be undefined.
func (s *State) checkPriorities(edits []edit) error {
	if s.layers == nil || !slices.ContainsFunc(edits, func(e edit) bool { return e.kind == KindLayer && e.doc != nil }) {
		return nil
	}
	for i, d := range s.layers.ascending[1:] {
		other := s.layers.ascending[i]
		if d.layer().noPriority || other.layer().noPriority {
			continue // refused for the missing priority
		}
		if other.layer().Priority == d.layer().Priority {
			for _, e := range edits { // name the edited layer first, and the stored one as the other
				if e.kind == KindLayer && e.id == other.ID {
					d, other = other, d
					break
				}
			}
			return errorf(CodeConflict, "layer %q cannot have the priority %d: layer %q has it, and the higher one wins", d.ID, d.layer().Priority, other.ID)
		}
	}
	return nil
}

// LayerView returns a layer as the API shows it, with the ids of its clusters.
func (s *State) LayerView(d *Document) any {
	l := *d.View().(*api.Layer)
	l.Clusters = []string{}
	for id, e := range s.layers.effective {
		if slices.ContainsFunc(e.chain.layers, func(l *Document) bool { return l.ID == d.ID }) {
			l.Clusters = append(l.Clusters, id)
		}
	}
	slices.Sort(l.Clusters)
	return &l
}

// LayersWithCounts returns a function that shows a layer of the State with the number of its clusters. It counts all clusters once.
func (s *State) LayersWithCounts() func(*Document) any {
	clusters := map[string]int{}
	if s.layers != nil {
		chains := map[*layerChain]int{}
		for _, e := range s.layers.effective {
			chains[e.chain]++
		}
		for chain, n := range chains {
			for _, l := range chain.layers {
				clusters[l.ID] += n
			}
		}
	}
	return func(d *Document) any {
		l := *d.View().(*api.Layer)
		l.ClusterCount = new(clusters[d.ID])
		return &l
	}
}
