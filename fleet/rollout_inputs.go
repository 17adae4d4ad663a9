package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// RolloutInputs are the inputs that an open rollout changes in one State, by the id of the cluster: those that differ between
// the fleet without it and the fleet with it on all clusters. So an input that a hotfix or a pin keeps as it is does not count.
type RolloutInputs struct {
	ByCluster map[string][]ChangedInput
	state     *State
	rollout   *Document
}

// RolloutInputs returns the inputs that an open rollout changes. known, if not nil, are those of the same rollout in an earlier
// State: they save the comparison of clusters that have not changed since.
func (s *State) RolloutInputs(ctx context.Context, d *Document, known *RolloutInputs) (*RolloutInputs, error) {
	without, with := *d.rollout(), *d.rollout()
	without.State, without.Started = rolloutProposed, 0
	with.State, with.Started, with.Stages = rolloutRunning, len(with.Stages), append([]rolloutStage(nil), with.Stages...)
	for i := range with.Stages {
		with.Stages[i].Reached = ""
	}
	var bodies [2]json.RawMessage
	for i, r := range []*rollout{&without, &with} {
		var err error
		if bodies[i], err = jsontext.Canonical(r); err != nil {
			return nil, err
		}
	}
	made := Documents{}
	made.Set(KindRollout, d.ID, bodies[1])
	unchanged := known.unchanged(s, d)
	inputs, err := s.inputsChangedBy(ctx, []Change{{Kind: KindRollout, ID: d.ID, Before: bodies[0], After: bodies[1]}}, made, unchanged)
	if err != nil {
		return nil, err
	}
	if known != nil {
		for id, of := range known.ByCluster {
			if unchanged(id) {
				inputs[id] = of
			}
		}
	}
	return &RolloutInputs{inputs, s, d}, nil
}

// unchanged returns whether the inputs of a cluster are still the same: they depend on its document, on all layers, definitions
// and resource types, and on what each rollout changes where. They do not depend on the stages of this rollout.
func (in *RolloutInputs) unchanged(s *State, d *Document) func(id string) bool {
	if in == nil || in.state.definitions != s.definitions || !maps.Equal(in.state.docs[KindLayer], s.docs[KindLayer]) || !maps.Equal(in.state.docs[KindResourceType], s.docs[KindResourceType]) ||
		in.state.rollouts == nil || s.rollouts == nil || !slices.EqualFunc(in.state.rollouts.open, s.rollouts.open, func(a, b *Document) bool { return a == b || a.ID == d.ID && b.ID == d.ID }) ||
		!slices.EqualFunc(in.rollout.rollout().Changes, d.rollout().Changes, func(a, b rolloutChange) bool {
			return a.Kind == b.Kind && a.ID == b.ID && bytes.Equal(a.Before, b.Before) && bytes.Equal(a.After, b.After)
		}) {
		return func(string) bool { return false }
	}
	was, is := in.state.docs[KindCluster], s.docs[KindCluster]
	return func(id string) bool { return is[id] != nil && was[id] == is[id] }
}
