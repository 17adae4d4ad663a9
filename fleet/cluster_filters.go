package fleet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// ClusterFilter selects the clusters of one filtered list of clusters. Management clusters provision from such lists: they
// may delete a cluster that leaves one.
type ClusterFilter struct {
	Environment string // empty: every one
	Selector    Selector
}

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

// ClusterFilters are the filters of the lists of clusters that are polled.
type ClusterFilters struct {
	Filters []ClusterFilter
	// Unknown: there may be other filters that are not known yet. Each cluster whose labels or environment change may leave
	// one of them.
	Unknown bool
}

// ClusterFilters sets the filters of the lists that clusters must not leave without confirmation.
func (tx *Tx) ClusterFilters(filters ClusterFilters) { tx.filters = filters }

// leavesList returns the filtered list of clusters that a cluster leaves while it stays in the fleet; "" for none.
func (r Result) leavesList(before *Effective) string {
	if before == nil || before.Deleted() || len(r.filters.Filters) == 0 && !r.filters.Unknown {
		return ""
	}
	was, is := r.base.docs[KindCluster][before.id], r.State.docs[KindCluster][before.id]
	if was == is || is == nil || is.Deleted() {
		return ""
	}
	a, b := was.Cluster(), is.Cluster()
	if a.Environment == b.Environment && maps.Equal(a.Labels, b.Labels) {
		return ""
	}
	if r.filters.Unknown {
		return "a filtered list of clusters (which ones are polled is not known yet)"
	}
	at := slices.IndexFunc(r.filters.Filters, func(f ClusterFilter) bool { return f.Matches(a) && !f.Matches(b) })
	if at < 0 {
		return ""
	}
	return "the list of clusters with " + r.filters.Filters[at].String()
}

// leavesEnvironment returns the protected environment that a cluster, or the name it polls by, leaves; "" for none.
func (r Result) leavesEnvironment(a affected) string {
	if a.before == nil || a.before.Deleted() || !slices.Contains(r.base.rules.Protected, a.before.cluster.Environment) {
		return ""
	}
	after := a.after
	if after == nil {
		if doc, ok := r.State.Get(KindCluster, a.before.id); ok {
			after = r.State.Effective(doc)
		}
	}
	if after == nil || after.Deleted() || after.cluster.Environment == a.before.cluster.Environment {
		return ""
	}
	return a.before.cluster.Environment
}

// addDeparture records that a cluster which stays in the fleet leaves a list from which it is provisioned, or a protected
// environment. It returns the removals that this counts as if the cluster loses nothing else.
func (l *removals) addDeparture(r Result, a affected, loses bool) []installation {
	environment, list := r.leavesEnvironment(a), r.leavesList(a.before)
	if environment != "" {
		l.mustConfirm = append(l.mustConfirm, fmt.Sprintf("cluster %q leaves the protected environment %q", a.before.id, environment))
		l.warnings = append(l.warnings, fmt.Sprintf("cluster %q leaves the protected environment %q, whose protection ends for it", a.before.id, environment))
	}
	if list != "" {
		l.warnings = append(l.warnings, fmt.Sprintf("cluster %q leaves %s: a management cluster that provisions from it may delete the cluster", a.before.id, list))
	}
	switch {
	case loses || environment == "" && list == "":
		return nil
	case environment != "":
		l.moving++
	default:
		l.unlisted++
	}
	return []installation{{Kind: KindCluster, ID: a.before.id}}
}
