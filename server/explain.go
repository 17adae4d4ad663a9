package server

import (
	"context"
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/fleet/history"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// maxRevisions is the limit of revisions in one query of the store.
const maxRevisions = 1000

func (s *Server) ExplainCluster(c echo.Context, id string, p api.ExplainClusterParams) error {
	return s.explain(c, id, explained{pointer: value(p.Pointer), at: p.Revision})
}

func (s *Server) ExplainInput(c echo.Context, id, list, inputID string, p api.ExplainInputParams) error {
	return s.explain(c, id, explained{list: list, input: inputID, pointer: value(p.Pointer), at: p.Revision})
}

// explained selects the values of an explanation; see [history.Explain].
type explained struct {
	list, input, pointer string
	at                   *int64 // the revision as of which they are explained; nil: the newest
}

func (s *Server) explain(c echo.Context, id string, of explained) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	job := requestOf(c).job
	var doc *fleet.Document
	if of.at != nil {
		st, doc, err = s.clusterAt(c, id, *of.at)
	} else {
		doc, err = st.Find(fleet.KindCluster, id)
	}
	if err != nil {
		return err
	}
	out, err := history.Explain(job.Context(), st, doc, of.list, of.input, of.pointer)
	if err != nil {
		return err
	}
	if of.at == nil {
		err = s.attribute(job.Context(), st, &out)
	}
	if err != nil {
		if err := job.Interrupted(); err != nil {
			return err
		}
		s.cfg.Logger.WarnContext(c.Request().Context(), "the revisions of an explanation are left out", "error", err)
		response.AddWarnings(c, []string{"the history cannot be read at the moment: the revisions that set the values are left out"})
	}
	return s.sendBuffered(c, out)
}

// clusterAt returns a cluster as of a revision, with a State of the documents that determine its inputs.
func (s *Server) clusterAt(c echo.Context, id string, revision int64) (*fleet.State, *fleet.Document, error) {
	st, err := s.stateOf(c, revision)
	if err != nil {
		return nil, nil, err
	}
	if st.Limited() { // former inputs depend on documents that are not visible
		return nil, nil, errNeedsUnlimitedRead
	}
	ctx := requestOf(c).job.Context()
	return history.ClusterAt(st, id, fleet.Revision(revision), &logReader{ctx: ctx, log: s.cfg.History})
}

// attribute adds to an explanation the revisions that set the values, with their times and actors.
func (s *Server) attribute(ctx context.Context, st *fleet.State, out *api.Explanation) error {
	if err := history.Blame(ctx, st, out, &logReader{ctx: ctx, log: s.cfg.History}); err != nil {
		return err
	}
	sources := valueSources(*out)
	revisions := map[fleet.Revision]bool{}
	for _, source := range sources {
		if source.Revision > 0 {
			revisions[fleet.Revision(source.Revision)] = true
		}
	}
	commits := make(map[int64]fleet.Commit, len(revisions))
	for among := range slices.Chunk(slices.Sorted(maps.Keys(revisions)), maxRevisions) {
		found, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Among: among, Limit: len(among)}, 0)
		if err != nil {
			return err
		}
		for _, commit := range found {
			commits[int64(commit.Revision)] = commit.Commit
		}
	}
	for _, source := range sources {
		if commit, known := commits[source.Revision]; known {
			if source.At = &commit.At; !st.Limited() { // the revision may have changed other documents too
				source.Actor, source.Author = commit.Actor, commit.Author
			}
		}
	}
	return nil
}

// valueSources returns all documents and values of an explanation.
func valueSources(out api.Explanation) []*api.ValueSource {
	var sources []*api.ValueSource
	for i := range out.Inputs {
		for j := range out.Inputs[i].Values {
			v := &out.Inputs[i].Values[j]
			sources = append(sources, history.Sources(v)...)
		}
	}
	return sources
}
