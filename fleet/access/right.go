package access

import (
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// RightQuery is the question whether a subject has a right.
type RightQuery struct {
	Right fleet.Right
	Kind  fleet.Kind // empty: on any
	ID    string     // of the document; empty: on any of the kind
	// Create: the document is new. It has some content within the limits, and this selector if there is one.
	Create   bool
	Selector string
	// announces: of versions, which changes no document, so the clusters that use the component need not be readable.
	announces bool
}

// Right checks a right. For one document, the checks of commits decide about a change of it that may affect every cluster that uses it.
func (c Check) Right(base CheckedState, q RightQuery) (Permission, error) {
	switch {
	case c.Rights == nil:
		return Permission{Allowed: true}, nil
	case q.ID == "" || q.Right == fleet.RightAdmin:
		return c.onKind(base.shown(), q), nil
	case q.Right == fleet.RightRead:
		if _, visible := base.whole.VisibleTo(*c.Rights).Get(q.Kind, q.ID); !visible {
			return c.refused(errNoSuchDocument(base.shown(), q))
		}
		return Permission{Allowed: true, Access: strings.Fields(c.Rights.ReadGrants())}, nil
	case q.Right == fleet.RightRevert && !c.Rights.Everywhere(fleet.RightRead):
		return c.refused(&fleet.Error{Code: fleet.CodeOutOfScope, Detail: "a revert needs the right read without limits"})
	}
	return base.each(func(s *fleet.State) (Permission, error) { return c.tryRight(s, q) })
}

// MayAnnounce reports whether the subject may announce versions of a component.
func (c Check) MayAnnounce(base *fleet.State, component string) (bool, error) {
	for _, right := range []fleet.Right{fleet.RightPushVersion, fleet.RightWrite} {
		p, err := c.tryRight(base, RightQuery{Right: right, Kind: fleet.KindComponent, ID: component, announces: true})
		if err != nil || p.Allowed {
			return p.Allowed, err
		}
	}
	return false, nil
}

func errNoSuchDocument(s *fleet.State, q RightQuery) error {
	return &fleet.Error{Code: fleet.CodeNotFound, Detail: fmt.Sprintf("there is no %s %q", s.Noun(q.Kind), q.ID)}
}

// onKind checks whether a right applies to some documents of a kind.
func (c Check) onKind(base *fleet.State, q RightQuery) Permission {
	p := Permission{Access: c.Rights.OnKind(q.Right, q.Kind)}
	switch p.Allowed = len(p.Access) > 0; {
	case p.Allowed:
	case q.Kind == "":
		p.Err = &fleet.Error{Code: fleet.CodeOutOfScope, Detail: fmt.Sprintf("no access document of the subject grants %s", q.Right)}
	default:
		p.Err = &fleet.Error{Code: fleet.CodeOutOfScope, Detail: fmt.Sprintf("no access document of the subject grants %s on %s", q.Right, base.Noun(q.Kind))}
	}
	return p
}

// tryRight checks a right on one document in a State.
func (c Check) tryRight(base *fleet.State, q RightQuery) (p Permission, err error) {
	doc, exists := base.Get(q.Kind, q.ID)
	candidates := []*fleet.Document{doc}
	switch {
	case q.Create:
		candidates, err = c.Rights.NewDocuments(base, q.Kind, q.ID, q.Selector, c.At)
	case !exists:
		err = errNoSuchDocument(base, q)
	}
	trial := fleet.RightsTrial{Right: q.Right, At: c.At, Filters: c.Filters, Unread: q.announces}
	for i := 0; err == nil && i < len(candidates) && !p.Allowed; i++ {
		var refused Permission
		permitting, failed := c.Rights.Try(c.Context, base, candidates[i], trial)
		if failed != nil {
			if refused, err = c.refused(failed); i == 0 {
				p = refused
			}
			continue
		}
		p = Permission{Allowed: true, Access: permitting}
	}
	if err == nil && p.Allowed && q.Create && exists {
		err = &fleet.Error{Code: fleet.CodeConflict, Detail: fmt.Sprintf("%s %q already exists", base.Noun(q.Kind), q.ID)}
	}
	if err != nil {
		return c.refused(err)
	}
	return p, nil
}
