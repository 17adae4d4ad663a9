package client

import (
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// InLimits reports whether the limits of an access document may cover a document, by its kind and id; an empty id stands for any.
// nil covers everything. The clusters that a selector selects, and those that use the document, are not considered: a plan is.
func InLimits(on *api.AccessScope, kind, id string) bool {
	if on == nil {
		return true
	}
	switch {
	case len(on.Kinds) > 0 && !slices.Contains(on.Kinds, kind):
		return false
	case len(on.Kinds) > 0:
	case kind == KindCluster && on.Selector == "", kind == KindPlatformComponent && len(on.Components) == 0, kind == KindLayer && len(on.Layers) == 0,
		!slices.Contains([]string{KindCluster, KindPlatformComponent, KindLayer}, kind):
		return false
	}
	patterns := map[string][]string{KindPlatformComponent: on.Components, KindLayer: on.Layers}[kind]
	return id == "" || len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return pattern == id || open && strings.HasPrefix(id, prefix)
	})
}
