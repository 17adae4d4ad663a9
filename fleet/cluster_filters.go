package fleet

import "github.com/flux-resourceset/flux-resourceset/gen/api"

// ParseClusterFilter parses the query parameters of the list.
func ParseClusterFilter(environment, selector string) (ClusterFilter, error) {
	sel, err := ParseSelector(selector)
	return ClusterFilter{environment, sel}, err
}

// Matches reports whether a cluster is in the list.
func (f ClusterFilter) Matches(c *api.Cluster) bool {
	return (f.Environment == "" || c.Environment == f.Environment) && f.Selector.Matches(c)
}

// String returns the filter as the query of the list, equal for equivalent selectors.
func (f ClusterFilter) String() string {
	text := ""
	if f.Environment != "" {
		text = "environment=" + f.Environment
	}
	if sel := f.Selector.selector.String(); sel != "" {
		if text != "" {
			text += "&"
		}
		text += "selector=" + sel
	}
	return text
}

// ClusterFilters sets the filters of the lists that clusters must not leave without confirmation.
func (tx *Tx) ClusterFilters(filters ClusterFilters) { tx.filters = filters }
