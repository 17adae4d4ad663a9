package cli

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// kubeObject is a Kubernetes object.
type kubeObject = map[string]any

// renderLimits bound one execution of a template, which may come from outside.
var renderLimits = resourceset.Limits{Units: 500_000_000, Bytes: 64 << 20}

// executeTemplate executes a ResourceSet's template on one input, with the delimiters, functions and strictness that Flux Operator
// documents, and returns the objects.
func executeTemplate(t *resourceset.Template, input map[string]any) ([]kubeObject, error) {
	text, err := t.Execute(input, renderLimits)
	if err != nil {
		return nil, err
	}
	return parseObjects(text)
}

// parseObjects reads a YAML stream. Empty documents are ignored, lists are split.
func parseObjects(text string) ([]kubeObject, error) {
	var objects []kubeObject
	for _, doc := range resourceset.Documents(text) {
		obj, err := parseObject(doc)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w in\n%s", err, indent(doc))
		case len(obj) == 0:
			continue
		}
		items, isList := obj["items"].([]any)
		if !isList || !strings.HasSuffix(textAt(obj, "kind"), "List") {
			if err := checkObject(obj); err != nil {
				return nil, fmt.Errorf("%w in\n%s", err, indent(doc))
			}
			objects = append(objects, obj)
			continue
		}
		for _, item := range items {
			if item, ok := item.(kubeObject); ok {
				objects = append(objects, item)
			}
		}
	}
	return objects, nil
}

func parseObject(doc string) (kubeObject, error) {
	asJSON, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		return nil, err
	}
	v, err := render.Numbers(asJSON)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case kubeObject:
		return v, nil
	}
	return nil, errors.New("not an object")
}

func checkObject(obj kubeObject) error {
	switch {
	case textAt(obj, "kind") == "":
		return errors.New("an object without kind")
	case textAt(obj, "apiVersion") == "":
		return errors.New("an object without apiVersion")
	}
	return nil
}

// textAt returns the string at a path of an object; "" without one.
func textAt(obj kubeObject, path ...string) string {
	for _, name := range path[:len(path)-1] {
		obj, _ = obj[name].(kubeObject)
	}
	s, _ := obj[path[len(path)-1]].(string)
	return s
}

// indent shortens and indents a document for a message.
func indent(doc string) string {
	const most = 20
	lines := strings.Split(strings.TrimRight(doc, "\n"), "\n")
	if len(lines) > most {
		lines = append(lines[:most], "...")
	}
	return "    " + strings.Join(lines, "\n    ")
}
