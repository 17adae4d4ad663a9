package fleet

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ServedRevision is a revision that changed a document or the inputs that clusters are served because of it.
type ServedRevision struct {
	Revision Revision
	// Effect is what it changed in the polls of the cluster, or in the input of the component, by list, as a plan has it; empty:
	// nothing. The input of a component may change in several ways; only the first maxServedChanges of them are here.
	Effect map[string]api.EndpointEffect
	// Clusters is on how many clusters the input of the component changed; 0 in the history of a cluster.
	Clusters int
}

// ServedHistory is a page of such revisions, newest first.
type ServedHistory struct {
	Revisions []ServedRevision
	Next      Revision // the next page has the revisions before this one; 0: there is none
}

const (
	servedBatch    = 100      // revisions that are read from the log at once
	servedScan     = 1000     // revisions that are compared for one page
	servedLog      = 16 << 20 // bytes of documents that are read from the log for one page
	servedClusters = 100_000  // inputs of clusters that are compared for one page
	servedBytes    = 4 << 20  // bytes of differences in one page
)

// servedPast goes back through the changes of the documents that some inputs are made of.
type servedPast interface {
	// documents are those whose changes have to be read. It may name more of them after a step.
	documents() []DocumentName
	// back goes back over the changes of one revision.
	stepBack(changes []DocumentChange) (servedStep, error)
}

// servedStep is what one revision changed.
type servedStep struct {
	effect   map[string]api.EndpointEffect
	clusters int
	own      bool // it changed the document itself
	size     int  // bytes of the effect, roughly
	compared int  // inputs that were compared
}

// ServedHistory lists the revisions before one that changed a document or what clusters are served because of it. Of a cluster
// these are its inputs, by whatever document: its own, layers, definitions, resource types. Of a platform component it is its
// input on any cluster: by its own document, those that it depends on, layers and clusters. Other kinds have no such history.
//
// It goes back through the changes of the documents that the inputs are made of, and computes the inputs before and after each.
// A page ends early at the limits above, so that it may even be empty and have a next one. It ends with ctx.
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

func (s *State) servedPast(ctx context.Context, of DocumentName, at Revision, history DocumentHistory) (servedPast, error) {
	switch of.Kind {
	case KindCluster:
		p := &clusterPast{newest: s, history: history, cluster: of.ID, watched: map[DocumentName]bool{}}
		return p, p.start(at)
	case KindComponent:
		p := &componentPast{component: of.ID, list: s.kinds.descriptor(KindComponent), view: s, pending: Documents{}, work: newWork(ctx)}
		return p, p.start(at, history)
	}
	return nil, errorf(CodeInvalid, "there is no history of what clusters are served of a %s", of.Kind)
}

// clusterPast is the past of the documents that the inputs of one cluster are made of.
type clusterPast struct {
	newest  *State
	history DocumentHistory
	cluster string
	watched map[DocumentName]bool
	view    *State
}

func (p *clusterPast) documents() []DocumentName {
	out := make([]DocumentName, 0, len(p.watched))
	for name := range p.watched {
		out = append(out, name)
	}
	slices.SortFunc(out, func(a, b DocumentName) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return out
}

// start makes a State of these documents as they were at a revision. Any layer may match the cluster earlier, and any type may be one
// that it refers to, so all of them are watched.
func (p *clusterPast) start(at Revision) error {
	empty, err := NewState(p.newest.rules, Head{}, time.Time{}, nil)
	if err != nil {
		return err
	}
	names := []DocumentName{{KindCluster, p.cluster}, {Kind: KindLayer}, {Kind: KindResourceType}}
	for _, name := range names {
		p.watched[name] = true
	}
	p.view, err = p.add(empty, names, at)
	return err
}

// add adds documents to a State as they were at a revision, with the definitions that the cluster then refers to.
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

// missing are the definitions that the cluster refers to and that nobody has looked for.
func (p *clusterPast) missingDefinitions(view *State) []DocumentName {
	var names []DocumentName
	e := view.clusterByID(p.cluster)
	if e == nil {
		return nil
	}
	for _, a := range view.kinds.lists {
		for id := range a.eachID(e) {
			if name := (DocumentName{a.kind, id}); !p.watched[name] {
				p.watched[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// at are documents as they were at a revision, as changes that create them.
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
	step.compared = 1
	step.effect, step.size, err = p.compare(p.view, view, changes)
	return step, err
}

// compare returns what the changes that lead from one State to another do to the cluster's polls, and about how large that is.
func (p *clusterPast) compare(base, next *State, changes []DocumentChange) (map[string]api.EndpointEffect, int, error) {
	a := affected{id: p.cluster, before: base.clusterByID(p.cluster), after: next.clusterByID(p.cluster), changed: map[Kind]map[string]bool{}}
	for _, ch := range changes {
		if a.changed[ch.Kind] == nil {
			a.changed[ch.Kind] = map[string]bool{}
		}
		a.changed[ch.Kind][ch.ID] = true
	}
	next.addChangedTypes(base, a.changed)
	effects := &effects{base: base, next: next}
	effect, err := effects.on(a)
	return effect.Effect, effects.size, err
}

// servedTo is a cluster with everything that it is served; nil: there is none.
func (s *State) clusterByID(cluster string) *Effective {
	doc := s.docs[KindCluster][cluster]
	if doc == nil {
		return nil
	}
	return s.Effective(doc)
}
