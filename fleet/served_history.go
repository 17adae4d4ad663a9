package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ServedRevision is a revision that changed a cluster's document or the inputs that the cluster is served.
type ServedRevision struct {
	Revision Revision
	// Effect is what it changed in the cluster's polls, by list, as a plan has it; empty: nothing.
	Effect map[string]api.EndpointEffect
}

// ServedHistory is a page of such revisions, newest first.
type ServedHistory struct {
	Revisions []ServedRevision
	Next      Revision // the next page has the revisions before this one; 0: there is none
}

const (
	servedBatch = 100     // revisions that are read from the log at once
	servedScan  = 1000    // revisions that are compared for one page
	servedBytes = 4 << 20 // differences in one page
)

// ServedHistory lists the revisions before one that changed what a cluster is served, by whatever document: its own, layers,
// definitions, resource types. It also lists those that changed only the cluster's document. It goes back through the changes of
// the documents that the inputs are made of, and computes the inputs before and after each. A page ends early after servedScan
// revisions, so that it may even be empty and have a next one. It ends with ctx.
func (s *State) ServedHistory(ctx context.Context, cluster string, before Revision, limit int, history DocumentHistory) (ServedHistory, error) {
	var out ServedHistory
	p := &servedPast{newest: s, history: history, cluster: cluster, watched: map[DocumentName]bool{}}
	view, err := p.start(before - 1)
	if err != nil {
		return out, err
	}
	scanned, size := 0, 0
	for {
		log, err := history.DocumentLog(DocumentLogQuery{Documents: p.documents(), Before: before, Limit: servedBatch})
		if err != nil || len(log.Changes) == 0 {
			return out, err
		}
		known := len(p.watched)
		for _, changes := range log.revisions() {
			if err := context.Cause(ctx); err != nil {
				return out, err
			}
			older, err := p.back(view, changes)
			if err != nil {
				return out, err
			}
			effect, bytes, err := p.compare(older, view, changes)
			if err != nil {
				return out, err
			}
			view, before, scanned, size = older, changes[0].Revision, scanned+1, size+bytes
			own := slices.ContainsFunc(changes, func(ch DocumentChange) bool { return ch.Kind == KindCluster })
			if own || len(effect) > 0 {
				out.Revisions = append(out.Revisions, ServedRevision{before, effect})
			}
			if len(out.Revisions) == limit || scanned == servedScan || size > servedBytes {
				if before > log.Oldest {
					out.Next = before
				}
				return out, nil
			}
			if len(p.watched) > known {
				break // the log has changes of more documents
			}
		}
	}
}

// servedPast is the past of the documents that the inputs of one cluster are made of.
type servedPast struct {
	newest  *State
	history DocumentHistory
	cluster string
	watched map[DocumentName]bool
}

func (p *servedPast) documents() []DocumentName {
	out := make([]DocumentName, 0, len(p.watched))
	for name := range p.watched {
		out = append(out, name)
	}
	slices.SortFunc(out, func(a, b DocumentName) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	return out
}

// start is a State of these documents as they were at a revision. Any layer may match the cluster earlier, and any type may be one
// that it refers to, so all of them are watched.
func (p *servedPast) start(at Revision) (*State, error) {
	empty, err := NewState(p.newest.rules, Head{}, time.Time{}, nil)
	if err != nil {
		return nil, err
	}
	names := []DocumentName{{KindCluster, p.cluster}, {Kind: KindLayer}, {Kind: KindResourceType}}
	for _, name := range names {
		p.watched[name] = true
	}
	return p.add(empty, names, at)
}

// add adds documents to a State as they were at a revision, with the definitions that the cluster then refers to.
func (p *servedPast) add(view *State, names []DocumentName, at Revision) (*State, error) {
	for len(names) > 0 {
		changes, err := p.at(names, at)
		if err == nil {
			view, err = view.Apply(Commit{Revision: view.Revision() + 1, Changes: changes})
		}
		if err != nil {
			return nil, err
		}
		names = p.missing(view)
	}
	return view, nil
}

// missing are the definitions that the cluster refers to and that nobody has looked for.
func (p *servedPast) missing(view *State) []DocumentName {
	var names []DocumentName
	e := view.servedTo(p.cluster)
	if e == nil {
		return nil
	}
	for _, a := range view.kinds.lists {
		for id := range a.each(e) {
			if name := (DocumentName{a.kind, id}); !p.watched[name] {
				p.watched[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// at are documents as they were at a revision, as changes that create them.
func (p *servedPast) at(names []DocumentName, at Revision) ([]Change, error) {
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

// back is a State as it was before a revision changed its documents.
func (p *servedPast) back(view *State, changes []DocumentChange) (*State, error) {
	reversed := make([]Change, len(changes))
	for i, ch := range changes {
		reversed[i] = Change{Kind: ch.Kind, ID: ch.ID, Before: ch.After, After: ch.Before}
	}
	older, err := view.Apply(Commit{Revision: view.Revision() + 1, Changes: reversed})
	if err != nil {
		return nil, err
	}
	return p.add(older, p.missing(older), changes[0].Revision-1)
}

// compare returns what the changes that lead from one State to another do to the cluster's polls, and about how large that is.
func (p *servedPast) compare(base, next *State, changes []DocumentChange) (map[string]api.EndpointEffect, int, error) {
	a := affected{id: p.cluster, before: base.servedTo(p.cluster), after: next.servedTo(p.cluster), changed: map[Kind]map[string]bool{}}
	for _, ch := range changes {
		if a.changed[ch.Kind] == nil {
			a.changed[ch.Kind] = map[string]bool{}
		}
		a.changed[ch.Kind][ch.ID] = true
	}
	next.addRetyped(base, a.changed)
	effects := &effects{base: base, next: next}
	effect, err := effects.on(a)
	return effect.Effect, effects.size, err
}

// servedTo is a cluster with everything that it is served; nil: there is none.
func (s *State) servedTo(cluster string) *Effective {
	doc := s.docs[KindCluster][cluster]
	if doc == nil {
		return nil
	}
	return s.Effective(doc)
}
