package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// RolloutInputs are the inputs that an open rollout changes in one State, by the id of the cluster: the inputs that differ between
// the fleet without the rollout, and the fleet with it on all clusters. So an input that a hotfix or a pin keeps unchanged does not
// count, but an input that a freeze keeps does.
type RolloutInputs struct {
	ByCluster map[string][]ChangedInput
	state     *State
	rollout   *Document
}

// RolloutInputs returns the inputs that an open rollout changes. known, if not nil, are those of the same rollout in an earlier
// State: they save the comparison of clusters that have not changed since.
func (s *State) RolloutInputs(ctx context.Context, d *Document, known *RolloutInputs) (*RolloutInputs, error) {
	return s.rolloutInputs(newWork(ctx), d, known)
}

func (s *State) rolloutInputs(work work, d *Document, known *RolloutInputs) (*RolloutInputs, error) {
	without, with := *d.rollout(), *d.rollout()
	without.State, without.Started = rolloutProposed, 0
	with.State, with.Started = rolloutRunning, len(with.Stages)
	var bodies [2]json.RawMessage
	for i, r := range []*rollout{&without, &with} {
		var err error
		if bodies[i], err = jsontext.Canonical(r); err != nil {
			return nil, err
		}
	}
	made := Documents{}
	made.Set(KindRollout, d.ID, bodies[1])
	for id := range s.docs[KindPin] {
		made.Set(KindPin, id, nil)
	}
	unchanged := known.unchanged(s, d)
	inputs, err := s.inputsChangedBy(work, []Change{{Kind: KindRollout, ID: d.ID, Before: bodies[0], After: bodies[1]}}, made, unchanged)
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

// StageEffect identifies the inputs that the start of a stage changes, and their clusters, as a hash. Clusters of the stage that the
// rollout does not change have no part in it.
func (in *RolloutInputs) StageEffect(stage int) string {
	sum := sha256.New()
	for _, d := range in.state.All(KindCluster) {
		if len(in.ByCluster[d.ID]) == 0 || in.rollout.rollout().stageOf(d.Cluster()) != stage {
			continue
		}
		_, _ = fmt.Fprintf(sum, "%q\n", d.ID)
		for _, ch := range in.ByCluster[d.ID] {
			_, _ = fmt.Fprintf(sum, " %q %q %s\n", ch.List, ch.ID, ch.Receipt)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// unchanged returns a function that reports whether the inputs of a cluster are still the same. They depend on its document, on the
// layers that match it, on all definitions and resource types, and on the changes of other rollouts. They do not depend on the
// stages of this rollout.
func (in *RolloutInputs) unchanged(s *State, d *Document) func(id string) bool {
	none := func(string) bool { return false }
	if in == nil || in.state.definitions != s.definitions || !maps.Equal(in.state.docs[KindResourceType], s.docs[KindResourceType]) ||
		in.state.rollouts == nil || s.rollouts == nil || !sameRolloutChanges(in.rollout, d) {
		return none
	}
	layers := changedVersions(in.state.docs[KindLayer], s.docs[KindLayer])
	for _, l := range layers {
		if key := (docKey{KindLayer, l.ID}); in.state.rollouts.changed[key] || s.rollouts.changed[key] {
			return none // its variants may match other clusters
		}
	}
	was, is := in.state.docs[KindCluster], s.docs[KindCluster]
	rollouts := changedVersions(in.state.docs[KindRollout], s.docs[KindRollout])
	return func(id string) bool {
		cluster := is[id]
		if cluster == nil || was[id] != cluster {
			return false
		}
		c := cluster.Cluster()
		return !slices.ContainsFunc(layers, func(l *Document) bool { return l.layer().matches(c) }) && !slices.ContainsFunc(rollouts, func(r *Document) bool {
			return r.ID != d.ID && !sameReach(in.state.docs[KindRollout][r.ID], s.docs[KindRollout][r.ID], c)
		})
	}
}

// changedVersions returns both versions of each document that differs between two maps.
func changedVersions(was, is map[string]*Document) (out []*Document) {
	for id, doc := range was {
		if is[id] != doc {
			out = append(out, doc)
		}
	}
	for id, doc := range is {
		if was[id] != doc {
			out = append(out, doc)
		}
	}
	return out
}

// sameReach reports whether two versions of a rollout serve the same to a cluster; nil: the rollout does not exist.
func sameReach(was, is *Document, c *api.Cluster) bool {
	reached := func(d *Document) bool { return d != nil && d.rollout().delivers() && d.rollout().reaches(c) }
	return reached(was) == reached(is) && (!reached(is) || sameRolloutChanges(was, is))
}

// sameRolloutChanges reports whether two rollouts make the same change.
func sameRolloutChanges(a, b *Document) bool {
	return slices.EqualFunc(a.rollout().Changes, b.rollout().Changes, func(a, b rolloutChange) bool {
		return a.Kind == b.Kind && a.ID == b.ID && bytes.Equal(a.Before, b.Before) && bytes.Equal(a.After, b.After)
	})
}

// HeldBack reports whether a pin keeps changes of some inputs from a cluster.
func (s *State) HeldBack(cluster *Document, inputs []ChangedInput) (bool, error) {
	p := s.pinned[cluster.ID]
	if p == nil {
		return false, nil
	}
	for _, list := range s.kinds.lists {
		only := map[string]bool{}
		for _, in := range inputs {
			only[in.ID] = only[in.ID] || in.List == list.endpoint
		}
		served, err := s.receiptsOf(p.served, list, only)
		if err != nil {
			return false, err
		}
		for _, in := range inputs {
			if in.List == list.endpoint && served[in.ID] != in.Receipt { // zero: removed
				return true, nil
			}
		}
	}
	return false, nil
}
