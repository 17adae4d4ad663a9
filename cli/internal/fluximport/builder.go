package fluximport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// builder makes one fleet of the components of all clusters.
type builder struct {
	report    *Report
	clusters  []*translator
	customs   map[fluxdump.Ref]*customKind // by group and kind
	entries   map[string][]entry           // by kind
	refused   map[string]string            // reasons by kind, kind/id, and kind/id/cluster
	groups    [][]*component               // of several clusters, each of which is one catalog entry
	documents map[string][]json.RawMessage
	ids       map[string][]string // of the documents, by kind
	// literal: custom objects have no references to variables, to find the one whose references are refused; settled: it is found.
	literal, settled bool
	layers           []map[string]any
}

// entry is a definition of one cluster.
type entry struct {
	on     *translator
	object fluxdump.Object
	id     string
	fields map[string]any
}

// build makes the documents. It can be called again after some have been refused.
func (b *builder) build(opt Options) error {
	b.documents, b.ids, b.layers = map[string][]json.RawMessage{}, map[string][]string{}, nil
	for _, m := range b.clusters {
		m.variables, m.patches, m.lists, m.resources, m.defined = map[string]any{}, map[string]any{}, map[string][]any{}, map[string][]any{}, nil
	}
	b.groups = b.group()
	for _, g := range b.groups {
		if err := b.catalogEntry(g); err != nil {
			return err
		}
	}
	for _, kind := range []string{"namespace", "rolebinding"} {
		if err := b.define(kind); err != nil {
			return err
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(b.customs), compareRefs) {
		if err := b.defineCustom(b.customs[of]); err != nil {
			return err
		}
	}
	for _, m := range b.clusters {
		for name := range m.used {
			m.variables[name] = cmp.Or(m.settings[name], m.defaults[name])
		}
	}
	b.planLayers(opt.Labels)
	for _, layer := range b.layers {
		if err := b.add("layer", layer); err != nil {
			return err
		}
	}
	for _, m := range b.clusters {
		id := m.cluster.Name
		doc := map[string]any{
			"id": id, "cluster_dns": strings.ToLower(id + "." + opt.DNSSuffix), "environment": cmp.Or(m.labels["environment"], opt.Environment),
			"resources": m.resources, "patches": m.patches, "variables": m.variables,
		}
		for list, entries := range m.lists {
			doc[list] = entries
		}
		labels := maps.Clone(m.labels)
		delete(labels, "environment")
		doc["labels"] = labels
		if err := b.add("cluster", doc); err != nil {
			return err
		}
	}
	return nil
}

// kinds returns the kinds of documents, in the order in which they refer to each other.
func (b *builder) kinds() []string {
	var resources []string
	for kind := range b.documents {
		if strings.HasPrefix(kind, resourcePrefix) {
			resources = append(resources, kind)
		}
	}
	slices.Sort(resources)
	return slices.Concat([]string{"namespace", "rolebinding", "platform_component", "resource_type"}, resources, []string{"layer", "cluster"})
}

// add adds a document, without its empty fields.
func (b *builder) add(kind string, doc map[string]any) error {
	raw, err := render.Encode(withoutEmpty(doc))
	b.documents[kind] = append(b.documents[kind], raw)
	b.ids[kind] = append(b.ids[kind], doc["id"].(string))
	return err
}

func withoutEmpty(fields map[string]any) map[string]any {
	maps.DeleteFunc(fields, func(_ string, v any) bool {
		of := reflect.ValueOf(v)
		return v == nil || slices.Contains([]reflect.Kind{reflect.Map, reflect.Slice, reflect.String}, of.Kind()) && of.Len() == 0
	})
	return fields
}

// create creates the documents. again: some definitions were refused, and the documents have to be built without them.
func (b *builder) create(fleet Fleet) (again bool, err error) {
	var problems []error
	err = fleet.Create(b.kinds(), b.documents, func(kind string, index int, pointer, detail string) {
		id := b.ids[kind][index]
		switch keys := pointerKeys(pointer); {
		case kind == "platform_component":
			again = b.refuse(id, "", keys, detail) || again
		case kind == "cluster" && len(keys) >= 3 && keys[0] == "patches":
			again = b.refuse(keys[1], id, []string{"patches", keys[2]}, detail) || again
		case kind == "cluster" && len(keys) >= 3 && keys[0] == "resources":
			again = b.refuseOverrides(id, keys[1:], detail) || again
		case kind == "resource_type":
			b.refused[resourcePrefix+id], again = "the resource type is refused: "+detail, true
		case strings.HasPrefix(kind, resourcePrefix):
			b.refused[kind+"/"+id], again = strings.TrimPrefix(pointer, "/spec/")+": "+detail, true
		case kind == "namespace", kind == "rolebinding":
			b.refused[kind+"/"+id], again = detail, true
		default:
			problems = append(problems, fmt.Errorf("%s/%s%s: %s", kind, id, pointer, detail))
		}
	})
	switch {
	case err == nil && b.literal && !b.settled:
		b.literal, b.settled = false, true
		return true, nil
	case err == nil:
		return false, nil
	case again: // problems of clusters may be that a definition is missing
		for _, m := range b.clusters {
			m.dropDependencies()
		}
		return true, nil
	case !b.literal && len(b.customs) > 0: // the result of a reference may be refused on a cluster, and such a problem has no place
		b.literal = true
		return true, nil
	case len(problems) > 0:
		return false, fmt.Errorf("the fleet refuses the documents: %w", errors.Join(problems...))
	}
	return false, fmt.Errorf("the fleet refuses the documents: %w", err)
}

// refuse leaves out what is refused of a component: a value of Helm, or the object. cluster is empty for the catalog. It reports whether
// there was something to leave out.
func (b *builder) refuse(id, cluster string, keys []string, detail string) (changed bool) {
	for _, g := range b.groups {
		for _, c := range g {
			on := c.on.cluster.Name
			switch {
			case c.id != id || cluster != "" && cluster != on:
				continue
			case c.kind == helm && len(keys) >= 2 && keys[0] == "patches":
				if !c.dropped[keys[1]] {
					changed, c.dropped[keys[1]] = true, true
					b.report.reject(on, c.object.Ref, "values."+keys[1], detail)
				}
			default:
				changed = true
				b.report.reject(on, c.object.Ref, "", "the object is not taken: "+detail)
				delete(c.on.done, c.object.Ref)
			}
		}
	}
	return changed
}

func pointerKeys(pointer string) []string {
	keys := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, key := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
	}
	return keys
}

// group returns the catalog entries, with ids: components of equal name, release, source and dependencies are one.
func (b *builder) group() [][]*component {
	byKey := map[string][]*component{}
	for _, m := range b.clusters {
		for _, ref := range slices.SortedFunc(maps.Keys(m.done), compareRefs) {
			c := m.done[ref]
			var depends []fluxdump.Ref
			for _, d := range c.depends {
				depends = append(depends, d.on)
			}
			slices.SortFunc(depends, compareRefs)
			key := fmt.Sprint(c.kind, ref, c.name, c.target, c.source.url, c.source.secretRef, depends)
			c.on = m
			byKey[key] = append(byKey[key], c)
		}
	}
	groups := slices.SortedFunc(maps.Values(byKey), func(a, c []*component) int {
		return cmp.Or(cmp.Compare(len(c), len(a)), compareRefs(a[0].object.Ref, c[0].object.Ref), cmp.Compare(a[0].on.cluster.Name, c[0].on.cluster.Name))
	})
	known := map[string]bool{}
	for _, g := range groups {
		o := g[0].object
		id := dnsLabel(o.Name)
		if known[id] {
			id = dnsLabel(o.Name + "-" + o.Namespace)
		}
		for n := 2; known[id]; n++ {
			id = numbered(dnsLabel(o.Name), n)
		}
		known[id] = true
		for _, c := range g {
			c.id = id
		}
	}
	slices.SortFunc(groups, func(a, c []*component) int { return cmp.Compare(a[0].id, c[0].id) })
	return groups
}

// numbered returns an id with a number.
func numbered(id string, n int) string {
	suffix := fmt.Sprintf("-%d", n)
	return strings.TrimRight(id[:min(len(id), fluxdump.MaxReleaseName-len(suffix))], "-") + suffix
}

func compareRefs(a, b fluxdump.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Group, b.Group))
}

var noLabel = regexp.MustCompile(`[^a-z0-9]+`)

// dnsLabel returns a name as an id of a component.
func dnsLabel(name string) string {
	name = strings.Trim(noLabel.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return cmp.Or(strings.Trim(name[:min(len(name), fluxdump.MaxReleaseName)], "-"), "component")
}

// catalogEntry adds a document of the catalog, and the assignments with what differs on each cluster.
func (b *builder) catalogEntry(g []*component) error {
	first, version, n := g[0], "component_version", len(g)
	encode := patches
	if first.kind == kustomize {
		version, encode = "oci_tag", maps.Clone[map[path]any]
	}
	fields, settings, depends := make([]map[path]any, n), make([]map[string]string, n), map[string]bool{}
	flux, values, trees := make([]map[path]any, n), make([]map[path]any, n), make([]any, n)
	for i, c := range g {
		fields[i] = withoutEmpty(map[path]any{
			"component_path": c.source.chart, version: plainVersion(c.source.version), "oci_digest": c.source.digest, "values_from": c.valuesFrom, "images": c.images,
		})
		flux[i], values[i], trees[i], settings[i] = c.flux, c.substitute, c.values, c.on.settings
		for _, d := range c.depends {
			depends[c.on.done[d.on].id] = true
		}
	}
	if first.kind == helm {
		values = valuePaths(trees)
		for i, c := range g {
			maps.DeleteFunc(values[i], func(at path, _ any) bool { return c.dropped[at] })
		}
	}
	commonFields, ownFields := split(fields, true, nil, nil)
	for i := range g { // a version and its digest are one setting, and lists of clusters follow those of the catalog
		if _, differs := ownFields[i]["oci_digest"]; differs {
			ownFields[i][version] = fields[i][version]
		}
		for _, list := range []string{"values_from", "images"} {
			if _, differs := ownFields[i][list]; differs {
				for j := range g {
					ownFields[j][list] = fields[j][list]
				}
				delete(commonFields, list)
			}
		}
	}
	commonFlux, ownFlux := split(flux, false, nil, nil)
	commonValues, ownValues := split(values, false, settings, func(i int, name string) { g[i].on.used[name] = true })
	doc := map[string]any{
		"id": first.id, "type": first.kind, "oci_url": first.source.url, "secret_ref": first.source.secretRef, "release_name": first.name, "target_namespace": first.target,
		"depends_on": slices.Sorted(maps.Keys(depends)), "flux": nested(commonFlux), "patches": encode(commonValues),
	}
	maps.Copy(doc, commonFields)
	for i, c := range g {
		m, assignment := c.on, map[string]any{"id": first.id, "enabled": c.enabled, "flux": nested(ownFlux[i])}
		maps.Copy(assignment, ownFields[i])
		m.lists["platform_components"] = append(m.lists["platform_components"], withoutEmpty(assignment))
		if len(ownValues[i]) > 0 {
			m.patches[first.id] = encode(ownValues[i])
		}
	}
	return b.add("platform_component", doc)
}

// planLayers adds a layer for all clusters, and one for each value of a label that several but not all clusters have. Variables of all
// clusters of a layer move into it.
func (b *builder) planLayers(labels []Label) {
	if len(b.clusters) < 2 {
		return
	}
	b.layer("all", 100, map[string]any{"all": true}, b.clusters)
	priority := 200
	for _, label := range labels {
		byValue := map[string][]*translator{}
		for _, m := range b.clusters {
			byValue[m.labels[label.Key]] = append(byValue[m.labels[label.Key]], m)
		}
		for _, value := range slices.Sorted(maps.Keys(byValue)) {
			members := byValue[value]
			if value == "" || len(members) < 2 || len(members) == len(b.clusters) {
				continue
			}
			b.layer(dnsLabel(label.Key+"-"+value), priority, map[string]any{"selector": label.Key + "=" + value}, members)
			priority++
		}
	}
}

func (b *builder) layer(id string, priority int, layer map[string]any, members []*translator) {
	for n, given := 2, id; slices.ContainsFunc(b.layers, func(other map[string]any) bool { return other["id"] == id }); n++ {
		id = numbered(given, n)
	}
	layer["id"], layer["priority"] = id, priority
	shared := map[string]any{}
	for name, value := range members[0].variables {
		if !slices.ContainsFunc(members, func(m *translator) bool { return m.variables[name] != value }) {
			shared[name] = value
			for _, m := range members {
				delete(m.variables, name)
			}
		}
	}
	layer["variables"] = shared
	b.layers = append(b.layers, layer)
}

// checkSecrets refuses documents with a value of a Secret, as the last of all checks: no translation writes one.
func (b *builder) checkSecrets(clusters []*fluxdump.Cluster) error {
	for _, kind := range b.kinds() {
		for _, doc := range b.documents[kind] {
			for _, c := range clusters {
				if secret, found := c.SecretIn(string(doc)); found {
					return args.Errorf("a document of kind %s would contain a value of %s of cluster %s; nothing is written: leave Secrets out of the dump if the value is none", kind, secret, c.Name)
				}
			}
		}
	}
	return nil
}
