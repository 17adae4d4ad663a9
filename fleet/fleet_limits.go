package fleet

import (
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A limit of the whole fleet protects every process. One team that uses it up would block all others. So the documents within one access
// document may use only a share of it, and all identities with limits together leave a reserve for the others.

// fleetLimit limits the number or the size of documents in the fleet.
type fleetLimit struct {
	name string
	noun string
	max  int
	// everyone: this file enforces max for identities without limits too. Otherwise another check does, or none.
	everyone bool
	share    int    // percent of max for the documents within one access document; 0: there is no share
	kinds    []Kind // nil: all definitions
	// size returns how much of the limit a document uses at a time; nil: one.
	size func(d *Document, at time.Time) int
}

const (
	limitedShare = 25 // percent of a limit that the documents within one access document may use
	limitedTotal = 80 // percent of a limit that identities with limits may use together
)

var openRolloutLimit = fleetLimit{name: "open_rollouts", noun: "rollouts that are not completed or aborted", max: maxRollouts, everyone: true, share: limitedShare, kinds: []Kind{KindRollout}, size: openRolloutSize}

var fleetLimits = []fleetLimit{
	{name: "freezes", noun: "freezes that have not ended", max: maxFreezes, everyone: true, share: limitedShare, kinds: []Kind{KindFreeze}, size: freezeSize},
	{name: "stored_freezes", noun: "freezes, with those that have ended", max: maxStoredFreezes, share: limitedShare, kinds: []Kind{KindFreeze}, size: storedFreezeSize},
	{name: "pinned_clusters", noun: "pinned clusters", max: maxPins, everyone: true, share: limitedShare, kinds: []Kind{KindPin}},
	{name: "pin_bytes", noun: "bytes of pins", max: maxPinBytes, everyone: true, share: limitedShare, kinds: []Kind{KindPin}, size: func(d *Document, _ time.Time) int { return len(d.Body) }},
	openRolloutLimit,
	{name: "layers", noun: "layers", max: maxLayers, everyone: true, share: limitedShare, kinds: []Kind{KindLayer}},
	{name: "clusters", noun: "clusters", max: MaxInputs, share: limitedShare, kinds: []Kind{KindCluster}, size: clusterSize},
	// A team with most of the clusters must be able to label them, so its share is larger.
	{name: "cluster_list_bytes", noun: "bytes of the list of all clusters", max: MaxAnswerBytes, share: 2 * limitedShare, kinds: []Kind{KindCluster}, size: clusterEntrySize},
	{name: "strategies", noun: "strategies", max: maxStrategies, kinds: []Kind{KindStrategy}},
	{name: "definitions", noun: "components, namespaces, role bindings and resources", max: maxDefinitions, share: limitedShare},
	{name: "access_documents", max: maxAccess, kinds: []Kind{KindAccess}}, // only identities without limits change this kind and webhooks
	{name: "webhooks", max: maxWebhooks, kinds: []Kind{KindWebhook}},
	{name: "sources", max: maxSources, kinds: []Kind{KindSource}},
	{name: "policies", max: maxPolicies, kinds: []Kind{KindPolicy}},
}

// Limits that hold only for identities with limits.
const (
	maxStoredFreezes = 1_000 // ended freezes do not count as freezes, but they are stored
	maxStrategies    = 200
	maxDefinitions   = 20_000
)

// freezeSize excludes freezes of all clusters, so that nothing prevents an emergency stop.
func freezeSize(d *Document, at time.Time) int {
	if d.freeze().phase(at) == freezeEnded {
		return 0
	}
	return storedFreezeSize(d, at)
}

func storedFreezeSize(d *Document, _ time.Time) int {
	if d.freeze().All {
		return 0
	}
	return 1
}

func openRolloutSize(d *Document, _ time.Time) int {
	if d.rollout().open() {
		return 1
	}
	return 0
}

func clusterSize(d *Document, _ time.Time) int {
	if d.Deleted() {
		return 0
	}
	return 1
}

// clusterEntrySize returns the size of a cluster in the list of all clusters, at most a few bytes too large.
func clusterEntrySize(d *Document, _ time.Time) int {
	if d.Deleted() {
		return 0
	}
	text := func(s string) int {
		return len(s) + 5*strings.Count(s, "<") + 5*strings.Count(s, ">") + 5*strings.Count(s, "&") + strings.Count(s, `"`) + strings.Count(s, `\`)
	}
	c := d.Cluster()
	n := len(`{"id":"","cluster_name":"","cluster_dns":"","environment":"","labels":{}},`) + text(c.ID) + text(c.ClusterName) + text(c.ClusterDNS) + text(c.Environment)
	for k, v := range c.Labels {
		n += len(`"":"",`) + text(k) + text(v)
	}
	return n
}

// limitedMax returns how much identities with limits may use together.
func (l *fleetLimit) limitedMax() int { return l.max * limitedTotal / 100 }

// shareMax returns how much the documents within one access document may use: at least 2.
func (l *fleetLimit) shareMax() int { return max(2, l.max*l.share/100) }

func (l *fleetLimit) applies(kind Kind, ks *kindSet) bool {
	if l.kinds == nil {
		return ks.byKind[kind] != nil
	}
	return slices.Contains(l.kinds, kind)
}

func (l *fleetLimit) sizeOf(d *Document, at time.Time) int {
	switch {
	case d == nil:
		return 0
	case l.size == nil:
		return 1
	}
	return l.size(d, at)
}

// checkFleetLimits refuses a change that exceeds a limit of the fleet, or the part of it that the identity may use. It runs before the
// checks whose duration grows with the number of documents.
func (tx *Tx) checkFleetLimits(edits []edit, at time.Time) error {
	for i := range fleetLimits {
		l, growth := &fleetLimits[i], 0
		for _, e := range edits {
			if l.applies(e.kind, tx.kinds) {
				growth += l.sizeOf(e.doc, at) - l.sizeOf(tx.base.docs[e.kind][e.id], at)
			}
		}
		if growth <= 0 || !l.everyone && tx.scope == nil {
			continue
		}
		used := tx.usedOf(l, at, func(*Document) bool { return true })
		if l.everyone && used > l.max {
			return errorf(CodeLimitExceeded, "there would be %d %s; at most %d are possible", used, l.noun, l.max)
		}
		if err := tx.checkLimitedUse(l, at, used, used-growth); err != nil {
			return err
		}
	}
	return nil
}

// checkLimitedUse removes the grants that do not permit the use of a limit after the change, and refuses the change if none remains.
func (tx *Tx) checkLimitedUse(l *fleetLimit, at time.Time, used, before int) error {
	if tx.scope == nil {
		return nil
	}
	check := scopeCheck{tx: tx}
	err := errorf(CodeLimitExceeded, "%d %s are used, and from %d on the rest is reserved: delete some of yours, or ask a principal without limits", used, l.noun, l.limitedMax())
	kept := slices.DeleteFunc(slices.Clone(tx.scope.grants), func(g grant) bool {
		if g.On == nil {
			return false
		}
		if used > l.limitedMax() && before <= l.max { // above max, identities without limits have given up the reserve
			return true
		}
		if !g.limits(l) {
			return false
		}
		if n := tx.usedOf(l, at, func(d *Document) bool { return check.counts(g, d) }); n > l.shareMax() {
			err = errorf(CodeLimitExceeded, "there would be %d %s within the limits of access document %q; at most %d are possible: delete some of them, or ask a principal without limits", n, l.noun, g.ID, l.shareMax())
			return true
		}
		return false
	})
	if len(kept) == 0 && len(tx.scope.grants) > 0 {
		return err
	}
	tx.scope.grants = kept
	return nil
}

// usedOf returns how much of a limit the selected documents use after the edits.
func (tx *Tx) usedOf(l *fleetLimit, at time.Time, selects func(*Document) bool) (n int) {
	kinds := l.kinds
	if kinds == nil {
		for _, a := range tx.kinds.lists {
			kinds = append(kinds, a.kind)
		}
	}
	for _, kind := range kinds {
		tx.each(kind, func(d *Document) {
			if size := l.sizeOf(d, at); size > 0 && selects(d) {
				n += size
			}
		})
	}
	return n
}

// limits reports whether the access document selects some of the documents that a limit counts, so that it has a share of its own.
// An access document that selects all of them has no share.
func (a *access) limits(l *fleetLimit) bool {
	switch {
	case l.share == 0:
		return false
	case l.kinds == nil:
		return len(a.On.Components) > 0
	case slices.Contains(l.kinds, KindLayer):
		return a.limitsClusters() || len(a.On.Layers) > 0
	}
	return a.limitsClusters() || slices.Contains(l.kinds, KindRollout) && len(a.On.Components)+len(a.On.Layers) > 0
}

// counts reports whether a document uses the share of a grant. A rollout does if a subject of the grant runs it, since rollouts of several
// teams may be within the same limits. Any other document does if it is within the limits of the grant.
func (c scopeCheck) counts(g grant, d *Document) bool {
	if d.Kind == KindRollout {
		r := d.rollout()
		return slices.ContainsFunc(g.Subjects, func(sub api.AccessSubject) bool { return selectsPrincipal(sub, r.Principal, r.Identity) })
	}
	if d.Kind == KindPin {
		d = c.tx.raw(KindCluster, d.ID)
	}
	return d != nil && c.covers(g, d)
}

// selectsPrincipal reports whether a subject of an access document selects the principal of a rollout.
func selectsPrincipal(sub api.AccessSubject, principal string, identity *Subject) bool {
	if sub.Token != "" {
		return strings.HasPrefix(principal, tokenActor+sub.Token+" (")
	}
	if identity == nil || identity.Issuer != sub.Issuer {
		return false
	}
	return claimSubject{AccessSubject: sub}.selects(identity)
}

// checkLayerCostInScope keeps a reserve of the limits of layer entries. The entries of several layers depend on each other, so no access
// document has a share of them.
func (tx *Tx) checkLayerCostInScope(next *State) error {
	if tx.scope == nil || next.layers == nil || slices.ContainsFunc(tx.scope.grants, func(g grant) bool { return g.On == nil }) {
		return nil
	}
	var was layerCost
	if tx.base.layers != nil {
		was = tx.base.layers.cost
	}
	for i, l := range next.layerCostLimits() {
		if before := []int{was.chainEntries, was.mergedEntries}[i]; l.Used > l.Max*limitedTotal/100 && l.Used > before {
			return errorf(CodeLimitExceeded, "identities with limits may use %d of the %d %s of the fleet: remove entries from your layers, or ask a principal without limits", l.Max*limitedTotal/100, l.Max, l.Name)
		}
	}
	return nil
}

func (s *State) layerCostLimits() []api.FleetLimit {
	var cost layerCost
	if s.layers != nil {
		cost = s.layers.cost
	}
	return []api.FleetLimit{
		{Name: "layer_entries", Used: cost.chainEntries, Max: maxChainEntries, Reserved: maxChainEntries - maxChainEntries*limitedTotal/100},
		{Name: "merged_entries", Used: cost.mergedEntries, Max: maxMergedEntries, Reserved: maxMergedEntries - maxMergedEntries*limitedTotal/100},
	}
}

// Limits returns the limits of the whole fleet and how much of each is used at a time. In a State with only the visible
// documents, it counts only these.
func (s *State) Limits(at time.Time) []api.FleetLimit {
	tx := s.Begin()
	out := make([]api.FleetLimit, 0, len(fleetLimits)+2)
	for i := range fleetLimits {
		l := &fleetLimits[i]
		view := api.FleetLimit{Name: l.name, Used: tx.usedOf(l, at, func(*Document) bool { return true }), Max: l.max}
		if l.noun != "" {
			view.Reserved = l.max - l.limitedMax()
		}
		if l.share > 0 {
			view.Share = l.shareMax()
		}
		out = append(out, view)
	}
	return append(out, s.layerCostLimits()...)
}
