package resourceset

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"sigs.k8s.io/yaml"
)

// Object is a Kubernetes object. Its numbers are [json.Number].
type Object = map[string]any

// ParseObjects reads a YAML stream. Empty documents are ignored, lists are split.
func ParseObjects(text string) ([]Object, error) {
	var objects []Object
	left := maxExpanded
	for _, doc := range documents(text) {
		err := checkAliases(doc, &left)
		var obj Object
		if err == nil {
			obj, err = parseObject(doc)
		}
		items, isList := obj["items"].([]any)
		isList = isList && strings.HasSuffix(Text(obj, "kind"), "List")
		if err == nil && !isList && len(obj) > 0 {
			err = checkObject(obj)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w in\n%s", err, indent(doc))
		case !isList && len(obj) > 0:
			objects = append(objects, obj)
		}
		for _, item := range items {
			if item, ok := item.(Object); ok && isList {
				objects = append(objects, item)
			}
		}
	}
	return objects, nil
}

func parseObject(doc string) (Object, error) {
	var v any
	if err := yaml.Unmarshal([]byte(doc), &v, exactNumbers); err != nil {
		return nil, err
	}
	obj, ok := v.(Object)
	if !ok && v != nil {
		return nil, errors.New("not an object")
	}
	return obj, nil
}

func exactNumbers(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
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

// Numbers returns a decoded value with its [json.Number] as Flux Operator reads them: an int64, for 1e3 too, or a float64.
func Numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		if n := int64(f); float64(n) == f && math.Abs(f) < 1<<63 {
			return n
		}
		return f
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = Numbers(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = Numbers(value)
		}
		return out
	}
	return v
}

// indent shortens and indents a document for a message.
func indent(doc string) string {
	const most = 20
	lines := strings.Split(strings.TrimRight(doc, "\n"), "\n")
	if len(lines) > most {
		lines = append(lines[:most], "...")
	}
	for i, line := range lines {
		lines[i] = fmt.Sprintf("    %.200s", line)
	}
	return strings.Join(lines, "\n")
}
