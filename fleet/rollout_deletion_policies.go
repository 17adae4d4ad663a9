package fleet

import (
	"encoding/json"
	"slices"
	"time"
)

// mayHaveHadVariant reports whether a rollout may have served another deletion policy of a document to a cluster so recently
// that the cluster may not have polled since: the rollout changed, or the cluster, which may have left a stage.
func (s *State) mayHaveHadVariant(cluster *Effective, doc *Document, now time.Time) bool {
	of := s.docs[KindCluster][cluster.id]
	for _, d := range s.docs[KindRollout] {
		r := d.rollout()
		if now.Sub(d.UpdatedAt) >= settleTime && (!r.open() || of == nil || now.Sub(of.UpdatedAt) >= settleTime) {
			continue
		}
		if slices.ContainsFunc(r.Changes, func(ch rolloutChange) bool {
			return ch.Kind == doc.Kind && ch.ID == doc.ID && ch.changesDeletionPolicy()
		}) {
			return true
		}
	}
	return false
}

// changedDeletionPolicy returns the id of a namespace whose deletion policy the rollout changes; empty: there is none.
func (r *rollout) changedDeletionPolicy() string {
	for _, ch := range r.Changes {
		if ch.Kind == KindNamespace && ch.changesDeletionPolicy() {
			return ch.ID
		}
	}
	return ""
}

// checkRolloutDeletions refuses to delete rollouts that mayHaveHadVariant still needs.
func (s *State) checkRolloutDeletions(edits []edit, now time.Time) error {
	for _, e := range edits {
		if e.kind != KindRollout || e.doc != nil {
			continue
		}
		d := s.docs[KindRollout][e.id]
		until := d.UpdatedAt.Add(settleTime)
		if namespace := d.rollout().changedDeletionPolicy(); namespace != "" && now.Before(until) {
			return errorf(CodeConflict, "rollout %q changed the deletion policy of the namespace %q, and clusters may not have polled since it ended: delete it after %s",
				e.id, namespace, until.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// changesDeletionPolicy reports whether a change gives a namespace another deletion policy. No other definition has one; that
// of a resource is its type's, which rollouts cannot change.
func (ch rolloutChange) changesDeletionPolicy() bool {
	var was, is struct {
		DeletionPolicy string `json:"deletion_policy"`
	}
	return json.Unmarshal(ch.Before, &was) != nil || json.Unmarshal(ch.After, &is) != nil || was != is
}
