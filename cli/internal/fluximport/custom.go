package fluximport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourcetype"
)

const (
	crdGroup = "apiextensions.k8s.io"
	crdKind  = "CustomResourceDefinition"

	resourcePrefix = "resource/" // of the kinds of the definitions of a resource type
)

// customKind is the resource type for the objects of a CustomResourceDefinition.
type customKind struct {
	id         string
	plural     string
	definition json.RawMessage // the largest one of the clusters, which has the fields of all of them as a rule
	version    string          // of the API, which most objects have
	document   map[string]any  // the resource type
	properties map[string]any  // of its schema
}

// customKinds returns the kinds of custom objects by group and kind, without those of Flux.
func customKinds(clusters []*fluxdump.Cluster) (map[fluxdump.Ref]*customKind, error) {
	out := map[fluxdump.Ref]*customKind{}
	for _, c := range clusters {
		for _, o := range c.Kind(crdGroup, crdKind) {
			of := fluxdump.Ref{Group: o.Text("spec", "group"), Kind: o.Text("spec", "names", "kind")}
			if strings.HasSuffix(of.Group, ".fluxcd.io") || of.Group == "fluxcd.controlplane.io" {
				continue
			}
			definition, err := render.Encode(o.Fields)
			if err != nil {
				return nil, err
			}
			if known := out[of]; known == nil || len(known.definition) < len(definition) {
				out[of] = &customKind{plural: o.Text("spec", "names", "plural"), definition: definition}
			}
		}
	}
	return out, nil
}

// customObjects makes resource types of the kinds of custom objects that Git applies, and entries of the objects.
func (b *builder) customObjects() {
	ids := map[string]bool{"clusters": true, "receipts": true, "events": true, "namespaces": true} // names of the API
	for _, of := range slices.SortedFunc(maps.Keys(b.customs), compareRefs) {
		var found []entry
		named, names, versions := false, map[string]bool{}, []string{}
		for _, m := range b.clusters {
			for _, o := range m.cluster.Kind(of.Group, of.Kind) {
				if !m.takesOver(o) || o.At("metadata", "ownerReferences") != nil { // a controller has copied the labels
					continue
				}
				named = named || names[m.cluster.Name+"/"+o.Name]
				names[m.cluster.Name+"/"+o.Name] = true
				versions = append(versions, o.APIVersion)
				found = append(found, entry{on: m, object: o})
			}
		}
		if len(found) == 0 {
			continue
		}
		k := b.customs[of]
		if k.id = k.plural; ids[k.id] {
			k.id = dnsLabel(k.plural + "-" + of.Group)
		}
		for n := 2; ids[k.id]; n++ { // long names are cut
			k.id = numbered(dnsLabel(k.plural+"-"+of.Group), n)
		}
		ids[k.id] = true
		problem := k.parse(found, versions, named)
		objects := map[string]fluxdump.Ref{} // by the id of the definition
		for _, e := range found {
			e.id = e.object.Name
			if other, known := objects[e.id]; known && named && other != e.object.Ref {
				e.id = e.object.Name + "." + e.object.Namespace
			}
			objects[e.id] = e.object.Ref
			b.customObject(k, e, problem, named)
		}
	}
}

// parse makes the resource type, or returns the reason why that is not possible.
func (k *customKind) parse(found []entry, versions []string, named bool) (problem string) {
	if k.plural == "" {
		return "its CustomResourceDefinition has no plural in spec.names"
	}
	k.version, _ = mostFrequent(versions)
	_, version, _ := strings.Cut(k.version, "/")
	document, err := resourcetype.FromCRD(k.definition, found[0].on.cluster.Source, k.id, resourcetype.CRDOptions{Keep: true, Named: named, Metadata: true, Version: version})
	if err != nil {
		return err.Error()
	}
	k.document = document
	k.document["id"], k.document["removal"] = k.id, "keep"
	schema, _ := document["schema"].(map[string]any)
	k.properties, _ = schema["properties"].(map[string]any)
	return ""
}

// customObject adds a custom object to the entries, unless the fleet cannot have it.
func (b *builder) customObject(k *customKind, e entry, problem string, named bool) {
	m := e.on
	if isUnbuilt(e.object) {
		object, unknown := m.built(e.object)
		e.object, problem = object, cmp.Or(problem, unknown)
	}
	o := e.object
	e.fields = map[string]any{}
	if o.Namespace != "" {
		e.fields["namespace"] = o.Namespace
	}
	if named {
		e.fields["name"] = o.Name
	}
	if problem == "" && o.APIVersion != k.version {
		problem = fmt.Sprintf("it has version %s, and most objects of the kind have %s: write it in that version", o.APIVersion, k.version)
	}
	if problem == "" {
		problem = m.metadata(o, e.fields)
	}
	for field, value := range customFields(o) {
		if problem == "" && k.properties[field] == nil {
			problem = fmt.Sprintf("the resource type has no field %s, which the definition of the kind does not require", field)
		}
		text, err := render.Encode(value)
		if secret, found := m.cluster.SecretIn(string(text)); found || err != nil {
			problem = cmp.Or(problem, fmt.Sprintf("it contains a value of %s, which is not written to files: see docs/secrets.md", secret))
		}
		e.fields[field] = mapTexts(value, func(text string) any { return escapeReferences(text) })
	}
	what := taken
	if problem != "" {
		what = left
		m.report.keep(m.cluster.Name, o.Ref, problem)
	} else {
		b.entries[resourcePrefix+k.id] = append(b.entries[resourcePrefix+k.id], e)
	}
	for at := range leaves(customFields(o)) {
		m.field(o, at, what, "the object is not taken: %s", problem)
	}
}

// customFields returns the fields of an object that its definition sets.
func customFields(o fluxdump.Object) map[string]any {
	out := maps.Clone(o.Fields)
	maps.DeleteFunc(out, func(field string, _ any) bool {
		return slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, field)
	})
	return out
}

// built returns an object from kustomize build with the values of its variables, or the reason why they are not known. The server types no
// result of a reference in a resource, so references come later, where the values of clusters differ.
func (t *translator) built(o fluxdump.Object) (out fluxdump.Object, problem string) {
	mapTexts(o.Fields, func(text string) any {
		_, reason := t.references(text, false)
		problem = cmp.Or(problem, reason)
		return text
	})
	o.Fields, _ = substituted(o.Fields, t.settings).(map[string]any)
	o.Below("metadata").Fields["uid"] = "built"
	return o, problem
}

// defineCustom adds a resource type and its definitions. A definition has what most clusters have; the others override it.
func (b *builder) defineCustom(k *customKind) error {
	kind := resourcePrefix + k.id
	accepted, overridable := b.accepted(kind), map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		entries := accepted[id]
		forms, settings := make([]map[path]any, len(entries)), make([]map[string]string, len(entries))
		for i, e := range entries {
			if forms[i] = e.fields; !b.literal {
				settings[i] = e.on.settings
			}
		}
		common, own := split(forms, true, settings, func(i int, name string) { entries[i].on.used[name] = true })
		for i, e := range entries {
			assignment := withoutEmpty(map[string]any{"id": id, "overrides": own[i]})
			for field := range own[i] {
				overridable[field] = true
			}
			e.on.resources[k.id], e.on.defined = append(e.on.resources[k.id], assignment), append(e.on.defined, e.object)
		}
		if err := b.add(kind, map[string]any{"id": id, "spec": common}); err != nil {
			return err
		}
	}
	if len(accepted) == 0 {
		return nil
	}
	document := maps.Clone(k.document)
	document["overridable"] = slices.Sorted(maps.Keys(overridable))
	return b.add("resource_type", document)
}

// types counts the definitions of the resource types.
func (b *builder) types() (out []TypeCount) {
	for _, id := range b.ids["resource_type"] {
		of := TypeCount{ID: id, Definitions: len(b.ids[resourcePrefix+id])}
		for _, m := range b.clusters {
			of.Objects += len(m.resources[id])
		}
		out = append(out, of)
	}
	return out
}

// refuseOverrides leaves out a custom object of a cluster: the keys are the type, the index, overrides and the place in it. It reports whether there was one.
func (b *builder) refuseOverrides(cluster string, keys []string, detail string) bool {
	at := slices.IndexFunc(b.clusters, func(m *translator) bool { return m.cluster.Name == cluster })
	n, err := strconv.Atoi(keys[1])
	entries := b.clusters[at].resources[keys[0]]
	if err != nil || n >= len(entries) {
		return false
	}
	id, _ := entries[n].(map[string]any)["id"].(string)
	b.refused[resourcePrefix+keys[0]+"/"+id+"/"+cluster] = strings.Join(keys[min(3, len(keys)):], "/") + ": " + detail
	return true
}

// facts returns the fields of a custom object by path, with the defaults that Kubernetes adds.
func (k *customKind) facts(o fluxdump.Object) map[path]any {
	out := map[path]any{"apiVersion": o.APIVersion}
	for field, value := range customFields(o) {
		for at, leaf := range leaves(withDefaults(k.properties[field], value)) {
			out[strings.TrimSuffix(field+"."+at, ".")] = fluxdump.Plain(leaf)
		}
	}
	return out
}

// withDefaults returns a copy of a value with the defaults of its schema.
func withDefaults(schema, value any) any {
	rules, _ := schema.(map[string]any)
	switch v := value.(type) {
	case map[string]any:
		properties, _ := rules["properties"].(map[string]any)
		out := maps.Clone(v)
		for name, property := range properties {
			fields, _ := property.(map[string]any)
			if _, has := out[name]; !has && fields["default"] != nil {
				out[name] = fields["default"]
			}
		}
		for name, below := range out {
			out[name] = withDefaults(cmp.Or(properties[name], rules["additionalProperties"]), below)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = withDefaults(rules["items"], out[i])
		}
		return out
	}
	return value
}
