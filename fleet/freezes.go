package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// emergencyStop is the id of the freeze that the CLI and the page create as an emergency stop.
const emergencyStop = "all"

// maxFreezes limits the number of freezes that have not ended: each is matched with each cluster that a change affects.
const maxFreezes = 100

var freezeKind = kindRules{
	name:       KindFreeze,
	noun:       "freeze",
	collection: "freezes",
	empty:      func() any { return new(freeze) },
	normalize: func(obj map[string]any) {
		unstructured.DropFalse(obj)
		unstructured.DropEmptyList(obj, "allow")
		unstructured.DropEmptyList(obj, "block")
	},
	complete: func(value any, _ json.RawMessage) error { return value.(*freeze).parse() },
	check:    func(c *checker, d *Document) { checkFreeze(c, d.freeze()) },
	view:     func(d *Document) any { return d.freeze().view(d) },
}

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
		ID: f.ID, Selector: f.Selector, All: f.All, From: f.From, Until: f.Until, Reason: f.Reason,
		Allow: f.Allow, Block: f.Block,
		Revision: int64(d.Revision), CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
}

// FreezeView returns a freeze as the API shows it, with its state at a time and its clusters.
func (s *State) FreezeView(d *Document, at time.Time) *api.Freeze {
	view := d.freeze().view(d)
	if view.State = d.freeze().phase(at); slices.Contains(s.ActiveFreezes(at), d) {
		view.State = freezeActive
	}
	at = later(at, s.newest)
	open := newOpenings(at)
	for _, cluster := range s.docs[KindCluster] {
		if cluster.Deleted() || !d.freeze().matches(cluster.Cluster()) {
			continue
		}
		view.Clusters++
		if view.State == freezeActive && open.holds(d, s.Effective(cluster)) {
			view.Frozen++
		}
	}
	return view
}

// parse computes the selector and the variables of windows. It fails for an invalid selector: otherwise the freeze would have no clusters.
func (f *freeze) parse() (err error) {
	f.readZoneVariables()
	if f.Selector == "" {
		return nil
	}
	if f.selector, err = ParseSelector(f.Selector); err != nil {
		return fmt.Errorf("/selector: %w", err)
	}
	return nil
}

// checkFreeze checks a freeze's document.
func checkFreeze(c *checker, f *freeze) {
	c.dnsSubdomain("/id", f.ID)
	if f.ID == emergencyStop && f.isRecurring() {
		c.problem("/id", "%q is reserved for a freeze without windows, so that an emergency stop finds it free", f.ID)
	}
	if f.ID == emergencyStop && !f.All {
		c.problem("/id", "%q is reserved for a freeze of all clusters, so that an emergency stop finds it free", f.ID)
	}
	c.text("/reason", f.Reason, 1024)
	if f.Reason == "" {
		c.problem("/reason", "is required: the error of each refused change states it")
	}
	if f.All == (strings.TrimSpace(f.Selector) != "") {
		c.problem("/selector", "exactly one of selector (not empty) and all is required")
	}
	if f.Selector != "" && !slices.ContainsFunc(c.next.All(KindCluster), func(d *Document) bool { return f.matches(d.Cluster()) }) {
		c.warn("freeze %q matches no cluster", f.ID)
	}
	checkWindows(c, "allow", f.Allow, true)
	checkWindows(c, "block", f.Block, true)
	if len(c.problems) == 0 {
		checkStoredZones(c, "allow", f, f.Allow)
		checkStoredZones(c, "block", f, f.Block)
		checkOpens(c, f)
	}
	switch {
	case f.From != nil && f.Until != nil && !f.From.Before(*f.Until):
		c.problem("/until", "must be later than from")
	case f.Until != nil && !c.next.At().Before(*f.Until):
		c.warn("freeze %q has ended already, at %s", f.ID, f.Until.UTC().Format(time.RFC3339))
	}
}
