package rendering

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Flux deletes an object when its ResourceSet no longer renders it, whatever its apiVersion was. The controllers of Flux's own
// kinds do the same with the objects that they create.

// Identity identifies an object that a ResourceSet applies, and what it creates itself.
type Identity struct {
	Object
	set     string // the ResourceSets that the template renders around it, outermost first
	creates string // digest of the fields that decide which objects it creates; empty: none
}

// source is an identity of a source of Flux, whose URL decides on the objects that others create from it.
type source struct {
	at   int // in identities
	name string
	url  Identity // the identity with the whole URL
}

// creators are kinds of objects that create others, with the fields of their spec that decide which.
var creators = map[string][]string{
	"helm.toolkit.fluxcd.io/HelmRelease":        {"releaseName", "targetNamespace", "storageNamespace", "chart.spec.chart", "chart.spec.sourceRef", "chartRef"},
	"kustomize.toolkit.fluxcd.io/Kustomization": {"path", "components", "targetNamespace", "namePrefix", "nameSuffix", "sourceRef"},
	// The objects of another artifact replace those of the previous one.
	sourceGroup + "/OCIRepository":    {"url"},
	sourceGroup + "/GitRepository":    {"url"},
	sourceGroup + "/Bucket":           {"endpoint", "bucketName", "prefix"},
	sourceGroup + "/HelmChart":        {"chart", "sourceRef"},
	FluxGroup + "/" + KindResourceSet: {"resources", "resourcesTemplate", "resourcesTemplateFrom", "inputs", "inputsFrom", "inputStrategy"},
}

// identify adds the identity of an object. The objects of an opened ResourceSet have identities of their own.
func (r *Result) identify(o Object, spec map[string]any, in enclosing, opened bool) {
	id := Identity{Object: o, set: in.set}
	fields := creators[o.Group+"/"+o.Kind]
	if opened {
		fields = []string{"resourcesTemplateFrom"}
	}
	values := map[string]any{}
	for _, field := range fields {
		if value := valueAt(spec, field); value != nil {
			values[field] = value
		}
	}
	if len(values) > 0 {
		id.creates = digestOf(values)
	}
	if url, _ := spec["url"].(string); ociRepository(o.Group, o.Kind) {
		r.sources = append(r.sources, source{len(r.identities), url[strings.LastIndex(url, "/")+1:], id})
	}
	r.identities = append(r.identities, id)
	r.readSource(o, spec)
	for _, patch := range removingPatches(spec) {
		r.patched = append(r.patched, patchedObject{Identity{Object: o, set: in.set}, digestOf(patch)})
	}
}

func ociRepository(group, kind string) bool { return group == sourceGroup && kind == "OCIRepository" }

// readSource records what a HelmRelease or a Kustomization makes of an OCIRepository.
func (r *Result) readSource(o Object, spec map[string]any) {
	for _, field := range []string{"chartRef", "sourceRef"} {
		ref, _ := spec[field].(map[string]any)
		name, _ := ref["name"].(string)
		if ref["kind"] != "OCIRepository" || name == "" {
			continue
		}
		namespace, _ := ref["namespace"].(string)
		used := Object{sourceGroup, "OCIRepository", cmp.Or(namespace, o.Namespace), name}
		if r.usedBy == nil {
			r.usedBy = map[Object]string{}
		}
		if other, present := r.usedBy[used]; present && other != field {
			field = "sourceRef"
		}
		r.usedBy[used] = field
	}
}

// identifyCharts reduces the identity of an OCIRepository that only HelmReleases use to the name of its chart: Helm upgrades a
// release to the same chart of another registry.
func (r *Result) identifyCharts() {
	for _, s := range r.sources {
		if id := &r.identities[s.at]; r.usedBy[id.Object] == "chartRef" {
			id.creates = s.name
		}
	}
}

// patchedObject is a patch of what an object creates, which may remove an object from it.
type patchedObject struct {
	of    Identity
	patch string
}

// removing matches patches of kustomize that delete or rename an object.
var removing = regexp.MustCompile(`\$patch\b|/metadata/name`)

// removingPatches returns the patches of a Kustomization or a HelmRelease after which it creates fewer objects.
func removingPatches(spec map[string]any) (found []any) {
	lists := []any{spec["patches"]}
	renderers, _ := spec["postRenderers"].([]any)
	for _, renderer := range renderers {
		renderer, _ := renderer.(map[string]any)
		lists = append(lists, valueAt(renderer, "kustomize.patches"))
	}
	for _, list := range lists {
		patches, _ := list.([]any)
		for _, patch := range patches {
			patch, _ := patch.(map[string]any)
			if text, _ := patch["patch"].(string); removing.MatchString(text) {
				found = append(found, patch)
			}
		}
	}
	return found
}

func digestOf(v any) string {
	text, _ := json.Marshal(v) // it was read as JSON
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// valueAt returns the value at a path of nested maps; nil: there is none.
func valueAt(in map[string]any, path string) any {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		return in[name]
	}
	next, _ := in[name].(map[string]any)
	return valueAt(next, rest)
}

// Removes reports whether Flux deletes an object of one result when it applies another one instead.
func (r *Result) Removes(next *Result) bool {
	stays := make(map[Identity]bool, len(next.identities))
	for _, id := range next.identities {
		stays[id] = true
	}
	for _, s := range next.sources {
		stays[s.url] = true
	}
	kept := map[int]bool{} // sources with the same URL, whatever uses them
	for _, s := range r.sources {
		kept[s.at] = stays[s.url]
	}
	for i, id := range r.identities {
		if !stays[id] && !kept[i] {
			return true
		}
	}
	for _, p := range next.patched {
		was := slices.ContainsFunc(r.identities, func(id Identity) bool { return id.Object == p.of.Object && id.set == p.of.set })
		if was && !slices.Contains(r.patched, p) {
			return true
		}
	}
	return false
}

// Digest returns a digest of the identities of all objects: equal for results that apply the same ones.
func (r *Result) Digest() string {
	var texts []string
	for _, id := range r.identities {
		texts = append(texts, fmt.Sprintf("%q %q %q %q %q %q", id.set, id.Group, id.Kind, id.Namespace, id.Name, id.creates))
	}
	for _, p := range r.patched {
		texts = append(texts, fmt.Sprintf("%q %q %q %q %q", p.of.Group, p.of.Kind, p.of.Namespace, p.of.Name, p.patch))
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(texts), "\n")))
	return fmt.Sprintf("%x", sum[:16])
}
