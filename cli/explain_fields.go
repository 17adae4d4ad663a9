package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/openapi"
	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

// fieldSchema is the part of an OpenAPI schema that explain --fields shows.
type fieldSchema struct {
	Ref         string                  `json:"$ref,omitempty"`
	AllOf       []*fieldSchema          `json:"allOf,omitempty"` // one reference, which has properties beside it
	Type        string                  `json:"type,omitempty"`
	Format      string                  `json:"format,omitempty"`
	Description string                  `json:"description,omitempty"`
	Enum        []any                   `json:"enum,omitempty"`
	ReadOnly    bool                    `json:"readOnly,omitempty"`
	Required    []string                `json:"required,omitempty"`
	Properties  map[string]*fieldSchema `json:"properties,omitempty"`
	Items       *fieldSchema            `json:"items,omitempty"`
	Values      json.RawMessage         `json:"additionalProperties,omitempty"` // a schema, or a boolean
	Order       int                     `json:"x-order,omitempty"`
}

// fieldSchemas are the schemas of the OpenAPI document by name.
type fieldSchemas map[string]*fieldSchema

func readFieldSchemas() (fieldSchemas, error) {
	var doc struct {
		Components struct {
			Schemas fieldSchemas `json:"schemas"`
		} `json:"components"`
	}
	err := yaml.Unmarshal(openapi.YAML, &doc)
	return doc.Components.Schemas, err
}

// resolve follows references. Properties beside the reference override those of the schema.
func (all fieldSchemas) resolve(s *fieldSchema) fieldSchema {
	out := *s
	if len(out.AllOf) == 1 {
		out.Ref, out.AllOf = out.AllOf[0].Ref, nil
	}
	for out.Ref != "" {
		target := all[strings.TrimPrefix(out.Ref, "#/components/schemas/")]
		if target == nil {
			break
		}
		description, order, readOnly := out.Description, out.Order, out.ReadOnly
		out = *target
		out.Description, out.Order, out.ReadOnly = cmp.Or(description, out.Description), order, readOnly || out.ReadOnly
	}
	return out
}

// values returns the schema of additional properties; nil without one.
func (s fieldSchema) values() *fieldSchema {
	var of fieldSchema
	if json.Unmarshal(s.Values, &of) != nil {
		return nil
	}
	return &of
}

// typeName returns a type in the notation of kubectl explain: string, []object, map[string]string.
func (all fieldSchemas) typeName(s fieldSchema) string {
	switch values := s.values(); {
	case s.Type == "array" && s.Items != nil:
		return "[]" + all.typeName(all.resolve(s.Items))
	case len(s.Properties) == 0 && values != nil:
		return "map[string]" + all.typeName(all.resolve(values))
	}
	return cmp.Or(s.Type, "any")
}

// object returns the schema of a list's elements, or else the schema itself.
func (all fieldSchemas) object(s fieldSchema) fieldSchema {
	for s.Type == "array" && s.Items != nil {
		s = all.resolve(s.Items)
	}
	return s
}

// explainFields prints the schema at PATH: a kind and its fields, separated by dots.
func (s *session) explainFields(c *cli.Context, path string) error {
	if c.IsSet("fields") && c.Args().Present() {
		return args.Errorf("--fields takes no CLUSTER: it explains fields of a kind, such as cluster.patches")
	}
	names := strings.Split(path, ".")
	kind, ok := kinds.Find(names[0])
	if documents.IsResource(names[0]) {
		kind, ok = kinds.ResourcesOfID(""), true
	}
	if !ok {
		return args.Errorf("--fields: %q is not a kind; it is one of %s", names[0], strings.Join(kinds.Words(), ", "))
	}
	all, err := readFieldSchemas()
	if err != nil {
		return err
	}
	at := all.resolve(&fieldSchema{Ref: kind.Schema})
	if create := all[kind.Schema+"Create"]; create != nil {
		at.Required = create.Required
	}
	for i, name := range names[1:] {
		in := all.object(at)
		next := in.Properties[name]
		if next == nil {
			next = in.values() // any key of a map
		}
		if next == nil {
			return args.Errorf("--fields: %s has no field %q; it has %s", strings.Join(names[:i+1], "."), name, cmp.Or(strings.Join(render.SortedKeys(in.Properties), ", "), "none"))
		}
		at = all.resolve(next)
	}
	out := render.Output{Document: at, Text: func(bool) string { return all.text(path, at) }}
	if !c.IsSet("output") {
		return s.PrintAs(c, "table", out)
	}
	return s.Print(c, out)
}

// text describes a field, then the fields below it.
func (all fieldSchemas) text(path string, at fieldSchema) string {
	var b strings.Builder
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(&b, format+"\n", a...) }
	line("FIELD:       %s <%s>", path, all.typeName(at))
	if at.Description != "" {
		line("DESCRIPTION: %s", at.Description)
	}
	if len(at.Enum) > 0 {
		line("VALUES:      %s", strings.Trim(fmt.Sprint(at.Enum), "[]"))
	}
	in := all.object(at)
	if len(in.Properties) == 0 {
		return b.String()
	}
	line("FIELDS:")
	fields := render.SortedKeys(in.Properties)
	slices.SortStableFunc(fields, func(x, y string) int { return cmp.Compare(in.Properties[x].Order, in.Properties[y].Order) })
	for _, name := range fields {
		field := all.resolve(in.Properties[name])
		marks := ""
		if slices.Contains(in.Required, name) {
			marks += " -required-"
		}
		if field.ReadOnly {
			marks += " -read-only-"
		}
		line("  %s <%s>%s", name, all.typeName(field), marks)
		if field.Description != "" {
			line("    %s", field.Description)
		}
	}
	return b.String()
}
