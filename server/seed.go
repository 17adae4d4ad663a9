package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server/internal/openapi"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// errNotEmpty: the store has had a commit before.
var errNotEmpty = errors.New("the store is not empty")

// SeedEmptyStore commits a seed as revision 1 of a store that has never had a commit; on any other it does nothing and returns
// false. All problems are reported at their place in the seed, and then nothing is written.
func SeedEmptyStore(ctx context.Context, replica *store.Replica, seed fleet.Seed, meta store.Meta) (loaded bool, err error) {
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

// CheckSeed reports the problems for which SeedEmptyStore would refuse a seed, without a store.
func CheckSeed(seed fleet.Seed, rules fleet.Rules) error {
	if seed.Checked() {
		return nil
	}
	check, err := openapi.DocumentCheck()
	if err != nil {
		return fmt.Errorf("the embedded OpenAPI document: %w", err)
	}
	return seed.Check(rules, check)
}
