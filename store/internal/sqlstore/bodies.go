package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// logRow is a change as the log keeps it.
type logRow struct {
	Revision                  fleet.Revision
	Kind                      fleet.Kind
	ID                        string
	HasBefore, HasAfter       bool // whether there was a document
	PackedBefore, PackedAfter []byte
	Sum                       int64
	Bytes                     int64
	Body                      []byte // the document, if this is its last change and no row has it complete
}

// fields are where a query for rowColumns puts them.
func (r *logRow) fields() []any {
	return []any{&r.Revision, &r.Kind, &r.ID, &r.HasBefore, &r.HasAfter, &r.PackedBefore, &r.PackedAfter, &r.Sum, &r.Bytes, &r.Body}
}

// scan reads a row of rowColumns.
func (r *logRow) scan(ctx context.Context, rows Rows) error {
	store.Touch(ctx)
	return rows.Scan(r.fields()...)
}

// rowColumns of rowTables are a logRow.
const (
	rowColumns = `c.revision, c.kind, c.id, c.before IS NOT NULL, c.after IS NOT NULL, c.packed_before, c.packed_after, c.sum, c.bytes, d.body`
	rowTables  = `changes c LEFT JOIN documents d ON c.after IS NOT NULL AND c.packed_after IS NULL
		AND d.kind = c.kind AND d.id = c.id AND d.revision = c.revision`
	// selectLaterChanges selects the changes of a document after a revision that are needed to compute the document at that
	// revision.
	selectLaterChanges = `SELECT ` + rowColumns + ` FROM ` + rowTables + `
		WHERE c.kind = $1 AND c.id = $2 AND c.revision > $3 AND c.revision <= coalesce((SELECT k.revision FROM changes k
			WHERE k.kind = $1 AND k.id = $2 AND k.revision > $3 AND (k.packed_after IS NOT NULL OR k.after IS NULL)
			ORDER BY k.revision LIMIT 1), 9223372036854775807)
		ORDER BY c.revision`
)

// whole returns the document after the change; false if later changes are needed to compute it. nil: the document was removed.
func (r *logRow) whole() (after []byte, known bool, err error) {
	switch {
	case !r.HasAfter:
		return nil, true, nil
	case r.PackedAfter != nil:
		after, err = unpack(r.PackedAfter, nil)
	case r.Body != nil:
		after = r.Body
	default:
		return nil, false, nil
	}
	if err == nil {
		err = r.check(after)
	}
	return after, true, err
}

func (r *logRow) check(after []byte) error {
	if sum(after) != r.Sum {
		return fmt.Errorf("%w: revision %d of %s %q is not what the log says", store.ErrCorrupt, r.Revision, r.Kind, r.ID)
	}
	return nil
}

// found returns the document before the change, given the one after it.
func (r *logRow) found(after []byte) ([]byte, error) {
	if !r.HasBefore {
		return nil, nil
	}
	before, err := unpack(r.PackedBefore, after)
	if err != nil {
		err = fmt.Errorf("before revision %d, %s %q: %w", r.Revision, r.Kind, r.ID, err)
	}
	return before, err
}

// bodies returns the changes that rows are, with their documents.
func bodies(ctx context.Context, tx Tx, rows []logRow) ([]fleet.Change, error) {
	afters := make([][]byte, len(rows))
	var open []*logRow
	var index []int
	for i := range rows {
		after, known, err := rows[i].whole()
		if err != nil {
			return nil, err
		}
		if afters[i] = after; !known {
			open, index = append(open, &rows[i]), append(index, i)
		}
	}
	if len(open) > 0 {
		chain, err := laterChanges(ctx, tx, open)
		if err != nil {
			return nil, err
		}
		w := newWalk(chain)
		for i, r := range open {
			if afters[index[i]], err = w.after(r); err != nil {
				return nil, err
			}
		}
	}
	changes := make([]fleet.Change, len(rows))
	for i := range rows {
		before, err := rows[i].found(afters[i])
		if err != nil {
			return nil, err
		}
		changes[i] = fleet.Change{Kind: rows[i].Kind, ID: rows[i].ID, Before: before, After: afters[i]}
	}
	return changes, nil
}

// changesOfRun adds the documents to rows that are successive changes of one document, newest first. newest is the document after the
// first of them.
func changesOfRun(rows []logRow, newest []byte) ([]fleet.Change, error) {
	changes := make([]fleet.Change, len(rows))
	after := newest
	for i := range rows {
		if err := rows[i].check(after); err != nil {
			return nil, err
		}
		before, err := rows[i].found(after)
		if err != nil {
			return nil, err
		}
		changes[i] = fleet.Change{Kind: rows[i].Kind, ID: rows[i].ID, Before: before, After: after}
		after = before
	}
	return changes, nil
}

// laterChanges returns the changes that are needed to compute the documents of some changes.
func laterChanges(ctx context.Context, tx Tx, of []*logRow) (all []logRow, err error) {
	keys := make([]Key, len(of))
	for i, r := range of {
		keys[i] = Key{Kind: r.Kind, ID: r.ID, Revision: r.Revision}
	}
	err = tx.EachKey(ctx, keys, selectLaterChanges, nil, scanRow(ctx, &all))
	return all, err
}

// walk finds bodies by going back from one that is whole.
type walk map[fleet.DocumentName][]*logRow // by revision

func newWalk(chain []logRow) walk {
	w := walk{}
	for i := range chain {
		k := fleet.DocumentName{Kind: chain[i].Kind, ID: chain[i].ID}
		w[k] = append(w[k], &chain[i])
	}
	for k, rows := range w {
		slices.SortFunc(rows, func(a, b *logRow) int { return cmp.Compare(a.Revision, b.Revision) })
		w[k] = slices.CompactFunc(rows, func(a, b *logRow) bool { return a.Revision == b.Revision })
	}
	return w
}

func (w walk) after(r *logRow) ([]byte, error) {
	rows := w[fleet.DocumentName{Kind: r.Kind, ID: r.ID}]
	first, _ := slices.BinarySearchFunc(rows, r.Revision+1, func(e *logRow, rev fleet.Revision) int { return cmp.Compare(e.Revision, rev) })
	for last := first; last < len(rows); last++ {
		body, known, err := rows[last].whole()
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		for i := last; i >= first; i-- {
			if body, err = rows[i].found(body); err != nil {
				return nil, err
			}
		}
		return body, r.check(body)
	}
	return nil, fmt.Errorf("%w: nothing says what %s %q was at revision %d", store.ErrCorrupt, r.Kind, r.ID, r.Revision)
}
