package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// A write is judged twice: the shape of its body by the contract, and what it makes of the fleet by the fleet's rules. So
// that people see everything that is wrong at once, the rules judge what remains of a body when that of the wrong shape
// is left out. Nothing of that is ever committed.

// misshapen are the problems that validate found in a write.
func misshapen(c echo.Context) []fleet.Problem { return requestOf(c).shape }

// both adds to the problems of a request's shape those that the fleet's rules find in it. Where something has the wrong
// shape, the rules have nothing to say.
func both(shape []fleet.Problem, err error) error {
	all := slices.Clone(shape)
	if rules, ok := errors.AsType[*fleet.Error](err); ok && rules.Code == fleet.CodeInvalid {
		for _, p := range rules.Problems {
			// Those of no document are the decoder's, which stumbles over the same shape.
			if p.Kind != "" && !slices.ContainsFunc(shape, func(s fleet.Problem) bool { return concerns(s.Pointer, p.Pointer) }) {
				all = append(all, p)
			}
		}
	}
	return fleet.Invalid(all)
}

// concerns tells whether a rule's problem may only be there because something was left out for its shape.
func concerns(shape, rule string) bool {
	if rule == shape || strings.HasPrefix(rule, shape+"/") {
		return true
	}
	// Which patches there may be, and of what kind, depends on these.
	for _, field := range []string{"/platform_components", "/type"} {
		if document, rest, ok := strings.Cut(shape, field); ok && (rest == "" || rest[0] == '/') && strings.HasPrefix(rule, document+"/patches") {
			return true
		}
	}
	return false
}

// wellShaped is what remains of a body when that is left out which has the wrong shape. Entries of lists keep their
// places, so that pointers stay true. id takes the place of a document's own if there is none; empty: none is needed.
func wellShaped(schema *openapi3.Schema, body []byte, shape []fleet.Problem, id string) []byte {
	value, err := fleet.ParseJSON(body)
	obj, ok := value.(map[string]any)
	if err != nil || !ok {
		return body // nothing of it can be judged
	}
	for _, p := range shape {
		leaveOut(schema, obj, strings.Split(p.Pointer, "/")[1:])
	}
	if own, _ := obj["id"].(string); own == "" && id != "" {
		obj["id"] = id
	}
	rest, err := json.Marshal(obj)
	if err != nil {
		return body
	}
	return rest
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// leaveOut removes what a pointer leads to.
func leaveOut(schema *openapi3.Schema, node any, steps []string) {
	for i, step := range steps {
		last := i == len(steps)-1
		switch parent := node.(type) {
		case map[string]any:
			key := unescape.Replace(step)
			if last {
				delete(parent, key)
			}
			node, schema = parent[key], schemaOf(schema, key)
		case []any:
			at, err := strconv.Atoi(step)
			if err != nil || at < 0 || at >= len(parent) {
				return
			}
			schema = schemaOf(schema, step)
			if last {
				parent[at] = map[string]any{}
				if schema != nil && schema.Type.Is(openapi3.TypeString) {
					parent[at] = ""
				}
			}
			node = parent[at]
		default:
			return
		}
	}
}

// schemaOf is the schema of a field or an entry; nil when the contract does not say.
func schemaOf(schema *openapi3.Schema, step string) *openapi3.Schema {
	if schema == nil {
		return nil
	}
	for _, ref := range []*openapi3.SchemaRef{schema.Properties[step], schema.AdditionalProperties.Schema, schema.Items} {
		if ref != nil {
			return ref.Value
		}
	}
	for _, part := range schema.AllOf {
		if found := schemaOf(part.Value, step); found != nil {
			return found
		}
	}
	return nil
}
