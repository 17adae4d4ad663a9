package fleet

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
)

const (
	maxSnapshotClusters = 100     // of one freeze
	maxSnapshotBytes    = 8 << 20 // of all freezes together
)

// storeSnapshot stores the configuration of the clusters of a new pin, as it is before the change. The mode of
// a freeze never changes, nor do its clusters in this mode.
func (tx *Tx) storeSnapshot(before, freeze *Document) error {
	f := freeze.freeze()
	if before != nil {
		return before.freeze().checkUnchanged(f)
	}
	if f.Mode != freezeModePin || f.All == (f.Selector != "") { // Finish refuses the latter
		return nil
	}
	snapshot, err := tx.base.newSnapshot(f)
	if err != nil {
		return err
	}
	doc, err := tx.kinds.newRecord(KindSnapshot, f.ID, snapshot)
	if err != nil {
		return err
	}
	tx.record(KindSnapshot, f.ID, doc)
	return nil
}

// checkUnchanged refuses a change of the mode, and of the clusters of a pin.
func (f *freeze) checkUnchanged(next *freeze) error {
	var problems []Problem
	for _, field := range []struct {
		at     string
		differ bool
	}{
		{"/mode", f.Mode != next.Mode},
		{"/selector", f.Mode == freezeModePin && f.Selector != next.Selector},
		{"/all", f.Mode == freezeModePin && f.All != next.All},
	} {
		if field.differ {
			problems = append(problems, Problem{Pointer: field.at, Kind: KindFreeze, ID: f.ID, Detail: "never changes in mode pin: delete the pin, and create another one"})
		}
	}
	if len(problems) > 0 {
		return Invalid(problems)
	}
	return nil
}

// newSnapshot returns the configuration in this State of the clusters that a freeze selects. CodeInvalid if the freeze selects no
// clusters or too many, CodeLimitExceeded if all snapshots together would be too large.
func (s *State) newSnapshot(f *freeze) (*freezeSnapshot, error) {
	at := "/selector"
	if f.All {
		at = "/all"
	}
	clusters := slices.DeleteFunc(s.All(KindCluster), func(d *Document) bool { return !f.matches(d.Cluster()) })
	if n := len(clusters); n == 0 || n > maxSnapshotClusters {
		return nil, Invalid([]Problem{{Pointer: at, Kind: KindFreeze, ID: f.ID, Detail: fmt.Sprintf("selects %s; a pin has 1 to %d", plural(n, "cluster"), maxSnapshotClusters)}})
	}
	out := &freezeSnapshot{ID: f.ID, Definitions: []snapshotDefinition{}, Clusters: make([]snapshotCluster, len(clusters))}
	type version struct {
		docKey
		body string
	}
	known := map[version]int{}
	size := 0
	for _, d := range s.docs[KindSnapshot] {
		size += len(d.Body)
	}
	for i, d := range clusters {
		e := s.Effective(d)
		one := &out.Clusters[i]
		*one = snapshotCluster{ID: d.ID, Definitions: []int{}}
		var err error
		if one.Settings, err = s.kinds.settingsOf(e); err != nil {
			return nil, err
		}
		size += len(one.Settings)
		for _, a := range s.kinds.lists {
			for id := range a.entries(e) {
				doc, ok := s.definition(e, a.kind, id)
				if !ok {
					return nil, errorf(CodeUnresolved, "cluster %q refers to the %s %q, which is not in the store", d.ID, a.rules.noun, id)
				}
				key := version{docKey{a.kind, id}, string(doc.Body)}
				at, present := known[key]
				if !present {
					at = len(out.Definitions)
					known[key] = at
					out.Definitions = append(out.Definitions, snapshotDefinition{a.kind, id, doc.Body, doc.CreatedAt, doc.UpdatedAt})
					size += len(doc.Body)
				}
				one.Definitions = append(one.Definitions, at)
			}
		}
		if size > maxSnapshotBytes {
			return nil, &Error{
				Code: CodeLimitExceeded, Detail: fmt.Sprintf("the pins would store more than %d bytes: pin fewer clusters, or end another pin first", maxSnapshotBytes),
				Problems: []Problem{{Pointer: at, Kind: KindFreeze, ID: f.ID, Detail: fmt.Sprintf("has %s with large settings and definitions", plural(len(clusters), "cluster"))}},
			}
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
