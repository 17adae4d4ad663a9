package fleet

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

const (
	maxPins     = 100     // pinned clusters
	maxPinBytes = 8 << 20 // of all pins together
)

// OverduePins returns the pinned clusters whose until has passed, and the time since then. A commit has to unpin them, since no answer
// may depend on a clock.
func (s *State) OverduePins(at time.Time) map[string]time.Duration {
	overdue := map[string]time.Duration{}
	for id := range s.pinned {
		if p := s.docs[KindCluster][id].Cluster().Pinned; p != nil && p.Until != nil && !at.Before(*p.Until) {
			overdue[id] = at.Sub(*p.Until)
		}
	}
	return overdue
}

// addPins adds to the edits of a commit the pins of clusters that it pins, and the removal of those that it unpins. A pin has what the
// cluster is served before the commit, so that the commit does not change that.
func (tx *Tx) addPins(edits []edit) ([]edit, error) {
	n, size := 0, 0
	for _, e := range edits {
		if e.kind != KindCluster {
			continue
		}
		before, pinned := tx.base.docs[KindCluster][e.id], e.doc != nil && e.doc.Cluster().Pinned != nil
		if pinned == (tx.base.docs[KindPin][e.id] != nil) {
			continue
		}
		var doc *Document
		if pinned && (before == nil || before.Deleted()) {
			return nil, Invalid([]Problem{{Pointer: "/pinned", Kind: KindCluster, ID: e.id, Detail: "a new cluster is served nothing yet that a pin could keep: create it, and then pin it"}})
		}
		if pinned {
			p, err := tx.base.newPin(before)
			if err != nil {
				return nil, err
			}
			if doc, err = tx.kinds.newRecord(KindPin, e.id, p); err != nil {
				return nil, err
			}
			if n, size = n+1, size+len(doc.Body); n > maxPins || size > maxPinBytes {
				return nil, errorf(CodeLimitExceeded, "the change would pin more than %d clusters, or store more than %d bytes for them: pin fewer clusters", maxPins, maxPinBytes)
			}
		}
		tx.record(KindPin, e.id, doc)
		edits = append(edits, edit{KindPin, e.id, doc})
	}
	return edits, nil
}

// newPin returns what a cluster is served in this State.
func (s *State) newPin(d *Document) (*pin, error) {
	e := s.Effective(d)
	settings, err := s.kinds.settingsOf(e)
	if err != nil {
		return nil, err
	}
	out := &pin{ID: d.ID, Settings: settings, Definitions: []pinnedDefinition{}}
	for _, a := range s.kinds.lists {
		for id := range a.entries(e) {
			doc, ok := s.definition(e, a.kind, id)
			if !ok {
				return nil, errorf(CodeUnresolved, "cluster %q refers to the %s %q, which is not in the store", d.ID, a.rules.noun, id)
			}
			out.Definitions = append(out.Definitions, pinnedDefinition{a.kind, id, doc.Body, doc.CreatedAt, doc.UpdatedAt})
		}
	}
	return out, nil
}

// settingsOf returns the merged settings of a cluster as the body of a cluster document.
func (ks *kindSet) settingsOf(e *Effective) (json.RawMessage, error) {
	all, err := unstructured.FromValue(e.value)
	if err != nil {
		return nil, err
	}
	settings := map[string]any{"id": e.id}
	for _, field := range ks.settingsFields() {
		if v := all[field]; v != nil {
			settings[field] = v
		}
	}
	for _, a := range ks.lists[:ks.compiledCount] {
		unstructured.SetDefault(settings, a.field, []any{}) // a nil list would be unreadable
	}
	return jsontext.Canonical(settings)
}

// keepPin returns a former body of a document. That of a cluster has the pin of the present one: reverts and restores leave pins as they
// are.
func (tx *Tx) keepPin(kind Kind, id string, body json.RawMessage) (json.RawMessage, error) {
	var pinned *api.ClusterPin
	if now := tx.raw(kind, id); kind == KindCluster && now != nil {
		pinned = now.Cluster().Pinned
	}
	if kind != KindCluster || body == nil || pinned == nil && !jsontext.MayHaveKey(body, "pinned") {
		return body, nil
	}
	obj, err := unstructured.Decode(body)
	if err != nil {
		return nil, fmt.Errorf("cluster %q as it was: %w", id, err)
	}
	if delete(obj, "pinned"); pinned != nil && obj["deleted_at"] == nil {
		if obj["pinned"], err = unstructured.FromValue(pinned); err != nil {
			return nil, err
		}
	}
	return jsontext.Canonical(obj)
}
