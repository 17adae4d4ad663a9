package fleet

import (
	"github.com/flux-resourceset/flux-resourceset/gen/api"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/summary"
)

// Summary describes a commit in one line: the requested operations with an effect, or the changed documents if the
// operations are unknown. changed is the first of count documents.
func (c Commit) Summary(changed []api.ChangeRef, count int) string {
	names := summary.Names(func(kind string) string {
		if a := compiledIn.descriptor(Kind(kind)); a != nil {
			return a.verbSuffix()
		}
		return kind
	})
	all, more, unchanged := c.Requested()
	var ops []api.RevisionOperation
	for _, op := range all {
		if hasEffect(op) {
			ops = append(ops, op)
		}
	}
	if len(ops) > 0 {
		return names.Operations(ops, more+len(all)-len(ops)-unchanged)
	}
	return names.Changes(changed, count)
}

// PublicSummary returns the commit as lists show it. changed are the first of count documents.
func (c Commit) PublicSummary(changed []api.ChangeRef, count int) api.RevisionSummary {
	return api.RevisionSummary{
		Revision: int64(c.Revision), CommitID: c.ID, At: c.At, Actor: c.Actor, Author: c.Author, Reason: c.Reason,
		RequestID: c.RequestID, ChangeCount: count, Changes: changed, Reverts: c.Reverts(), Summary: c.Summary(changed, count),
	}
}

// Reverts returns the revisions that the commit reverted as a whole.
func (c Commit) Reverts() (reverted []int64) {
	operations, _, _ := c.Requested()
	for _, op := range operations {
		if op.Op == "revert" && op.ID == "" { // with an id it reverted that document only
			reverted = append(reverted, op.Revision)
		}
	}
	return reverted
}
