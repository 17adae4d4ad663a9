package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

const (
	defaultRevisions = 100
	summaryChanges   = 20
	defaultChanges   = 1000 // of one revision, which may have changed a whole fleet
)

func (s *Server) ListRevisions(c echo.Context, p api.ListRevisionsParams) error {
	if requestOf(c).watch {
		return s.watchRevisions(c, p)
	}
	if p.Wait != nil {
		return fleet.Invalid([]fleet.Problem{{Detail: "query parameter wait: requires after"}})
	}
	st, err := s.state(c)
	if err != nil {
		return err
	}
	q := store.HistoryQuery{
		Kind: fleet.Kind(value(p.Kind)), ID: value(p.ID), Actor: value(p.Actor),
		Since: value(p.Since), Until: value(p.Until), Limit: defaultRevisions,
	}
	if p.Limit != nil {
		q.Limit = *p.Limit
	}
	if q.ID != "" && q.Kind == "" {
		return fleet.Invalid([]fleet.Problem{{Detail: "query parameter id: requires kind"}})
	}
	if q.Before, err = cursorOf(p.Cursor); err != nil {
		return err
	}
	if st.Limited() {
		return s.listVisibleRevisions(c, st, q)
	}
	summaries, err := s.cfg.History.Summaries(c.Request().Context(), q, 1+summaryChanges)
	if err != nil {
		return err
	}
	out := make([]api.RevisionSummary, len(summaries))
	for i, sum := range summaries {
		out[i] = revisionSummary(sum)
	}
	if value(p.Clusters) {
		if err := s.addClusterCounts(c, st, out, value(p.Counted)); err != nil {
			return err
		}
	}
	if len(out) == q.Limit {
		linkBefore(c, fleet.Revision(out[len(out)-1].Revision))
	}
	return s.sendBuffered(c, response.List{N: len(out), Item: func(i int) any { return out[i] }})
}

// cursorOf returns the revision before which a page ends; 0: there is no cursor.
func cursorOf(cursor *string) (fleet.Revision, error) {
	if cursor == nil {
		return 0, nil
	}
	before, err := strconv.ParseInt(*cursor, 10, 64)
	if err != nil || before < 1 {
		return 0, fleet.Invalid([]fleet.Problem{{Detail: "query parameter cursor: must be from a Link header of this API"}})
	}
	return fleet.Revision(before), nil
}

// linkBefore links to the page of revisions before one.
func linkBefore(c echo.Context, rev fleet.Revision) {
	response.LinkNext(c, url.Values{"cursor": {strconv.FormatInt(int64(rev), 10)}})
}

// revision returns the summary of one revision.
func (s *Server) revision(ctx context.Context, st *fleet.State, revision int64) (store.Summary, error) {
	found, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Before: fleet.Revision(revision) + 1, Limit: 1}, 1+summaryChanges)
	switch {
	case err != nil:
		return store.Summary{}, err
	case len(found) == 0 && revision > 0 && fleet.Revision(revision) <= st.Revision():
		return store.Summary{}, fmt.Errorf("%w: revision %d", store.ErrCompacted, revision)
	case len(found) == 0:
		return store.Summary{}, &fleet.Error{Code: fleet.CodeNotFound, Detail: fmt.Sprintf("there is no revision %d", revision)}
	case found[0].Revision != fleet.Revision(revision):
		return store.Summary{}, &fleet.Error{Code: fleet.CodeNotFound, Detail: fmt.Sprintf("there is no revision %d; the newest is %d", revision, found[0].Revision)}
	}
	return found[0], nil
}

func (s *Server) GetRevision(c echo.Context, revision int64, p api.GetRevisionParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	found, err := s.revision(ctx, st, revision)
	if err != nil {
		return err
	}
	if st.Limited() {
		return s.getVisibleRevision(c, st, found, p)
	}
	commit, hidden := found.WithoutBudget()
	offset, limit := value(p.Offset), defaultChanges
	if p.Limit != nil {
		limit = *p.Limit
	}
	changes, err := s.cfg.History.Changes(ctx, fleet.Revision(revision), hidden+offset, limit)
	if err != nil {
		return err
	}
	linkChanges(c, offset, limit, len(changes), commit.Count)
	out, err := s.revisionDetail(ctx, commit, changes)
	if err != nil {
		return err
	}
	return s.sendBuffered(c, out)
}

// linkChanges sets the headers of a page of changes.
func linkChanges(c echo.Context, offset, limit, n, total int) {
	c.Response().Header().Set(response.HeaderTotalCount, strconv.Itoa(total))
	if next := offset + n; n > 0 && next < total {
		response.LinkNext(c, url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(next)}})
	}
}

// revisionDetail returns a revision with some of its changes.
func (s *Server) revisionDetail(ctx context.Context, commit store.Summary, changes []fleet.Change) (out api.RevisionDetail, err error) {
	out = api.RevisionDetail{
		Revision: int64(commit.Revision), CommitID: commit.ID, At: commit.At, Actor: commit.Actor, Author: commit.Author,
		Reason: commit.Reason, Summary: commit.Summary(changedNames(commit), commit.Count), RequestID: commit.RequestID,
		ChangeCount: commit.Count, Changes: []api.RevisionChange{}, Operations: []api.RevisionOperation{},
	}
	if ops, more, unchanged := commit.Requested(); len(ops) > 0 {
		out.Operations, out.MoreOperations, out.UnchangedOperations = ops, more, unchanged
	}
	if out.UndoneBy, err = s.undoneBy(ctx, commit); err != nil {
		return out, err
	}
	return out, addChanges(&out, changes)
}

// addChanges adds changes to a revision, as the API shows them.
func addChanges(out *api.RevisionDetail, changes []fleet.Change) error {
	for _, ch := range changes {
		before, after, err := ch.Public()
		if err != nil {
			return err
		}
		out.Changes = append(out.Changes, api.RevisionChange{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action(), Before: before, After: after})
	}
	return nil
}

// undoneDocuments and undoneRevisions bound the search for the revision that reverted another one.
const (
	undoneDocuments = 3
	undoneRevisions = 100 // with a change of one of these documents
)

// undoneBy returns the newest revision that reverted a commit, and nil if it finds none. A revert changes documents of the reverted revision,
// so their histories are searched. It may keep some of them, so more than one is.
func (s *Server) undoneBy(ctx context.Context, commit store.Summary) (*int64, error) {
	for _, ch := range commit.First[:min(len(commit.First), undoneDocuments)] {
		since, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Kind: ch.Kind, ID: ch.ID, Since: commit.At, Limit: undoneRevisions}, 1)
		if err != nil {
			return nil, err
		}
		for _, later := range since {
			if later.Revision > commit.Revision && slices.Contains(later.Reverts(), int64(commit.Revision)) {
				return new(int64(later.Revision)), nil
			}
		}
	}
	return nil, nil //nolint:nilnil // no revision reverted it
}

func revisionSummary(commit store.Summary) api.RevisionSummary {
	from, _ := commit.WithoutBudget()
	return from.PublicSummary(changedNames(from), from.Count)
}

// changedNames returns the first documents that a commit changed.
func changedNames(from store.Summary) []api.ChangeRef {
	refs := []api.ChangeRef{}
	for _, ch := range from.First[:min(len(from.First), summaryChanges)] {
		refs = append(refs, api.ChangeRef{Kind: string(ch.Kind), ID: ch.ID, Action: ch.Action})
	}
	return refs
}

// asOf answers with a document at a revision.
func (s *Server) asOf(c echo.Context, kind fleet.Kind, id string, revision int64) error {
	st, err := s.stateOf(c, revision)
	if err != nil {
		return err
	}
	rev := fleet.Revision(revision)
	rec, found, err := s.cfg.History.At(c.Request().Context(), kind, id, rev)
	if err != nil {
		return err
	}
	if !found || !st.Shows(fleet.Change{Kind: kind, ID: id, After: rec.Body}) {
		return &fleet.Error{Code: fleet.CodeNotFound, Detail: fmt.Sprintf("there was no %s %q at revision %d", kind, id, revision)}
	}
	doc, err := fleet.NewDocument(rec)
	if err != nil {
		return err
	}
	c.Response().Header().Set(response.HeaderETag, doc.ETag())
	return response.WriteJSON(c, http.StatusOK, doc.View())
}

// history lists the revisions that changed one document.
func (s *Server) history(c echo.Context, kind fleet.Kind, id string, p historyParams) error {
	k := string(kind)
	return s.ListRevisions(c, api.ListRevisionsParams{Kind: &k, ID: &id, Since: p.since, Until: p.until, Limit: p.limit, Cursor: p.cursor})
}
