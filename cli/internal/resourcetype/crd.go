package resourcetype

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// crd has the fields of a CustomResourceDefinition that a resource type is built from.
type crd struct {
	Kind string `json:"kind"`
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
		Versions []crdVersion `json:"versions"`
	} `json:"spec"`
}

type crdVersion struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
	Schema  struct {
		OpenAPI json.RawMessage `json:"openAPIV3Schema"`
	} `json:"schema"`
	Columns []struct {
		JSONPath string `json:"jsonPath"`
	} `json:"additionalPrinterColumns"`
}

// CRDOptions are the settings of a resource type from a CustomResourceDefinition.
type CRDOptions struct {
	Keep     bool   // Flux keeps the objects when an input is removed
	Version  string // of the objects, if it is served; otherwise the stored version
	Named    bool   // definitions have a name of the object, which is the id otherwise
	Metadata bool   // definitions have labels and annotations
}

var (
	kubernetesName = regexp.MustCompile(`^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$`) // of a group, a kind or a version
	fieldName      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)                  // that a template can read
)

// FromCRD returns the fields of a resource type whose definitions are objects of a CustomResourceDefinition: schema, template and
// description. If the file has several CustomResourceDefinitions, it uses the one whose plural is the id.
func FromCRD(data []byte, file, id string, opt CRDOptions) (map[string]any, error) {
	of, err := selectCRD(data, file, id)
	if err != nil {
		return nil, err
	}
	version, err := of.version(file, opt.Version)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{of.Spec.Group, of.Spec.Names.Kind, version.Name} {
		if !kubernetesName.MatchString(name) { // it becomes text of the template
			return nil, args.Errorf("%s: %q is not a name of Kubernetes: correct the group, the kind or the version of the CustomResourceDefinition", file, name)
		}
	}
	schema, err := strictyaml.Decode(version.Schema.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	root, _ := schema.(map[string]any)
	fields := definitionFields(root)
	if len(fields) == 0 {
		return nil, args.Errorf("%s: the schema of version %s of %s has no fields besides metadata and status", file, version.Name, of.Spec.Names.Kind)
	}
	properties, required := map[string]any{}, []string{}
	if of.namespaced() {
		properties["namespace"] = map[string]any{"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
		required = append(required, "namespace")
	}
	if opt.Named {
		properties["name"] = map[string]any{"type": "string", "maxLength": 253}
		required = append(required, "name")
	}
	if opt.Metadata {
		for _, name := range []string{"labels", "annotations"} {
			properties[name] = map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "default": map[string]any{}}
		}
	}
	all, _ := root["properties"].(map[string]any)
	for _, name := range fields {
		if !fieldName.MatchString(name) {
			return nil, args.Errorf("%s: a template cannot have the field %q of %s: write the resource type by hand and use --file", file, name, of.Spec.Names.Kind)
		}
		if properties[name] != nil {
			return nil, args.Errorf("%s: the field %q of %s conflicts with the %[2]s in inputs: write the resource type by hand and use --file", file, name, of.Spec.Names.Kind)
		}
		properties[name] = closeSchema(all[name])
		if property, _ := all[name].(map[string]any); property["default"] == nil {
			required = append(required, name)
		}
	}
	return map[string]any{
		"description": fmt.Sprintf("%s objects (%s/%s)", of.Spec.Names.Kind, of.Spec.Group, version.Name),
		"schema":      map[string]any{"type": "object", "additionalProperties": false, "required": required, "properties": properties},
		"template":    of.template(id, version, fields, opt),
	}, nil
}

// selectCRD returns the CustomResourceDefinition of a file.
func selectCRD(data []byte, file, id string) (crd, error) {
	documents, err := strictyaml.Stream(data)
	if err != nil {
		return crd{}, args.Errorf("%s: %w", file, err)
	}
	var found []crd
	for _, document := range documents {
		var list struct {
			Items []json.RawMessage `json:"items"`
		}
		_ = json.Unmarshal(document, &list) // another shape is no list
		for _, item := range append(list.Items, document) {
			var one crd
			if json.Unmarshal(item, &one) == nil && one.Kind == "CustomResourceDefinition" {
				found = append(found, one)
			}
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	names := make([]string, len(found))
	for i, one := range found {
		names[i] = one.Spec.Names.Plural
	}
	same := slices.DeleteFunc(slices.Clone(found), func(one crd) bool { return one.Spec.Names.Plural != id })
	switch {
	case len(found) == 0:
		return crd{}, args.Errorf("%s holds no CustomResourceDefinition", file)
	case len(same) != 1:
		slices.Sort(names)
		return crd{}, args.Errorf("%s holds %d CustomResourceDefinitions, and NAME is the plural of %d: name the type after one of %s, or split the file",
			file, len(found), len(same), strings.Join(slices.Compact(names), ", "))
	}
	return same[0], nil
}

// version returns the wanted version, else the stored one, or the first served one if that is not served.
func (d crd) version(file, wanted string) (crdVersion, error) {
	var found *crdVersion
	for i := range d.Spec.Versions {
		if v := &d.Spec.Versions[i]; v.Served && (found == nil || v.Name == wanted || v.Storage && found.Name != wanted) {
			found = v
		}
	}
	switch {
	case found == nil:
		return crdVersion{}, args.Errorf("%s: %s has no served version (apiextensions.k8s.io/v1)", file, d.Spec.Names.Kind)
	case len(found.Schema.OpenAPI) == 0:
		return crdVersion{}, args.Errorf("%s: version %s of %s has no openAPIV3Schema", file, found.Name, d.Spec.Names.Kind)
	}
	return *found, nil
}

func (d crd) namespaced() bool { return d.Spec.Scope == "Namespaced" }

// definitionFields returns the top-level fields of an object that a definition sets: spec and the required ones, or all if there is no
// spec.
func definitionFields(root map[string]any) []string {
	properties, _ := root["properties"].(map[string]any)
	required, _ := root["required"].([]any)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(properties)), func(name string) bool {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
			return true
		case "spec":
			return false
		}
		return properties["spec"] != nil && !slices.Contains(required, any(name))
	})
}

// closeSchema returns a copy of a schema that refuses unknown fields where the Kubernetes API does not keep them.
func closeSchema(schema any) any {
	text, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	out := maps.Clone(text)
	properties, _ := text["properties"].(map[string]any)
	if properties != nil {
		all := make(map[string]any, len(properties))
		for name, property := range properties {
			all[name] = closeSchema(property)
		}
		out["properties"] = all
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if part, ok := text[keyword]; ok {
			out[keyword] = closeSchema(part)
		}
	}
	for _, keyword := range []string{"minimum", "maximum"} {
		if n, ok := text[keyword].(json.Number); ok && math.Abs(number(n)) > maxInteger {
			delete(out, keyword) // has no effect: the server refuses integers above 2^53
		}
	}
	open, _ := text["x-kubernetes-preserve-unknown-fields"].(bool)
	embedded, _ := text["x-kubernetes-embedded-resource"].(bool)
	if _, given := text["additionalProperties"]; text["type"] == "object" && !given && !open && !embedded {
		out["additionalProperties"] = false
	}
	return out
}

// maxInteger is 2^53, above which integers are rounded.
const maxInteger = 1 << 53

func number(n json.Number) float64 {
	value, err := n.Float64()
	if err != nil {
		return math.Inf(1)
	}
	return value
}

// template returns a template that renders an object and its receipt from an input.
func (d crd) template(id string, version crdVersion, fields []string, opt CRDOptions) string {
	var b strings.Builder
	name := "inputs.id"
	if opt.Named {
		name = "inputs.name"
	}
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	line("apiVersion: %s/%s", d.Spec.Group, version.Name)
	line("kind: %s", d.Spec.Names.Kind)
	line("metadata:")
	line("  name: << %s | quote >>", name)
	namespace := ""
	if d.namespaced() {
		line("  namespace: << inputs.namespace | quote >>")
		namespace = ` "namespace" inputs.namespace`
	}
	if opt.Metadata {
		line("  labels: << inputs.labels | toJson >>")
	}
	line("  annotations:")
	line("    event.toolkit.fluxcd.io/input: << inputs.receipt | quote >>")
	if opt.Keep {
		line("    fluxcd.controlplane.io/prune: disabled")
	}
	if opt.Metadata {
		line(`    <<- range $key, $value := omit inputs.annotations "event.toolkit.fluxcd.io/input" "fluxcd.controlplane.io/prune" >>`)
		line("    << $key | quote >>: << $value | quote >>")
		line("    <<- end >>")
	}
	for _, field := range fields {
		line("%s: << inputs.%s | toJson >>", field, field)
	}
	ready := ""
	if condition := version.condition(); condition != "" {
		ready = fmt.Sprintf("\n    \"ready\" %q", fmt.Sprintf("has(status.conditions) && (!has(status.observedGeneration) || status.observedGeneration == metadata.generation) && "+
			"status.conditions.exists(c, c.type == '%s' && c.status == 'True' && (!has(c.observedGeneration) || c.observedGeneration == metadata.generation))", condition))
	}
	line(`<<- template "receipt" (dict "list" %q "objects" (list`, id)
	line(`  (dict "apiVersion" %q "kind" %q "name" %s%s%s))) >>`, d.Spec.Group+"/"+version.Name, d.Spec.Names.Kind, name, namespace, ready)
	return b.String()
}

// readColumn matches the JSONPath of a column that shows a condition.
var readColumn = regexp.MustCompile(`status\.conditions\[\?\(@\.type\s*==\s*['"](\w+)['"]\)\]\.status`)

// condition returns the condition to wait for, of those that the columns for kubectl show; empty if they show none.
func (v crdVersion) condition() string {
	shown := map[string]bool{}
	for _, column := range v.Columns {
		if found := readColumn.FindStringSubmatch(column.JSONPath); found != nil {
			shown[found[1]] = true
		}
	}
	for _, condition := range []string{"Ready", "Available", "Reconciled", "Synced", "Programmed", "Accepted"} {
		if shown[condition] {
			return condition
		}
	}
	return ""
}
