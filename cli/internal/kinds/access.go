package kinds

import (
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Access grant rights to identities.
var Access = Kind{
	API: "access", Schema: "Access", Name: "access", Plural: "access documents", Title: "access document",
	View: render.View{
		Header: []string{"ID", "SUBJECTS", "MAY", "ON", "EXPIRES", "DESCRIPTION"}, Narrow: 5,
		Row: render.RowOf(func(d api.Access) []string {
			subjects := make([]string, len(d.Subjects))
			for i, sub := range d.Subjects {
				subjects[i] = SubjectText(sub)
			}
			return []string{d.ID, strings.Join(subjects, "; "), strings.Join(d.May, ","), ScopeText(d.On), render.TimeOr(d.ExpiresAt, "never"), d.Description}
		}),
	},
	List: "access", Calls: conn.Calls{Path: "/access", Revisions: "access"},
}

// SubjectText describes a subject in one line.
func SubjectText(sub api.AccessSubject) string {
	if sub.Token != "" {
		return "token " + sub.Token
	}
	if sub.Source != "" {
		return "source " + sub.Source
	}
	parts := []string{sub.Issuer}
	for _, group := range sub.Groups {
		parts = append(parts, "group="+group)
	}
	for _, name := range slices.Sorted(maps.Keys(sub.Claims)) {
		parts = append(parts, name+"="+sub.Claims[name])
	}
	return strings.Join(parts, " ")
}

// ScopeText describes limits in one line.
func ScopeText(on *api.AccessScope) string {
	if on == nil {
		return "everything"
	}
	var parts []string
	if on.Selector != "" {
		parts = append(parts, "clusters "+on.Selector)
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"kinds", on.Kinds}, {"components", on.Components}, {"layers", on.Layers}, {"labels", on.Labels}} {
		if len(list.values) > 0 {
			parts = append(parts, list.name+" "+strings.Join(list.values, ","))
		}
	}
	return strings.Join(parts, "; ")
}
