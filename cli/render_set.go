package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
	"sigs.k8s.io/yaml"
)

const (
	fluxAPIVersion  = "fluxcd.controlplane.io/v1"
	kindResourceSet = "ResourceSet"
	kindProvider    = "ResourceSetInputProvider"
	fluxNamespace   = "flux-system"
	// Labels with which Flux Operator marks objects of a ResourceSet.
	ownerLabel     = "resourceset.fluxcd.controlplane.io/"
	reconcileLabel = "fluxcd.controlplane.io/reconcile"
	// inputAnnotation holds the receipt of an object's input.
	inputAnnotation = "event.toolkit.fluxcd.io/input"
)

// resourceSet is the part of Flux Operator's ResourceSet that determines the objects.
type resourceSet struct {
	Metadata objectName `json:"metadata"`
	Spec     struct {
		CommonMetadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"commonMetadata"`
		Inputs        []map[string]json.RawMessage `json:"inputs"`
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
		DefaultValues map[string]json.RawMessage `json:"defaultValues"`
	} `json:"spec"`
}

// acceptAnyCluster removes the DNS name of the provider's cluster, because its templates reject inputs of other clusters.
func (p provider) acceptAnyCluster() {
	var settings map[string]json.RawMessage
	if json.Unmarshal(p.Spec.DefaultValues["settings"], &settings) != nil {
		return // settings of another product
	}
	delete(settings, "clusterDNS")
	if text, err := json.Marshal(settings); err == nil && settings != nil {
		p.Spec.DefaultValues["settings"] = text
	}
}

type objectName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// readSets returns the ResourceSets and providers in a YAML stream, and ignores other kinds.
func readSets(text string) ([]resourceSet, map[string]provider, error) {
	objects, err := parseObjects(text)
	if err != nil {
		return nil, nil, err
	}
	var sets []resourceSet
	providers := map[string]provider{}
	for _, obj := range objects {
		switch textAt(obj, "kind") {
		case kindResourceSet:
			var set resourceSet
			if err := convert(obj, &set); err != nil {
				return nil, nil, err
			}
			if set.Metadata.Name == "" {
				return nil, nil, fmt.Errorf("a %s without a name", kindResourceSet)
			}
			set.Metadata.Namespace = firstNonEmpty(set.Metadata.Namespace, fluxNamespace)
			sets = append(sets, set)
		case kindProvider:
			var p provider
			if err := convert(obj, &p); err != nil {
				return nil, nil, err
			}
			providers[p.Metadata.Name] = p
		}
	}
	return sets, providers, nil
}

// convert decodes an object into a struct through JSON.
func convert(obj kubeObject, v any) error {
	raw, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", textAt(obj, "kind"), textAt(obj, "metadata", "name"), err)
	}
	return nil
}

// check rejects sets with features that are not supported here, instead of rendering them differently.
func (set *resourceSet) check() error {
	switch {
	case set.Spec.InputStrategy.Name != "" && set.Spec.InputStrategy.Name != "Flatten":
		return fmt.Errorf("inputStrategy %s is not rendered offline", set.Spec.InputStrategy.Name)
	case len(set.Spec.Steps) > 0 && (len(set.Spec.Resources) > 0 || set.Spec.ResourcesTemplate != ""):
		return fmt.Errorf("steps exclude resources and resourcesTemplate")
	}
	for _, from := range set.Spec.InputsFrom {
		if from.Name == "" {
			return fmt.Errorf("inputsFrom needs the provider's name: a selector cannot be followed without a cluster")
		}
	}
	return nil
}

// render renders the objects of all inputs. Of several objects with one identity the first stays. Objects whose annotation disables
// reconciliation are left out.
func (set *resourceSet) render(inputs []map[string]any) ([]kubeObject, error) {
	if len(inputs) == 0 && len(set.Spec.InputsFrom) == 0 && len(set.Spec.Inputs) == 0 {
		inputs = []map[string]any{nil} // a set without inputs is rendered once
	}
	steps := []templates{set.Spec.templates}
	for _, step := range set.Spec.Steps {
		steps = append(steps, step.templates)
	}
	var objects []kubeObject
	seen := map[string]bool{}
	for _, step := range steps {
		made, err := step.render(inputs)
		if err != nil {
			return nil, err
		}
		for _, obj := range made {
			if textAt(obj, "metadata", "annotations", reconcileLabel) == "disabled" || seen[identity(obj)] {
				continue
			}
			seen[identity(obj)] = true
			set.mark(obj)
			objects = append(objects, obj)
		}
	}
	return objects, nil
}

func (t *templates) render(inputs []map[string]any) ([]kubeObject, error) {
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
	var objects []kubeObject
	for _, text := range texts {
		parsed, err := resourceset.Parse(text)
		if err != nil {
			return nil, err
		}
		for _, input := range inputs {
			made, err := executeTemplate(parsed, input)
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

// identity returns the fields that identify an object on a cluster.
func identity(obj kubeObject) string {
	group, _, grouped := strings.Cut(textAt(obj, "apiVersion"), "/")
	if !grouped {
		group = ""
	}
	return strings.Join([]string{group, textAt(obj, "kind"), textAt(obj, "metadata", "namespace"), textAt(obj, "metadata", "name")}, "/")
}

// mark adds the common metadata and the operator's labels, which override the template's.
func (set *resourceSet) mark(obj kubeObject) {
	metadata, _ := obj["metadata"].(kubeObject)
	if metadata == nil {
		metadata = kubeObject{}
		obj["metadata"] = metadata
	}
	add := func(field string, values map[string]string) {
		if len(values) == 0 {
			return
		}
		existing, _ := metadata[field].(kubeObject)
		if existing == nil {
			existing = kubeObject{}
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

// inlineInputs returns the inputs in the ResourceSet itself.
func (set *resourceSet) inlineInputs() ([]map[string]any, error) {
	return prepareInputs(set.Spec.Inputs, nil, kindResourceSet, set.Metadata)
}

// prepareInputs turns inputs of the API into those of a template: with the provider's defaults for missing fields, numbers as Flux
// Operator reads them, and their provider.
func prepareInputs(raw []map[string]json.RawMessage, defaults map[string]json.RawMessage, kind string, from objectName) ([]map[string]any, error) {
	inputs := make([]map[string]any, 0, len(raw))
	for _, in := range raw {
		input := make(map[string]any, len(in)+len(defaults)+1)
		for _, fields := range []map[string]json.RawMessage{defaults, in} {
			for name, value := range fields {
				v, err := throughFloat(value)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				input[name] = v
			}
		}
		input["provider"] = map[string]any{
			"apiVersion": fluxAPIVersion, "kind": kind, "name": from.Name, "namespace": firstNonEmpty(from.Namespace, fluxNamespace),
		}
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

// sources returns the names of a set's providers.
func (set *resourceSet) sources() []string {
	names := make([]string, len(set.Spec.InputsFrom))
	for i, from := range set.Spec.InputsFrom {
		names[i] = from.Name
	}
	slices.Sort(names) // in the operator's order, whatever the order in the set
	return slices.Compact(names)
}
