package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
)

// Comparison compares the inputs of clusters in two consecutive States. All comparisons share their work.
type Comparison struct{ work work }

// ServedEffect is the effect of changes on the inputs of a cluster, or on the input of a component on all clusters.
type ServedEffect struct {
	Effect   map[string]api.EndpointEffect // by list, as in a plan; empty: none
	Clusters int                           // on which the input of the component changed; 0 for a cluster
	Compared int                           // the cost, in compared inputs
	Size     int                           // approximate size of the effect in bytes
}

// stepsPerInput is the number of steps that templates take in the time in which an input is compared.
const stepsPerInput = 100

// maxServedChanges is the maximum number of different changes of a component's input in one effect.
const maxServedChanges = 10

// NewComparison returns a comparison that ends with ctx. Its templates are counted, for [ServedEffect.Compared], and not limited.
func NewComparison(ctx context.Context) *Comparison {
	w := newWork(ctx)
	w.templates = rendering.NewBudget(math.MaxInt)
	return &Comparison{w}
}

// Cluster returns the effect of changes, which lead from base to next, on the polls of one cluster.
func (c *Comparison) Cluster(id string, base, next *State, changes []DocumentChange) (ServedEffect, error) {
	left, objects := c.work.templates.Left(), newObjectChanges(base, next, c.work)
	a := affected{id: id, before: base.clusterByID(id), after: next.clusterByID(id), changed: map[Kind]map[string]bool{}}
	for _, ch := range changes {
		if a.changed[ch.Kind] == nil {
			a.changed[ch.Kind] = map[string]bool{}
		}
		a.changed[ch.Kind][ch.ID] = true
	}
	next.addChangedTypes(base, a.changed)
	a = Result{base: base, State: next}.withVariants(a, map[[2]*layerChain]affected{})
	effects := newEffects(base, next, objects)
	effect, err := effects.on(a)
	if err == nil {
		err = c.work.stopped()
	}
	return ServedEffect{Effect: effect.Effect, Compared: 1 + (left-c.work.templates.Left())/stepsPerInput, Size: effects.size}, err
}

// Component returns the effect of changes, which lead from base to next, on the input of a component on all clusters.
func (c *Comparison) Component(id string, base, next *State, changes []DocumentChange) (ServedEffect, error) {
	out := newComponentChange(id, base, next)
	if !out.mayChange(changes) {
		return out.result(), nil
	}
	previous, others := Documents{}, Commit{}
	for _, ch := range changes {
		if previous.Set(ch.Kind, ch.ID, ch.Before); ch.Kind != KindCluster {
			others.Changes = append(others.Changes, ch.Change)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(previous[KindCluster])) {
		if err := out.add(base.clusterByID(id), next.clusterByID(id)); err != nil {
			return out.result(), err
		}
	}
	r := Result{Commit: others, State: next, base: base, layerChanges: next.servedChanges(base, next.editsOf(previous)), work: c.work}
	affectedNames, err := r.affected(true)
	if err != nil {
		return out.result(), err
	}
	for _, a := range affectedNames {
		if _, edited := previous[KindCluster][a.id]; edited {
			continue
		}
		runtime.Gosched() // polls go first
		if err := c.work.stopped(); err != nil {
			return out.result(), err
		}
		if err := out.add(a.before, a.after); err != nil {
			return out.result(), err
		}
	}
	return out.result(), nil
}

// ComponentOnClusters is Component for changes of clusters only. All other documents are those of one State, so it builds no other.
func (c *Comparison) ComponentOnClusters(id string, s *State, changes []DocumentChange) (ServedEffect, error) {
	out := newComponentChange(id, s, s)
	var layers *layerResolution
	if s.layers != nil {
		layers = newLayers(s.layers.ascending, s.rollouts)
	}
	for _, ch := range changes {
		was, err := s.clusterVersion(layers, ch.ID, ch.Before)
		if err != nil {
			return out.result(), err
		}
		is, err := s.clusterVersion(layers, ch.ID, ch.After)
		if err == nil {
			err = out.add(was, is)
		}
		if err != nil {
			return out.result(), err
		}
	}
	return out.result(), nil
}

// clusterVersion returns the effective configuration of a version of a cluster's document with the layers of the State; nil: there was
// none.
func (s *State) clusterVersion(layers *layerResolution, id string, body []byte) (*Effective, error) {
	if body == nil {
		return nil, nil //nolint:nilnil // there was no such cluster
	}
	if pinned := s.pinned[id]; pinned != nil {
		return pinned.served, nil
	}
	doc, err := s.kinds.document(Record{Kind: KindCluster, ID: id, Body: body})
	switch {
	case err != nil:
		return nil, err
	case layers == nil, doc.Deleted():
		return doc.own, nil
	}
	reached, err := layers.reach(s, s.layers, []*Document{doc})
	if err != nil {
		return nil, err
	}
	matched := layers.match(doc.Cluster(), layers.overlays[reached[0]], nil, nil)
	s.addFacts(doc, &matched, nil)
	if len(matched.layers) == 0 && matched.overlay == nil && matched.facts == nil {
		return doc.own, nil
	}
	return s.kinds.effective(doc, layers.chain(s.kinds, matched, s.layers), nil), nil
}

// componentChange collects the changes of a component's input in one revision.
type componentChange struct {
	component string
	list      *descriptor
	effects   *effects
	effect    api.EndpointEffect
	shown     map[string]bool // texts of the changes in effect
	clusters  int
	compared  int
}

func newComponentChange(id string, base, next *State) *componentChange {
	return &componentChange{
		component: id, list: next.kinds.descriptor(KindComponent), effects: newEffects(base, next, nil), shown: map[string]bool{},
		effect: api.EndpointEffect{Added: []json.RawMessage{}, Changed: []api.InputChange{}, Removed: []string{}},
	}
}

func (c *componentChange) result() ServedEffect {
	out := ServedEffect{Clusters: c.clusters, Compared: c.compared, Size: c.effects.size}
	if c.clusters > 0 {
		out.Effect = map[string]api.EndpointEffect{c.list.endpoint: c.effect}
	}
	return out
}

// mayChange reports whether changes may affect the component's input on any cluster.
func (c *componentChange) mayChange(changes []DocumentChange) bool {
	names := map[string]bool{c.component: true}
	for _, s := range []*State{c.effects.base, c.effects.next} {
		for _, doc := range s.versions(KindComponent, c.component) {
			for _, id := range c.list.dependsOn(doc) {
				names[id] = true
			}
		}
	}
	mentioned := func(body []byte) bool {
		for id := range names {
			if bytes.Contains(body, []byte(`"`+id+`"`)) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(changes, func(ch DocumentChange) bool {
		switch ch.Kind { //nolint:exhaustive // changes of all other kinds may matter
		case KindComponent:
			return names[ch.ID]
		case KindLayer:
			return mentioned(ch.Before) || mentioned(ch.After)
		}
		return true
	})
}

// add compares the component's input on one cluster.
func (c *componentChange) add(was, is *Effective) error {
	c.compared++
	before, err := c.input(c.effects.base, was)
	if err != nil {
		return err
	}
	after, err := c.input(c.effects.next, is)
	switch {
	case err != nil || before == nil && after == nil:
		return err
	case after == nil:
		c.clusters++
		c.effect.Removed = []string{c.component}
		return nil
	}
	d, err := c.effects.difference(was, is, c.list, input{c.component, before}, input{c.component, after})
	if err != nil || d.text == "" {
		return err
	}
	c.clusters++
	if c.shown[d.text] || len(c.shown) == maxServedChanges {
		return nil
	}
	c.shown[d.text] = true
	if d.added != nil {
		c.effect.Added = append(c.effect.Added, d.added)
	} else {
		c.effect.Changed = append(c.effect.Changed, d.change)
	}
	return nil
}

// input returns the component's input on a cluster; nil: there is none, or the list cannot be served.
func (c *componentChange) input(s *State, e *Effective) (any, error) {
	if e == nil {
		return nil, nil //nolint:nilnil // see above
	}
	if _, has := c.list.enabled(e, c.component); !has {
		return nil, nil //nolint:nilnil // see above
	}
	found, err := inputsByID(s, e, c.list, map[string]bool{c.component: true})
	if broken, ok := errors.AsType[*Error](err); ok && broken.Code == CodeUnresolved {
		return nil, nil //nolint:nilnil // see above
	}
	return found.byID[c.component], err
}
