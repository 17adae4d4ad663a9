package fleet

import (
	"errors"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Run runs the operations in order. Problems of all operations are reported together, with the operation's index in the
// pointer; if all have the same code, the error has that code too.
func (b *Batch) Run(ops []api.Operation) ([]api.OperationResult, error) {
	return b.RunParsed(ops, make([]map[string]any, len(ops)))
}

// RunParsed is Run with the parsed documents and patches of the operations, which it does not change; nil: there is none, or
// it is not parsed.
func (b *Batch) RunParsed(ops []api.Operation, bodies []map[string]any) ([]api.OperationResult, error) {
	results := make([]api.OperationResult, len(ops))
	var failed failures
	partial := false         // a revert with conflicts made the edits without
	refused, detail := 0, "" // operations; and the text of one whose error says more than its problems
	for i, op := range ops {
		if err := b.stopped(); err != nil {
			return nil, err
		}
		b.tx.changedByOperation = map[docKey]bool{}
		docs, clusters, err := b.runOne(op, bodies[i])
		if _, _, one := b.subject(op); one && err == nil && len(docs) == 1 {
			b.single[i] = docs[0]
		}
		for _, d := range docs {
			b.touched[docKey{d.Kind, d.ID}] = i
		}
		results[i] = api.OperationResult{Op: op.Op, Clusters: clusters, Documents: len(docs)}
		if err == nil {
			if !slices.Contains(documentOperations, op.Op) {
				b.recordBatchOperation(op, docs, clusters)
			}
			continue
		}
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return nil, err
		}
		failed.add(e.Code, b.locateProblems(i, op, e)...)
		if refused++; len(e.Problems) > 0 && e.Detail != summarizeProblems(e.Problems) {
			detail = jsontext.Pointer("operations", i) + ": " + e.Detail
		}
		partial = partial || e.Code == CodeRevertConflict
	}
	if len(failed.problems) > 0 && !partial {
		// Problems that validation finds in the successful operations are reported together with the failed operations.
		b.tx.Guard(Guard{Off: true})
		if _, err := b.tx.Finish(Commit{}); err != nil {
			if e, ok := errors.AsType[*Error](b.Locate(ops, err)); ok && e.Code == CodeInvalid {
				failed.add(e.Code, e.Problems...)
			}
		}
	}
	err := failed.err()
	if e, ok := errors.AsType[*Error](err); ok && refused == 1 && detail != "" {
		e.Detail = detail
	}
	return results, err
}

// runOne runs one operation. It returns the documents that it touched and the number of clusters it was applied to.
func (b *Batch) runOne(op api.Operation, body map[string]any) ([]*Document, int, error) {
	if err := b.match(op); err != nil {
		return nil, 0, err
	}
	switch {
	case op.Mode != "" && (op.Op != "delete" || Kind(op.Kind) != KindCluster): // orphan is the opposite of uninstalling, so it must not be ignored
		return nil, 0, Invalid([]Problem{{Detail: "mode: is for delete of kind cluster"}})
	case slices.Contains(documentOperations, op.Op):
		doc, err := b.document(op, body)
		if err != nil {
			return nil, 0, err
		}
		return []*Document{doc}, 0, nil
	case op.Op == "restore":
		docs, err := b.restore(op)
		return docs, 0, err
	case op.Op == "revert":
		docs, err := b.revert(op)
		return docs, 0, err
	}
	if op.Op == "adopt" {
		docs, err := b.adoptInto(op)
		return docs, 0, err
	}
	if len(op.Layers) > 0 {
		docs, err := b.onLayers(op)
		return docs, 0, err
	}
	apply, err := b.clusterOperation(op)
	if err != nil {
		return nil, 0, err
	}
	targets, named, err := b.targets(op)
	if err != nil {
		return nil, 0, err
	}
	docs, err := b.edit(targets, op, named, apply)
	if err != nil {
		return nil, 0, err
	}
	if len(docs) == 0 && !op.AllowEmpty {
		return nil, 0, Invalid([]Problem{{Detail: "applies to no cluster; set allow_empty to allow that"}})
	}
	return docs, len(docs), nil
}

// recordBatchOperation records an operation of a batch, with the number of clusters it was applied to; operations on
// documents record themselves.
func (b *Batch) recordBatchOperation(op api.Operation, docs []*Document, clusters int) {
	out := api.RevisionOperation{
		Op: op.Op, Clusters: clusters, Selector: truncate(op.Selector), All: op.All, Revision: op.Revision, Prefer: op.Prefer, FieldManager: truncate(op.FieldManager),
	}
	verb, definition, err := b.tx.verb(op)
	switch {
	case op.Op == "restore" || op.Op == "revert":
		if kind, err := b.tx.revertedKind(op); err == nil {
			out.Kind, out.ID = string(kind), op.ID
		}
	case err != nil:
	case definition != nil:
		out.Kind, out.ID = string(definition.kind), definition.idFrom(&op)
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
	for _, layer := range op.Layers[:min(len(op.Layers), maxRequestedIDs)] {
		out.Layers = append(out.Layers, truncate(layer))
	}
	out.LayerCount = len(op.Layers)
	if len(docs) == 0 {
		out.Unchanged = max(1, clusters, len(op.Layers))
	}
	changed, rest := b.splitByEffect(docs)
	b.tx.recordDone(doneOperation{out, changed, rest})
}

// splitByEffect splits the documents of an operation into the changed ones and the rest.
func (b *Batch) splitByEffect(docs []*Document) (changed, rest []docKey) {
	for _, doc := range docs {
		if key := (docKey{doc.Kind, doc.ID}); b.tx.changedByOperation[key] {
			changed = append(changed, key)
		} else {
			rest = append(rest, key)
		}
	}
	return changed, rest
}
