package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// AccessCheck computes which changes the access documents of a subject permit, as commits by the subject would. It commits nothing.
type AccessCheck struct {
	Context context.Context //nolint:containedctx // it lives as long as the request
	// Rights of the subject; nil: its role permits every change.
	Rights *Rights
	// Self: the answer is for the subject itself.
	Self    bool
	History History
	Filters ClusterFilters
	At      time.Time
}

// Permission is the result of an AccessCheck.
type Permission struct {
	Allowed bool
	// Access are the ids of the access documents that permit the whole change; none for a role that permits every change.
	Access []string
	// Err is the reason of a refusal; nil: it is allowed. With another code than CodeOutOfScope, every principal would be refused.
	Err *Error
	// Whole: documents that the subject may not read take part in it, and Err may name them.
	Whole bool
	// MissingRight is a right with which the same access documents would permit the change; empty: there is none.
	MissingRight Right
}

// CheckedState is a State, and what a subject whose right to read has limits may read of it.
type CheckedState struct {
	visible *State // detached; nil: the subject may read everything
	whole   *State
}

// Of returns the State to check changes on.
func (c AccessCheck) Of(base *State) (CheckedState, error) {
	if c.Rights == nil || c.Rights.Everywhere(RightRead) {
		return CheckedState{whole: base}, nil
	}
	visible, err := base.VisibleTo(*c.Rights).Detached()
	return CheckedState{visible, base}, err
}

// shown returns the State whose names may be in answers to the subject.
func (at CheckedState) shown() *State { return cmp.Or(at.visible, at.whole) }

// each checks a change on the visible documents and then on the whole fleet, as the server makes it.
func (at CheckedState) each(check func(*State) (Permission, error)) (p Permission, err error) {
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
func (c AccessCheck) Operations(base CheckedState, ops []api.Operation, bodies []map[string]any) (Permission, CheckedState, error) {
	var next CheckedState
	p, err := base.each(func(s *State) (p Permission, err error) {
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

func (c AccessCheck) operationsOn(base *State, ops []api.Operation, bodies []map[string]any) (Permission, *State, error) {
	p, next, err := c.run(base, c.Rights, ops, bodies)
	if err != nil || p.Allowed || p.Err.Code != CodeOutOfScope {
		return p, next, err
	}
	writing := c.Rights.with(RightWrite)
	with, _, err := c.run(base, &writing, ops, bodies)
	if err == nil && with.Allowed {
		p.MissingRight = RightWrite
	}
	return p, next, err
}

func (c AccessCheck) run(base *State, rights *Rights, ops []api.Operation, bodies []map[string]any) (Permission, *State, error) {
	tx := base.Begin()
	tx.Guard(Guard{Off: true})
	tx.UseContext(c.Context)
	tx.ClusterFilters(c.Filters)
	if rights != nil {
		tx.LimitTo(*rights, false)
	}
	batch := NewBatch(tx, c.History)
	var res Result
	_, err := batch.RunParsed(ops, bodies)
	if err == nil {
		res, err = tx.Finish(Commit{At: c.At})
		if e, ok := errors.AsType[*Error](err); ok && e.Code != CodeOutOfScope {
			err = batch.Locate(ops, err)
		}
	}
	if err != nil {
		p, err := c.refused(err)
		return p, base, err
	}
	p := Permission{Allowed: true}
	if tx.scope != nil {
		for _, g := range tx.scope.grants {
			p.Access = append(p.Access, g.ID)
		}
	}
	return p, res.State, nil
}

// refused returns the permission for an error of a change. Another error than one of the change stays an error.
func (c AccessCheck) refused(err error) (Permission, error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return Permission{}, err
	}
	refused := Error{Code: e.Code, Detail: e.Detail, Problems: slices.Clone(e.Problems)}
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

// with returns the rights of the access documents that permit changes, each with a further right.
func (r Rights) with(right Right) Rights {
	out := Rights{subject: r.subject}
	for _, a := range r.grants {
		if extended := *a; a.permitsChanges() {
			extended.May = append(slices.Clone(a.May), right)
			out.grants = append(out.grants, &extended)
		}
	}
	return out
}

// TokenRole returns the role of the managed token with a name, and whether it is valid at a time; empty: there is no such token.
func (s *State) TokenRole(name string, now time.Time) (role string, valid bool) {
	for _, d := range s.docs[KindToken] {
		if t := d.token(); t.Name == name {
			return t.Role, t.ExpiresAt == nil || now.Before(*t.ExpiresAt)
		}
	}
	return "", false
}
