package rendering

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
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

// creators are kinds of objects that create others, with the fields of their spec that decide which.
var creators = map[string][]string{
	"helm.toolkit.fluxcd.io/HelmRelease":        {"releaseName", "targetNamespace", "storageNamespace", "chart.spec.chart", "chart.spec.sourceRef", "chartRef"},
	"kustomize.toolkit.fluxcd.io/Kustomization": {"path", "components", "targetNamespace", "namePrefix", "nameSuffix", "sourceRef"},
	FluxGroup + "/" + KindResourceSet:           {"resources", "resourcesTemplate", "resourcesTemplateFrom", "inputs", "inputsFrom", "inputStrategy"},
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
		text, _ := json.Marshal(values) // they were read as JSON
		id.creates = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	r.identities = append(r.identities, id)
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
	return slices.ContainsFunc(r.identities, func(id Identity) bool { return !stays[id] })
}

// Digest returns a digest of the identities of all objects: equal for results that apply the same ones.
func (r *Result) Digest() string {
	var texts []string
	for _, id := range r.identities {
		texts = append(texts, fmt.Sprintf("%q %q %q %q %q %q", id.set, id.Group, id.Kind, id.Namespace, id.Name, id.creates))
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(texts), "\n")))
	return fmt.Sprintf("%x", sum[:16])
}
