package fleet

import (
	"encoding/json"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/wording"
)

// What a commit was asked for, as the log keeps it beside what that changed: a list of 200 clusters that were updated does
// not say that somebody has deleted a component. No value of a patch is kept, nor any document.

// maxCause is how many bytes of that one commit keeps: the log is read a thousand commits at a time.
const maxCause = 4 << 10

const (
	maxCauseFields = 10
	maxCauseText   = 100 // characters of a selector, or of a field and its value
	maxCauseIDs    = 3
)

// cause is what is stored.
type cause struct {
	Operations []api.RevisionOperation `json:"operations"`
	// More operations than those were asked for.
	More int `json:"more,omitempty"`
}

// did notes an operation, unless it is a part of another one.
func (tx *Tx) did(op api.RevisionOperation) {
	if tx.within == 0 {
		tx.done = append(tx.done, op)
	}
}

// as does what is one operation, whatever it consists of.
func (tx *Tx) as(op api.RevisionOperation, do func() error) error {
	tx.within++
	err := do()
	tx.within--
	if err == nil {
		tx.did(op)
	}
	return err
}

// cause is what the Tx was asked for, in as many bytes as a commit keeps.
func (tx *Tx) cause() (json.RawMessage, error) {
	if len(tx.done) == 0 {
		return nil, nil
	}
	const first = 20
	c := cause{Operations: slices.Clone(tx.done[:min(first, len(tx.done))])}
	for {
		c.More = len(tx.done) - len(c.Operations)
		text, err := json.Marshal(c)
		if err != nil || len(text) <= maxCause {
			return text, err
		}
		c.Operations = c.Operations[:len(c.Operations)-1]
	}
}

// Cause is what a commit was asked for, and how many operations more than those there were. Commits of earlier versions do
// not say.
func (c Commit) Cause() (operations []api.RevisionOperation, more int) {
	var stored cause
	if len(c.Operations) == 0 || json.Unmarshal(c.Operations, &stored) != nil { // of a newer version: it is only to be shown
		return nil, 0
	}
	return stored.Operations, stored.More
}

// Summary says in words what a commit was asked for, or what it changed where that is not known: changed are then the first
// of so many documents.
func (c Commit) Summary(changed []api.ChangeRef, count int) string {
	names := wording.Names(func(kind string) string {
		if a := compiledIn.assigned(Kind(kind)); a != nil {
			return a.stem()
		}
		return kind
	})
	if ops, more := c.Cause(); len(ops) > 0 {
		return names.Operations(ops, more)
	}
	return names.Changes(changed, count)
}

// fieldsOf names the fields that a body changes, with those values that are short.
func fieldsOf(body []byte) []string {
	obj, err := ParseObject(body)
	if err != nil {
		return nil
	}
	var fields []string
	for _, name := range sortedKeys(obj) {
		if slices.Contains(readOnly, name) || name == "id" {
			continue
		}
		if len(fields) == maxCauseFields {
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
		fields = append(fields, cut(name))
	}
	return fields
}

// pathsOf names the values that a body changes.
func pathsOf(body []byte) []string {
	obj, err := ParseObject(body)
	if err != nil {
		return nil
	}
	var paths []string
	for _, path := range sortedKeys(obj) {
		if len(paths) == maxCauseFields {
			return append(paths, "…")
		}
		paths = append(paths, cut(path))
	}
	return paths
}

func cut(text string) string {
	if runes := []rune(text); len(runes) > maxCauseText {
		return string(runes[:maxCauseText]) + "…"
	}
	return text
}

// onCluster is an operation on one cluster.
func onCluster(op, cluster string, kind Kind, id string, fields []string) api.RevisionOperation {
	return api.RevisionOperation{Op: op, Kind: string(kind), ID: id, Clusters: 1, ClusterIds: []string{cluster}, Fields: fields}
}

// noted is an operation of a batch as the log keeps it, with how many clusters it was applied to; those of documents note
// themselves.
func (b *Batch) noted(op api.Operation, docs []*Document, clusters int) {
	out := api.RevisionOperation{
		Op: op.Op, Clusters: clusters, Selector: cut(op.Selector), All: op.All, Revision: op.Revision, Prefer: op.Prefer, FieldManager: cut(op.FieldManager),
	}
	verb, definition, err := b.tx.verb(op)
	switch {
	case op.Op == "restore" || op.Op == "revert":
		if kind, err := b.tx.revertedKind(op); err == nil {
			out.Kind, out.ID = string(kind), op.ID
		}
	case err != nil:
	case definition != nil:
		out.Kind, out.ID = string(definition.kind), definition.operandOf(&op)
	}
	switch verb {
	case "assign", "set":
		if settings, err := settingsOf(op); err == nil {
			out.Fields = fieldsOf(settings)
		}
	case "values":
		out.Fields = pathsOf(op.Values)
	case "labels":
		out.Fields = pathsOf(op.Labels)
	}
	if clusters > 0 && op.Selector == "" && !op.All {
		for _, doc := range docs[:min(len(docs), maxCauseIDs)] {
			out.ClusterIds = append(out.ClusterIds, doc.ID)
		}
	}
	for _, layer := range op.Layers[:min(len(op.Layers), maxCauseIDs)] {
		out.Layers = append(out.Layers, cut(layer))
	}
	out.LayerCount = len(op.Layers)
	b.tx.did(out)
}
