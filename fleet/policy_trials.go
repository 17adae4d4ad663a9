package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/rendering"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// PolicyTrial evaluates a policy that is not stored, on changes that are not made or were made before.
type PolicyTrial struct {
	policy  *Document
	filters ClusterFilters
	at      *State // after the revision that is tried next
}

// PolicyResult is the result of a trial on one change.
type PolicyResult struct {
	api.PolicyVerdict
	Exempt bool // no policy refuses the change
}

// ErrNotRebuilt is the error for a revision whose fleet cannot be read by this version.
var ErrNotRebuilt = errors.New("the fleet cannot be rebuilt")

// TryPolicy returns a trial of a policy: the parsed body of a new one, which may have the id of a stored one. CodeInvalid: the policy could
// not be stored. filters are those of the lists of clusters that are polled.
func (s *State) TryPolicy(body map[string]any, filters ClusterFilters) (*PolicyTrial, error) {
	obj := jsontext.CopyObject(body)
	id, _ := obj["id"].(string)
	maps.DeleteFunc(obj, func(field string, v any) bool { return v == nil || slices.Contains(readOnly, field) })
	doc, err := s.Begin().put(KindPolicy, id, nil, obj)
	if err != nil {
		return nil, err
	}
	if err := Invalid(check(s, doc, maxProblems, newWork(context.Background())).problems); err != nil {
		return nil, err
	}
	return &PolicyTrial{policy: doc, filters: filters, at: s}, nil
}

// Change evaluates the policy on a change that was not committed.
func (t *PolicyTrial) Change(r Result) (PolicyResult, error) {
	out := PolicyResult{Exempt: r.exemptFromPolicies()}
	var verdicts []policyVerdict
	if !out.Exempt {
		var err error
		if verdicts, err = r.policyVerdicts([]*Document{t.policy}, r.policyEffect); err != nil {
			return out, err
		}
	}
	if len(verdicts) == 0 { // no cluster of the effect matches
		verdicts = []policyVerdict{{policy: t.policy}}
	}
	out.PolicyVerdict = policyViews(verdicts)[0]
	return out, nil
}

// Revision evaluates the policy on a revision with all its changes. The first call is for the newest revision of the State, each further one
// for the revision before. An [Error] concerns only this revision; after [ErrNotRebuilt], no older one can be tried.
func (t *PolicyTrial) Revision(ctx context.Context, c Commit) (PolicyResult, error) {
	previous, next := Documents{}, t.at
	for _, ch := range c.Changes {
		previous.Set(ch.Kind, ch.ID, ch.Before)
	}
	base, edits, err := next.withBodies(previous)
	if err != nil {
		return PolicyResult{}, fmt.Errorf("%w before revision %d: %s", ErrNotRebuilt, c.Revision, err.Error())
	}
	if err := base.setBudget(c.Changes); err != nil {
		return PolicyResult{}, err
	}
	t.at = base
	w := work{newWork(ctx).Work, rendering.NewBudget(templateSteps), nil}
	r := Result{
		Commit: c, State: next, base: base, layerChanges: next.servedChanges(base, edits), filters: t.filters, objects: newObjectChanges(base, next, w), work: w,
	}
	if id, ok := strings.CutPrefix(c.Actor, SourceActor("")); ok {
		r.source = id
	}
	clusters, err := r.affected(false)
	if err != nil {
		return PolicyResult{}, err
	}
	r.removals = r.computeRemovals(clusters)
	if err := w.stopped(); err != nil {
		return PolicyResult{}, err
	}
	return t.Change(r)
}

// setBudget sets the record of removals to that before some changes. The State must not be shared yet.
func (s *State) setBudget(changes []Change) error {
	at := slices.IndexFunc(changes, func(ch Change) bool { return ch.Kind == KindBudget })
	if at < 0 {
		return nil
	}
	s.docs = maps.Clone(s.docs)
	delete(s.docs, KindBudget)
	if changes[at].Before == nil {
		return nil
	}
	doc, err := s.kinds.document(Record{Kind: KindBudget, ID: changes[at].ID, Body: changes[at].Before})
	if err == nil {
		s.docs[KindBudget] = map[string]*Document{doc.ID: doc}
	}
	return err
}
