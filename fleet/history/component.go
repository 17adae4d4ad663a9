package history

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// componentPast is the servedPast of a component, on all clusters.
type componentPast struct {
	component  string
	comparison *fleet.Comparison
	// view is the fleet as of a revision. Clusters in pending may be newer in it: a revision that changes only clusters is
	// compared without building a State.
	view    *fleet.State
	pending fleet.Documents
}

// start sets the view to the fleet as of a revision.
func (p *componentPast) start(at fleet.Revision, log fleet.DocumentHistory) error {
	if at >= p.view.Revision() {
		return nil
	}
	past, err := log.Past(fleet.PastQuery{At: at, UpTo: p.view.Revision()})
	if err == nil {
		p.view, err = p.view.WithDocuments(past)
	}
	return err
}

// documents returns all kinds that an input may depend on: any cluster, layer or component may have affected it earlier.
func (p *componentPast) documents() []fleet.DocumentName {
	return []fleet.DocumentName{{Kind: fleet.KindCluster}, {Kind: fleet.KindComponent}, {Kind: fleet.KindLayer}, {Kind: fleet.KindRollout}, {Kind: fleet.KindPin}}
}

// stepBack implements servedPast.
func (p *componentPast) stepBack(changes []fleet.DocumentChange) (step servedStep, err error) {
	step.own = slices.ContainsFunc(changes, func(ch fleet.DocumentChange) bool { return ch.Kind == fleet.KindComponent && ch.ID == p.component })
	if slices.ContainsFunc(changes, func(ch fleet.DocumentChange) bool { return ch.Kind != fleet.KindCluster }) {
		step.ServedEffect, err = p.stepBackOverAll(changes)
		return step, err
	}
	step.ServedEffect, err = p.comparison.ComponentOnClusters(p.component, p.view, changes)
	for _, ch := range changes {
		p.pending.Set(ch.Kind, ch.ID, ch.Before)
	}
	return step, err
}

// stepBackOverAll reverses any revision.
func (p *componentPast) stepBackOverAll(changes []fleet.DocumentChange) (out fleet.ServedEffect, err error) {
	next, err := p.view.WithDocuments(p.pending)
	if err != nil {
		return out, err
	}
	p.pending = fleet.Documents{}
	previous := fleet.Documents{}
	for _, ch := range changes {
		previous.Set(ch.Kind, ch.ID, ch.Before)
	}
	if p.view, err = next.WithDocuments(previous); err != nil {
		return out, err
	}
	return p.comparison.Component(p.component, p.view, next, changes)
}
