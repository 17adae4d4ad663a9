package resourceset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// Kind is that of ResourceSets.
	Kind = "ResourceSet"
	// ProviderKind is that of the objects that poll the inputs of ResourceSets.
	ProviderKind = "ResourceSetInputProvider"
	// Namespace is that of the shipped objects, and of sets without one.
	Namespace = "flux-system"

	// maxTemplateBytes is the maximum size of a template.
	maxTemplateBytes = 128 << 10

	apiVersion = "fluxcd.controlplane.io/v1"
	// Labels with which Flux Operator marks objects of a ResourceSet.
	ownerLabel     = "resourceset.fluxcd.controlplane.io/"
	reconcileLabel = "fluxcd.controlplane.io/reconcile"
)

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
	steps     [][]*Template       // the parsed templates, from the first rendering on
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
func Read(text string) ([]*Set, error) {
	objects, err := ParseObjects(text)
	if err != nil {
		return nil, err
	}
	sets, err := ReadObjects(objects)
	if err == nil && len(sets) == 0 {
		err = fmt.Errorf("there is no %s in it", Kind)
	}
	return sets, err
}

// ReadObjects is Read for parsed objects. It rejects sets with features that are not supported here, instead of rendering them
// differently.
func ReadObjects(objects []Object) ([]*Set, error) {
	var sets []*Set
	providers := map[string]provider{}
	for _, obj := range objects {
		switch Text(obj, "kind") {
		case Kind:
			set := &Set{providers: providers}
			if err := convert(obj, set); err != nil {
				return nil, err
			}
			set.Metadata.Namespace = cmp.Or(set.Metadata.Namespace, Namespace)
			if err := set.check(); err != nil {
				return nil, err
			}
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

func (set *Set) check() error {
	switch {
	case set.Metadata.Name == "":
		return fmt.Errorf("a %s without a name", Kind)
	case set.Spec.InputStrategy.Name != "" && set.Spec.InputStrategy.Name != "Flatten":
		return set.errorf("inputStrategy %s is not rendered here", set.Spec.InputStrategy.Name)
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

// Rendered is an object that a set renders.
type Rendered struct {
	APIVersion, Kind, Namespace, Name string
	JSON                              json.RawMessage
}

// Identity returns the fields that identify the object on a cluster.
func (r Rendered) Identity() string {
	group, _, grouped := strings.Cut(r.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return strings.Join([]string{group, r.Kind, r.Namespace, r.Name}, "/")
}

// Render returns the objects of the set's own inputs and of those that poll returns for each of its Sources. A set without inputs
// and sources is rendered once.
func (set *Set) Render(poll func(source string) ([]Input, error), budget *Budget) ([]Rendered, error) {
	inputs, err := prepare(set.Spec.Inputs, nil, Kind, set.Metadata)
	if err != nil {
		return nil, set.errorf("%w", err)
	}
	for _, source := range set.Sources() {
		raw, err := poll(source)
		if err == nil {
			err = budget.spend(overhead * (1 + len(raw)))
		}
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
	return set.render(inputs, budget)
}

// render renders the objects of all inputs. Of several objects with one identity the first stays. Objects whose annotation disables
// reconciliation are left out.
func (set *Set) render(inputs []map[string]any, budget *Budget) ([]Rendered, error) {
	if err := set.parse(); err != nil {
		return nil, set.errorf("%w", err)
	}
	var objects []Rendered
	seen := map[string]bool{}
	for _, step := range set.steps {
		for _, t := range step {
			for _, input := range inputs {
				made, err := budget.execute(t, input)
				if err == nil {
					objects, err = set.add(objects, made, seen, budget)
				}
				if id, ok := input["id"].(string); ok && err != nil {
					err = fmt.Errorf("input %q: %w", id, err)
				}
				if err != nil {
					return nil, set.errorf("%w", err)
				}
			}
		}
	}
	return objects, nil
}

// add adds the objects of one execution.
func (set *Set) add(objects []Rendered, made []Object, seen map[string]bool, budget *Budget) ([]Rendered, error) {
	for _, obj := range made {
		r := Rendered{APIVersion: Text(obj, "apiVersion"), Kind: Text(obj, "kind"), Namespace: Text(obj, "metadata", "namespace"), Name: Text(obj, "metadata", "name")}
		if Text(obj, "metadata", "annotations", reconcileLabel) == "disabled" || seen[r.Identity()] {
			continue
		}
		seen[r.Identity()] = true
		set.mark(obj)
		var err error
		if r.JSON, err = json.Marshal(obj); err == nil {
			err = budget.keep(len(r.JSON))
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, r)
	}
	return objects, nil
}

// parse parses the templates of all steps, once.
func (set *Set) parse() error {
	if set.steps != nil {
		return nil
	}
	all := []templates{set.Spec.templates}
	for _, step := range set.Spec.Steps {
		all = append(all, step.templates)
	}
	steps := make([][]*Template, len(all))
	for i, step := range all {
		var texts []string
		for _, raw := range step.Resources {
			text, err := yaml.JSONToYAML(raw)
			if err != nil {
				return err
			}
			texts = append(texts, string(text))
		}
		if step.ResourcesTemplate != "" {
			texts = append(texts, step.ResourcesTemplate)
		}
		for _, text := range texts {
			if len(text) > maxTemplateBytes {
				return fmt.Errorf("a template is larger than %d KiB", maxTemplateBytes>>10)
			}
			t, err := Parse(text)
			if err != nil {
				return err
			}
			steps[i] = append(steps[i], t)
		}
	}
	set.steps = steps
	return nil
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
			var v any
			if err := exactNumbers(json.NewDecoder(bytes.NewReader(value))).Decode(&v); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			input[name] = Numbers(v)
		}
		input["provider"] = map[string]any{"apiVersion": apiVersion, "kind": kind, "name": from.Name, "namespace": from.Namespace}
		inputs = append(inputs, input)
	}
	return inputs, nil
}
