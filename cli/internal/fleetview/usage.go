package fleetview

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Usage is the table of the versions of a component that clusters are configured with.
var Usage = render.View{
	Header: []string{"VERSION", "TAG", "PATH", "CLUSTERS", "OVERRIDING", "PATCHED", "DISABLED", "ENVIRONMENTS", "NAMES"},
	Narrow: 8,
	Row: render.RowOf(func(v api.ComponentVariant) []string {
		var tiers []string
		for _, tier := range render.SortedKeys(v.Environments) {
			tiers = append(tiers, fmt.Sprintf("%s %d", tier, v.Environments[tier]))
		}
		return []string{
			v.ComponentVersion, v.OCITag, v.ComponentPath, strconv.Itoa(v.Clusters), strconv.Itoa(v.Overriding), strconv.Itoa(v.Patched),
			strconv.Itoa(v.Disabled), strings.Join(tiers, ", "), strings.Join(v.ClusterIds, ","),
		}
	}),
}

// UsageNames returns the clusters with a version of a component, as -o name prints them.
func UsageNames(variants []json.RawMessage) ([]string, error) {
	var names []string
	for _, raw := range variants {
		var v api.ComponentVariant
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, err
		}
		for _, id := range v.ClusterIds {
			names = append(names, "cluster/"+id)
		}
	}
	return names, nil
}
