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

// errNotEmpty: the store has held a commit before.
var errNotEmpty = errors.New("the store is not empty")

// LoadSeed commits a seed as revision 1 of a store that has never held a commit; on any other it does nothing and
// reports false. Every problem is reported at its place in the seed, and then nothing is written.
func LoadSeed(ctx context.Context, replica *store.Replica, seed fleet.Seed, meta store.Meta) (loaded bool, err error) {
	if st := replica.State(); st != nil && st.Revision() != 0 {
		return false, nil
	}
	if err := CheckSeed(seed, replica.Rules()); err != nil {
		return false, err
	}
	_, err = replica.Update(ctx, meta, func(tx *fleet.Tx) error {
		// Another process may seed at the same time: the edit runs again on what that one committed.
		if tx.Base().Revision() != 0 {
			return errNotEmpty
		}
		return seed.Create(tx)
	})
	if errors.Is(err, errNotEmpty) || errors.Is(err, store.ErrQuarantined) { // another process was faster
		return false, nil
	}
	return err == nil, seed.Locate(err)
}

// CheckSeed tells what LoadSeed would refuse, without a store.
func CheckSeed(seed fleet.Seed, rules fleet.Rules) error {
	if seed.Checked() {
		return nil
	}
	doc, err := spec()
	if err != nil {
		return fmt.Errorf("the embedded contract: %w", err)
	}
	// Every document is held against the contract as a POST of it would be.
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
		clear(right) // some of this document may not be
		return checkValue(schema, value)
	})
}

// entries are those of lists that say nothing but an id and were found to be as the contract wants them: 10,000 clusters
// have the same ones.
type entries map[entry]bool

type entry struct {
	kind      fleet.Kind
	field, id string
}

// without is a document less such entries. Those that are new in it count from then on: whoever finds something wrong with
// the rest has to clear them.
func (known entries) without(kind fleet.Kind, schema *openapi3.Schema, value any) any {
	obj, _ := value.(map[string]any)
	rest := maps.Clone(obj)
	for field, v := range obj {
		list, _ := v.([]any)
		property := schema.Properties[field]
		if len(list) == 0 || property == nil || property.Value.MaxItems != nil || property.Value.UniqueItems {
			continue // or the list is not only what its entries are
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
