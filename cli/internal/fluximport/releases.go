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

// component is a HelmRelease or a Kustomization of one cluster, as a component and its settings on the cluster.
type component struct {
	on      *translator
	object  fluxdump.Object
	kind    string // helm or kustomize
	source  source
	name    string // of the release
	target  string // namespace
	depends []dependency
	enabled bool

	flux       map[path]any  // settings by path
	values     any           // of Helm
	dropped    map[path]bool // values that the server refuses
	substitute map[string]any
	valuesFrom []any
	images     []any

	id string // of the catalog entry, which several clusters share
}

// dependency is an entry of the field dependsOn.
type dependency struct {
	on fluxdump.Ref
	at path
}

// translator translates the objects of one cluster.
type translator struct {
	cluster  *fluxdump.Cluster
	fleet    Fleet
	report   *Report
	customs  map[fluxdump.Ref]*customKind  // by group and kind
	settings map[string]string             // variables of the cluster, from the ConfigMaps of its settings
	defaults map[string]string             // of variables that the settings do not have
	used     map[string]bool               // variables that texts of the files refer to
	copies   map[fluxdump.Ref]fluxdump.Ref // the object that has to be copied to an object of flux-system
	defined  []fluxdump.Object             // namespaces, role bindings and custom objects that the fleet has
	done     map[fluxdump.Ref]*component
	replaced map[fluxdump.Ref]bool // Kustomizations

	labels             map[string]string
	variables, patches map[string]any   // of the document
	lists, resources   map[string][]any // assignments by list, and those of resource types by type
}

func (t *translator) field(o fluxdump.Object, at path, what outcome, format string, values ...any) {
	t.report.add(t.cluster.Name, o.Ref, at, what, format, values...)
}

// refuse records that an object cannot be a component.
func (t *translator) refuse(o fluxdump.Object, reason string) {
	for at := range leaves(o.At("spec")) {
		t.field(o, at, left, "the object is not taken: %s", reason)
	}
}

// component translates a HelmRelease or a Kustomization, unless the fleet cannot have it.
func (t *translator) component(o fluxdump.Object) {
	for at, reason := range map[path]string{"kubeConfig": "it installs on another cluster: import the object there", "serviceAccountName": "the permissions of a component cannot be limited: remove the field, or leave the object to Flux"} {
		if o.At("spec", at) != nil {
			t.refuse(o, reason)
			return
		}
	}
	from, reason := findSource(t.cluster.Find, o)
	if name := o.ReleaseName(); reason == "" && isRelease(o.Ref) && !clusterID.MatchString(name) {
		reason = fmt.Sprintf("%q cannot be the name of a release", name)
	}
	if reason != "" {
		t.refuse(o, reason)
		return
	}
	c := &component{object: o, kind: kustomize, source: from, enabled: !o.Flag("spec", "suspend"), flux: map[path]any{}, dropped: map[path]bool{}}
	if from.secretRef != "" {
		if reason := t.copy(o, fluxdump.Ref{Kind: "Secret", Namespace: from.ref.Namespace, Name: from.secretRef}); reason != "" {
			t.report.step(t.cluster.Name, "Check that the credentials are equal: %s.", reason)
		}
	}
	spec := leaves(o.At("spec"))
	if isRelease(o.Ref) {
		c.kind, c.name, c.target = helm, o.ReleaseName(), o.TargetNamespace()
		c.flux["storageNamespace"] = o.StorageNamespace()
		if spec["upgrade.remediation.retries"] == nil { // the template has 3
			c.flux["upgrade.remediation.retries"] = json.Number("0")
		}
	} else {
		if reason := t.substitutions(c); reason != "" {
			t.refuse(o, reason)
			return
		}
		if spec["wait"] == nil { // the template waits
			c.flux["wait"] = false
		}
		if spec["timeout"] == nil { // the template has one
			c.flux["timeout"] = spec["interval"]
		}
	}
	for _, at := range slices.Sorted(maps.Keys(spec)) {
		t.specField(c, at, spec[at])
	}
	t.images(c)
	if c.kind == helm {
		t.values(c)
	}
	t.done[o.Ref] = c
}

// copy records that an object which another one reads has to be copied to flux-system, or returns the reason why it cannot.
func (t *translator) copy(reader fluxdump.Object, from fluxdump.Ref) (reason string) {
	to := from
	to.Namespace = fluxNamespace
	other, known := t.copies[to]
	if _, exists := t.cluster.Find(to); exists && !known {
		other, known = to, true
	}
	switch {
	case from == to && !known:
		t.copies[to] = from
	case known && other != from:
		return fmt.Sprintf("the fleet reads %s in %s, where %s has its name: copy it under another name, and refer to that", from, fluxNamespace, other)
	case from != to:
		t.copies[to] = from
		t.report.step(t.cluster.Name, "Copy %s to %s: %s reads it there.", from, fluxNamespace, reader.Ref)
	}
	return ""
}

// isSetting reports whether a field of the spec is about how Flux applies an object, and not about the object itself.
func isSetting(of fluxdump.Ref, at path) bool {
	first, _, _ := strings.Cut(at, ".")
	return !slices.Contains([]string{"chart", "chartRef", "sourceRef", "path", "suspend", "releaseName", "storageNamespace", "values", "valuesFrom", "dependsOn", "postRenderers", "images", "postBuild", "uninstall"}, first) &&
		(at != "targetNamespace" || !isRelease(of)) && at != "install.createNamespace" && !strings.HasPrefix(at, "install.remediation")
}

// specField decides the outcome of a field of the spec other than values and images.
func (t *translator) specField(c *component, at path, value any) {
	o := c.object
	first, _, _ := strings.Cut(at, ".")
	switch {
	case at == "dependsOn":
		t.dependencies(c)
	case at == "postBuild.substituteFrom":
		for i := range o.Entries("spec", "postBuild", "substituteFrom") {
			t.field(o, fmt.Sprintf("%s[%d]", at, i), taken, "")
		}
	case slices.Contains([]string{"postRenderers", "images", "valuesFrom"}, first), strings.HasPrefix(at, "values."):
	case at == "chart.spec.interval", at == "chart.spec.reconcileStrategy" && (value == "ChartVersion" || c.source.ref.Kind == "GitRepository"), at == "install.createNamespace", at == "values",
		strings.HasPrefix(at, "chart.metadata."), first == "uninstall" && normal(value) == nil:
		t.field(o, at, template, "")
	case strings.HasPrefix(at, "install.remediation."):
		t.field(o, at, left, "it has no effect with a storageNamespace, because the remediation of a failed install would uninstall the running release; to retry without an uninstall: component set ID --flux install.strategy.name=RetryOnFailure")
	case first == "chart" && at != "chart.spec.chart" && at != "chart.spec.version" && !strings.HasPrefix(at, "chart.spec.sourceRef."):
		t.field(o, at, left, "not possible for a chart of the fleet")
	case isSetting(o.Ref, at), first == "uninstall", strings.HasPrefix(at, "install."):
		t.setting(c, at, value)
	default:
		t.field(o, at, taken, "")
	}
}

// setting takes a field as a setting of the field flux, if the fleet accepts it.
func (t *translator) setting(c *component, at path, value any) {
	defaults := map[path]any{"interval": "10m", "timeout": "5m", "upgrade.remediation.retries": json.Number("3"), "driftDetection.mode": "disabled", "wait": true, "prune": true}
	if known, ok := defaults[at]; ok && normal(known) == normal(value) {
		t.field(c.object, at, template, "")
		return
	}
	setting := settingOf(at)
	whole := c.object.At(append([]string{"spec"}, strings.Split(setting, ".")...)...)
	if setting == at {
		whole = value
	}
	problems := t.fleet.FluxProblems(c.kind, nested(map[path]any{setting: fluxdump.Plain(whole)}))
	if len(problems) > 0 {
		t.field(c.object, at, left, "%s", problems[slices.Sorted(maps.Keys(problems))[0]])
		return
	}
	if at == "decryption.secretRef.name" {
		if reason := t.copy(c.object, fluxdump.Ref{Kind: "Secret", Namespace: c.object.Namespace, Name: fmt.Sprint(value)}); reason != "" {
			t.field(c.object, at, left, "%s", reason)
			return
		}
	}
	t.field(c.object, at, taken, "")
	c.flux[setting] = whole
}

// settingOf returns the path of the setting that has a field: an object can be one setting.
func settingOf(at path) path {
	for _, setting := range []path{"commonMetadata.labels", "commonMetadata.annotations", "install.strategy", "upgrade.strategy", "decryption"} {
		if strings.HasPrefix(at, setting+".") {
			return setting
		}
	}
	return at
}

// dependencies takes the dependencies on objects that are components on this cluster. The fleet resolves them later.
func (t *translator) dependencies(c *component) {
	for i, ref := range c.object.DependsOn() {
		at := fmt.Sprintf("dependsOn[%d]", i)
		if c.object.Entries("spec", "dependsOn")[i].Text("readyExpr") != "" {
			t.field(c.object, at, left, "readyExpr is not possible: use healthCheckExprs of the other component")
			continue
		}
		c.depends = append(c.depends, dependency{ref, at})
		t.field(c.object, at, taken, "")
	}
}

// replacedImages returns the images that an object replaces, and its other post-renderers by path: a component has one list of images.
func replacedImages(o fluxdump.Object) (images []fluxdump.Object, others map[path]fluxdump.Object) {
	images, others = o.Entries("spec", "images"), map[path]fluxdump.Object{}
	for i, e := range o.Entries("spec", "postRenderers") {
		list := e.Entries("kustomize", "images")
		if len(list) == 0 || len(e.Below("kustomize").Fields) != 1 || len(images) > 0 {
			others[fmt.Sprintf("postRenderers[%d]", i)] = e
			continue
		}
		images = list
	}
	return images, others
}

// images takes the replaced images.
func (t *translator) images(c *component) {
	images, others := replacedImages(c.object)
	for _, image := range images {
		taken := map[string]any{"name": image.Fields["name"]}
		for field, name := range map[string]string{"new_name": "newName", "new_tag": "newTag", "digest": "digest"} {
			if image.Fields[name] != nil {
				taken[field] = image.Fields[name]
			}
		}
		c.images = append(c.images, taken)
	}
	for _, list := range []path{"images", "postRenderers"} {
		for i := range c.object.Entries("spec", list) {
			at := fmt.Sprintf("%s[%d]", list, i)
			if _, other := others[at]; other {
				t.field(c.object, at, left, "post-renderers are not possible, apart from images: set the values of the chart, or publish a chart that contains the change")
			} else {
				t.field(c.object, at, taken, "")
			}
		}
	}
}

// values takes the values of a release, with those of ConfigMaps below them, and references to Secrets, and to ConfigMaps that a Secret
// follows.
func (t *translator) values(c *component) {
	values, from := t.cluster.ReleaseValues(c.object, c.object.Namespace)
	for i, e := range c.object.Entries("spec", "valuesFrom") {
		at, kind, name := fmt.Sprintf("valuesFrom[%d]", i), e.Text("kind"), e.Text("name")
		if i >= len(from) {
			t.field(c.object, at, taken, "")
			continue
		}
		if reason := t.copy(c.object, fluxdump.Ref{Kind: kind, Namespace: c.object.Namespace, Name: name}); reason != "" {
			t.field(c.object, at, left, "%s", reason)
		} else {
			t.field(c.object, at, taken, "")
		}
		ref := map[string]any{"kind": kind, "name": name, "values_key": cmp.Or(e.Text("valuesKey"), "values.yaml")}
		if path := e.Text("targetPath"); path != "" {
			ref["target_path"] = path
		}
		if e.Flag("optional") {
			ref["optional"] = true
		}
		c.valuesFrom = append(c.valuesFrom, ref)
	}
	c.values = t.convert(c, "values", values)
	for at := range leaves(c.object.At("spec")) {
		if strings.HasPrefix(at, "values.") && !t.report.listed(t.cluster.Name, c.object.Ref, at) {
			t.field(c.object, at, taken, "")
		}
	}
}
