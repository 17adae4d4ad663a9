package fleet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A variant is the document that clusters of started stages have in place of the stored one: the change of the rollout,
// merged into the stored document. So other fields of the document can change during the rollout.

// reindexRollouts computes the open rollouts after edits of another State. It returns CodeInRollout if a variant cannot be
// merged: then a write changes a field that a rollout changes. If the edits are committed already, the store holds content
// that must not be served; the error is logged then, and has no values. changed: the variants that clusters have may differ
// from those before.
func (s *State) reindexRollouts(before *State, edits []edit, committed bool) (changed bool, err error) {
	if before != nil {
		s.rollouts = before.rollouts
		if !before.rollouts.affectedBy(edits) {
			return false, nil
		}
		changed = before.rollouts != nil && len(before.rollouts.delivering) > 0
	} else if len(s.docs[KindRollout]) == 0 {
		return false, nil
	}
	s.rollouts = nil
	open := s.sorted(KindRollout, func(d *Document) bool { return d.rollout().open() })
	if len(open) == 0 {
		return changed, nil
	}
	s.rollouts = &openRollouts{open: open, delivering: s.sorted(KindRollout, func(d *Document) bool { return d.rollout().delivers() }), changed: map[docKey]bool{}}
	changed = changed || len(s.rollouts.delivering) > 0
	if len(s.rollouts.delivering) > 32 {
		return changed, fmt.Errorf("there are %d active rollouts; this version can read 32", len(s.rollouts.delivering))
	}
	for _, d := range open {
		for _, ch := range d.rollout().Changes {
			s.rollouts.changed[docKey{ch.Kind, ch.ID}] = true
		}
	}
	s.rollouts.all, err = s.kinds.overlayOf(s.stored, open, nil, map[rolloutMerge]*Document{})
	if err == nil {
		err = s.checkMergeOrder()
	}
	if committed {
		err = s.unmergeable(err)
	}
	return changed, err
}

// unmergeable replaces an error about the variants by one without values, which may be secrets.
func (s *State) unmergeable(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Problems) == 0 {
		return err
	}
	var fields []string
	for _, p := range e.Problems {
		fields = append(fields, fmt.Sprintf("%s of %s %q", p.Pointer, s.kinds.noun(p.Kind), p.ID))
	}
	return fmt.Errorf("the changes of the rollouts %s cannot be merged with the stored documents: %s", list(idsOf(s.rollouts.open)), list(fields))
}

// affectedBy reports whether edits may change variants.
func (o *openRollouts) affectedBy(edits []edit) bool {
	for _, e := range edits {
		if e.kind == KindRollout || o != nil && (o.changed[docKey{e.kind, e.id}] || e.kind == KindResourceType) {
			return true
		}
	}
	return false
}

// rolloutMerge is one change of a rollout, merged into a document. Sets of rollouts share the result: 20 rollouts can reach
// clusters in as many combinations as there are clusters.
type rolloutMerge struct {
	rollout *Document
	change  int
	now     *Document
}

// overlayOf returns the overlay of some rollouts over stored documents. known is an earlier one, which is reused if it is the
// same; merged are the results for other sets of rollouts over the same documents, to which it adds. With an error, the overlay
// lacks the documents that cannot be merged.
func (ks *kindSet) overlayOf(stored storedDocuments, rollouts []*Document, known *Overlay, merged map[rolloutMerge]*Document) (*Overlay, error) {
	v := &Overlay{rollouts: rollouts, docs: map[docKey]*Document{}}
	for _, d := range rollouts {
		for _, ch := range d.rollout().Changes {
			v.from = append(v.from, stored(ch.Kind, ch.ID))
			v.layers = v.layers || ch.Kind == KindLayer
		}
	}
	if known != nil && slices.Equal(known.rollouts, v.rollouts) && slices.Equal(known.from, v.from) {
		return known, nil
	}
	var failed failures
	for _, d := range rollouts {
		for i, ch := range d.rollout().Changes {
			key := docKey{ch.Kind, ch.ID}
			now := v.docs[key]
			if now == nil {
				now = stored(ch.Kind, ch.ID)
			}
			if now == nil {
				continue // see checkRolloutDocuments
			}
			merge := rolloutMerge{d, i, now}
			if doc := merged[merge]; doc != nil {
				v.docs[key] = doc
				continue
			}
			doc, conflicts, err := ks.variant(ch, now)
			if err == nil {
				err = inRollout(ks, d.ID, ch, conflicts)
			}
			if e, ok := errors.AsType[*Error](err); ok {
				failed.add(e.Code, e.Problems...)
				continue
			}
			if err != nil {
				return v, fmt.Errorf("rollout %q: %w", d.ID, err)
			}
			// The clusters have the variant since the last change of the rollout or the document, at the latest.
			doc.CreatedAt, doc.UpdatedAt = now.CreatedAt, later(d.UpdatedAt, now.UpdatedAt)
			v.docs[key], merged[merge] = doc, doc
		}
	}
	return v, failed.err()
}

// reachedBy returns the delivering rollouts that reach a cluster.
func (l *layerResolution) reachedBy(c *api.Cluster) (mask rolloutMask) {
	for i, r := range l.delivering {
		if r.rollout().reaches(c) {
			mask |= 1 << i
		}
	}
	return mask
}

// addOverlay computes the overlay of a set of rollouts, unless it is known. was has those of an earlier State; merged: see
// overlayOf.
func (l *layerResolution) addOverlay(ks *kindSet, stored storedDocuments, mask rolloutMask, was *layerResolution, merged map[rolloutMerge]*Document) (err error) {
	if mask == 0 || l.overlays[mask] != nil {
		return nil
	}
	var rollouts []*Document
	for i, r := range l.delivering {
		if mask&(1<<i) != 0 {
			rollouts = append(rollouts, r)
		}
	}
	l.overlays[mask], err = ks.overlayOf(stored, rollouts, was.overlays[mask], merged)
	return err
}
