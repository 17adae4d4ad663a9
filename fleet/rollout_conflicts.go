package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/threeway"
)

// variant merges one change of a rollout into the current document. It is the merge of a revert with before and after
// exchanged, and strict: a field that the rollout changes must be as before the rollout.
func (ks *kindSet) variant(ch rolloutChange, now *Document) (*Document, []jsontext.MergeConflict, error) {
	merged, conflicts, err := threeway.Merge(threeway.Versions{Made: ch.Before, Now: now.Body, Before: ch.After}, threeway.Options{Strict: true})
	if err != nil || len(conflicts) > 0 {
		return nil, conflicts, err
	}
	doc, err := ks.compose(ch.Kind, ch.ID, nil, merged, nil)
	return doc, nil, err
}

// inRollout returns the error for conflicts with a change of a rollout, or nil.
func inRollout(ks *kindSet, rollout string, ch rolloutChange, conflicts []jsontext.MergeConflict) error {
	if len(conflicts) == 0 {
		return nil
	}
	noun, problems := ks.noun(ch.Kind), make([]Problem, len(conflicts))
	for i, c := range conflicts {
		problems[i] = Problem{Pointer: c.Pointer, Kind: ch.Kind, ID: ch.ID, Detail: fmt.Sprintf(
			"%s %q: rollout %q changes this field from %s to %s, and it would be %s: complete or abort the rollout first",
			noun, ch.ID, rollout, excerpt(c.Base), excerpt(c.Theirs), excerpt(c.Ours))}
	}
	return &Error{Code: CodeInRollout, Detail: summarizeProblems(problems), Problems: problems}
}

// checkMergeOrder refuses two rollouts whose changes of a document depend on their order, such as two entries added at the
// same place of a list: completing one of them would change answers. Only changes of the same list can.
func (s *State) checkMergeOrder() error {
	type listChange struct {
		rollout string
		change  rolloutChange
		list    string
	}
	by := map[docKey][]listChange{}
	for _, d := range s.rollouts.open {
		for _, ch := range d.rollout().Changes {
			key, lists := docKey{ch.Kind, ch.ID}, map[string]bool{}
			if addChangedLists(lists, "", ch.Before, ch.After); s.docs[key.kind][key.id] == nil {
				continue
			}
			for list := range lists {
				by[key] = append(by[key], listChange{d.ID, ch, list})
			}
		}
	}
	for key, changes := range by {
		now := s.docs[key.kind][key.id]
		for i, a := range changes {
			for _, b := range changes[:i] {
				if a.list != b.list {
					continue
				}
				one, err := s.kinds.inOrder(now, a.change, b.change)
				if err != nil {
					return err
				}
				other, err := s.kinds.inOrder(now, b.change, a.change)
				if err != nil {
					return err
				}
				if !bytes.Equal(one, other) {
					return errorf(CodeInRollout, "rollouts %q and %q change the order of a list of the %s %q: complete or abort one of them first",
						b.rollout, a.rollout, s.kinds.noun(key.kind), key.id)
				}
			}
		}
	}
	return nil
}

// addChangedLists adds the paths of the lists that differ between two JSON values.
func addChangedLists(lists map[string]bool, at string, before, after json.RawMessage) {
	if bytes.Equal(before, after) {
		return
	}
	if bytes.HasPrefix(before, []byte("[")) || bytes.HasPrefix(after, []byte("[")) {
		lists[at] = true
		return
	}
	var was, is map[string]json.RawMessage // nil: no object, which has no lists
	if json.Unmarshal(before, &was) != nil {
		was = nil
	}
	if json.Unmarshal(after, &is) != nil {
		is = nil
	}
	for key := range was {
		addChangedLists(lists, at+jsontext.Pointer(key), was[key], is[key])
	}
	for key := range is {
		if _, both := was[key]; !both {
			addChangedLists(lists, at+jsontext.Pointer(key), nil, is[key])
		}
	}
}

// inOrder returns a document after the changes of two rollouts.
func (ks *kindSet) inOrder(now *Document, changes ...rolloutChange) ([]byte, error) {
	for _, ch := range changes {
		doc, conflicts, err := ks.variant(ch, now)
		if err == nil {
			err = inRollout(ks, "", ch, conflicts)
		}
		if err != nil {
			return nil, err
		}
		now = doc
	}
	return now.Body, nil
}

// checkRolloutDocuments refuses to delete a document that an open rollout changes.
func (s *State) checkRolloutDocuments() error {
	if s.rollouts == nil {
		return nil
	}
	var problems []Problem
	for _, d := range s.rollouts.open {
		for _, ch := range d.rollout().Changes {
			if s.docs[ch.Kind][ch.ID] == nil {
				problems = append(problems, Problem{Kind: ch.Kind, ID: ch.ID, Detail: fmt.Sprintf("the %s %q cannot be deleted while rollout %q changes it: complete or abort the rollout first", s.kinds.noun(ch.Kind), ch.ID, d.ID)})
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &Error{Code: CodeInRollout, Detail: summarizeProblems(problems), Problems: problems}
}
