package cli

import (
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// The ResourceSet of a resource type is that of namespaces with another name, path and template, so that it has the same guards and
// can send receipts. The chart builds it in the same way from the same files.

// resourceSetOf returns the ResourceSet that renders the inputs of a resource type, as one YAML document; empty without a template.
func resourceSetOf(of api.ResourceType) (string, error) {
	if of.Template == "" {
		return "", nil
	}
	objects, err := parseObjects(charts.Namespaces)
	if err == nil && len(objects) != 1 {
		err = fmt.Errorf("%d objects in place of one", len(objects))
	}
	if err != nil {
		return "", fmt.Errorf("the shipped manifests for %s: %w", namespaces.plural, err)
	}
	set := objects[0]
	customizeForType(set, of)
	text, err := render.Encode(set)
	return string(text), err
}

// customizeForType turns a shipped object of namespaces into one of a resource type.
func customizeForType(obj kubeObject, of api.ResourceType) {
	renameObject(obj, of.ID)
	if textAt(obj, "kind") == kindResourceSet {
		spec, _ := obj["spec"].(kubeObject)
		spec["resourcesTemplate"] = charts.Receipt + of.Template
	}
}

// renameObject renames a shipped object of namespaces, with all references to the provider.
func renameObject(obj kubeObject, name string) {
	was := namespaces.inputs.name
	metadata, _ := obj["metadata"].(kubeObject)
	metadata["name"] = name
	spec, _ := obj["spec"].(kubeObject)
	for _, list := range []string{"dependsOn", "inputsFrom"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			if from, ok := item.(kubeObject); ok && from["name"] == was {
				from["name"] = name
			}
		}
	}
	if url, ok := spec["url"].(string); ok {
		spec["url"] = strings.TrimSuffix(url, was) + name
	}
}

// typeObjects returns the provider and the ResourceSet of a resource type, made from the shipped manifests.
func typeObjects(of api.ResourceType) ([]kubeObject, error) {
	shipped, err := parseObjects(charts.Manifests)
	if err != nil {
		return nil, err
	}
	var made []kubeObject
	for _, obj := range shipped {
		if textAt(obj, "metadata", "name") != namespaces.inputs.name {
			continue
		}
		customizeForType(obj, of)
		made = append(made, obj)
	}
	const provided = 2
	if len(made) != provided {
		return nil, fmt.Errorf("the shipped manifests have %d objects for %s", len(made), namespaces.plural)
	}
	return made, nil
}
