package fluxdump

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// Leaves returns the values of an object by path: all that are no map with entries.
func Leaves(value any) map[string]any {
	out := map[string]any{}
	addLeaves(out, "", value)
	return out
}

func addLeaves(out map[string]any, at string, value any) {
	fields, isMap := value.(map[string]any)
	if !isMap || len(fields) == 0 && at != "" {
		out[at] = value
		return
	}
	for key, below := range fields {
		addLeaves(out, strings.TrimPrefix(at+"."+input.EscapeName(key), "."), below)
	}
}

// Differing returns the sorted paths at which two objects have different values.
func Differing(a, b map[string]any) (paths []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(a[at], b[at]) {
			paths = append(paths, at)
		}
	}
	return paths
}

// Map returns a copy of a value with other names of fields and other values that are neither a map nor a list; nil: the same names.
func Map(value any, name func(string) string, leaf func(any) any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, below := range v {
			if name != nil {
				key = name(key)
			}
			out[key] = Map(below, name, leaf)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, below := range v {
			out[i] = Map(below, name, leaf)
		}
		return out
	}
	return leaf(value)
}

// Plain returns a copy of a value with numbers as float64, so that equal numbers are equal.
func Plain(value any) any {
	return Map(value, nil, func(leaf any) any {
		if number, ok := leaf.(json.Number); ok {
			if f, err := number.Float64(); err == nil {
				return f
			}
		}
		return leaf
	})
}

// ReleaseValues returns the values of a HelmRelease as Helm merges them: its own above those of ConfigMaps, which it reads in the first
// namespace that has them. from are the entries of its valuesFrom that are left: up to the last one whose values are not known.
func (c *Cluster) ReleaseValues(o Object, namespaces ...string) (values map[string]any, from []Object) {
	values, _ = o.At("spec", "values").(map[string]any)
	from = o.Entries("spec", "valuesFrom")
	for i, e := range slices.Backward(from) {
		at := slices.IndexFunc(namespaces, func(namespace string) bool {
			_, has := c.Find(Ref{Kind: "ConfigMap", Namespace: namespace, Name: e.Text("name")})
			return has
		})
		if at < 0 || e.Text("kind") != "ConfigMap" || e.Text("targetPath") != "" {
			break
		}
		content, ok := c.configMapValues(Ref{Kind: "ConfigMap", Namespace: namespaces[at], Name: e.Text("name")}, cmp.Or(e.Text("valuesKey"), "values.yaml"))
		if !ok {
			break
		}
		values, from = merge(content, values), from[:i]
	}
	return values, from
}

// configMapValues returns the values in a key of a ConfigMap.
func (c *Cluster) configMapValues(ref Ref, key string) (map[string]any, bool) {
	o, _ := c.Find(ref)
	text := o.Text("data", key)
	if text == "" {
		return nil, false
	}
	raw, err := input.Object([]byte(text), ref.Name)
	if err != nil {
		return nil, false
	}
	value, err := strictyaml.Decode(raw)
	values, isMap := value.(map[string]any)
	return values, err == nil && isMap
}

// merge merges values as Helm does: an entry of above replaces one of below, maps are merged.
func merge(below, above map[string]any) map[string]any {
	out := maps.Clone(below)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range above {
		lower, both := out[key].(map[string]any)
		upper, maps := value.(map[string]any)
		if both && maps {
			value = merge(lower, upper)
		}
		out[key] = value
	}
	return out
}
