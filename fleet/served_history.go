package fleet

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ServedRevision is a revision that changed a document, or inputs of clusters that depend on it.
type ServedRevision struct {
	Revision Revision
	// Effect on the polls of the cluster, or on the input of the component, by list, as in a plan; empty: none. The input of
	// a component may change in several ways; only the first maxServedChanges of them are included.
	Effect map[string]api.EndpointEffect
	// Clusters is the number of clusters on which the input of the component changed; 0 in the history of a cluster.
	Clusters int
}

// ServedHistory is a page of such revisions, newest first.
type ServedHistory struct {
	Revisions []ServedRevision
	Next      Revision // the next page has the revisions before this one; 0: this is the last page
}

const (
	servedBatch    = 100      // revisions that are read from the log at once
	servedScan     = 1000     // revisions that are compared for one page
	servedLog      = 16 << 20 // bytes of documents that are read from the log for one page
	servedClusters = 100_000  // inputs of clusters that are compared for one page
	servedBytes    = 4 << 20  // bytes of differences in one page
	renderingCost  = 10       // inputs of clusters that are compared in the time of one execution of a template
)

// servedPast walks back through the changes of the documents that some inputs depend on.
type servedPast interface {
	// documents returns the documents whose changes must be read. It may return more of them after a step.
	documents() []DocumentName
	// stepBack reverses the changes of one revision, and returns their effect.
	stepBack(changes []DocumentChange) (servedStep, error)
}

// ServedHistory lists the revisions before a given one that changed a document or inputs that depend on it. For a cluster
// these are all its inputs: they change with its own document, layers, definitions and resource types. For a platform
// component it is its input on any cluster: it changes with its own document, those that it depends on, layers and clusters.
// Other kinds have no such history.
//
// It walks back through the changes of the documents that the inputs depend on, and computes the inputs before and after
// each. A page ends early at the limits above, so it may even be empty and have a next one. It ends with ctx.
func (s *State) ServedHistory(ctx context.Context, of DocumentName, before Revision, limit int, history DocumentHistory) (ServedHistory, error) {
	var out ServedHistory
	past, err := s.servedPast(ctx, of, before-1, history)
	if err != nil {
		return out, err
	}
	scanned, read, compared, size := 0, 0, 0, 0
	for {
		documents := past.documents()
		log, err := history.DocumentLog(DocumentLogQuery{Documents: documents, Before: before, Limit: servedBatch})
		if err != nil || len(log.Changes) == 0 {
			return out, err
		}
		for _, changes := range log.revisions() {
			runtime.Gosched() // polls go first
			if err := context.Cause(ctx); err != nil {
				return out, err
			}
			step, err := past.stepBack(changes)
			if err != nil {
				return out, err
			}
			for _, ch := range changes {
				read += len(ch.Before) + len(ch.After)
			}
			before, scanned, compared, size = changes[0].Revision, scanned+1, compared+step.compared, size+step.size
			if step.own || len(step.effect) > 0 {
				out.Revisions = append(out.Revisions, ServedRevision{before, step.effect, step.clusters})
			}
			if len(out.Revisions) == limit || scanned == servedScan || read > servedLog || compared > servedClusters || size > servedBytes {
				if before > log.Oldest {
					out.Next = before
				}
				return out, nil
			}
			if len(past.documents()) > len(documents) {
				break // the log has changes of more documents
			}
		}
	}
}

// ClusterAt returns a State of the documents that determine the inputs of a cluster, as of a revision, and the cluster. It has
// no other clusters, and its revision is not that of the log. CodeNotFound if the cluster did not exist at the revision.
func (s *State) ClusterAt(id string, at Revision, history DocumentHistory) (*State, *Document, error) {
	p := &clusterPast{newest: s, history: history, cluster: id, watched: map[DocumentName]bool{}}
	if err := p.start(at); err != nil {
		return nil, nil, err
	}
	doc, err := p.view.Find(KindCluster, id)
	if err != nil {
		return nil, nil, errorf(CodeNotFound, "there was no cluster %q at revision %d", id, at)
	}
	return p.view, doc, nil
}

// servedPast returns the past of a document, starting after revision at. CodeInvalid for kinds without one.
func (s *State) servedPast(ctx context.Context, of DocumentName, at Revision, history DocumentHistory) (servedPast, error) {
	switch of.Kind { //nolint:exhaustive // the other kinds have no such history
	case KindCluster:
		p := &clusterPast{newest: s, history: history, cluster: of.ID, watched: map[DocumentName]bool{}, work: newWork(ctx)}
		return p, p.start(at)
	case KindComponent:
		p := &componentPast{component: of.ID, list: s.kinds.descriptor(KindComponent), view: s, pending: Documents{}, work: newWork(ctx)}
		return p, p.start(at, history)
	}
	return nil, errorf(CodeInvalid, "there is no history of what clusters are served of a %s", of.Kind)
}

// clusterPast is the servedPast of a cluster.
type clusterPast struct {
	newest  *State
	history DocumentHistory
	cluster string
	watched map[DocumentName]bool
	view    *State
	work    work
}

// documents implements servedPast: the watched documents, sorted.
func (p *clusterPast) documents() []DocumentName {
	out := make([]DocumentName, 0, len(p.watched))
	for name := range p.watched {
		out = append(out, name)
	}
	slices.SortFunc(out, func(a, b DocumentName) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return out
}

// start sets the view to the state as of a revision: the cluster, its definitions, and all layers, resource types and
// rollouts. It watches all of them, because an earlier version of the cluster may have matched other layers, referred to other
// resource types, or been in other rollouts.
func (p *clusterPast) start(at Revision) error {
	empty, err := NewState(p.newest.rules, Head{}, time.Time{}, nil)
	if err != nil {
		return err
	}
	names := []DocumentName{{KindCluster, p.cluster}, {Kind: KindLayer}, {Kind: KindResourceType}, {Kind: KindRollout}, {KindPin, p.cluster}}
	for _, name := range names {
		p.watched[name] = true
	}
	p.view, err = p.add(empty, names, at)
	return err
}

// add adds documents to a State as of a revision, with the definitions that the cluster then refers to.
func (p *clusterPast) add(view *State, names []DocumentName, at Revision) (*State, error) {
	for len(names) > 0 {
		changes, err := p.changesAt(names, at)
		if err == nil {
			view, err = view.Apply(Commit{Revision: view.Revision() + 1, Changes: changes})
		}
		if err != nil {
			return nil, err
		}
		names = p.missingDefinitions(view)
	}
	return view, nil
}

// missingDefinitions returns the definitions that the cluster refers to and that are not watched yet.
func (p *clusterPast) missingDefinitions(view *State) []DocumentName {
	var names []DocumentName
	e := view.clusterByID(p.cluster)
	if e == nil {
		return nil
	}
	for _, a := range view.kinds.lists {
		for id := range a.entries(e) {
			if name := (DocumentName{a.kind, id}); !p.watched[name] {
				p.watched[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// changesAt returns documents as of a revision, as changes that create them.
func (p *clusterPast) changesAt(names []DocumentName, at Revision) ([]Change, error) {
	past := Documents{}
	if at < p.newest.Revision() {
		var err error
		if past, err = p.history.Past(PastQuery{At: at, UpTo: p.newest.Revision(), Documents: names}); err != nil {
			return nil, err
		}
	}
	var changes []Change
	add := func(rec Record) {
		if rec.Revision <= at {
			changes = append(changes, Change{Kind: rec.Kind, ID: rec.ID, After: rec.Body})
		}
	}
	for _, name := range names {
		if name.ID != "" {
			if doc := p.newest.docs[name.Kind][name.ID]; doc != nil {
				add(doc.Record)
			}
			continue
		}
		for _, doc := range p.newest.docs[name.Kind] {
			add(doc.Record)
		}
	}
	for kind, docs := range past {
		for id, body := range docs {
			if body != nil {
				changes = append(changes, Change{Kind: kind, ID: id, After: body})
			}
		}
	}
	return changes, nil
}

// stepBack implements servedPast.
func (p *clusterPast) stepBack(changes []DocumentChange) (step servedStep, err error) {
	view, reversed := p.view, make([]Change, len(changes))
	for i, ch := range changes {
		reversed[i] = Change{Kind: ch.Kind, ID: ch.ID, Before: ch.After, After: ch.Before}
		step.own = step.own || ch.Kind == KindCluster
	}
	older, err := view.Apply(Commit{Revision: view.Revision() + 1, Changes: reversed})
	if err != nil {
		return step, err
	}
	if p.view, err = p.add(older, p.missingDefinitions(older), changes[0].Revision-1); err != nil {
		return step, err
	}
	objects := newObjectChanges(p.view, view, p.work)
	step.effect, step.size, err = p.compare(view, changes, objects)
	step.compared = 1 + renderingCost*objects.rendered
	return step, cmp.Or(err, p.work.stopped())
}

// compare returns the effect on the cluster's polls of the changes from the view to the next State, and its approximate size.
func (p *clusterPast) compare(next *State, changes []DocumentChange, objects *objectChanges) (map[string]api.EndpointEffect, int, error) {
	base := p.view
	a := affected{id: p.cluster, before: base.clusterByID(p.cluster), after: next.clusterByID(p.cluster), changed: map[Kind]map[string]bool{}}
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
	return effect.Effect, effects.size, err
}
