package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// The history for principals whose right to read has limits. Whether a change is visible depends on both versions of the document, so
// the changes are read, up to these limits.
const (
	maxExaminedInList   = 200    // changes of one revision in a list
	maxExaminedInPage   = 5_000  // changes of a page of revisions
	maxExaminedInDetail = 20_000 // changes of one revision
	kindAny             = "any"  // of the changes that are not examined
)

// visibleChanges are the changes of a revision, without those that are not visible.
type visibleChanges struct {
	first    []api.ChangeRef // at most summaryChanges
	page     []fleet.Change
	count    int // of visible changes
	kinds    map[fleet.Kind]bool
	hidden   map[string]int // number of other changes by kind
	examined int
}

// visibleChanges examines the first changes of a revision. The page has the visible ones from offset on.
func (s *Server) visibleChanges(ctx context.Context, st *fleet.State, sum store.Summary, most, offset, limit int) (visibleChanges, error) {
	out := visibleChanges{hidden: map[string]int{}, kinds: map[fleet.Kind]bool{}}
	commit, internal := sum.WithoutBudget()
	for out.examined < min(commit.Count, most) {
		changes, err := s.cfg.History.Changes(ctx, sum.Revision, internal+out.examined, min(most-out.examined, defaultChanges))
		if err != nil {
			return out, err
		}
		if len(changes) == 0 {
			break
		}
		out.examined += len(changes)
		for _, ch := range changes {
			if err := context.Cause(ctx); err != nil {
				return out, err
			}
			if !st.Shows(ch) {
				out.hidden[st.HiddenKind(ch.Kind)]++
				continue
			}
			out.kinds[ch.Kind] = true
			if out.count++; len(out.first) < summaryChanges {
				out.first = append(out.first, api.ChangeRef{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action()})
			}
			if out.count > offset && len(out.page) < limit {
				out.page = append(out.page, ch)
			}
		}
	}
	if rest := commit.Count - out.examined; rest > 0 {
		out.hidden[kindAny] = rest
	}
	return out, nil
}

// hiddenChanges returns the numbers of hidden changes, sorted by kind.
func (v visibleChanges) hiddenChanges() (out []api.HiddenChanges) {
	for _, kind := range slices.Sorted(maps.Keys(v.hidden)) {
		out = append(out, api.HiddenChanges{Kind: kind, Count: v.hidden[kind]})
	}
	return out
}

// summary describes the visible changes of a revision that also has others.
func (v visibleChanges) summary() string {
	hidden := 0
	for _, n := range v.hidden {
		hidden += n
	}
	text := fmt.Sprintf("%d documents that you may not read", hidden)
	if hidden == 1 {
		text = "1 document that you may not read"
	}
	if v.count == 0 {
		return text
	}
	return fleet.Commit{}.Summary(v.first, v.count) + "; " + text
}

// visibleSummary returns a revision of a list as a State with limits permits to read it, and the examined changes. sum has at least
// its first change. A revision with changes that are not visible has no author, reason, request id and operations: they may describe
// these changes.
func (s *Server) visibleSummary(ctx context.Context, st *fleet.State, sum store.Summary) (api.RevisionSummary, visibleChanges, error) {
	v, err := s.visibleChanges(ctx, st, sum, maxExaminedInList, 0, 0)
	if err != nil || len(v.hidden) == 0 {
		return revisionSummary(withVisibleOperations(st, sum, v)), v, err
	}
	return api.RevisionSummary{
		Revision: int64(sum.Revision), CommitID: sum.ID, At: sum.At, Summary: v.summary(), ChangeCount: v.count,
		Changes: append([]api.ChangeRef{}, v.first...), Hidden: v.hiddenChanges(),
	}, v, nil
}

// withVisibleOperations removes the operations of a revision if they concern documents that are not visible.
func withVisibleOperations(st *fleet.State, sum store.Summary, v visibleChanges) store.Summary {
	if !st.ShowsOperations(sum.Commit, v.first) {
		sum.Operations = nil
	}
	return sum
}

// listVisibleRevisions is ListRevisions for a State with limits. With a kind, it lists the revisions with a visible change of it;
// with an actor, those without hidden changes. It filters after reading, because a filter of the store would reveal whether it
// found anything. So a page may have fewer revisions than requested, even none, and have a next page.
func (s *Server) listVisibleRevisions(c echo.Context, st *fleet.State, q store.HistoryQuery) error {
	ctx, page := requestOf(c).job.Context(), []api.RevisionSummary{}
	actor := q.Actor
	q.Actor = ""
	var next fleet.Revision
	if q.ID == "" || st.MayHaveHistory(q.Kind, q.ID) {
		found, err := s.cfg.History.Summaries(ctx, q, 1+summaryChanges)
		if err != nil {
			return err
		}
		examined := 0
		for i, sum := range found {
			visible, v, err := s.visibleSummary(ctx, st, sum)
			if err != nil {
				return err
			}
			matches, err := s.matchesQuery(ctx, st, sum.Revision, q, v)
			if err != nil {
				return err
			}
			if matches && (actor == "" || visible.Actor == actor) {
				page = append(page, visible)
			}
			if examined += v.examined; i+1 == q.Limit || examined > maxExaminedInPage && i+1 < len(found) {
				next = sum.Revision
				break
			}
		}
	}
	if next > 0 && (q.ID == "" || len(page) > 0) { // the deleted document of another principal has no next page either
		linkBefore(c, next)
	}
	return s.sendBuffered(c, response.List{N: len(page), Item: func(i int) any { return page[i] }})
}

// matchesQuery reports whether a revision has a visible change of the kind, and of the document, that a query names. v are its examined
// changes.
func (s *Server) matchesQuery(ctx context.Context, st *fleet.State, rev fleet.Revision, q store.HistoryQuery, v visibleChanges) (bool, error) {
	if q.ID == "" {
		return q.Kind == "" || v.kinds[q.Kind] || v.hidden[kindAny] > 0, nil
	}
	log, err := s.cfg.History.DocumentLog(ctx, fleet.DocumentLogQuery{Documents: []fleet.DocumentName{{Kind: q.Kind, ID: q.ID}}, Before: rev + 1, Limit: 1})
	return err == nil && len(log.Changes) > 0 && log.Changes[0].Revision == rev && st.Shows(log.Changes[0].Change), err
}

// getVisibleRevision is GetRevision for a State with limits.
func (s *Server) getVisibleRevision(c echo.Context, st *fleet.State, found store.Summary, p api.GetRevisionParams) error {
	ctx, offset, limit := requestOf(c).job.Context(), value(p.Offset), defaultChanges
	if p.Limit != nil {
		limit = *p.Limit
	}
	v, err := s.visibleChanges(ctx, st, found, maxExaminedInDetail, offset, limit)
	if err != nil {
		return err
	}
	linkChanges(c, offset, limit, len(v.page), v.count)
	commit, _ := withVisibleOperations(st, found, v).WithoutBudget()
	if len(v.hidden) == 0 {
		out, err := s.revisionDetail(ctx, commit, v.page)
		if err != nil {
			return err
		}
		return s.sendBuffered(c, out)
	}
	out := api.RevisionDetail{
		Revision: int64(commit.Revision), CommitID: commit.ID, At: commit.At, Summary: v.summary(), ChangeCount: v.count,
		Changes: []api.RevisionChange{}, Operations: []api.RevisionOperation{}, Hidden: v.hiddenChanges(),
	}
	if err := addChanges(&out, v.page); err != nil {
		return err
	}
	return s.sendBuffered(c, out)
}
