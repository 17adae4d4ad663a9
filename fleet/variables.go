package fleet

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// References in settings, as ${cluster.labels.region}, are replaced while the configuration of a cluster is computed, and not while its
// inputs are built: a cluster with references has a chain of its own, or shares it with the clusters that have the same values, and the
// chain has the results. So everything that compares clusters by their chains, settings and definitions compares results.

const (
	maxVariableBytes = 1 << 10 // of the text of a variable
	maxResultBytes   = 4 << 10 // of the value of a reference
	maxReferences    = 1000    // in a document
	maxNested        = 8       // variables that a value is taken through
	// maxResolvedBytes limits the results of references in the settings and definitions of all clusters, since each process has them in memory.
	maxResolvedBytes = 256 << 20
)

var (
	refersInSettings  = []string{"variables", "patches", "resources", "platform_components", "overrides"}
	refersInResources = []string{"spec"}
	refersIn          = map[Kind][]string{
		KindCluster: refersInSettings, KindLayer: refersInSettings, KindComponent: {"patches", "values_from"}, KindNamespace: {"labels", "annotations"},
		KindRoleBinding: {"labels", "annotations"},
	}
)

// referringFields are the fields of a document whose strings may have references, by kind; those of a resource type are like a resource's.
func referringFields(kind Kind) []string {
	if fields, ok := refersIn[kind]; ok {
		return fields
	}
	if _, typed := kind.ResourceType(); typed {
		return refersInResources
	}
	return nil
}

// referencesIn returns the references in a document, sorted.
func referencesIn(d *Document) (out []string) {
	obj, err := unstructured.Open(d.Body)
	if err != nil {
		return nil // it cannot be read either
	}
	for _, field := range referringFields(d.Kind) {
		if text, ok := obj[field].(jsontext.Text); ok && variables.In(text) {
			found, _ := variables.Find(string(text)) // one without a valid form is refused when the document is checked
			out = append(out, found...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func countReferences(d *Document) int {
	body := string(d.Body)
	return strings.Count(body, "${cluster.") + strings.Count(body, "${vars.")
}

func (f *facts) sameAs(other *facts) bool {
	return f == other || f != nil && other != nil && f.key == other.key && slices.Equal(f.definitions, other.definitions)
}

// noValueError is the error of a reference that has no value on a cluster.
type noValueError struct{ ref, reason string }

func (e *noValueError) Error() string { return e.ref + ": " + e.reason }

func (f *facts) value(ref string) (string, error) {
	if reason, ok := f.missing[ref]; ok {
		return "", &noValueError{ref, reason}
	}
	v, ok := f.values[ref]
	if !ok {
		return "", &noValueError{ref, "was not looked up"} // no answer does less harm than a wrong one
	}
	return v, nil
}

// resolveSettings replaces the references in the merged settings of a cluster.
func (e *Effective) resolveSettings(f *facts) {
	c := e.cluster
	fail := func(kind Kind, id, path string, err error) {
		e.unresolved = append(e.unresolved, unresolvedValue{kind, id, path, err})
	}
	size := func(n int) { e.resolvedBytes += n }
	for id, values := range c.Patches {
		c.Patches[id] = expandValues(values, f, size, func(path string, err error) { fail(KindComponent, id, path, err) })
	}
	for typeID, entries := range c.Resources {
		cloned := false
		for i, entry := range entries {
			out := expandValues(entry.Overrides, f, size, func(path string, err error) { fail(ResourceKind(typeID), entry.ID, "overrides/"+path, err) })
			if len(out) == 0 || sameMap(out, entry.Overrides) {
				continue
			}
			if !cloned { // the list and the map may be those of other clusters
				c.Resources, entries, cloned = maps.Clone(c.Resources), slices.Clone(entries), true
				c.Resources[typeID] = entries
			}
			entries[i].Overrides = out
		}
	}
	cloned := false
	for i, entry := range c.PlatformComponents {
		if !slices.ContainsFunc(entry.ValuesFrom, func(v api.ValuesReference) bool { return variables.In(v.Name) }) {
			continue
		}
		if !cloned {
			c.PlatformComponents, cloned = slices.Clone(c.PlatformComponents), true
		}
		c.PlatformComponents[i].ValuesFrom = slices.Clone(entry.ValuesFrom)
		for j, v := range entry.ValuesFrom {
			name, err := variables.Expand(v.Name, f.value)
			if err != nil {
				fail(KindComponent, entry.ID, "values_from", err)
				continue
			}
			c.PlatformComponents[i].ValuesFrom[j].Name = name
		}
	}
}

func sameMap(a, b map[string]json.RawMessage) bool {
	return maps.EqualFunc(a, b, jsontext.Same)
}

// expandText replaces the references in a text that jsontext.Canonical has written, and returns such a text: their names have no
// character that JSON escapes. Its keys must have no references.
func expandText(text json.RawMessage, value func(ref string) (string, error)) (json.RawMessage, error) {
	out, err := variables.Expand(string(text), func(ref string) (string, error) {
		v, err := value(ref)
		if err != nil {
			return "", err
		}
		quoted, err := jsontext.Canonical(v)
		if err != nil {
			return "", err
		}
		return string(quoted[1 : len(quoted)-1]), nil
	})
	return json.RawMessage(out), err
}

// expandValues returns values with those of their references: the same map if there are none.
func expandValues[M ~map[string]json.RawMessage](in M, f *facts, size func(n int), failed func(path string, err error)) M {
	out := in
	cloned := false
	for path, value := range in {
		if !variables.In(value) {
			continue
		}
		result, err := expandText(value, f.value)
		if err != nil {
			failed(path, err)
			continue
		}
		if !cloned {
			out, cloned = maps.Clone(in), true
		}
		out[path] = result
		size(len(path) + len(result))
	}
	return out
}

// placeholder replaces the references of a text, for the check of a document alone.
func placeholder(text string) string {
	if !variables.In(text) {
		return text
	}
	out, err := variables.Expand(text, func(string) (string, error) { return "x", nil })
	if err != nil {
		return text // checkReferences reports it
	}
	return out
}

// placeholderValues is placeholder for the values of a map, which is not changed.
func placeholderValues[M ~map[string]json.RawMessage](values M) M {
	out := make(M, len(values))
	for path, value := range values {
		out[path] = json.RawMessage(placeholder(string(value)))
	}
	return out
}
