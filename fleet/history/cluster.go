package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// ClusterAt returns a State of the documents that determine the inputs of a cluster, as of a revision, and the cluster. It has
// no other clusters, and its revision is not that of the log. CodeNotFound if the cluster did not exist at the revision.
func ClusterAt(st *fleet.State, id string, at fleet.Revision, log fleet.DocumentHistory) (*fleet.State, *fleet.Document, error) {
	p := &clusterPast{newest: st, log: log, cluster: id, watched: map[fleet.DocumentName]bool{}}
	if err := p.start(at); err != nil {
		return nil, nil, err
	}
	doc, err := p.view.Find(fleet.KindCluster, id)
	if err != nil {
		return nil, nil, &fleet.Error{Code: fleet.CodeNotFound, Detail: fmt.Sprintf("there was no cluster %q at revision %d", id, at)}
	}
	return p.view, doc, nil
}

// clusterPast is the servedPast of a cluster.
type clusterPast struct {
	newest     *fleet.State
	log        fleet.DocumentHistory
	cluster    string
	watched    map[fleet.DocumentName]bool
	view       *fleet.State
	comparison *fleet.Comparison
}

// documents implements servedPast: the watched documents, sorted.
func (p *clusterPast) documents() []fleet.DocumentName {
	out := make([]fleet.DocumentName, 0, len(p.watched))
	for name := range p.watched {
		out = append(out, name)
	}
	slices.SortFunc(out, func(a, b fleet.DocumentName) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return out
}

// start sets the view to the state as of a revision: the cluster, its definitions, and all layers, resource types and
// rollouts. It watches all of them, because an earlier version of the cluster may have matched other layers, referred to other
// resource types, or been in other rollouts.
func (p *clusterPast) start(at fleet.Revision) error {
	empty, err := p.newest.Empty()
	if err != nil {
		return err
	}
	names := []fleet.DocumentName{
		{Kind: fleet.KindCluster, ID: p.cluster},
		{Kind: fleet.KindLayer},
		{Kind: fleet.KindResourceType},
		{Kind: fleet.KindRollout},
		{Kind: fleet.KindPin, ID: p.cluster},
	}
	for _, name := range names {
		p.watched[name] = true
	}
	p.view, err = p.add(empty, names, at)
	return err
}

// add adds documents to a State as of a revision, with the definitions that the cluster then refers to.
func (p *clusterPast) add(view *fleet.State, names []fleet.DocumentName, at fleet.Revision) (*fleet.State, error) {
	for len(names) > 0 {
		changes, err := p.changesAt(names, at)
		if err == nil {
			view, err = view.Apply(fleet.Commit{Revision: view.Revision() + 1, Changes: changes})
		}
		if err != nil {
			return nil, err
		}
		names = p.missingDefinitions(view)
	}
	return view, nil
}

// missingDefinitions returns the definitions that the cluster refers to and that are not watched yet.
func (p *clusterPast) missingDefinitions(view *fleet.State) []fleet.DocumentName {
	var names []fleet.DocumentName
	doc, err := view.FindIncludingDeleted(p.cluster)
	if err != nil {
		return nil // there was no such cluster
	}
	for name := range view.DefinitionsOf(doc) {
		if !p.watched[name] {
			p.watched[name] = true
			names = append(names, name)
		}
	}
	return names
}

// changesAt returns documents as of a revision, as changes that create them.
func (p *clusterPast) changesAt(names []fleet.DocumentName, at fleet.Revision) ([]fleet.Change, error) {
	past := fleet.Documents{}
	if at < p.newest.Revision() {
		var err error
		if past, err = p.log.Past(fleet.PastQuery{At: at, UpTo: p.newest.Revision(), Documents: names}); err != nil {
			return nil, err
		}
	}
	var changes []fleet.Change
	add := func(rec fleet.Record) {
		if rec.Revision <= at {
			changes = append(changes, fleet.Change{Kind: rec.Kind, ID: rec.ID, After: rec.Body})
		}
	}
	for _, name := range names {
		if name.ID != "" {
			if rec, ok := p.newest.Record(name.Kind, name.ID); ok {
				add(rec)
			}
			continue
		}
		for _, doc := range p.newest.All(name.Kind) {
			add(doc.Record)
		}
	}
	for kind, docs := range past {
		for id, body := range docs {
			if body != nil {
				changes = append(changes, fleet.Change{Kind: kind, ID: id, After: body})
			}
		}
	}
	return changes, nil
}

// stepBack implements servedPast.
func (p *clusterPast) stepBack(changes []fleet.DocumentChange) (step servedStep, err error) {
	view, reversed := p.view, make([]fleet.Change, len(changes))
	for i, ch := range changes {
		reversed[i] = fleet.Change{Kind: ch.Kind, ID: ch.ID, Before: ch.After, After: ch.Before}
		step.own = step.own || ch.Kind == fleet.KindCluster
	}
	older, err := view.Apply(fleet.Commit{Revision: view.Revision() + 1, Changes: reversed})
	if err != nil {
		return step, err
	}
	if p.view, err = p.add(older, p.missingDefinitions(older), changes[0].Revision-1); err != nil {
		return step, err
	}
	step.ServedEffect, err = p.comparison.Cluster(p.cluster, p.view, view, changes)
	return step, err
}
