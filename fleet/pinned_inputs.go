package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A pin keeps the merged settings of a cluster, and the definitions that these refer to, as they were before the commit that pinned
// the cluster. [State.Effective] returns them until a commit unpins it, so polls, plans, guards and all other readers need no special
// case. Validation uses [State.configured]: a change must be valid for the clusters once they are unpinned.

var pinKind = recordKind(KindPin, "pin", func() any { return new(pin) })

func (d *Document) pin() *pin { return d.value.(*pin) }

// settingsFields are the fields of a cluster that its inputs depend on.
func (ks *kindSet) settingsFields() []string {
	fields := []string{"cluster_name", "cluster_dns", "environment", "reconcile_requested_at", "patches", "resources"}
	for _, a := range ks.lists[:ks.compiledCount] {
		fields = append(fields, a.field)
	}
	return fields
}

// applyPins computes the configuration of the pinned clusters. It reuses the unchanged ones of an earlier State; before may be nil.
func (s *State) applyPins(before *State) (err error) {
	s.pinned = nil
	for id, d := range s.docs[KindPin] {
		doc := s.docs[KindCluster][id]
		if doc == nil || doc.Deleted() {
			continue
		}
		one := &pinnedCluster{pin: d, configured: s.configured(doc)}
		var was *pinnedCluster
		if before != nil && before.kinds == s.kinds {
			was = before.pinned[id]
		}
		var chain *layerChain
		switch {
		case was == nil || was.pin != d:
			if one.settings, chain, err = s.kinds.decodePin(d); err != nil {
				return fmt.Errorf("the pin of cluster %q cannot be read: %w", id, err)
			}
			one.served = s.kinds.withPin(one.configured, one.settings.own, chain)
		case was.configured == one.configured:
			one = was
		default:
			one.settings = was.settings
			one.served = s.kinds.withPin(one.configured, one.settings.own, was.served.chain)
		}
		if s.pinned == nil {
			s.pinned = map[string]*pinnedCluster{}
		}
		s.pinned[id] = one
	}
	return nil
}

// decodePin returns the settings of a cluster, and a chain without layers that has its definitions.
func (ks *kindSet) decodePin(d *Document) (settings *Document, chain *layerChain, err error) {
	p, v := d.pin(), &Overlay{docs: map[docKey]*Document{}}
	for _, stored := range p.Definitions {
		if ks.byKind[stored.Kind] == nil {
			continue // only in histories of other documents, which omit resource types: the resource type of a pinned input cannot be deleted
		}
		key := docKey{stored.Kind, stored.ID}
		if v.docs[key], err = ks.document(Record{Kind: stored.Kind, ID: stored.ID, Body: stored.Body, CreatedAt: stored.CreatedAt, UpdatedAt: stored.UpdatedAt}); err != nil {
			return nil, nil, err
		}
		v.docs[key].refers = false // it has the values already
	}
	if settings, err = ks.document(Record{Kind: KindCluster, ID: p.ID, Body: p.Settings}); err != nil {
		return nil, nil, err
	}
	for _, values := range settings.own.cluster.Patches {
		for path, value := range values {
			if string(value) == "null" { // a layer removes the path of the catalog
				values[path] = nil
			}
		}
	}
	return settings, &layerChain{key: "pin " + p.ID, patches: api.Patches{}, overlay: v}, nil
}

// withPin returns the current configuration of a cluster with the settings and definitions of its pin. Fields that do not affect
// inputs, such as labels and deletion protection, keep their current values.
func (ks *kindSet) withPin(configured, settings *Effective, chain *layerChain) *Effective {
	e := &Effective{id: configured.id, value: ks.copyValue(configured.value), bound: settings.bound, block: settings.block, answers: settings.answers, chain: chain}
	ks.copyFields(e.value, settings.value, ks.settingsFields())
	e.cluster = ks.cluster(e.value)
	return e
}

// servedChanges returns the clusters whose configuration changes through layers or pins, by id, without the clusters that are
// edited themselves. Their inputs may be the same.
func (s *State) servedChanges(before *State, edits []edit) []layerChange {
	changes := s.layerChanges(before, edits)
	if s.pinned == nil && before.pinned == nil {
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
	for _, pinned := range []map[string]*pinnedCluster{s.pinned, before.pinned} {
		for id := range pinned {
			add(id)
		}
	}
	slices.SortFunc(out, func(a, b layerChange) int { return strings.Compare(a.doc.ID, b.doc.ID) })
	return out
}

// pinnedError refuses to delete pinned clusters, or to serve them anything else.
func pinnedError(ids []string) *Error {
	problems := make([]Problem, len(ids))
	for i, id := range ids {
		problems[i] = Problem{Kind: KindCluster, ID: id, Detail: "is pinned"}
	}
	return &Error{Code: CodePinned, Problems: problems, Detail: fmt.Sprintf("pinned clusters would be deleted or served something else: %s; unpin them first", firstIDs(ids, 3))}
}
