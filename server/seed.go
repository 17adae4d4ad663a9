package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// errNotEmpty: the store has had a commit before.
var errNotEmpty = errors.New("the store is not empty")

// LoadSeed commits a seed as revision 1 of a store that has never had a commit; on any other it does nothing and returns
// false. All problems are reported at their place in the seed, and then nothing is written.
func LoadSeed(ctx context.Context, replica *store.Replica, seed fleet.Seed, meta store.Meta) (loaded bool, err error) {
	if st := replica.State(); st != nil && st.Revision() != 0 {
		return false, nil
	}
	if err := CheckSeed(seed, replica.Rules()); err != nil {
		return false, err
	}
	_, err = replica.Update(ctx, meta, func(tx *fleet.Tx) error {
		// Another process may seed at the same time; then the edit runs again on its commit.
		if tx.Base().Revision() != 0 {
			return errNotEmpty
		}
		return seed.Create(tx)
	})
	if errors.Is(err, errNotEmpty) || errors.Is(err, store.ErrQuarantined) { // another process has seeded the store
		return false, nil
	}
	return err == nil, seed.Locate(err)
}

// CheckSeed reports the problems for which LoadSeed would refuse a seed, without a store.
func CheckSeed(seed fleet.Seed, rules fleet.Rules) error {
	if seed.Checked() {
		return nil
	}
	doc, err := spec()
	if err != nil {
		return fmt.Errorf("the embedded OpenAPI document: %w", err)
	}
	// Every document is validated as a POST of it would be.
	right := entries{}
	return seed.Check(rules, func(kind fleet.Kind, value any) []fleet.Problem {
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
	})
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
