// Package resourceset renders ResourceSets as Flux Operator does, without a cluster: from their manifests and the inputs of their
// providers to Kubernetes objects. It refuses features that it does not support. The templates are executed by the package
// internal/resourceset of the repository, within a budget.
//
//	manifests ── Read ──> Set ── Sources: names of the providers
//	                       │                    │ poll
//	                       │                    v
//	                       └── Render ── inputs with defaults, provider and numbers as in Flux
//	                                            │ template, for each input
//	                                            v
//	           Object ── labels and common metadata ── FormatYAML ──> YAML
//
// objects.go reads, writes and identifies objects; type_set.go makes the objects of a resource type from shipped ones.
package resourceset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	template "github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

const (
	// Kind is that of ResourceSets.
	Kind = "ResourceSet"
	// ProviderKind is that of the objects that poll the inputs of ResourceSets.
	ProviderKind = "ResourceSetInputProvider"
	// Namespace is that of the shipped objects, and of sets without one.
	Namespace = "flux-system"

	apiVersion = "fluxcd.controlplane.io/v1"
	// Labels with which Flux Operator marks objects of a ResourceSet.
	ownerLabel     = "resourceset.fluxcd.controlplane.io/"
	reconcileLabel = "fluxcd.controlplane.io/reconcile"
)

// limits bound one execution of a template, which may come from outside.
var limits = template.Limits{Units: 500_000_000, Bytes: 64 << 20}

// Input is an input in the response to a poll.
type Input = map[string]json.RawMessage

// Set is the part of Flux Operator's ResourceSet that determines the objects, with the providers in the same manifests.
type Set struct {
	Metadata objectName `json:"metadata"`
	Spec     struct {
		CommonMetadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"commonMetadata"`
		Inputs        []Input `json:"inputs"`
		InputStrategy struct {
			Name string `json:"name"`
		} `json:"inputStrategy"`
		InputsFrom []struct {
			Name     string          `json:"name"`
			Selector json.RawMessage `json:"selector"`
		} `json:"inputsFrom"`
		templates
		Steps []struct {
			Name string `json:"name"`
			templates
		} `json:"steps"`
	} `json:"spec"`

	providers map[string]provider // by name, shared by all sets of the manifests
}

// templates are the two forms of templates in a ResourceSet, or in a step of it.
type templates struct {
	Resources         []json.RawMessage `json:"resources"`
	ResourcesTemplate string            `json:"resourcesTemplate"`
}

// provider is the part of Flux Operator's ResourceSetInputProvider that determines the inputs.
type provider struct {
	Metadata objectName `json:"metadata"`
	Spec     struct {
		DefaultValues Input `json:"defaultValues"`
	} `json:"spec"`
}

type objectName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// Read returns the ResourceSets in a YAML stream. They use the defaultValues of the providers in it; other kinds are ignored.
func Read(text string) ([]Set, error) {
	objects, err := ParseObjects(text)
	if err != nil {
		return nil, err
	}
	var sets []Set
	providers := map[string]provider{}
	for _, obj := range objects {
		switch Text(obj, "kind") {
		case Kind:
			set := Set{providers: providers}
			if err := convert(obj, &set); err != nil {
				return nil, err
			}
			if set.Metadata.Name == "" {
				return nil, fmt.Errorf("a %s without a name", Kind)
			}
			set.Metadata.Namespace = cmp.Or(set.Metadata.Namespace, Namespace)
			sets = append(sets, set)
		case ProviderKind:
			var p provider
			if err := convert(obj, &p); err != nil {
				return nil, err
			}
			providers[p.Metadata.Name] = p
		}
	}
	return sets, nil
}

// convert decodes an object into a struct through JSON.
func convert(obj Object, v any) error {
	raw, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", Text(obj, "kind"), Text(obj, "metadata", "name"), err)
	}
	return nil
}

// Check rejects sets with features that are not supported here, instead of rendering them differently.
func (set *Set) Check() error {
	switch {
	case set.Spec.InputStrategy.Name != "" && set.Spec.InputStrategy.Name != "Flatten":
		return set.errorf("inputStrategy %s is not rendered offline", set.Spec.InputStrategy.Name)
	case len(set.Spec.Steps) > 0 && (len(set.Spec.Resources) > 0 || set.Spec.ResourcesTemplate != ""):
		return set.errorf("steps exclude resources and resourcesTemplate")
	}
	for _, from := range set.Spec.InputsFrom {
		if from.Name == "" {
			return set.errorf("inputsFrom needs the provider's name: a selector cannot be followed without a cluster")
		}
	}
	return nil
}

// errorf returns an error that names the set.
func (set *Set) errorf(format string, args ...any) error {
	return fmt.Errorf("%s %q: %w", Kind, set.Metadata.Name, fmt.Errorf(format, args...))
}

// Sources returns the names of the set's providers in Flux Operator's order.
func (set *Set) Sources() []string {
	names := make([]string, len(set.Spec.InputsFrom))
	for i, from := range set.Spec.InputsFrom {
		names[i] = from.Name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AcceptAnyCluster removes the DNS name of the cluster from the settings of the set's providers, because templates reject inputs
// of other clusters.
func (set *Set) AcceptAnyCluster() {
	for _, p := range set.providers {
		var settings map[string]json.RawMessage
		if json.Unmarshal(p.Spec.DefaultValues["settings"], &settings) != nil {
			continue // settings of another product
		}
		delete(settings, "clusterDNS")
		if text, err := json.Marshal(settings); err == nil && settings != nil {
			p.Spec.DefaultValues["settings"] = text
		}
	}
}

// Render returns the objects of the set's own inputs and of those that poll returns for each of its Sources. A set without inputs
// and sources is rendered once.
func (set *Set) Render(poll func(source string) ([]Input, error)) ([]Object, error) {
	inputs, err := prepare(set.Spec.Inputs, nil, Kind, set.Metadata)
	if err != nil {
		return nil, set.errorf("%w", err)
	}
	for _, source := range set.Sources() {
		raw, err := poll(source)
		if err != nil {
			return nil, set.errorf("%w", err)
		}
		more, err := set.prepareFrom(source, raw)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, more...)
	}
	if len(inputs) == 0 && len(set.Spec.InputsFrom) == 0 && len(set.Spec.Inputs) == 0 {
		inputs = []map[string]any{nil}
	}
	return set.render(inputs)
}

// RenderInputs returns the objects of these inputs of a source alone; none without inputs.
func (set *Set) RenderInputs(source string, raw []Input) ([]Object, error) {
	inputs, err := set.prepareFrom(source, raw)
	if err != nil {
		return nil, err
	}
	return set.render(inputs)
}

// render renders the objects of all inputs. Of several objects with one identity the first stays. Objects whose annotation disables
// reconciliation are left out.
func (set *Set) render(inputs []map[string]any) ([]Object, error) {
	steps := []templates{set.Spec.templates}
	for _, step := range set.Spec.Steps {
		steps = append(steps, step.templates)
	}
	var objects []Object
	seen := map[string]bool{}
	for _, step := range steps {
		made, err := step.render(inputs)
		if err != nil {
			return nil, set.errorf("%w", err)
		}
		for _, obj := range made {
			if Text(obj, "metadata", "annotations", reconcileLabel) == "disabled" || seen[Identity(obj)] {
				continue
			}
			seen[Identity(obj)] = true
			set.mark(obj)
			objects = append(objects, obj)
		}
	}
	return objects, nil
}

func (t *templates) render(inputs []map[string]any) ([]Object, error) {
	var texts []string
	for _, raw := range t.Resources {
		text, err := yaml.JSONToYAML(raw)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	if t.ResourcesTemplate != "" {
		texts = append(texts, t.ResourcesTemplate)
	}
	var objects []Object
	for _, text := range texts {
		parsed, err := template.Parse(text)
		if err != nil {
			return nil, err
		}
		for _, input := range inputs {
			made, err := execute(parsed, input)
			if err != nil {
				if id, ok := input["id"].(string); ok {
					err = fmt.Errorf("input %q: %w", id, err)
				}
				return nil, err
			}
			objects = append(objects, made...)
		}
	}
	return objects, nil
}

func execute(t *template.Template, input map[string]any) ([]Object, error) {
	text, err := t.Execute(input, limits)
	if err != nil {
		return nil, err
	}
	return ParseObjects(text)
}

// mark adds the common metadata and the operator's labels, which override the template's.
func (set *Set) mark(obj Object) {
	metadata, _ := obj["metadata"].(Object)
	if metadata == nil {
		metadata = Object{}
		obj["metadata"] = metadata
	}
	add := func(field string, values map[string]string) {
		if len(values) == 0 {
			return
		}
		existing, _ := metadata[field].(Object)
		if existing == nil {
			existing = Object{}
		}
		for key, value := range values {
			existing[key] = value
		}
		metadata[field] = existing
	}
	add("labels", set.Spec.CommonMetadata.Labels)
	add("annotations", set.Spec.CommonMetadata.Annotations)
	add("labels", map[string]string{ownerLabel + "name": set.Metadata.Name, ownerLabel + "namespace": set.Metadata.Namespace})
}

// prepareFrom prepares the inputs of a provider, with its defaults.
func (set *Set) prepareFrom(source string, raw []Input) ([]map[string]any, error) {
	return prepare(raw, set.providers[source].Spec.DefaultValues, ProviderKind, objectName{source, set.Metadata.Namespace})
}

// prepare turns inputs of the API into those of a template: with the provider's defaults for missing fields, numbers as Flux
// Operator reads them, and their provider.
func prepare(raw []Input, defaults Input, kind string, from objectName) ([]map[string]any, error) {
	inputs := make([]map[string]any, 0, len(raw))
	for _, in := range raw {
		fields := Input{}
		maps.Copy(fields, defaults)
		maps.Copy(fields, in)
		input := make(map[string]any, len(fields)+1)
		for name, value := range fields {
			v, err := throughFloat(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			input[name] = v
		}
		input["provider"] = map[string]any{"apiVersion": apiVersion, "kind": kind, "name": from.Name, "namespace": from.Namespace}
		inputs = append(inputs, input)
	}
	return inputs, nil
}

// throughFloat decodes a value as the operator does: first with every number as a float64, then as Kubernetes does. So 1e3 becomes
// the integer 1000.
func throughFloat(raw json.RawMessage) (any, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	floats, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return render.Numbers(floats)
}
