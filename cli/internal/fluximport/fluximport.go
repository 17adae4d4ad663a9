// Package fluximport translates the objects of Flux on running clusters into the documents of a fleet, and proves that the documents make
// the same objects.
//
//	fluxdump.Cluster ── translator: releases, kustomizations, namespaces, bindings ──> components of each cluster
//	components of all clusters ── builder: one catalog entry for equal ones, layers ──> documents
//	documents ── Fleet.Render ──> objects ── facts: compared with those of the dump ──> Difference
//
// Every field of the spec of an object has one outcome in the [Report]. No value of a Secret is in a document.
package fluximport

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
)

// Fleet computes a fleet by the rules and the merge of the server.
type Fleet interface {
	// FluxProblems returns the problems of Flux settings of a component of a type, by their pointers.
	FluxProblems(kind string, settings map[string]any) map[string]string
	// Create creates documents by kind, in the order of the kinds. If it refuses some, it creates none and calls refused for each.
	Create(kinds []string, documents map[string][]json.RawMessage, refused func(kind string, index int, pointer, detail string)) error
	// Adopt moves the settings that all clusters of a layer have into the layer.
	Adopt(layers []string) error
	// Documents returns the documents of a kind.
	Documents(kind string) []json.RawMessage
	// Render returns the objects of a cluster.
	Render(cluster string) ([]json.RawMessage, error)
}

// Options are the settings of an import.
type Options struct {
	Labels      []Label
	Environment string // of clusters without a label environment
	DNSSuffix   string // of the DNS name of a cluster, after its id
	Settings    []string
}

// Result is a translated fleet.
type Result struct {
	Report    *Report
	Kinds     []string                     // of documents, in the order in which they refer to each other
	Documents map[string][]json.RawMessage // by kind

	clusters []*translator
}

// Import translates the objects of clusters. It returns an error of the command line if there is nothing to take.
func Import(clusters []*fluxdump.Cluster, newFleet func() Fleet, opt Options) (*Result, error) {
	r, fleet := &Result{Report: newReport()}, newFleet()
	r.Report.clusters = clusters
	customs, err := customKinds(clusters)
	if err != nil {
		return nil, err
	}
	b := &builder{report: r.Report, customs: customs, entries: map[string][]entry{}, refused: map[string]string{}}
	n := 0
	for _, cluster := range clusters {
		if !clusterID.MatchString(cluster.Name) || len(cluster.Name) > 63 {
			return nil, args.Errorf("%s: %q cannot be the id of a cluster: rename it to at most 63 lower-case letters, digits, - and .", cluster.Source, cluster.Name)
		}
		t := &translator{cluster: cluster, fleet: fleet, report: r.Report, customs: customs, used: map[string]bool{}, defaults: map[string]string{}, copies: map[fluxdump.Ref]fluxdump.Ref{}, done: map[fluxdump.Ref]*component{}, replaced: map[fluxdump.Ref]bool{}}
		t.settings = t.readSettings(opt.Settings)
		t.translate()
		n += len(t.done)
		if t.labels, err = labelsOf(opt.Labels, cluster); err != nil {
			return nil, err
		}
		b.clusters = append(b.clusters, t)
		b.definitions(t)
	}
	if n == 0 {
		return nil, args.Errorf("there is no HelmRelease and no Kustomization that the fleet can have in %s: the dump needs them with their sources, see docs/bring-your-fleet.md", clusters[0].Source)
	}
	b.customObjects()
	for again := true; again; {
		if err := b.build(opt); err != nil {
			return nil, err
		}
		if err := b.checkSecrets(clusters); err != nil {
			return nil, err
		}
		fleet = newFleet()
		if again, err = b.create(fleet); err != nil {
			return nil, err
		}
	}
	if layers := b.ids["layer"]; len(layers) > 0 {
		if err := fleet.Adopt(layers); err != nil {
			return nil, err
		}
	}
	r.clusters, r.Report.Types = b.clusters, b.types()
	r.Kinds, r.Documents = b.kinds(), map[string][]json.RawMessage{}
	for _, kind := range b.kinds() {
		for _, doc := range fleet.Documents(kind) {
			short, err := shorten(kind, doc)
			if err != nil {
				return nil, err
			}
			r.Documents[kind] = append(r.Documents[kind], short)
		}
	}
	return r, nil
}

var clusterID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// readSettings returns the values of the ConfigMaps of settings: those that a Kustomization substitutes from, and those with some names.
func (t *translator) readSettings(names []string) map[string]string {
	out := map[string]string{}
	refs := map[fluxdump.Ref]bool{}
	for _, k := range t.cluster.Kind(kustomizeGroup, "Kustomization") {
		for _, e := range k.Entries("spec", "postBuild", "substituteFrom") {
			refs[fluxdump.Ref{Kind: e.Text("kind"), Namespace: k.Namespace, Name: e.Text("name")}] = true
		}
	}
	for _, o := range t.cluster.Kind("", "ConfigMap") {
		if !refs[o.Ref] && !slices.Contains(names, o.Name) {
			continue
		}
		data, _ := o.At("data").(map[string]any)
		for name, value := range data {
			text, ok := value.(string)
			if _, secret := t.cluster.SecretIn(text); ok && !secret && len(text) <= 1024 {
				out[name] = text
			}
		}
	}
	return out
}

// translate decides about each object of the cluster.
//
// A Kustomization that applies HelmReleases or Kustomizations is replaced, because the import takes these. Another one becomes a component
// and keeps its objects. Namespaces and role bindings are taken if a replaced Kustomization applies them, or if they come from kustomize
// build; others are not of Flux.
func (t *translator) translate() {
	parents := map[fluxdump.Ref]bool{}
	for _, o := range t.cluster.Objects {
		if of, owned := o.Owner(); owned && of != o.Ref && (isRelease(o.Ref) || isKustomization(o.Ref)) {
			parents[of] = true
		}
	}
	for _, o := range t.cluster.Objects {
		of, owned := o.Owner()
		switch {
		case isKustomization(o.Ref) && parents[o.Ref]:
			t.replaced[o.Ref] = true
			for at := range leaves(o.At("spec")) {
				t.field(o, at, replaced, "")
			}
			for _, ref := range o.Inventory() {
				if _, known := t.cluster.Find(ref); !known {
					t.report.keep(t.cluster.Name, ref, "not in the dump; Flux deletes it with the Kustomization that applies it: take it over first")
				}
			}
		case (isRelease(o.Ref) || isKustomization(o.Ref)) && o.Text("metadata", "labels", helmGroup+"/name") != "":
			t.refuse(o, "the chart of HelmRelease "+o.Text("metadata", "labels", helmGroup+"/name")+" installs it")
		case isRelease(o.Ref), isKustomization(o.Ref):
			t.component(o)
		case o.Group == sourceGroup:
		case owned && !parents[of], !owned && !isUnbuilt(o):
		case o.Group == "" && o.Kind == "Namespace", o.Group == rbacGroup && strings.HasSuffix(o.Kind, "RoleBinding"):
		case o.Kind == "ConfigMap" || o.Kind == "Secret":
			t.report.keep(t.cluster.Name, o.Ref, "apply it as before, for example with a component of type kustomize")
		case t.customs[fluxdump.Ref{Group: o.Group, Kind: o.Kind}] != nil:
		case o.Group == crdGroup:
			t.report.keep(t.cluster.Name, o.Ref, "install it with a component, before its objects")
		default:
			t.report.keep(t.cluster.Name, o.Ref, "a component of type kustomize can apply it; if the kind is of your own, add its CustomResourceDefinition to the dump")
		}
	}
	t.sources()
	t.dropDependencies()
}

// dropDependencies disables components that would install something else, and drops the dependencies on objects that are not taken.
func (t *translator) dropDependencies() {
	for ref, c := range t.done {
		if c.enabled && slices.ContainsFunc(t.report.ignored[objectOf{t.cluster.Name, ref}], isContent) {
			c.enabled = false
			t.report.step(t.cluster.Name, "Complete the component of %s, and enable it: it is disabled, because the fleet does not have all that it installs.", ref)
		}
	}
	for at, c := range t.done {
		c.depends = slices.DeleteFunc(c.depends, func(d dependency) bool {
			on := t.done[d.on]
			if on == nil || d.on == at {
				t.report.reject(t.cluster.Name, at, d.at, d.on.String()+" is no component, since it is replaced or not taken: depend on what it installs")
			}
			return on == nil || d.on == at
		})
	}
}

var contentFields = []string{"values", "valuesFrom", "postRenderers", "chart.spec.valuesFiles", "chart.spec.valuesFile", "images", "patches", "patchesStrategicMerge", "patchesJson6902", "postBuild"}

// isContent reports whether a field decides what an application is, and not how Flux installs it.
func isContent(at path) bool {
	return slices.ContainsFunc(contentFields, func(field string) bool {
		below, ok := strings.CutPrefix(at, field)
		return ok && (below == "" || below[0] == '.' || below[0] == '[')
	})
}

// sources counts the fields of the sources.
func (t *translator) sources() {
	used := map[fluxdump.Ref]bool{}
	for _, c := range t.done {
		used[c.source.ref] = true
	}
	for _, o := range t.cluster.Objects {
		if o.Group != sourceGroup {
			continue
		}
		for at, value := range leaves(o.At("spec")) {
			switch first, _, _ := strings.Cut(at, "."); {
			case !used[o.Ref] && o.Kind != "HelmChart":
				t.field(o, at, replaced, "")
			case at == "url", first == "ref", at == "secretRef.name", o.Kind == "HelmChart" && slices.Contains([]string{"chart", "version", "sourceRef"}, first):
				t.field(o, at, taken, "")
			case slices.Contains([]string{"interval", "timeout", "type", "layerSelector", "suspend"}, first), at == "provider" && value == "generic", normal(value) == nil, o.Kind == "HelmChart":
				t.field(o, at, template, "")
			default:
				t.field(o, at, left, "the sources of the templates do not have it: set it for the whole cluster, or in a ResourceSet of your own")
			}
		}
	}
}

// shorten returns a document without what the server sets by itself.
func shorten(kind string, doc json.RawMessage) (json.RawMessage, error) {
	var fields map[string]any
	if err := json.Unmarshal(doc, &fields); err != nil {
		return nil, err
	}
	of := fields["type"]
	for key, value := range fields {
		empty := normal(value) == nil || value == "" || value == nil
		switch {
		case slices.Contains([]string{"revision", "created_at", "updated_at", "target_namespace_set", "type_default"}, key),
			empty && key != "priority", key == "cluster_name" && value == fields["id"],
			key == "target_namespace" && of == kustomize,
			kind == "platform_component" && (key == "component_version" || key == "oci_tag") && value == "latest":
			delete(fields, key)
		}
	}
	if spec, ok := fields["spec"].(map[string]any); ok {
		maps.DeleteFunc(spec, func(field string, value any) bool {
			return (field == "labels" || field == "annotations") && normal(value) == nil
		})
	}
	return json.Marshal(fields)
}
