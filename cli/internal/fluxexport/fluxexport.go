// Package fluxexport turns the rendered objects of a cluster into files that Flux applies without Flux Operator and without the service.
package fluxexport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

const (
	operator  = "fluxcd.controlplane.io" // the API group of Flux Operator, and the prefix of its annotations
	kustomize = "kustomize.toolkit.fluxcd.io"
)

// Rendered is a ResourceSet with the objects that it renders for a cluster, as JSON.
type Rendered struct {
	Name    string
	Objects []json.RawMessage
}

// Export is the objects of a cluster.
type Export struct {
	// Lists are in the order of the ResourceSets, without empty ones.
	Lists []List
	// Missing names what the objects need and the export cannot contain.
	Missing []string
}

// List is the objects of a ResourceSet, sorted by kind, namespace and name.
type List struct {
	Name    string
	Objects []resourceset.Object
}

// New returns the objects that ResourceSets leave on a cluster. Those that other objects wait for in a ResourceSet of their own are taken
// out of it. It refuses an object that only Flux Operator can make, and two ResourceSets that render the same object.
func New(sets []Rendered) (Export, error) {
	x := exporter{owners: map[string]string{}}
	for _, set := range sets {
		list := List{Name: set.Name}
		for _, raw := range set.Objects {
			objects, err := resourceset.ParseObjects(string(render.EscapeForYAML(raw)))
			if err == nil {
				objects, err = x.plain(objects)
			}
			if err == nil {
				err = x.own(set.Name, objects)
			}
			if err != nil {
				return Export{}, fmt.Errorf("ResourceSet %q: %w", set.Name, err)
			}
			list.Objects = append(list.Objects, objects...)
		}
		slices.SortFunc(list.Objects, func(a, b resourceset.Object) int { return cmp.Compare(identity(a), identity(b)) })
		if len(list.Objects) > 0 {
			x.out.Lists = append(x.out.Lists, list)
		}
	}
	x.missNamespaces()
	return x.out, nil
}

type exporter struct {
	out        Export
	owners     map[string]string // the ResourceSet of an object, by its identity
	bindingsIn []string          // namespaces that role bindings wait for
}

// plain returns objects without Flux Operator: those of a ResourceSet in place of it, and none of receipts and Secrets.
func (x *exporter) plain(objects []resourceset.Object) ([]resourceset.Object, error) {
	var out []resourceset.Object
	for _, obj := range objects {
		group, _, _ := strings.Cut(resourceset.Text(obj, "apiVersion"), "/")
		switch kind := resourceset.Text(obj, "kind"); {
		case group == operator && kind == resourceset.Kind:
			inner, err := x.inner(obj)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		case group == operator:
			return nil, fmt.Errorf("only Flux Operator can use %s", identity(obj))
		case group == "v1" && kind == "Secret":
			x.miss("%s, because the files may be stored in Git", identity(obj))
		default:
			if err := x.translate(obj); err != nil {
				return nil, err
			}
			out = append(out, obj)
		}
	}
	return out, nil
}

// inner returns the objects of a ResourceSet without inputs, which applies them when the objects in its dependsOn are ready.
func (x *exporter) inner(obj resourceset.Object) ([]resourceset.Object, error) {
	sets, err := resourceset.ReadObjects([]resourceset.Object{obj})
	if err != nil {
		return nil, err
	}
	if len(sets[0].Spec.Inputs)+len(sets[0].Spec.InputsFrom) > 0 {
		return nil, fmt.Errorf("only Flux Operator can use %s, which has inputs", identity(obj))
	}
	made, err := sets[0].Render(nil, &resourceset.Budget{Units: 50_000_000, Bytes: 4 << 20}) //nolint:mnd // as much as one template may take
	if err != nil {
		return nil, err
	}
	var objects []resourceset.Object
	for _, one := range made {
		if one.Kind == resourceset.ProviderKind && strings.HasPrefix(resourceset.Text(obj, "metadata", "name"), "receipt-") {
			continue // the service is not asked any more
		}
		parsed, err := resourceset.ParseObjects(string(render.EscapeForYAML(one.JSON)))
		if err != nil {
			return nil, err
		}
		objects = append(objects, parsed...)
	}
	if objects, err = x.plain(objects); err == nil && len(objects) > 0 {
		err = x.waits(obj, objects)
	}
	return objects, err
}

// waits handles the dependencies of a ResourceSet, which plain Flux does not have.
func (x *exporter) waits(set resourceset.Object, objects []resourceset.Object) error {
	var s struct {
		Spec struct {
			DependsOn []struct{ APIVersion, Kind, Namespace, Name string }
		}
	}
	raw, err := json.Marshal(set)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	for _, on := range s.Spec.DependsOn {
		awaited := reference(on.Kind, on.Namespace, on.Name)
		for _, obj := range objects {
			switch name := identity(obj); {
			case name == awaited:
				annotate(obj, kustomize+"/ssa", "Merge") // another program has made it, whose fields stay
			case on.Kind == "Namespace" && on.Name == resourceset.Text(obj, "metadata", "namespace"):
				x.bindingsIn = append(x.bindingsIn, on.Name)
			default:
				x.miss("the dependency of %s on %s, which Flux does not have", name, awaited)
			}
		}
	}
	return err
}

// translate replaces the annotations of Flux Operator by those of kustomize-controller, and removes its labels.
func (x *exporter) translate(obj resourceset.Object) error {
	metadata, _ := obj["metadata"].(resourceset.Object)
	labels, _ := metadata["labels"].(resourceset.Object)
	maps.DeleteFunc(labels, func(key string, _ any) bool { return strings.HasPrefix(key, "resourceset."+operator+"/") })
	annotations, _ := metadata["annotations"].(resourceset.Object)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, of := strings.CutPrefix(key, operator+"/")
		if !of {
			continue
		}
		value, _ := annotations[key].(string)
		delete(annotations, key)
		switch name {
		case "prune", "force":
			annotate(obj, kustomize+"/"+name, value)
		case "copyFrom", "convertKubeConfigFrom", "checksumFrom":
			return fmt.Errorf("only Flux Operator can fill %s, which has the annotation %s", identity(obj), key)
		default:
			x.miss("the annotation %s of %s", key, identity(obj))
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if values, ok := metadata[field].(resourceset.Object); ok && len(values) == 0 {
			delete(metadata, field)
		}
	}
	return nil
}

// own records the ResourceSet of objects.
func (x *exporter) own(set string, objects []resourceset.Object) error {
	for _, obj := range objects {
		key := resourceset.Rendered{
			APIVersion: resourceset.Text(obj, "apiVersion"), Kind: resourceset.Text(obj, "kind"),
			Namespace: resourceset.Text(obj, "metadata", "namespace"), Name: resourceset.Text(obj, "metadata", "name"),
		}.Identity()
		if other, ok := x.owners[key]; ok {
			return fmt.Errorf("it renders %s, and so does ResourceSet %q", identity(obj), other)
		}
		x.owners[key] = set
	}
	return nil
}

// missNamespaces names the namespaces of role bindings that the export does not create. Flux applies no object while one is missing.
func (x *exporter) missNamespaces() {
	slices.Sort(x.bindingsIn)
	for _, name := range slices.Compact(x.bindingsIn) {
		_, exported := x.owners[resourceset.Rendered{APIVersion: "v1", Kind: "Namespace", Name: name}.Identity()]
		if !exported && !slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease", resourceset.Namespace}, name) {
			x.miss("the namespace %s, without which Flux does not apply the role bindings in it", name)
		}
	}
}

func (x *exporter) miss(format string, args ...any) {
	x.out.Missing = append(x.out.Missing, fmt.Sprintf(format, args...))
}

func annotate(obj resourceset.Object, key, value string) {
	metadata, _ := obj["metadata"].(resourceset.Object)
	annotations, ok := metadata["annotations"].(resourceset.Object)
	if !ok {
		annotations = resourceset.Object{}
		metadata["annotations"] = annotations
	}
	annotations[key] = value
}

// identity returns KIND NAMESPACE/NAME of an object, for messages and for the order of objects.
func identity(obj resourceset.Object) string {
	return reference(resourceset.Text(obj, "kind"), resourceset.Text(obj, "metadata", "namespace"), resourceset.Text(obj, "metadata", "name"))
}

func reference(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// ErrExists is wrapped by the error of an export to a folder that exists.
var ErrExists = errors.New("it exists: remove it first, so that no file of an earlier export stays")
