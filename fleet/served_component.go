package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// servedStep is the effect of one revision.
type servedStep struct {
	effect   map[string]api.EndpointEffect
	clusters int
	own      bool // the document itself changed
	size     int  // approximate size of the effect in bytes
	compared int  // number of compared inputs
}

// maxServedChanges is the maximum number of different changes of a component's input in one revision.
const maxServedChanges = 10

// componentPast is the servedPast of a component, on all clusters.
type componentPast struct {
	component string
	list      *descriptor
	work      work
	// view is the fleet as of a revision. Clusters in pending may be newer in it: a revision that changes only clusters is
	// compared without building a State.
	view    *State
	pending Documents
}

// start sets the view to the fleet as of a revision.
func (p *componentPast) start(at Revision, history DocumentHistory) error {
	if at >= p.view.Revision() {
		return nil
	}
	past, err := history.Past(PastQuery{At: at, UpTo: p.view.Revision()})
	if err == nil {
		p.view, _, err = p.view.withBodies(past)
	}
	return err
}

// documents returns all kinds that an input may depend on: any cluster, layer or component may have affected it earlier.
func (p *componentPast) documents() []DocumentName {
	return []DocumentName{{Kind: KindCluster}, {Kind: KindComponent}, {Kind: KindLayer}, {Kind: KindRollout}, {Kind: KindPin}}
}

// stepBack implements servedPast.
func (p *componentPast) stepBack(changes []DocumentChange) (servedStep, error) {
	c := &componentChange{
		component: p.component, list: p.list, effects: newEffects(p.view, p.view, nil), shown: map[string]bool{},
		effect: api.EndpointEffect{Added: []json.RawMessage{}, Changed: []api.InputChange{}, Removed: []string{}},
	}
	var err error
	if slices.ContainsFunc(changes, func(ch DocumentChange) bool { return ch.Kind != KindCluster }) {
		err = p.stepBackOverAll(changes, c)
	} else {
		err = p.stepBackOverClusters(changes, c)
	}
	step := servedStep{clusters: c.clusters, compared: c.compared, size: c.effects.size}
	step.own = slices.ContainsFunc(changes, func(ch DocumentChange) bool { return ch.Kind == KindComponent && ch.ID == p.component })
	if c.clusters > 0 {
		step.effect = map[string]api.EndpointEffect{p.list.endpoint: c.effect}
	}
	return step, err
}

// stepBackOverClusters reverses a revision that changed only clusters.
func (p *componentPast) stepBackOverClusters(changes []DocumentChange, c *componentChange) error {
	var layers *layerResolution
	if p.view.layers != nil {
		layers = newLayers(p.view.layers.ascending, p.view.rollouts)
	}
	for _, ch := range changes {
		was, err := p.cluster(layers, ch.ID, ch.Before)
		if err != nil {
			return err
		}
		is, err := p.cluster(layers, ch.ID, ch.After)
		if err == nil {
			err = c.add(was, is)
		}
		if err != nil {
			return err
		}
		p.pending.Set(ch.Kind, ch.ID, ch.Before)
	}
	return nil
}

// cluster returns the effective configuration of a cluster document with the layers of the view; nil: there was none.
func (p *componentPast) cluster(layers *layerResolution, id string, body []byte) (*Effective, error) {
	if body == nil {
		return nil, nil //nolint:nilnil // there was no such cluster
	}
	if pinned := p.view.pinned[id]; pinned != nil {
		return pinned.served, nil
	}
	doc, err := p.view.kinds.document(Record{Kind: KindCluster, ID: id, Body: body})
	switch {
	case err != nil:
		return nil, err
	case layers == nil, doc.Deleted():
		return doc.own, nil
	}
	reached, err := layers.reach(p.view, p.view.layers, []*Document{doc})
	if err != nil {
		return nil, err
	}
	matched := layers.match(doc.Cluster(), layers.overlays[reached[0]], nil, nil)
	if len(matched.layers) == 0 && matched.overlay == nil {
		return doc.own, nil
	}
	return p.view.kinds.effective(doc, layers.chain(p.view.kinds, matched, p.view.layers), nil), nil
}

// stepBackOverAll reverses any revision.
func (p *componentPast) stepBackOverAll(changes []DocumentChange, c *componentChange) error {
	next, _, err := p.view.withBodies(p.pending)
	if err != nil {
		return err
	}
	p.pending = Documents{}
	previous, others := Documents{}, Commit{}
	for _, ch := range changes {
		if previous.Set(ch.Kind, ch.ID, ch.Before); ch.Kind != KindCluster {
			others.Changes = append(others.Changes, ch.Change)
		}
	}
	older, edits, err := next.withBodies(previous)
	if err != nil {
		return err
	}
	p.view = older
	if !p.mayChange(older, next, changes) {
		return nil
	}
	c.effects.base, c.effects.next = older, next
	for _, id := range slices.Sorted(maps.Keys(previous[KindCluster])) {
		if err := c.add(older.clusterByID(id), next.clusterByID(id)); err != nil {
			return err
		}
	}
	r := Result{Commit: others, State: next, base: older, layerChanges: next.servedChanges(older, edits), work: p.work}
	affectedNames, err := r.affected(true)
	if err != nil {
		return err
	}
	for _, a := range affectedNames {
		if _, edited := previous[KindCluster][a.id]; edited {
			continue
		}
		runtime.Gosched() // polls go first
		if err := p.work.stopped(); err != nil {
			return err
		}
		if err := c.add(a.before, a.after); err != nil {
			return err
		}
	}
	return nil
}

// mayChange reports whether changes between two States may affect the component's input on any cluster.
func (p *componentPast) mayChange(older, next *State, changes []DocumentChange) bool {
	names := map[string]bool{p.component: true}
	for _, s := range []*State{older, next} {
		for _, doc := range s.versions(KindComponent, p.component) {
			for _, id := range p.list.dependsOn(doc) {
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

// componentChange collects the changes of the component's input in one revision.
type componentChange struct {
	component string
	list      *descriptor
	effects   *effects
	effect    api.EndpointEffect
	shown     map[string]bool // texts of the changes in effect
	clusters  int
	compared  int
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
