package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// limitedChange is a change by a principal whose right to read has limits. It must be possible on the visible documents alone, so an
// operation on another document, and a reference to one, has the answer of one on a missing document. The whole fleet decides about the
// effect. Its errors, warnings and plans may name anything in it, so those in answers are of the change of only the visible documents, except
// those of policies, which judge only changes whose whole effect the principal may read.
type limitedChange struct {
	server  *Server
	request *request
	meta    store.Meta
	edit    func(*fleet.Tx) error
	// base is the State of the last attempt, with the rights in it; nil: the principal has no access documents.
	base   *fleet.State
	rights fleet.Rights
	// Results of the change of the visible documents, and of the whole fleet.
	shown, whole fleet.Result
}

// begin sets the State of an attempt, and makes the change on its visible documents. A change that these refuse is refused without the
// other documents.
func (l *limitedChange) begin(base *fleet.State, rights fleet.Rights) error {
	l.base, l.rights = base, rights
	if !l.applies() {
		return nil
	}
	visible, err := l.server.visible.get(base, rights).Detached()
	if err != nil {
		return err
	}
	tx := visible.Begin()
	tx.LimitTo(rights, l.meta.DryRun)
	// Without the filters: they are selectors of other principals, and a plan that they change is refused.
	tx.ClusterFilters(fleet.ClusterFilters{Unknown: l.server.tracker.Filters().Unknown})
	if err := l.edit(tx); err != nil {
		return err
	}
	l.shown, err = tx.Finish(fleet.Commit{ID: uuid.New(), At: l.server.commitTime(), Actor: l.meta.Actor, Author: l.meta.Author, Reason: l.meta.Reason, RequestID: l.meta.RequestID})
	return err
}

// applies reports whether the principal may read only a part of the fleet.
func (l *limitedChange) applies() bool { return l.base != nil && !l.rights.Everywhere(fleet.RightRead) }

// result returns the result of the change as the principal may see it. permitted: the visible documents permit it.
func (l *limitedChange) result(res fleet.Result, err error, permitted bool) (fleet.Result, error) {
	if !permitted || !l.applies() {
		return res, err
	}
	if err != nil {
		if refused, ok := errors.AsType[*fleet.Error](err); ok && refused.Code != fleet.CodePolicy {
			return res, l.hidden(refused)
		}
		return res, err
	}
	l.whole, l.request.limited = res, l
	res.State, res.Warnings = res.State.VisibleTo(l.rights), append(slices.Clone(l.shown.Warnings), res.PolicyWarnings...)
	return res, nil
}

// errHiddenEffects is the answer to a change whose effect on the whole fleet differs from its effect on the visible documents.
var errHiddenEffects = &fleet.Error{
	Code:   fleet.CodeOutOfScope,
	Detail: "the change has effects that you may not read: ask a principal that may read everything to make it",
}

// hidden returns the error for a change that only documents outside the limits refuse: it has their kinds and numbers.
func (l *limitedChange) hidden(refused *fleet.Error) *fleet.Error {
	visible, counts := l.server.visible.get(l.base, l.rights), map[string]int{}
	for _, p := range refused.Problems {
		if p.Kind != "" && !visible.Has(p.Kind, p.ID) {
			counts[visible.HiddenKind(p.Kind)]++
		}
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", kind, counts[kind]))
	}
	detail := "the change concerns documents that you may not read, or limits of the whole fleet"
	if len(parts) > 0 {
		detail += " (" + strings.Join(parts, ", ") + ")"
	}
	return &fleet.Error{Code: refused.Code, Detail: detail + ": ask a principal that may read everything to make it"}
}
