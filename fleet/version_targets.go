package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

// versionsManager is the field manager of what policies write.
const versionsManager = "versions"

// versionTarget has the settings of a component in the document that one of its policies changes.
type versionTarget struct {
	name                 string // the target of the policy
	component            *api.PlatformComponent
	kind                 Kind   // KindComponent or KindLayer
	id                   string // of the document
	version, tag, digest string // of the component itself
	images               []api.ComponentImage
	values               api.PatchValues
}

// componentDocument returns the stored document of a component; nil: there is none. Policies move stored versions, and rollouts bring
// them to clusters.
func (s *State) componentDocument(id string) *Document { return s.docs[KindComponent][id] }

// document returns a stored document; nil: there is none.
func (s *State) document(kind Kind, id string) *Document { return s.docs[kind][id] }

// versionTarget returns the document that the policy of a target changes, and the reason why there is none.
func (s *State) versionTarget(p *api.PlatformComponent, target string) (*versionTarget, string) {
	t := targetAmong(p, target, s.document)
	if s.document(t.kind, t.id) == nil {
		return t, fmt.Sprintf("there is no layer %q", t.id)
	}
	return t, ""
}

// targetAmong returns the target of a component's policy among some documents; without settings if there is no such document.
func targetAmong(p *api.PlatformComponent, target string, document func(Kind, string) *Document) *versionTarget {
	kind, id := KindComponent, p.ID
	if layer := layerOf(target); layer != "" {
		kind, id = KindLayer, layer
	}
	if d := document(kind, id); d != nil {
		return readTarget(p, d)
	}
	return &versionTarget{name: target, component: p, kind: kind, id: id}
}

// readTarget reads the settings of a component from a version of the document that one of its policies changes.
func readTarget(p *api.PlatformComponent, d *Document) *versionTarget {
	t := &versionTarget{name: catalogTarget, component: p, kind: d.Kind, id: d.ID}
	if d.Kind == KindLayer {
		t.name = layerTarget + d.ID
	}
	if d.Kind == KindComponent {
		c := d.Component()
		t.version, t.tag, t.digest, t.images, t.values = c.ComponentVersion, c.OCITag, c.OCIDigest, c.Images, c.Patches
		return t
	}
	l := d.layer()
	set := func(o api.LayerOverride) {
		t.version, t.tag, t.digest = cmp.Or(t.version, o.ComponentVersion), cmp.Or(t.tag, o.OCITag), cmp.Or(t.digest, o.OCIDigest)
		t.images = append(slices.Clone(t.images), o.Images...)
	}
	for _, e := range l.PlatformComponents {
		if e.ID == p.ID {
			set(entryOverride(e))
		}
	}
	set(l.Overrides[p.ID])
	t.values = l.Patches[p.ID]
	return t
}

// chart returns the stored version of the component itself.
func (t *versionTarget) chart() storedVersion {
	out := storedVersion{version: t.version, digest: t.digest}
	if t.component.Type == typeKustomize {
		out.version = t.tag
	}
	if out.version == "" && t.kind == KindLayer {
		out.problem = fmt.Sprintf("the layer %q sets no version of the component, so it has none that could move", t.id)
	}
	return out
}

// image returns the stored version of an image.
func (t *versionTarget) image(p *api.ImagePolicy) storedVersion {
	var out storedVersion
	if p.Images != nil {
		for _, image := range t.images {
			if image.Name == p.Images.Name {
				out.version, out.digest = image.NewTag, image.Digest
			}
		}
	}
	for _, path := range sortedKeys(p.Writes) {
		value := t.values[path]
		if len(value) == 0 || string(value) == "null" {
			continue // the chart's default, which is not known
		}
		found, ok := readWritten(p, p.Writes[path], value)
		if !ok || differ(out.version, found.version) || differ(out.digest, found.digest) {
			out.problem = fmt.Sprintf("the patch %q is %s, which the policy does not write: remove it, or set it to %s", path, excerpt(value), excerpt(p.Writes[path]))
			return out
		}
		out.version, out.digest = cmp.Or(out.version, found.version), cmp.Or(out.digest, found.digest)
	}
	if _, catalog := t.component.VersionPolicies[catalogTarget]; catalog && t.kind == KindLayer && out.version+out.digest == "" {
		out.problem = fmt.Sprintf("the layer %q does not set the image, so its clusters have that of the catalog, which has a policy too", t.id)
	}
	return out
}

// differ reports whether two values are known and not the same.
func differ(a, b string) bool { return a != "" && b != "" && a != b && "v"+a != b && a != "v"+b }

// readWritten reads the tag and the digest from a value that a policy wrote; not ok: the value has another form.
func readWritten(p *api.ImagePolicy, template string, value json.RawMessage) (out storedVersion, ok bool) {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return out, false
	}
	var pattern strings.Builder
	pattern.WriteString("^")
	at := 0
	var names []string
	for _, place := range braces.FindAllStringIndex(template, -1) {
		pattern.WriteString(regexp.QuoteMeta(template[at:place[0]]))
		at = place[1]
		switch name := template[place[0]:place[1]]; name {
		case placeholderImage:
			pattern.WriteString(regexp.QuoteMeta(p.Image))
		case placeholderDigest:
			names = append(names, name)
			pattern.WriteString(`(sha256:[0-9a-f]{64})`)
		default:
			names = append(names, name)
			pattern.WriteString(`([A-Za-z0-9_][A-Za-z0-9_.+-]{0,127})`)
		}
	}
	pattern.WriteString(regexp.QuoteMeta(template[at:]) + "$")
	e, err := regexp.Compile(pattern.String())
	if err != nil {
		return out, false
	}
	found := e.FindStringSubmatch(text)
	if found == nil {
		return out, false
	}
	for i, name := range names {
		to := &out.version
		if name == placeholderDigest {
			to = &out.digest
		}
		if differ(*to, found[i+1]) {
			return out, false
		}
		*to = cmp.Or(*to, found[i+1])
	}
	return out, true
}

// writesDigest reports whether a policy needs the digest of an image.
func writesDigest(p *api.ImagePolicy) bool {
	for _, template := range p.Writes {
		if strings.Contains(template, placeholderDigest) {
			return true
		}
	}
	return false
}

// fillTemplate returns the value that a template writes for a version.
func fillTemplate(p *api.ImagePolicy, template string, k *KnownVersion) string {
	number := k.Version
	if v := parseVersion(k.Version); v != nil {
		number = v.String()
	}
	return strings.NewReplacer(placeholderTag, k.Version, placeholderDigest, k.Digest, placeholderImage, p.Image, placeholderSemver, number).Replace(template)
}

// componentMove is the change of one component.
type componentMove struct {
	target *versionTarget
	chart  *KnownVersion
	images map[string]*KnownVersion // by the name of the policy
}

// moved returns the versions that move: that of the component, then those of its images in the order of their policies.
func (m *componentMove) moved() (out []*KnownVersion) {
	if m.chart != nil {
		out = append(out, m.chart)
	}
	for _, p := range m.target.component.ImagePolicies {
		if k := m.images[p.Name]; k != nil {
			out = append(out, k)
		}
	}
	return out
}

// versions describes the move, for the rollout's document and for people.
func (m *componentMove) versions() (out []rolloutVersion) {
	for _, k := range m.moved() {
		out = append(out, rolloutVersion{Component: m.target.component.ID, Image: k.Image, Version: k.Version, Digest: k.Digest})
	}
	return out
}

// apply makes the move in a Tx.
func (m *componentMove) apply(tx *Tx) error {
	doc, err := tx.Get(m.target.kind, m.target.id)
	if err != nil {
		return err
	}
	var fields []string
	for _, v := range m.versions() {
		name := "version"
		if v.Image != "" {
			name = v.Image
		}
		fields = append(fields, truncate(name+"="+v.Version))
	}
	if m.target.kind == KindComponent {
		_, err = tx.edit(doc, func(obj map[string]any) map[string]any {
			m.set(obj, obj)
			patches, _ := obj["patches"].(map[string]any)
			obj["patches"] = m.setValues(patches)
			return obj
		})
	} else {
		_, err = tx.editLayer(m.target.id, m.setOnLayer)
	}
	if err == nil {
		tx.recordOperation(api.RevisionOperation{Op: "patch", Kind: string(m.target.kind), ID: m.target.id, Fields: fields, FieldManager: versionsManager})
	}
	return err
}

// setOnLayer makes the move in a layer's object.
func (m *componentMove) setOnLayer(obj map[string]any) error {
	id := m.target.component.ID
	overrides, _ := obj["overrides"].(map[string]any)
	override := unstructured.NestedObject(overrides, id)
	entry := override
	list, _ := obj["platform_components"].([]any)
	if at := slices.IndexFunc(list, unstructured.HasID(id)); at >= 0 {
		entry, _, _ = unstructured.Entry(list[at])
	}
	version := entry // where the layer sets the version
	if override["component_version"] != nil || override["oci_tag"] != nil {
		version = override
	}
	images := entry
	if override["images"] != nil {
		images = override
	}
	m.set(version, images)
	if overrides != nil && len(override) > 0 {
		overrides[id] = override
	}
	patches, _ := obj["patches"].(map[string]any)
	if values, _ := patches[id].(map[string]any); patches != nil {
		patches[id] = m.setValues(values)
	}
	return nil
}

// set sets the versions of a move in the objects that have the version, and the images.
func (m *componentMove) set(version, images map[string]any) {
	if m.chart != nil {
		m.setVersion(version)
	}
	for _, p := range m.target.component.ImagePolicies {
		k := m.images[p.Name]
		if k == nil || p.Images == nil {
			continue
		}
		list, _ := images["images"].([]any)
		at := slices.IndexFunc(list, func(item any) bool {
			obj, _ := item.(map[string]any)
			return obj["name"] == p.Images.Name
		})
		if at < 0 {
			at, list = len(list), append(list, map[string]any{"name": p.Images.Name})
		}
		entry, _ := list[at].(map[string]any)
		if entry["new_name"] == nil && p.Image != p.Images.Name {
			entry["new_name"] = p.Image
		}
		entry["new_tag"] = k.Version
		delete(entry, "digest")
		if k.Digest != "" {
			entry["digest"] = k.Digest
		}
		images["images"] = list
	}
}

// setVersion sets the version of the component itself. Where both a version and a tag are set, both move.
func (m *componentMove) setVersion(obj map[string]any) {
	installed, other := "component_version", "oci_tag"
	if m.target.component.Type == typeKustomize {
		installed, other = other, installed
	}
	obj[installed] = m.chart.Version
	if also, _ := obj[other].(string); also != "" && also != latest {
		obj[other] = m.chart.Version
	}
	delete(obj, "oci_digest")
	if m.chart.Digest != "" && strings.HasPrefix(m.target.component.OCIURL, "oci://") {
		obj["oci_digest"] = m.chart.Digest
	}
}

// setValues returns patches with the values that image policies write.
func (m *componentMove) setValues(patches map[string]any) map[string]any {
	out := maps.Clone(patches)
	if out == nil {
		out = map[string]any{}
	}
	for i := range m.target.component.ImagePolicies {
		p := &m.target.component.ImagePolicies[i]
		if k := m.images[p.Name]; k != nil {
			for path, template := range p.Writes {
				out[path] = fillTemplate(p, template, k)
			}
		}
	}
	return out
}
