package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A pin keeps the merged settings of each of its clusters, and the definitions that these refer to, as they
// were when the freeze was created. [State.Effective] returns them until the freeze is deleted, so
// polls, plans, guards and all other readers need no special case. Validation uses [State.configured]: a change must be valid
// for the clusters once the freeze has ended.

// settingsFields are the fields of a cluster that its inputs depend on.
func (ks *kindSet) settingsFields() []string {
	fields := []string{"cluster_name", "cluster_dns", "environment", "reconcile_requested_at", "patches", "resources"}
	for _, a := range ks.lists[:ks.compiledCount] {
		fields = append(fields, a.field)
	}
	return fields
}

// applySnapshots computes the configuration of the clusters under pins. It reuses the unchanged ones of an
// earlier State; before may be nil.
func (s *State) applySnapshots(before *State) error {
	s.frozen = nil
	for _, d := range s.sorted(KindSnapshot, func(*Document) bool { return true }) {
		definitions := make([]*Document, len(d.snapshot().Definitions)) // decoded when a cluster needs them
		for i := range d.snapshot().Clusters {
			c := &d.snapshot().Clusters[i]
			doc := s.docs[KindCluster][c.ID]
			if doc == nil || doc.Deleted() || s.frozen[c.ID] != nil { // several freezes of a cluster keep the same configuration
				continue
			}
			one := &frozenCluster{snapshot: d, configured: s.configured(doc)}
			var was *frozenCluster
			if before != nil && before.kinds == s.kinds {
				was = before.frozen[c.ID]
			}
			var err error
			var chain *layerChain
			switch {
			case was == nil || was.snapshot != d:
				if one.settings, chain, err = s.kinds.decodeSnapshot(d, c, definitions); err != nil {
					return fmt.Errorf("the snapshot of freeze %q cannot be read: %w", d.ID, err)
				}
				one.served = s.kinds.withSnapshot(one.configured, one.settings.own, chain)
			case was.configured == one.configured:
				one = was
			default:
				one.settings = was.settings
				one.served = s.kinds.withSnapshot(one.configured, one.settings.own, was.served.chain)
			}
			if s.frozen == nil {
				s.frozen = map[string]*frozenCluster{}
			}
			s.frozen[c.ID] = one
		}
	}
	return nil
}

// decodeSnapshot returns the settings of a cluster, and a chain without layers that has its definitions.
func (ks *kindSet) decodeSnapshot(d *Document, c *snapshotCluster, definitions []*Document) (settings *Document, chain *layerChain, err error) {
	v := &Overlay{docs: map[docKey]*Document{}}
	for _, at := range c.Definitions {
		if at < 0 || at >= len(definitions) {
			return nil, nil, fmt.Errorf("there is no definition %d", at)
		}
		stored := &d.snapshot().Definitions[at]
		if ks.byKind[stored.Kind] == nil {
			continue // only in histories of other documents, which omit resource types: the resource type of a frozen input cannot be deleted
		}
		if definitions[at] == nil {
			if definitions[at], err = ks.document(Record{Kind: stored.Kind, ID: stored.ID, Body: stored.Body, CreatedAt: stored.CreatedAt, UpdatedAt: stored.UpdatedAt}); err != nil {
				return nil, nil, err
			}
		}
		v.docs[docKey{stored.Kind, stored.ID}] = definitions[at]
	}
	if settings, err = ks.document(Record{Kind: KindCluster, ID: c.ID, Body: c.Settings}); err != nil {
		return nil, nil, err
	}
	for _, values := range settings.own.cluster.Patches {
		for path, value := range values {
			if string(value) == "null" { // a layer removes the path of the catalog
				values[path] = nil
			}
		}
	}
	return settings, &layerChain{key: "freeze " + d.ID + " " + c.ID, patches: api.Patches{}, overlay: v}, nil
}

// withSnapshot returns the current configuration of a cluster with the settings and definitions of a snapshot. Fields that do not
// affect inputs, such as labels and deletion protection, keep their current values.
func (ks *kindSet) withSnapshot(configured, settings *Effective, chain *layerChain) *Effective {
	e := &Effective{id: configured.id, value: ks.copyValue(configured.value), bound: settings.bound, block: settings.block, answers: settings.answers, chain: chain}
	ks.copyFields(e.value, settings.value, ks.settingsFields())
	e.cluster = ks.cluster(e.value)
	return e
}

// servedChanges returns the clusters whose configuration changes through layers or freezes, by id, without the clusters that are
// edited themselves. Their inputs may be the same.
func (s *State) servedChanges(before *State, edits []edit) []layerChange {
	changes := s.layerChanges(before, edits)
	if s.frozen == nil && before.frozen == nil {
		return changes
	}
	seen := map[string]bool{}
	for _, e := range edits {
		seen[e.id] = seen[e.id] || e.kind == KindCluster
	}
	var out []layerChange
	add := func(id string) {
		was, is := before.docs[KindCluster][id], s.docs[KindCluster][id]
		if seen[id] || was == nil || is == nil {
			return
		}
		seen[id] = true
		if a, b := before.Effective(was), s.Effective(is); a != b {
			out = append(out, layerChange{is, a, b})
		}
	}
	for _, c := range changes {
		add(c.doc.ID)
	}
	for _, frozen := range []map[string]*frozenCluster{s.frozen, before.frozen} {
		for id := range frozen {
			add(id)
		}
	}
	slices.SortFunc(out, func(a, b layerChange) int { return strings.Compare(a.doc.ID, b.doc.ID) })
	return out
}
