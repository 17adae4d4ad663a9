package openapi

import (
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// DocumentCheck returns a function that validates documents as a POST of each would be. It is fast for many documents with the
// same list entries, and not safe for concurrent use.
func DocumentCheck() (func(kind fleet.Kind, value any) []fleet.Problem, error) {
	doc, err := spec()
	if err != nil {
		return nil, err
	}
	right := entries{}
	return func(kind fleet.Kind, value any) []fleet.Problem {
		path := "/" + kind.Collection()
		if _, typed := kind.ResourceType(); typed {
			path = "/resources/{type}"
		}
		schema := doc.Paths.Find(path).Post.RequestBody.Value.Content[echo.MIMEApplicationJSON].Schema.Value
		if visit(schema, right.without(kind, schema, value)) == nil {
			return nil
		}
		clear(right) // some entries of this document may be invalid
		return checkValue(schema, value)
	}, nil
}

// entries are the list entries with an id and no other field that were found to be valid: 10,000 clusters have the same ones.
type entries map[entry]bool

type entry struct {
	kind      fleet.Kind
	field, id string
}

// without returns a document without such entries, and adds its new ones to known. The caller has to clear known if it finds a
// problem in the rest.
func (known entries) without(kind fleet.Kind, schema *openapi3.Schema, value any) any {
	obj, _ := value.(map[string]any)
	rest := maps.Clone(obj)
	for field, v := range obj {
		list, _ := v.([]any)
		property := schema.Properties[field]
		if len(list) == 0 || property == nil || property.Value.MaxItems != nil || property.Value.UniqueItems {
			continue // or the list itself may be invalid
		}
		rest[field] = slices.DeleteFunc(slices.Clone(list), func(item any) bool {
			of, _ := item.(map[string]any)
			id, ok := of["id"].(string)
			if !ok || len(of) > 1 {
				return false
			}
			e := entry{kind, field, id}
			was := known[e]
			known[e] = true
			return was
		})
	}
	return rest
}
