package fluximport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
)

// Difference is a difference between an object of the dump and the one that the fleet makes.
type Difference struct {
	Cluster, Object, Path string
	Dump, Fleet           string // values, shortened and without those of Secrets
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: %s is %s in the dump and %s in the fleet", d.Cluster, d.Object, d.Path, d.Dump, d.Fleet)
}

func (t *translator) shown(v any) string {
	if v == nil {
		return "absent"
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(fmt.Sprint(v))
	}
	return fmt.Sprintf("%.200s", t.cluster.Mask(string(text), nil))
}

// Check creates a fleet of documents, renders every cluster, compares it object by object with the dump, and returns the differences that
// the report does not list and the number of compared objects.
func (r *Result) Check(fleet Fleet, documents map[string][]json.RawMessage) (differences []Difference, compared int, err error) {
	if err := fleet.Create(r.Kinds, documents, func(string, int, string, string) {}); err != nil {
		return nil, 0, err
	}
	for _, t := range r.clusters {
		raw, err := fleet.Render(t.cluster.Name)
		if err != nil {
			return nil, 0, fmt.Errorf("cluster %s: %w", t.cluster.Name, err)
		}
		rendered, err := fluxdump.Rendered(raw)
		if err != nil {
			return nil, 0, err
		}
		differs, n := t.compare(rendered)
		differences, compared = append(differences, differs...), compared+n
	}
	return differences, compared, nil
}

func (t *translator) compare(rendered map[fluxdump.Ref]fluxdump.Object) (out []Difference, compared int) {
	expect := func(o fluxdump.Object, want, got map[path]any) {
		compared++
		for _, at := range fluxdump.Differing(want, got) {
			if !t.report.listed(t.cluster.Name, o.Ref, at) {
				out = append(out, Difference{t.cluster.Name, o.String(), t.cluster.Mask(at, nil), t.shown(want[at]), t.shown(got[at])})
			}
		}
	}
	ids := map[fluxdump.Ref]string{} // of components for which others can wait
	for ref, c := range t.done {
		if c.enabled {
			ids[ref] = c.id
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(t.done), compareRefs) {
		c := t.done[ref]
		got, ok := rendered[fluxdump.Ref{Group: ref.Group, Kind: ref.Kind, Namespace: fluxNamespace, Name: "platform-" + c.id}]
		if !c.enabled { // the templates render nothing
			if ok {
				out = append(out, Difference{t.cluster.Name, c.object.String(), "suspend", "true", "absent"})
			}
			compared++
			continue
		}
		want := c.object
		if isUnbuilt(want) {
			want.Fields, _ = substituted(want.Fields, t.settings).(map[string]any)
		}
		fromDump := t.facts(c, want, t.cluster.Find, func(ref fluxdump.Ref) string { return ids[ref] })
		var fromFleet map[path]any
		if ok {
			fromFleet = t.facts(nil, got, func(ref fluxdump.Ref) (o fluxdump.Object, ok bool) { o, ok = rendered[ref]; return }, func(ref fluxdump.Ref) string { return strings.TrimPrefix(ref.Name, "platform-") })
		}
		expect(c.object, fromDump, fromFleet)
	}
	for _, o := range t.defined {
		fromDump := t.definitionFacts(o)
		if isUnbuilt(o) {
			for at, value := range fromDump {
				fromDump[at] = substituted(value, t.settings)
			}
		}
		expect(o, fromDump, t.definitionFacts(rendered[o.Ref]))
	}
	return out, compared
}

// definitionFacts returns what a namespace, a role binding or a custom object is, by path.
func (t *translator) definitionFacts(o fluxdump.Object) map[path]any {
	out := leaves(o.At("roleRef"))
	if k := t.customs[fluxdump.Ref{Group: o.Group, Kind: o.Kind}]; k != nil {
		out = k.facts(o)
	}
	for _, name := range []string{"labels", "annotations"} {
		all, _ := o.At("metadata", name).(map[string]any)
		for key, value := range all {
			if !isAutomatic(key) {
				out[name+"."+key] = fmt.Sprint(value)
			}
		}
	}
	if o.Group == rbacGroup {
		fields, _ := binding(o)
		out["subjects"] = fields["subjects"]
	}
	maps.DeleteFunc(out, func(_ path, v any) bool { return v == nil })
	return out
}

// facts returns what an object of Flux installs, and how, by path. Values with the same effect are equal. c is nil for an object of the
// fleet.
func (t *translator) facts(c *component, o fluxdump.Object, find func(fluxdump.Ref) (fluxdump.Object, bool), component func(fluxdump.Ref) string) map[path]any {
	out := map[path]any{}
	if from, reason := findSource(find, o); reason == "" {
		out["source.url"], out["source.path"], out["source.version"], out["source.digest"] = from.url, from.chart, from.version, from.digest
		out["source.secretRef"] = from.secretRef
	}
	for at, value := range defaultsOf(o) {
		out[at] = normal(value)
	}
	for at, value := range leaves(o.At("spec")) {
		if isSetting(o.Ref, at) {
			out[at] = normal(value)
		}
	}
	out["dependsOn"] = dependencyNames(o, component)
	images, others := replacedImages(o)
	var list []any
	for _, image := range images {
		list = append(list, image.Fields)
	}
	out["images"] = normal(list)
	for at, e := range others {
		out[at] = e.Fields
	}
	maps.DeleteFunc(out, func(_ path, v any) bool { return v == nil || v == "" })
	if isRelease(o.Ref) {
		out["releaseName"], out["targetNamespace"], out["storageNamespace"] = o.ReleaseName(), o.TargetNamespace(), o.StorageNamespace()
		t.valuesFacts(c, o, out)
	}
	for name, value := range t.postBuild(o) {
		out["postBuild."+name] = value
	}
	return out
}

// valuesFacts adds the values of a release: those of ConfigMaps of the dump, where the import takes them, below its own.
func (t *translator) valuesFacts(c *component, o fluxdump.Object, out map[path]any) {
	var namespaces []string
	if c != nil {
		namespaces = []string{o.Namespace}
	}
	values, from := t.cluster.ReleaseValues(o, namespaces...)
	for i, e := range from {
		out[fmt.Sprintf("valuesFrom.%d", i)] = fmt.Sprint(e.Text("kind"), e.Text("name"), cmp.Or(e.Text("valuesKey"), "values.yaml"), e.Text("targetPath"), e.Flag("optional"))
	}
	for at, value := range leaves(values) {
		if value == nil {
			value = absent{} // null removes a default of the chart
		}
		if fields, isMap := value.(map[string]any); !isMap || len(fields) > 0 {
			out["values."+at] = fluxdump.Plain(value)
		}
	}
}

// absent is null as a value of Helm.
type absent struct{}

func dependencyNames(o fluxdump.Object, component func(fluxdump.Ref) string) string {
	var names []string
	for i, ref := range o.DependsOn() {
		if id := component(ref); id != "" && o.Entries("spec", "dependsOn")[i].Text("readyExpr") == "" {
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
