// Package resourcetype derives from the schema of a resource type the columns of its tables and how properties on the command line
// are read. Its input is the schema as JSON; what it cannot understand is left to the server.
//
//	schema ── In ──> Properties ── View: columns of the scalar ones
//	                     └──────── Parse: NAME=VALUE and NAME=JSON ──> a spec
package resourcetype

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
)

// Properties are the fields of the specs of a type.
type Properties struct {
	Names []string            // required ones first, in the order of the schema
	types map[string][]string // the schema's types; none for a more complex schema
}

// In returns the properties of a schema; none of an invalid one, which the server rejects.
func In(schema json.RawMessage) Properties {
	var text struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	p := Properties{types: map[string][]string{}}
	if json.Unmarshal(schema, &text) != nil {
		return p
	}
	for _, name := range append(text.Required, render.SortedKeys(text.Properties)...) {
		raw, ok := text.Properties[name]
		if _, known := p.types[name]; known || !ok {
			continue
		}
		p.Names = append(p.Names, name)
		p.types[name] = typesIn(raw)
	}
	return p
}

// typesIn returns the types that a property may have.
func typesIn(property json.RawMessage) []string {
	var one struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(property, &one) == nil && one.Type != "" {
		return []string{one.Type}
	}
	var several struct {
		Type []string `json:"type"`
	}
	if json.Unmarshal(property, &several) == nil {
		return several.Type
	}
	return []string{}
}

// fields is a JSON object.
type fields = map[string]json.RawMessage

// column is a column of a table. cell receives a document and its spec.
type column struct {
	header string
	cell   func(doc, spec fields) string
}

func columnsOf(names []string) []column {
	columns := make([]column, len(names))
	for i, name := range names {
		columns[i] = column{strings.ToUpper(strings.ReplaceAll(name, "_", " ")), func(_, spec fields) string { return render.Unquoted(spec[name]) }}
	}
	return columns
}

// View returns the table of definitions, or of their inputs, with the scalar properties: a few without -o wide.
func (p Properties) View(definitions bool) render.View {
	const shown = 4
	scalars := columnsOf(slices.DeleteFunc(slices.Clone(p.Names), func(name string) bool {
		types := p.types[name]
		return len(types) == 0 || slices.Contains(types, "object") || slices.Contains(types, "array")
	}))
	n := min(len(scalars), shown)
	columns := append([]column{{"ID", func(doc, _ fields) string { return render.Unquoted(doc["id"]) }}}, scalars[:n]...)
	if definitions {
		columns = append(columns, column{"REVISION", func(doc, _ fields) string { return string(doc["revision"]) }})
	}
	v := render.View{Narrow: len(columns)}
	columns = append(columns, scalars[n:]...)
	if definitions {
		columns = append(columns, column{"UPDATED", func(doc, _ fields) string {
			var updated time.Time
			_ = json.Unmarshal(doc["updated_at"], &updated) // the zero time for another shape
			return render.Time(updated)
		}})
	}
	for _, c := range columns {
		v.Header = append(v.Header, c.header)
	}
	v.Row = render.RowOf(func(doc fields) []string {
		spec := doc
		if definitions {
			spec = nil
			_ = json.Unmarshal(doc["spec"], &spec) // another shape leaves the columns empty
		}
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(doc, spec)
		}
		return cells
	})
	return v
}

// Parse returns the properties of the flag, as NAME=VALUE, and of the flag with -json behind it, as NAME=JSON. values returns the
// arguments of a flag. A VALUE is JSON if it is valid, except for a property that is always a string.
func (p Properties) Parse(flag string, values func(flag string) []string) (map[string]any, error) {
	spec := map[string]any{}
	for _, name := range []string{flag, flag + "-json"} {
		for _, pair := range values(name) {
			property, text, ok := strings.Cut(pair, "=")
			if !ok || property == "" {
				return nil, args.Errorf("--%s %q is not NAME=VALUE", name, pair)
			}
			if _, twice := spec[property]; twice {
				return nil, args.Errorf("--%s %s is given twice", name, property)
			}
			value, err := valueOf(text)
			switch {
			case err == nil && (name != flag || !slices.Equal(p.types[property], []string{"string"})):
				spec[property] = value
			case name != flag:
				return nil, args.Errorf("--%s %s: %w", name, property, err)
			default:
				spec[property] = text
			}
		}
	}
	return spec, nil
}

// valueOf reads JSON; numbers stay as written.
func valueOf(text string) (json.RawMessage, error) {
	parts, err := strictyaml.JSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", text, err)
	}
	if len(parts) != 1 {
		return nil, fmt.Errorf("%q is not JSON", text)
	}
	return parts[0], nil
}
