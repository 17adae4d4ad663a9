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
	Rights  *Rights
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
	// MissingRight is a right with which the same access documents would permit the change; empty: there is none.
	MissingRight Right
}

// Operations checks operations in one commit on a State. It also returns the State after the commit; base if it is refused.
func (c AccessCheck) Operations(base *State, ops []api.Operation, bodies []map[string]any) (Permission, *State, error) {
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
		p, err := refusedPermission(err)
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

// refusedPermission returns the permission for an error of a change. Another error than one of the change stays an error.
func refusedPermission(err error) (Permission, error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return Permission{}, err
	}
	refused := Error{Code: e.Code, Detail: ofSubject(e.Detail), Problems: slices.Clone(e.Problems)}
	for i := range refused.Problems {
		refused.Problems[i].Detail = ofSubject(refused.Problems[i].Detail)
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

// Right checks whether a change with a right is possible for a kind, or for one document of it with every cluster that uses it
// now. An empty kind stands for any. The effect of a change may be larger: Operations computes it.
func (c AccessCheck) Right(base *State, right Right, kind Kind, id string) (Permission, error) {
	if c.Rights == nil {
		return Permission{Allowed: true}, nil
	}
	var p Permission
	tx := base.Begin()
	doc := base.docs[kind][id]
	if doc != nil && doc.Deleted() {
		doc = nil
	}
	if right == RightRead && doc != nil && base.VisibleTo(*c.Rights).Has(kind, id) { // also by what a visible cluster uses
		return Permission{Allowed: true, Access: strings.Fields(c.Rights.ReadGrants())}, nil
	}
	reads := right == RightRead && id == "" && kind != KindCluster // with limits, it shows what determines the inputs of the clusters within them
	for _, a := range c.Rights.grants {
		if !a.may(right) || a.On != nil && kind != "" && !reads && !a.coversKind(kind) {
			continue
		}
		covered := a.On == nil || id == "" || reads || doc == nil && a.coversNew(kind, id) ||
			doc != nil && scopeCheck{tx: tx}.covers(grant{access: a}, doc)
		if covered && doc != nil && !reads && a.limitsClusters() {
			outside, err := c.usersOutside(base, a, doc)
			if err != nil {
				return p, err
			}
			if p.Err == nil && len(outside) > 0 {
				p.Err = &Error{Code: CodeOutOfScope, Detail: "clusters outside the limits use it: " + list(idsOf(outside))}
				for _, d := range outside[:min(len(outside), maxProblems)] {
					p.Err.Problems = append(p.Err.Problems, Problem{Kind: KindCluster, ID: d.ID, Detail: "it uses the document, and is outside the limits of access document " + a.ID})
				}
			}
			covered = len(outside) == 0
		}
		if covered {
			p.Access = append(p.Access, a.ID)
		}
	}
	if p.Allowed = len(p.Access) > 0; p.Allowed {
		p.Err = nil
		return p, nil
	}
	p.Err = cmp.Or(p.Err, c.refusal(base, right, kind, id, doc))
	return p, nil
}

// refusal returns the reason why no access document grants a right.
func (c AccessCheck) refusal(base *State, right Right, kind Kind, id string, doc *Document) *Error {
	switch {
	case !c.Rights.Include(right):
		return errorf(CodeOutOfScope, "no access document of the subject grants %s", right)
	case id == "":
		return errorf(CodeOutOfScope, "no access document of the subject grants %s on %s", right, base.kinds.noun(kind))
	}
	problem := Problem{Kind: kind, ID: id, Detail: "no access document of the subject grants " + right + " on it"}
	detail := base.kinds.noun(kind) + " " + `"` + id + `"`
	if doc == nil {
		problem.Detail += "; it does not exist"
	}
	return &Error{Code: CodeOutOfScope, Detail: detail + ": " + problem.Detail, Problems: []Problem{problem}}
}

// coversNew reports whether a document that does not exist is within the limits, whatever it contains.
func (a *access) coversNew(kind Kind, id string) bool {
	switch {
	case a.limitsClusters():
		return false
	case kind == KindComponent:
		return matchesAny(a.On.Components, id)
	case kind == KindLayer:
		return matchesAny(a.On.Layers, id)
	}
	return true
}

// usersOutside returns the clusters outside the limits of an access document whose answers a change of a document may affect.
func (c AccessCheck) usersOutside(base *State, a *access, doc *Document) ([]*Document, error) {
	changed := map[Kind]map[string]bool{doc.Kind: {doc.ID: true}}
	if slices.Contains([]Kind{KindCluster, KindLayer, KindFreeze}, doc.Kind) {
		return nil, nil // covers has checked their clusters
	}
	if doc.Kind == KindRollout {
		addRolloutChanges(changed, doc)
	}
	work := newWork(c.Context)
	var outside []*Document
	for _, d := range base.docs[KindCluster] {
		if err := work.stopped(); err != nil {
			return nil, err
		}
		if base.uses(d, changed) && !a.selector.Matches(d.Cluster()) {
			outside = append(outside, d)
		}
	}
	slices.SortFunc(outside, func(a, b *Document) int { return strings.Compare(a.ID, b.ID) })
	return outside, nil
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
