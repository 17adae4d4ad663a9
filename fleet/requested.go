package fleet

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// The operations that a commit was requested to run, as the log keeps them beside the changes: a list of 200 updated
// clusters would not show that a component was deleted. Neither values of patches nor documents are recorded.

// maxRequestedBytes limits the size of that record in one commit: the log is read a thousand commits at a time.
const maxRequestedBytes = 4 << 10

// opApproved is the operation that records the use of an approval.
const opApproved = "approved"

const (
	maxRequestedFields = 10
	maxRequestedText   = 100 // characters of a selector, or of a field and its value
	maxRequestedIDs    = 3
)

// requested is the stored form of the requested operations. Those with an effect come first.
type requested struct {
	Operations []api.RevisionOperation `json:"operations"`
	// More is the number of further requested operations.
	More int `json:"more,omitempty"`
	// Unchanged is the number of all requested operations without an effect.
	Unchanged int `json:"unchanged,omitempty"`
}

// recordOperation records an operation, unless it is part of another one.
func (tx *Tx) recordOperation(op api.RevisionOperation) {
	tx.recordDone(doneOperation{RevisionOperation: op})
}

// recordDone is recordOperation, with the documents of the operation.
func (tx *Tx) recordDone(op doneOperation) {
	if tx.nested == 0 {
		tx.requested = append(tx.requested, op)
	}
}

// runOperation runs do, which may consist of several operations, and records it as one.
func (tx *Tx) runOperation(op api.RevisionOperation, do func() error) error {
	tx.nested++
	err := do()
	tx.nested--
	if err == nil {
		tx.recordOperation(op)
	}
	return err
}

// requestedOperations returns the operations that the Tx ran, as JSON of at most maxRequestedBytes; nil if there are none.
// changes are those of its commit.
func (tx *Tx) requestedOperations(changes []Change) (json.RawMessage, error) {
	if len(tx.requested) == 0 {
		return nil, nil
	}
	const first = 20
	changed := make(map[docKey]bool, len(changes))
	for _, ch := range changes {
		changed[docKey{ch.Kind, ch.ID}] = true
	}
	var effective, idle []api.RevisionOperation
	for _, ran := range tx.requested {
		op := ran.RevisionOperation
		if slices.Contains(documentOperations, op.Op) {
			if op.ID != "" && !changed[docKey{Kind(op.Kind), op.ID}] {
				op.Unchanged = 1
			}
			if op.Clusters > 0 && op.Cascade { // without clusters that an earlier operation had assigned it to
				op.Clusters = tx.base.Begin().countClustersWith(Kind(op.Kind), op.ID)
			}
		} else if len(ran.changed)+len(ran.rest) > 0 {
			op = ran.withLastingEffect(func(key docKey) bool {
				return changed[key] && (len(tx.requested) == 1 || tx.hasLastingChange(op, key))
			})
		}
		if hasEffect(op) {
			effective = append(effective, op)
		} else {
			idle = append(idle, op)
		}
	}
	all := append(effective, idle...)
	c := requested{Operations: all[:min(first, len(all))], Unchanged: len(idle)}
	for {
		c.More = len(all) - len(c.Operations)
		text, err := json.Marshal(c)
		if err != nil || len(text) <= maxRequestedBytes {
			return text, err
		}
		c.Operations = c.Operations[:len(c.Operations)-1]
	}
}

// withLastingEffect returns the operation with its final effect: lasting reports whether a change of a document lasts until
// the end.
func (o doneOperation) withLastingEffect(lasting func(docKey) bool) api.RevisionOperation {
	op := o.RevisionOperation
	var changed, rest []docKey
	for _, key := range o.changed {
		if lasting(key) {
			changed = append(changed, key)
		} else {
			rest = append(rest, key)
		}
	}
	rest = append(rest, o.rest...)
	switch {
	case len(changed) == 0:
		op.Unchanged = max(1, op.Clusters, op.LayerCount)
	case op.Clusters > 0 || op.LayerCount > 0 && op.Op != "adopt":
		op.Unchanged = len(rest)
	}
	var named []string
	for _, key := range slices.Concat(changed, rest)[:min(len(changed)+len(rest), maxRequestedIDs)] {
		named = append(named, key.id)
	}
	if op.Clusters > 0 && op.Selector == "" && !op.All {
		op.ClusterIds = named
	}
	if op.Unchanged > 0 && op.LayerCount > 0 {
		op.Layers = nil
		for _, layer := range named {
			op.Layers = append(op.Layers, truncate(layer))
		}
	}
	return op
}

// hasLastingChange reports whether a document keeps, in the end, part of an operation's change: a later operation of the
// batch may have undone it.
func (tx *Tx) hasLastingChange(op api.RevisionOperation, key docKey) bool {
	was, is := tx.base.docs[key.kind][key.id], tx.edits[key]
	if was == nil || is == nil {
		return true
	}
	if op.Op == "set_labels" {
		return !maps.Equal(was.Cluster().Labels, is.Cluster().Labels)
	}
	if op.Op == "reconcile" {
		return was.Cluster().ReconcileRequestedAt != is.Cluster().ReconcileRequestedAt
	}
	list := tx.descriptor(Kind(op.Kind))
	switch {
	case list == nil:
	case key.kind == KindCluster:
		if ids, _ := list.changedEntries(was.own, is.own); ids[op.ID] {
			return true
		}
		return list.overrides != nil && list.overrides.differ(was.Cluster(), is.Cluster(), op.ID) // without an entry: a layer assigns it
	case key.kind == KindLayer:
		return list.layerDiffers(was, is, op.ID)
	}
	return true
}

// hasEffect reports whether an operation changed any document.
func hasEffect(op api.RevisionOperation) bool {
	return op.Unchanged < max(1, op.Clusters, op.LayerCount)
}

// Requested returns the requested operations of a commit, those with an effect first, the number of further ones, and the
// number of all without an effect. It returns none for commits of versions that did not record them.
func (c Commit) Requested() (operations []api.RevisionOperation, more, unchanged int) {
	var stored requested
	if len(c.Operations) == 0 || json.Unmarshal(c.Operations, &stored) != nil { // written by a newer version: it is only for display
		return nil, 0, 0
	}
	return stored.Operations, stored.More, stored.Unchanged
}

// documentOperation returns an operation on one document, with the requested fields that it changed.
func documentOperation(op string, before, after *Document, body map[string]any) api.RevisionOperation {
	out := api.RevisionOperation{Op: op, Kind: string(after.Kind), ID: after.ID}
	if bytes.Equal(before.Body, after.Body) {
		out.Fields, out.Unchanged = fieldsOfObject(body), 1
		return out
	}
	var was, is map[string]json.RawMessage
	if json.Unmarshal(before.Body, &was) != nil || json.Unmarshal(after.Body, &is) != nil {
		return out // it is only for display
	}
	changed := maps.Clone(body)
	maps.DeleteFunc(changed, func(field string, _ any) bool { return bytes.Equal(was[field], is[field]) })
	out.Fields = fieldsOfObject(changed)
	return out
}

// fieldsOf returns the fields that a body changes, with short values.
func fieldsOf(body []byte) []string {
	obj, err := ParseObject(body)
	if err != nil {
		return nil
	}
	return fieldsOfObject(obj)
}

// fieldsOfObject is fieldsOf for a parsed body.
func fieldsOfObject(obj map[string]any) []string {
	var fields []string
	for _, name := range sortedKeys(obj) {
		if slices.Contains(readOnly, name) || name == "id" {
			continue
		}
		if len(fields) == maxRequestedFields {
			return append(fields, "…")
		}
		switch v := obj[name].(type) {
		case map[string]any, []any:
		case string:
			name += "=" + v
		default:
			if text, err := jsontext.Canonical(v); err == nil {
				name += "=" + string(text)
			}
		}
		fields = append(fields, truncate(name))
	}
	return fields
}

// pathsOf returns the paths of the values that a body changes.
func pathsOf(body []byte) []string {
	obj, err := ParseObject(body)
	if err != nil {
		return nil
	}
	var paths []string
	for _, path := range sortedKeys(obj) {
		if len(paths) == maxRequestedFields {
			return append(paths, "…")
		}
		paths = append(paths, truncate(path))
	}
	return paths
}

// truncate shortens a text to maxRequestedText characters.
func truncate(text string) string {
	if runes := []rune(text); len(runes) > maxRequestedText {
		return string(runes[:maxRequestedText]) + "…"
	}
	return text
}

// onCluster returns an operation on one cluster.
func onCluster(op, cluster string, kind Kind, id string, fields []string) api.RevisionOperation {
	return api.RevisionOperation{Op: op, Kind: string(kind), ID: id, Clusters: 1, ClusterIds: []string{cluster}, Fields: fields}
}

// countClustersWith returns the number of clusters that have a definition, or an entry of a resource type, from a layer or
// their own list.
func (tx *Tx) countClustersWith(kind Kind, id string) (n int) {
	a, whole := tx.descriptor(kind), kind == KindResourceType
	if whole {
		a = tx.descriptor(ResourceKind(id))
	}
	if a == nil {
		return 0
	}
	tx.each(KindCluster, func(d *Document) {
		if d.Deleted() {
			return
		}
		e := tx.effective(d)
		if _, has := a.enabled(e, id); has || whole && a.count(e) > 0 {
			n++
		}
	})
	return n
}
