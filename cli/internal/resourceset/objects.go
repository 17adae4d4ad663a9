package resourceset

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	template "github.com/flux-resourceset/flux-resourceset/internal/resourceset"
)

// Object is a Kubernetes object. Its integers are int64, other numbers float64.
type Object = map[string]any

// ParseObjects reads a YAML stream. Empty documents are ignored, lists are split.
func ParseObjects(text string) ([]Object, error) {
	var objects []Object
	for _, doc := range template.Documents(text) {
		obj, err := parseObject(doc)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w in\n%s", err, indent(doc))
		case len(obj) == 0:
			continue
		}
		items, isList := obj["items"].([]any)
		if !isList || !strings.HasSuffix(Text(obj, "kind"), "List") {
			if err := checkObject(obj); err != nil {
				return nil, fmt.Errorf("%w in\n%s", err, indent(doc))
			}
			objects = append(objects, obj)
			continue
		}
		for _, item := range items {
			if item, ok := item.(Object); ok {
				objects = append(objects, item)
			}
		}
	}
	return objects, nil
}

func parseObject(doc string) (Object, error) {
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
	case Object:
		return v, nil
	}
	return nil, errors.New("not an object")
}

func checkObject(obj Object) error {
	switch {
	case Text(obj, "kind") == "":
		return errors.New("an object without kind")
	case Text(obj, "apiVersion") == "":
		return errors.New("an object without apiVersion")
	}
	return nil
}

// Text returns the string at a path of an object; "" without one.
func Text(obj Object, path ...string) string {
	for _, name := range path[:len(path)-1] {
		obj, _ = obj[name].(Object)
	}
	s, _ := obj[path[len(path)-1]].(string)
	return s
}

// Identity returns the fields that identify an object on a cluster.
func Identity(obj Object) string {
	group, _, grouped := strings.Cut(Text(obj, "apiVersion"), "/")
	if !grouped {
		group = ""
	}
	return strings.Join([]string{group, Text(obj, "kind"), Text(obj, "metadata", "namespace"), Text(obj, "metadata", "name")}, "/")
}

// FormatYAML writes objects as a YAML stream.
func FormatYAML(objects []Object) (string, error) {
	var b strings.Builder
	for _, obj := range objects {
		raw, err := json.Marshal(obj)
		if err != nil {
			return "", err
		}
		text, err := render.YAML(raw)
		if err != nil {
			return "", err
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.String(), nil
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
