package access

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Check computes which changes the access documents of a subject permit, as commits by the subject would. It commits nothing.
type Check struct {
	Context context.Context //nolint:containedctx // it lives as long as the request
	// Rights of the subject; nil: its role permits every change.
	Rights *fleet.Rights
	// Self: the answer is for the subject itself.
	Self    bool
	History fleet.History
	Filters fleet.ClusterFilters
	At      time.Time
}

// Permission is the result of a Check.
type Permission struct {
	Allowed bool
	// Access are the ids of the access documents that permit the whole change; none for a role that permits every change.
	Access []string
	// Err is the reason of a refusal; nil: it is allowed. With another code than CodeOutOfScope, every principal would be refused.
	Err *fleet.Error
	// Whole: documents that the subject may not read take part in it, and Err may name them.
	Whole bool
	// MissingRight is a right with which the same access documents would permit the change; empty: there is none.
	MissingRight fleet.Right
}

// CheckedState is a State, and what a subject whose right to read has limits may read of it.
type CheckedState struct {
	visible *fleet.State // detached; nil: the subject may read everything
	whole   *fleet.State
}

// Of returns the State to check changes on.
func (c Check) Of(base *fleet.State) (CheckedState, error) {
	if c.Rights == nil || c.Rights.Everywhere(fleet.RightRead) {
		return CheckedState{whole: base}, nil
	}
	visible, err := base.VisibleTo(*c.Rights).Detached()
	return CheckedState{visible, base}, err
}

// shown returns the State whose names may be in answers to the subject.
func (at CheckedState) shown() *fleet.State { return cmp.Or(at.visible, at.whole) }

// each checks a change on the visible documents and then on the whole fleet, as the server makes it.
func (at CheckedState) each(check func(*fleet.State) (Permission, error)) (p Permission, err error) {
	if at.visible != nil {
		if p, err = check(at.visible); err != nil || !p.Allowed {
			return p, err
		}
	}
	p, err = check(at.whole)
	p.Whole = at.visible != nil
	return p, err
}

// Operations checks operations in one commit on a State. It also returns the State after the commit; base if it is refused.
func (c Check) Operations(base CheckedState, ops []api.Operation, bodies []map[string]any) (Permission, CheckedState, error) {
	var next CheckedState
	p, err := base.each(func(s *fleet.State) (p Permission, err error) {
		at := &next.whole
		if s == base.visible {
			at = &next.visible
		}
		p, *at, err = c.operationsOn(s, ops, bodies)
		return p, err
	})
	if err != nil || !p.Allowed {
		return p, base, err
	}
	return p, next, nil
}

func (c Check) operationsOn(base *fleet.State, ops []api.Operation, bodies []map[string]any) (Permission, *fleet.State, error) {
	p, next, err := c.run(base, c.Rights, ops, bodies)
	if err != nil || p.Allowed || p.Err.Code != fleet.CodeOutOfScope {
		return p, next, err
	}
	writing := c.Rights.With(fleet.RightWrite)
	with, _, err := c.run(base, &writing, ops, bodies)
	if err == nil && with.Allowed {
		p.MissingRight = fleet.RightWrite
	}
	return p, next, err
}

func (c Check) run(base *fleet.State, rights *fleet.Rights, ops []api.Operation, bodies []map[string]any) (Permission, *fleet.State, error) {
	tx := base.Begin()
	tx.Guard(fleet.Guard{Off: true})
	tx.UseContext(c.Context)
	tx.ClusterFilters(c.Filters)
	if rights != nil {
		tx.LimitTo(*rights, false)
	}
	batch := fleet.NewBatch(tx, c.History)
	var res fleet.Result
	_, err := batch.RunParsed(ops, bodies)
	if err == nil {
		res, err = tx.Finish(fleet.Commit{At: c.At})
		if e, ok := errors.AsType[*fleet.Error](err); ok && e.Code != fleet.CodeOutOfScope {
			err = batch.Locate(ops, err)
		}
	}
	if err != nil {
		p, err := c.refused(err)
		return p, base, err
	}
	return Permission{Allowed: true, Access: tx.PermittedBy()}, res.State, nil
}

// refused returns the permission for an error of a change. Another error than one of the change stays an error.
func (c Check) refused(err error) (Permission, error) {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return Permission{}, err
	}
	refused := fleet.Error{Code: e.Code, Detail: e.Detail, Problems: slices.Clone(e.Problems)}
	if !c.Self {
		refused.Detail = ofSubject(refused.Detail)
		for i := range refused.Problems {
			refused.Problems[i].Detail = ofSubject(refused.Problems[i].Detail)
		}
	}
	return Permission{Err: &refused}, nil
}

// ofSubject rewrites a message for the principal itself to one for another reader.
func ofSubject(message string) string {
	return strings.NewReplacer("document of yours", "document of the subject", "your access documents", "the access documents of the subject").Replace(message)
}
