package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/apiserver"
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
	shape, err := checkSchemas(seed)
	if err := errors.Join(err, fleet.Invalid(shape)); err != nil {
		return false, err
	}
	_, err = replica.Update(ctx, meta, func(tx *fleet.Tx) error {
		// Another process may seed at the same time: the edit runs again on what that one committed.
		if tx.Base().Revision() != 0 {
			return errNotEmpty
		}
		return seed.Create(tx)
	})
	if errors.Is(err, errNotEmpty) || errors.Is(err, store.ErrHeld) { // another process was faster
		return false, nil
	}
	return err == nil, seed.Locate(err)
}

// CheckSeed tells what LoadSeed would refuse, without a store.
func CheckSeed(seed fleet.Seed, rules fleet.Rules) error {
	shape, err := checkSchemas(seed)
	if err := errors.Join(err, fleet.Invalid(shape)); err != nil {
		return err
	}
	return seed.Check(rules)
}

// checkSchemas holds every document against the contract, as a POST of it would be.
func checkSchemas(seed fleet.Seed) ([]fleet.Problem, error) {
	if !slices.ContainsFunc(seed, func(d fleet.SeedDocument) bool { return !d.Valid() }) {
		return nil, nil
	}
	doc, err := apiserver.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("the embedded contract: %w", err)
	}
	var problems []fleet.Problem
	for _, d := range seed {
		path := "/" + d.Kind.Collection()
		if _, typed := d.Kind.ResourceType(); typed {
			path = "/resources/{type}"
		}
		schema := doc.Paths.Find(path).Post.RequestBody.Value.Content[echo.MIMEApplicationJSON].Schema.Value
		value, err := d.Value()
		for _, p := range checkValue(schema, value, err) {
			p.Pointer = d.At + p.Pointer
			problems = append(problems, p)
		}
	}
	return problems, nil
}
