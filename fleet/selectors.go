package fleet

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Selector selects clusters, in Kubernetes' label selector syntax over their labels plus `environment` and `id`.
type Selector struct{ selector labels.Selector }

// ParseSelector parses a selector. The empty one selects every cluster.
func ParseSelector(s string) (Selector, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return Selector{}, Invalid([]Problem{{Detail: "selector: must not contain control characters"}})
	}
	sel, err := labels.Parse(s)
	if err != nil {
		return Selector{}, Invalid([]Problem{{Pointer: "", Detail: fmt.Sprintf("selector: %v", err)}})
	}
	return Selector{sel}, nil
}

// Matches reports whether the selector selects a cluster.
func (s Selector) Matches(c *api.Cluster) bool { return s.selector.Matches(clusterLabels{c}) }

// UnknownLabels returns the labels, sorted, that the selector requires and no cluster has: often a typing error, as `env` for
// `environment`.
func (s Selector) UnknownLabels(isKnown func(label string) bool) (unknown []string) {
	requirements, _ := s.selector.Requirements()
	for _, r := range requirements {
		required := r.Operator() != selection.DoesNotExist && r.Operator() != selection.NotIn && r.Operator() != selection.NotEquals
		if required && !slices.Contains(unknown, r.Key()) && !isKnown(r.Key()) {
			unknown = append(unknown, r.Key())
		}
	}
	slices.Sort(unknown)
	return unknown
}

// clusterLabels presents a cluster's labels to a selector, with its environment and id as labels of these names.
type clusterLabels struct{ *api.Cluster }

// Has reports whether the cluster has the label.
func (c clusterLabels) Has(label string) bool { _, ok := c.Lookup(label); return ok }

// Get returns the label's value, or "".
func (c clusterLabels) Get(label string) string { v, _ := c.Lookup(label); return v }

// Lookup returns the label's value, and whether it exists.
func (c clusterLabels) Lookup(label string) (string, bool) {
	switch label {
	case "id":
		return c.ID, true
	case "environment":
		return c.Environment, true
	}
	v, ok := c.Labels[label]
	return v, ok
}

// Label returns the value of a label of a cluster as selectors see it, so also of `environment` and `id`; not ok if the cluster lacks it.
func Label(c *api.Cluster, key string) (value string, ok bool) { return clusterLabels{c}.Lookup(key) }
