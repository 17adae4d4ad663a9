package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// The modes of a freeze. A pin is a freeze of mode pin: changes are possible, and reach its clusters when it ends.
const (
	freezeModeBlock = "block"
	freezeModePin   = "pin"
)

// noun returns the word for the freeze in messages.
func (f *freeze) noun() string {
	if f.Mode == freezeModePin {
		return "pin"
	}
	return "freeze"
}

func (d *Document) freeze() *freeze { return d.value.(*freeze) }

var snapshotKind = kindRules{
	name:      KindSnapshot,
	noun:      "snapshot of a freeze",
	empty:     func() any { return new(freezeSnapshot) },
	normalize: func(map[string]any) {},
	check:     func(*checker, *Document) {},
	bound:     func(any) int { return 0 },
}

func (d *Document) snapshot() *freezeSnapshot { return d.value.(*freezeSnapshot) }

// keeps reports whether a cluster is in a snapshot.
func (f *freezeSnapshot) keeps(cluster string) bool {
	_, found := slices.BinarySearchFunc(f.Clusters, cluster, func(c snapshotCluster, id string) int { return strings.Compare(c.ID, id) })
	return found
}

// parse computes the selector. It fails for an invalid selector: otherwise the freeze would have no clusters.
func (f *freeze) parse() (err error) {
	if f.Selector == "" {
		return nil
	}
	if f.selector, err = ParseSelector(f.Selector); err != nil {
		return fmt.Errorf("/selector: %w", err)
	}
	return nil
}

// matches reports whether the selector matches a cluster.
func (f *freeze) matches(c *api.Cluster) bool {
	return f.All || f.Selector != "" && f.selector.Matches(c)
}

// isFrozenBy reports whether a freeze, active or not, concerns a cluster. A pin concerns the clusters that its
// selector matched when it was created.
func (s *State) isFrozenBy(freeze *Document, c *api.Cluster) bool {
	if snapshot := s.docs[KindSnapshot][freeze.ID]; snapshot != nil {
		return snapshot.snapshot().keeps(c.ID)
	}
	return freeze.freeze().matches(c)
}
