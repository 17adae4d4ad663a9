package server

import (
	"context"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/history"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// historyParams select revisions of a history.
type historyParams struct {
	since, until *time.Time
	limit        *int
	cursor       *string
}

// servedHistory lists the revisions that changed a document or the inputs that clusters are served because of it.
func (s *Server) servedHistory(c echo.Context, of fleet.DocumentName, p historyParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if st.Limited() { // former inputs depend on documents that are not visible
		return s.history(c, of.Kind, of.ID, p)
	}
	before, err := cursorOf(p.cursor)
	if err != nil {
		return err
	}
	if before == 0 || before > st.Revision() {
		before = st.Revision() + 1
	}
	most := defaultRevisions
	if p.limit != nil {
		most = *p.limit
	}
	ctx := requestOf(c).job.Context()
	newest, err := s.newestBefore(ctx, p.until, before-1)
	if err != nil {
		return err
	}
	if p.until != nil && newest == 0 { // the log begins later
		return s.sendBuffered(c, response.List{})
	}
	before = min(before, newest+1)
	oldest, err := s.newestBefore(ctx, p.since, 0)
	if err != nil {
		return err
	}
	page, err := s.servedHistories.page(ctx, st, servedPage{of, before, most}, func() (history.Page, error) {
		return history.Served(ctx, st, of, before, most, &logReader{ctx: ctx, log: s.cfg.History})
	})
	if err != nil {
		return err
	}
	out, err := s.summarized(ctx, slices.DeleteFunc(slices.Clone(page.Revisions), func(rev history.ServedRevision) bool { return rev.Revision <= oldest }))
	if err != nil {
		return err
	}
	if page.Next > oldest+1 {
		linkBefore(c, page.Next)
	}
	return s.sendBuffered(c, response.List{N: len(out), Item: func(i int) any { return out[i] }})
}

// newestBefore returns the newest revision before a time, and without a time the given one.
func (s *Server) newestBefore(ctx context.Context, at *time.Time, without fleet.Revision) (fleet.Revision, error) {
	if at == nil {
		return without, nil
	}
	found, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Until: *at, Limit: 1}, 0)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0].Revision, nil
}

// servedHistories keeps pages of the served histories of components of the newest State: open views request them every few seconds, and
// each compares the component's input on all clusters.
type servedHistories struct {
	turn  chan struct{} // one is computed at a time
	of    fleet.Head
	known map[servedPage]history.Page
}

type servedPage struct {
	of     fleet.DocumentName
	before fleet.Revision
	limit  int
}

// maxServedHistories is the number of kept pages, which have at most 4 MiB of differences each, and usually some KiB.
const maxServedHistories = 8

func makeServedHistories() servedHistories { return servedHistories{turn: make(chan struct{}, 1)} }

// page returns a page of a State, which compute computes if it is not known.
func (h *servedHistories) page(ctx context.Context, st *fleet.State, key servedPage, compute func() (history.Page, error)) (history.Page, error) {
	if key.of.Kind != fleet.KindComponent {
		return compute()
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return history.Page{}, context.Cause(ctx)
	}
	if h.of != st.Head() {
		h.of, h.known = st.Head(), map[servedPage]history.Page{}
	}
	if page, known := h.known[key]; known {
		return page, nil
	}
	page, err := compute()
	if err == nil && len(h.known) < maxServedHistories {
		h.known[key] = page
	}
	return page, err
}

// summarized returns the summaries of revisions. It omits revisions that retention has removed meanwhile.
func (s *Server) summarized(ctx context.Context, revisions []history.ServedRevision) ([]api.RevisionSummary, error) {
	if len(revisions) == 0 {
		return nil, nil
	}
	served := make(map[fleet.Revision]history.ServedRevision, len(revisions))
	among := make([]fleet.Revision, len(revisions))
	for i, rev := range revisions {
		among[i], served[rev.Revision] = rev.Revision, rev
	}
	found, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Among: among, Limit: len(among)}, 1+summaryChanges)
	if err != nil {
		return nil, err
	}
	out := make([]api.RevisionSummary, len(found))
	for i, sum := range found {
		out[i] = revisionSummary(sum)
		out[i].Effect, out[i].Clusters = served[sum.Revision].Effect, served[sum.Revision].Clusters
	}
	return out, nil
}
