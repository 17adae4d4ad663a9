package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/parallel"
)

// Batch runs operations in one Tx and records which operation changed which document.
type Batch struct {
	tx      *Tx
	past    History
	touched map[docKey]int // index of the last operation that changed a document
	grown   atomic.Int64   // bytes that the operations have added to documents
	single  map[int]*Document

	directions directions // of the revisions that its reverts have read

	// CheckNew returns the problems of a document that a put creates; nil: there is no such check.
	CheckNew func(op api.Operation, body map[string]any) []Problem
}

// Base returns the State before the batch.
func (b *Batch) Base() *State { return b.tx.base }

// Document returns the document of an operation on one document, one cluster or one layer; nil: it is on others, or failed.
func (b *Batch) Document(i int) *Document { return b.single[i] }

// NewBatch prepares to run operations in a Tx.
func NewBatch(tx *Tx, past History) *Batch {
	return &Batch{tx: tx, past: past, touched: map[docKey]int{}, single: map[int]*Document{}, directions: directions{}}
}

// locateProblems prefixes the pointers of an operation's problems with the place of the operation in the request.
func (b *Batch) locateProblems(i int, op api.Operation, e *Error) []Problem {
	at := jsontext.Pointer("operations", i)
	if len(e.Problems) == 0 {
		return []Problem{{Pointer: at, Detail: e.Detail}}
	}
	var out []Problem
	for _, p := range e.Problems {
		switch {
		case p.Pointer == "":
		case op.Op == "patch" || op.Op == "put" && op.Patch != nil:
			p.Pointer = "/patch" + p.Pointer
		case op.Op == "create" || op.Op == "update" || op.Op == "put":
			p.Pointer = "/document" + p.Pointer
		case op.Op == "patch_values" || op.Op == "apply_values":
			p.Pointer = "/values" + p.Pointer
		}
		out = append(out, Problem{Pointer: at + p.Pointer, Detail: p.Detail, Kind: p.Kind, ID: p.ID})
	}
	return out
}

// Locate maps the problems that Finish found to the operations that touched the documents.
func (b *Batch) Locate(ops []api.Operation, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Problems) == 0 {
		return err
	}
	located := *e
	located.Problems = nil
	for _, p := range e.Problems {
		i, known := b.touched[docKey{p.Kind, p.ID}]
		if !known {
			located.Problems = append(located.Problems, p)
			continue
		}
		document := fmt.Sprintf("%s %q: ", b.tx.kinds.noun(p.Kind), p.ID)
		if ops[i].Document == nil && ops[i].Patch == nil && !strings.HasPrefix(p.Detail, document) {
			p = Problem{Detail: document + p.at(p.Pointer), Kind: p.Kind, ID: p.ID}
		}
		located.Problems = append(located.Problems, b.locateProblems(i, ops[i], &Error{Problems: []Problem{p}})...)
	}
	if e.Detail == summarizeProblems(e.Problems) { // otherwise it says more than the problems
		located.Detail = summarizeProblems(located.Problems)
	}
	return &located
}

// edit runs an edit on clusters and returns those it was applied to.
func (b *Batch) edit(targets []string, op api.Operation, named bool, apply clusterEdit) ([]*Document, error) {
	after, err := b.tryEdit(targets, apply)
	if err != nil {
		return nil, err
	}
	var docs []*Document
	var failed failures
	without := 0
	for i, id := range targets {
		err := after[i].err
		if errors.Is(err, errNotAssigned) {
			if !named {
				without++
				continue // the operation applies to the selected clusters that have the component
			}
			err = errorf(CodeInvalid, "component %q is not assigned", op.ComponentID)
		}
		if after[i].before == nil {
			failed.add(CodeNotFound, Problem{Detail: err.Error()})
			continue
		}
		if e, ok := errors.AsType[*Error](err); ok {
			if len(targets) == 1 && named {
				return nil, e // its pointers are those of the operation's values
			}
			if failed.add(e.Code, Problem{Detail: fmt.Sprintf("cluster %q: %s", id, e.Detail)}); len(failed.problems) >= maxBatchProblems {
				break
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		b.tx.recordEdited(after[i].before, after[i].doc)
		docs = append(docs, after[i].doc)
	}
	if without > 0 {
		b.tx.note("component %q is not assigned to %d of the %s selected: they stay as they are", op.ComponentID, without, plural(len(targets), "cluster"))
	}
	return docs, failed.err()
}

// outcome is the result of an edit on one cluster.
type outcome struct {
	before, doc *Document
	err         error
}

// tryEdit runs an edit on clusters, on all processors, without recording the results.
func (b *Batch) tryEdit(clusters []string, apply clusterEdit) ([]outcome, error) {
	out := make([]outcome, len(clusters))
	parallel.Each(len(clusters), func(i int) {
		if b.tx.work.stopped() != nil || b.grown.Load() > maxGrowth {
			return
		}
		o := &out[i]
		if o.before, o.err = b.tx.Get(KindCluster, clusters[i]); o.err != nil {
			return
		}
		if o.doc, o.err = b.tx.applyEdit(o.before, apply); o.err == nil {
			b.grown.Add(int64(len(o.doc.Body) - len(o.before.Body)))
		}
	})
	if b.grown.Load() > maxGrowth {
		return nil, errorf(CodeLimitExceeded, "the operations add more than %d MiB to the clusters: apply them in parts", maxGrowth>>20)
	}
	return out, b.stopped()
}

func (b *Batch) stopped() error {
	runtime.Gosched() // polls go first: a batch may take seconds
	return b.tx.work.stopped()
}

// maxGrowth limits the bytes that one batch may add to clusters: a few operations with large values could otherwise add
// gigabytes to a large fleet.
const maxGrowth = 64 << 20

// maxBatchProblems keeps the response readable if a batch fails on 10,000 clusters.
const maxBatchProblems = 100

// errNotAssigned: the operation changes an assignment that this cluster does not have.
var errNotAssigned = errors.New("not assigned")

// document runs an operation on one document.
func (b *Batch) document(op api.Operation, body map[string]any) (*Document, error) {
	kind, err := b.tx.kindOf(op)
	if err != nil {
		return nil, err
	}
	if !b.tx.kinds.useOf(kind).batch {
		return nil, Invalid([]Problem{{Pointer: "", Detail: "kind: is required"}})
	}
	if err := b.tx.checkAdminKind(kind); err != nil { // also if it changes nothing, since the answer would tell what the document has
		return nil, err
	}
	if len(op.ClusterIds) > 0 || op.Selector != "" || op.All || len(op.Layers) > 0 {
		return nil, Invalid([]Problem{{Detail: op.Op + " takes kind and id; not cluster_ids, selector, all or layers"}})
	}
	b.tx.Force(op.Force)
	defer b.tx.Force(false)
	if op.ID == "" && op.Op != "create" {
		return nil, Invalid([]Problem{{Detail: "id: is required"}})
	}
	if op.Op == "delete" {
		return b.tx.Delete(kind, op.ID, DeleteOptions{Cascade: op.Cascade, Orphan: op.Mode == "orphan"})
	}
	text, field := op.Document, "document"
	if op.Op == "patch" || op.Op == "put" && op.Patch != nil {
		text, field = op.Patch, "patch"
	}
	switch {
	case text == nil:
		return nil, Invalid([]Problem{{Detail: field + ": is required"}})
	case op.Op == "put" && op.Document != nil && op.Patch != nil:
		return nil, Invalid([]Problem{{Detail: "put takes document or patch, not both"}})
	}
	if body, err = parsedBody(text, body); err != nil {
		return nil, err
	}
	writes := b.tx.writesOf(kind)
	switch op.Op {
	case "create":
		doc, err := writes.create(body)
		if err == nil && op.ID != "" && op.ID != doc.ID {
			return nil, Invalid([]Problem{{Pointer: "/id", Detail: fmt.Sprintf("must be %q, as in the operation", op.ID)}})
		}
		return doc, err
	case "update":
		return writes.update(op.ID, body)
	case "patch":
		return writes.patch(op.ID, body)
	}
	return b.put(kind, op, body, writes)
}

// documentWrites are the ways to write a document of a kind.
type documentWrites struct {
	create        func(body map[string]any) (*Document, error)
	update, patch func(id string, body map[string]any) (*Document, error)
}

func (tx *Tx) writesOf(kind Kind) documentWrites {
	if kind == KindWebhook {
		return documentWrites{tx.CreateWebhook, tx.PutWebhook, tx.PatchWebhook}
	}
	return documentWrites{
		func(body map[string]any) (*Document, error) { return tx.CreateObject(kind, body) },
		func(id string, body map[string]any) (*Document, error) { return tx.PutObject(kind, id, body) },
		func(id string, body map[string]any) (*Document, error) { return tx.PatchObject(kind, id, body) },
	}
}

// put creates a document, or changes the given fields of an existing one. One that the principal may not read is created too, which
// fails as it does for create.
func (b *Batch) put(kind Kind, op api.Operation, body map[string]any, writes documentWrites) (*Document, error) {
	before := b.tx.raw(kind, op.ID)
	if before == nil || before.Deleted() || b.tx.hides(before) {
		if op.IfMatch != "" {
			return nil, b.tx.notFound(kind, op.ID)
		}
		if op.Patch != nil {
			body = jsontext.MergePatch(map[string]any{}, body).(map[string]any)
		}
		if _, given := body["id"]; !given {
			body = maps.Clone(body)
			body["id"] = op.ID
		}
		if body["id"] != op.ID {
			return nil, Invalid([]Problem{{Pointer: "/id", Detail: fmt.Sprintf("must be %q, as in the operation", op.ID)}})
		}
		if b.CheckNew != nil {
			if err := Invalid(b.CheckNew(op, body)); err != nil {
				return nil, err
			}
		}
		return writes.create(body)
	}
	change := writes.update
	if op.Patch != nil {
		change = writes.patch
	}
	doc, err := change(op.ID, body)
	if err == nil && op.IfAbsent && !bytes.Equal(before.Body, doc.Body) {
		err = errorf(CodeConflict, "the %s %q exists with other values", b.tx.kinds.noun(kind), op.ID)
	}
	return doc, err
}

// match checks the precondition of an operation. It is about the document before the batch.
func (b *Batch) match(op api.Operation) error {
	if op.IfAbsent && op.Op != "put" {
		return Invalid([]Problem{{Detail: "if_absent: is for put"}})
	}
	if op.IfMatch == "" {
		return nil
	}
	kind, id, one := b.subject(op)
	if !one {
		return Invalid([]Problem{{Detail: "if_match: is for an operation on one document, one cluster of cluster_ids or one layer"}})
	}
	return b.tx.Match(kind, id, op.IfMatch)
}

// subject returns the document of an operation on one; one is false for others.
func (b *Batch) subject(op api.Operation) (kind Kind, id string, one bool) {
	switch {
	case len(op.ClusterIds) == 1 && len(op.Layers) == 0:
		return KindCluster, op.ClusterIds[0], true
	case len(op.Layers) == 1 && len(op.ClusterIds) == 0:
		return KindLayer, op.Layers[0], true
	case op.Kind == "" || op.ID == "" && op.Op != "create":
		return "", "", false
	}
	kind, err := b.tx.kindOf(op)
	return kind, op.ID, err == nil
}

// parsedBody returns the parsed form of a text, which is given if it is known.
func parsedBody(text json.RawMessage, given map[string]any) (map[string]any, error) {
	if given != nil {
		return given, nil
	}
	return ParseObject(text)
}

// kindOf returns the kind that an operation names.
func (tx *Tx) kindOf(op api.Operation) (Kind, error) {
	kind := Kind(op.Kind)
	switch {
	case op.Kind != kindResource && op.Type != "":
		return "", Invalid([]Problem{{Detail: "type: is for kind resource"}})
	case op.Kind != kindResource:
		return kind, nil
	case op.Type == "":
		return "", Invalid([]Problem{{Detail: "type: is required"}})
	}
	if kind = ResourceKind(op.Type); tx.kinds.byName[kind] == nil {
		return "", tx.notFound(kind, op.ID)
	}
	return kind, nil
}

// targets returns the clusters of an operation, and whether the operation lists them one by one.
func (b *Batch) targets(op api.Operation) (ids []string, named bool, err error) {
	ways := 0
	for _, present := range []bool{len(op.ClusterIds) > 0, op.Selector != "", op.All} {
		if present {
			ways++
		}
	}
	if ways != 1 {
		return nil, false, Invalid([]Problem{{Detail: "exactly one of cluster_ids, selector (not empty) and all is required"}})
	}
	if len(op.ClusterIds) > 0 {
		ids = slices.Clone(op.ClusterIds)
		slices.Sort(ids)
		return slices.Compact(ids), true, nil
	}
	sel, err := ParseSelector(op.Selector)
	if err != nil {
		return nil, false, err
	}
	if !op.All && sel.selector.Empty() {
		return nil, false, Invalid([]Problem{{Detail: "selector: must not be empty; for every cluster, set all to true"}})
	}
	return b.tx.selected(sel), false, nil
}
