package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// restore puts documents back to what they were, patch owners included.
func (b *Batch) restore(op api.Operation) ([]*Document, error) {
	base := b.tx.base.Revision()
	rev := Revision(op.Revision)
	switch {
	case rev < 1: // also when it was left out: revision 0 would be a fleet without anything
		return nil, Invalid([]Problem{{Detail: "revision: is required, and at least 1"}})
	case len(op.ClusterIds) > 0 || op.Selector != "" || op.All:
		return nil, Invalid([]Problem{{Detail: "restore takes kind and id, or everything; not cluster_ids, selector or all"}})
	case rev > base:
		return nil, errorf(CodeNotFound, "there is no revision %d", rev)
	case op.Kind != "" && !slices.Contains(b.tx.base.kinds.names(), Kind(op.Kind)):
		return nil, Invalid([]Problem{{Detail: fmt.Sprintf("kind: %q is nothing that can be restored", op.Kind)}})
	case (op.Kind == "") != (op.ID == ""):
		return nil, Invalid([]Problem{{Detail: "kind and id name one document together; leave out both to restore everything"}})
	}
	past, err := b.past(PastQuery{At: rev, UpTo: base, Kind: Kind(op.Kind), ID: op.ID})
	if err != nil {
		return nil, err
	}
	if op.ID != "" {
		_, changed := past[Kind(op.Kind)][op.ID]
		if _, exists := b.tx.base.docs[Kind(op.Kind)][op.ID]; !changed && !exists {
			return nil, errorf(CodeNotFound, "there was no %s %q at revision %d, and there is none now", b.tx.base.kinds.noun(Kind(op.Kind)), op.ID, rev)
		}
	}
	var docs []*Document
	for _, kind := range b.tx.base.kinds.names() {
		for _, id := range slices.Sorted(maps.Keys(past[kind])) {
			doc, err := b.tx.restore(kind, id, past[kind][id])
			if err != nil {
				return nil, err
			}
			if doc != nil {
				docs = append(docs, doc)
			}
		}
	}
	return docs, nil
}

// restore makes one document what it was; nil deletes it under the rules of Delete.
func (tx *Tx) restore(kind Kind, id string, body json.RawMessage) (*Document, error) {
	now := tx.raw(kind, id)
	if body == nil {
		if now == nil {
			return nil, nil
		}
		if now.Deleted() { // decommissioned since: it was not there at all
			tx.edits[docKey{kind, id}] = nil
			return now, nil
		}
		return tx.Delete(kind, id, DeleteOptions{})
	}
	was, err := tx.base.kinds.document(Record{Kind: kind, ID: id, Body: body})
	if err != nil {
		return nil, fmt.Errorf("%s %q as it was: %w", tx.base.kinds.noun(kind), id, err)
	}
	if was.Deleted() && now != nil && !now.Deleted() {
		return tx.Delete(kind, id, DeleteOptions{}) // under the rules of Delete: it may be protected
	}
	tx.edits[docKey{kind, id}] = was
	return was, nil
}
