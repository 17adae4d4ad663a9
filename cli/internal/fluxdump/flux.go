package fluxdump

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// The API groups of Flux.
const (
	HelmGroup      = "helm.toolkit.fluxcd.io"
	KustomizeGroup = "kustomize.toolkit.fluxcd.io"
	SourceGroup    = "source.toolkit.fluxcd.io"
)

// MaxReleaseName is the maximum length of the name of a Helm release.
const MaxReleaseName = 53

// Rendered returns the objects that the service renders for a cluster, and those of ResourceSets in them, without templates.
func Rendered(objects []json.RawMessage) (map[Ref]Object, error) {
	out := map[Ref]Object{}
	for _, raw := range objects {
		value, err := strictyaml.Decode(raw) // YAML would fold some characters
		if err != nil {
			return nil, err
		}
		fields, _ := value.(map[string]any)
		o := newObject(fields)
		out[o.Ref] = o
		if o.Kind != resourceset.Kind {
			continue
		}
		inner, err := resourceset.ParseObjects(o.Text("spec", "resourcesTemplate"))
		if err != nil {
			continue // a template, whose objects are not known
		}
		for _, fields := range inner {
			o := newObject(fields)
			out[o.Ref] = o
		}
	}
	return out, nil
}

// Below returns the object at a path of fields, with fields only. If there is none, it is empty.
func (o Object) Below(path ...string) Object {
	fields, _ := o.At(path...).(map[string]any)
	return Object{Fields: fields}
}

// Entries returns the objects of the list at a path of fields, with fields only.
func (o Object) Entries(path ...string) (out []Object) {
	list, _ := o.At(path...).([]any)
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		out = append(out, Object{Fields: fields})
	}
	return out
}

// DependsOn returns the objects in the field dependsOn of a HelmRelease or a Kustomization.
func (o Object) DependsOn() (refs []Ref) {
	for _, e := range o.Entries("spec", "dependsOn") {
		refs = append(refs, Ref{Group: o.Group, Kind: o.Kind, Namespace: cmp.Or(e.Text("namespace"), o.Namespace), Name: e.Text("name")})
	}
	return refs
}

// Owner returns the Kustomization that applies an object, by its labels; false: none does.
func (o Object) Owner() (Ref, bool) {
	labels := o.Below("metadata", "labels")
	ref := Ref{KustomizeGroup, "Kustomization", labels.Text(KustomizeGroup + "/namespace"), labels.Text(KustomizeGroup + "/name")}
	return ref, ref.Name != ""
}

// Inventory returns the objects of a Kustomization by its status; nil: it has none.
func (o Object) Inventory() (refs []Ref) {
	for _, entry := range o.Entries("status", "inventory", "entries") {
		parts := strings.Split(entry.Text("id"), "_") // NAMESPACE_NAME_GROUP_KIND, with __ for a colon in the name
		if n := len(parts); n >= 4 {                  //nolint:mnd // as above
			refs = append(refs, Ref{Namespace: parts[0], Name: strings.ReplaceAll(strings.Join(parts[1:n-2], "_"), "__", ":"), Group: parts[n-2], Kind: parts[n-1]})
		}
	}
	return refs
}

// ReleaseName returns the name of the Helm release of a HelmRelease, as helm-controller computes it.
func (o Object) ReleaseName() string {
	name := o.Name
	if target := o.Text("spec", "targetNamespace"); target != "" {
		name = target + "-" + name
	}
	name = cmp.Or(o.Text("spec", "releaseName"), name)
	if len(name) > MaxReleaseName {
		name = name[:40] + "-" + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:12]
	}
	return name
}

// TargetNamespace returns the namespace into which a HelmRelease installs.
func (o Object) TargetNamespace() string {
	return cmp.Or(o.Text("spec", "targetNamespace"), o.Namespace)
}

// StorageNamespace returns the namespace that has the history of the release of a HelmRelease.
func (o Object) StorageNamespace() string {
	return cmp.Or(o.Text("spec", "storageNamespace"), o.Namespace)
}
