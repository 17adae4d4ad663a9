package fleet

import (
	"encoding/json"
	"fmt"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// The modes of a freeze.
const (
	freezeModeBlock    = "block"
	freezeModeSnapshot = "snapshot"
)

func (d *Document) freeze() *freeze { return d.value.(*freeze) }

var snapshotKind = kindRules{
	name:      KindSnapshot,
	noun:      "snapshot of a freeze",
	empty:     func() any { return new(freezeSnapshot) },
	normalize: func(map[string]any) {},
	complete: func(value any, _ json.RawMessage) error {
		snapshot := value.(*freezeSnapshot)
		snapshot.kept = make(map[string]bool, len(snapshot.Clusters))
		for _, c := range snapshot.Clusters {
			snapshot.kept[c.ID] = true
		}
		return nil
	},
	check: func(*checker, *Document) {},
	bound: func(any) int { return 0 },
}

func (d *Document) snapshot() *freezeSnapshot { return d.value.(*freezeSnapshot) }

// parse computes the selector. A freeze with an unreadable one must not be read as one without clusters.
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

// isFrozenBy reports whether a freeze is about a cluster, active or not. One of mode snapshot is about the clusters that its
// selector matched when it was created.
func (s *State) isFrozenBy(freeze *Document, c *api.Cluster) bool {
	if snapshot := s.docs[KindSnapshot][freeze.ID]; snapshot != nil {
		return snapshot.snapshot().kept[c.ID]
	}
	return freeze.freeze().matches(c)
}
