package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// KindFreeze is the kind of freezes: while one is active, changes of the answers to its clusters are refused, or in mode
// snapshot have no effect on them until it is deleted. Creating and changing one changes no answer. The kind is not in
// [Kinds]: restores and reverts leave freezes as they are.
const KindFreeze Kind = "freeze"

// emergencyStop is the id of the freeze that the CLI and the page create as an emergency stop.
const emergencyStop = "all"

// maxFreezes limits the number of freezes that have not ended: each is matched with each cluster that a change affects.
const maxFreezes = 100

var freezeKind = kindRules{
	name:       KindFreeze,
	noun:       "freeze",
	collection: "freezes",
	empty:      func() any { return new(freeze) },
	normalize:  normalizeFreeze,
	complete:   func(value any, _ json.RawMessage) error { return value.(*freeze).parse() },
	check:      func(c *checker, d *Document) { checkFreeze(c, d.freeze()) },
	changed: func(c *checker, was, is *Document) {
		if was.freeze().Mode != is.freeze().Mode {
			c.problem("/mode", "never changes: delete the freeze and create another one")
		}
	},
	bound: func(any) int { return 0 },
	view:  func(d *Document) any { return d.freeze().view(d) },
}

// normalizeFreeze omits the default mode.
func normalizeFreeze(obj map[string]any) {
	if obj["mode"] == freezeModeBlock {
		delete(obj, "mode")
	}
	unstructured.DropFalse(obj)
}

// phase returns pending, active or ended at a time. A pin is active until a commit deletes it, since no
// answer may depend on a clock.
func (f *freeze) phase(at time.Time) string {
	switch {
	case f.Mode == freezeModePin:
		return freezeActive
	case f.From != nil && at.Before(*f.From):
		return freezePending
	case f.Until != nil && !at.Before(*f.Until):
		return freezeEnded
	}
	return freezeActive
}

// The phases of a freeze.
const (
	freezePending = "pending"
	freezeActive  = "active"
	freezeEnded   = "ended"
)

// ActiveFreezes returns the freezes that are active for a commit at a time, sorted by id. One whose start the newest known
// commit has reached has begun, also for a process with a slow clock.
func (s *State) ActiveFreezes(at time.Time) []*Document {
	if len(s.docs[KindFreeze]) == 0 {
		return nil
	}
	return s.sorted(KindFreeze, func(d *Document) bool {
		f := d.freeze()
		return f.phase(at) == freezeActive || f.phase(at) == freezePending && f.phase(s.newest) != freezePending
	})
}

// view returns a freeze as the API shows it, without the values that depend on the clusters and the time.
func (f *freeze) view(d *Document) *api.Freeze {
	return &api.Freeze{
		ID: f.ID, Selector: f.Selector, All: f.All, From: f.From, Until: f.Until, Reason: f.Reason, Mode: cmp.Or(f.Mode, freezeModeBlock),
		Revision: int64(d.Revision), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
}

// FreezeView returns a freeze as the API shows it, with its state at a time and its clusters.
func (s *State) FreezeView(d *Document, at time.Time) *api.Freeze {
	view := d.freeze().view(d)
	if view.State = d.freeze().phase(at); slices.Contains(s.ActiveFreezes(at), d) {
		view.State = freezeActive
	}
	if snapshot := s.Whole().docs[KindSnapshot][d.ID]; snapshot != nil {
		view.ClusterIds = s.snapshotClusters(snapshot, func(string, *frozenCluster) bool { return true })
		view.PendingClusterIds = s.snapshotClusters(snapshot, func(id string, f *frozenCluster) bool {
			return s.answersDiffer(s, id, f.served, f.configured)
		})
		view.Clusters = len(view.ClusterIds)
		return view
	}
	for _, cluster := range s.docs[KindCluster] {
		if !cluster.Deleted() && d.freeze().matches(cluster.Cluster()) {
			view.Clusters++
		}
	}
	return view
}

// snapshotClusters returns the clusters of a pin that satisfy a condition, sorted.
func (s *State) snapshotClusters(snapshot *Document, condition func(id string, f *frozenCluster) bool) (ids []string) {
	for _, c := range snapshot.snapshot().Clusters {
		if f := s.frozen[c.ID]; f != nil && condition(c.ID, f) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// OverdueFreezes returns the active pins whose until has passed, and the time since then. A commit has to
// delete them.
func (s *State) OverdueFreezes(at time.Time) map[string]time.Duration {
	overdue := map[string]time.Duration{}
	for id := range s.docs[KindSnapshot] {
		if d := s.docs[KindFreeze][id]; d != nil && d.freeze().Until != nil && !at.Before(*d.freeze().Until) {
			overdue[id] = at.Sub(*d.freeze().Until)
		}
	}
	return overdue
}

// checkFreeze checks a freeze's document.
func checkFreeze(c *checker, f *freeze) {
	c.dnsSubdomain("/id", f.ID)
	if f.ID == emergencyStop && (!f.All || f.Mode == freezeModePin) {
		c.problem("/id", "%q is reserved for a freeze of all clusters, so that an emergency stop finds it free", f.ID)
	}
	c.text("/reason", f.Reason, 1024)
	if f.Reason == "" {
		c.problem("/reason", "is required: the error of each refused change states it")
	}
	if f.All == (strings.TrimSpace(f.Selector) != "") {
		c.problem("/selector", "exactly one of selector (not empty) and all is required")
	}
	c.oneOf("/mode", f.Mode, "", freezeModeBlock, freezeModePin)
	switch {
	case f.From != nil && f.Mode == freezeModePin:
		c.problem("/from", "must be absent with mode pin, which keeps what the clusters are served now")
	case f.From != nil && f.Until != nil && !f.From.Before(*f.Until):
		c.problem("/until", "must be later than from")
	case f.Until != nil && !c.next.At().Before(*f.Until):
		c.warn("freeze %q has ended already, at %s", f.ID, f.Until.UTC().Format(time.RFC3339))
	}
}
