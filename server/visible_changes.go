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
// operation on another document has the answer of one on a missing document. The whole fleet decides about the effect. Its errors,
// warnings and plans may name anything in it, so those in answers are of the same change of only the visible documents.
type limitedChange struct {
	server  *Server
	request *request
	meta    store.Meta
	edit    func(*fleet.Tx) error
	// base is the State of the last attempt, with the rights in it; nil: the principal has no access documents.
	base   *fleet.State
	rights fleet.Rights
	// visible is a State with only the visible documents of base.
	visible *fleet.State
}

// begin takes the State of an attempt, and runs the change on its visible documents.
func (l *limitedChange) begin(base *fleet.State, rights fleet.Rights) error {
	l.base, l.rights, l.visible = base, rights, nil
	if !l.applies() {
		return nil
	}
	var err error
	if l.visible, err = l.server.visible.get(base, rights).Detached(); err != nil {
		return err
	}
	tx, err := l.edited()
	if err != nil || !tx.IsPlanned() {
		return err
	}
	_, err = l.finish(tx)
	if stale, ok := errors.AsType[*fleet.Error](err); ok && stale.Code == fleet.CodeStale {
		return err // the hash is not of a plan of the visible documents
	}
	return nil
}

// applies reports whether the principal may read only a part of the fleet.
func (l *limitedChange) applies() bool { return l.base != nil && !l.rights.Everywhere(fleet.RightRead) }

// edited returns a Tx of the visible documents after the change.
func (l *limitedChange) edited() (*fleet.Tx, error) {
	tx := l.visible.Begin()
	tx.LimitTo(l.rights, l.meta.DryRun)
	// Not the filters: they are selectors of others, and a plan that they change is refused.
	tx.ClusterFilters(fleet.ClusterFilters{Unknown: l.server.tracker.Filters().Unknown})
	return tx, l.edit(tx)
}

// result returns the result of the change as the principal may see it.
func (l *limitedChange) result(res fleet.Result, err error) (fleet.Result, error) {
	refused, ofFleet := errors.AsType[*fleet.Error](err)
	if l.visible == nil || err != nil && !ofFleet || err == nil && !l.meta.DryRun && len(res.Warnings) == 0 {
		return res, err
	}
	shown, again := l.repeat()
	if visible, ok := errors.AsType[*fleet.Error](again); ok && err != nil {
		return res, visible
	}
	switch {
	case err != nil:
		return res, l.hidden(refused)
	case again != nil && l.meta.DryRun:
		return res, l.hidden(&fleet.Error{Code: fleet.CodeOutOfScope})
	case again != nil:
		res.Warnings = []string{"there are warnings about documents that you may not read"}
	default:
		res.Warnings, l.request.limited = shown.Warnings, &shown
	}
	return res, nil
}

// repeat computes the change of the visible documents, without committing it.
func (l *limitedChange) repeat() (fleet.Result, error) {
	tx, err := l.edited()
	if err != nil {
		return fleet.Result{}, err
	}
	return l.finish(tx)
}

// finish returns the result of a Tx of the visible documents, which is never committed.
func (l *limitedChange) finish(tx *fleet.Tx) (fleet.Result, error) {
	return tx.Finish(fleet.Commit{ID: uuid.New(), At: l.server.commitTime(), Actor: l.meta.Actor, Author: l.meta.Author, Reason: l.meta.Reason, RequestID: l.meta.RequestID})
}

// errHiddenEffects is the answer to a change whose effect on the whole fleet is not the effect on the visible documents.
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
