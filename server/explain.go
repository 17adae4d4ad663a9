package server

import (
	"context"
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// maxExplained is how many revisions are looked up for one explanation, which takes one question to the store: the newest.
const maxExplained = 1000

func (s *Server) ExplainCluster(c echo.Context, id string, p api.ExplainClusterParams) error {
	return s.explain(c, id, "", "", value(p.Pointer))
}

func (s *Server) ExplainInput(c echo.Context, id, list, inputID string, p api.ExplainInputParams) error {
	return s.explain(c, id, list, inputID, value(p.Pointer))
}

func (s *Server) explain(c echo.Context, id, list, inputID, pointer string) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	doc, err := st.Find(fleet.KindCluster, id)
	if err != nil {
		return err
	}
	job := requestOf(c).job
	out, err := st.Explain(job.ctx, doc, list, inputID, pointer)
	if err != nil {
		return err
	}
	if err := s.nameActors(job.ctx, out); err != nil {
		s.cfg.Logger.WarnContext(c.Request().Context(), "the actors of an explanation are left out", "error", err)
		warn(c, []string{"the history cannot be read at the moment: who made the changes is left out"})
	}
	answer, err := pack(out, job.stopped)
	if err != nil {
		return err
	}
	return s.deliver(c, answer)
}

// nameActors fills in who made the revisions of an explanation, as far as the history still has them.
func (s *Server) nameActors(ctx context.Context, out api.Explanation) error {
	says := sayingsOf(out)
	revisions := map[fleet.Revision]bool{}
	for _, say := range says {
		revisions[fleet.Revision(say.Revision)] = true
	}
	among := slices.Sorted(maps.Keys(revisions))
	among = among[max(0, len(among)-maxExplained):]
	if len(among) == 0 {
		return nil
	}
	found, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Among: among, Limit: len(among)}, 0)
	if err != nil {
		return err
	}
	actors := make(map[int64]string, len(found))
	for _, commit := range found {
		actors[int64(commit.Revision)] = commit.Actor
	}
	for _, say := range says {
		say.Actor = actors[say.Revision]
	}
	return nil
}

// sayingsOf are all that say something in an explanation.
func sayingsOf(out api.Explanation) []*api.Saying {
	var says []*api.Saying
	for i := range out.Inputs {
		for j := range out.Inputs[i].Values {
			v := &out.Inputs[i].Values[j]
			says = append(says, &v.SaidBy)
			for k := range v.InsteadOf {
				says = append(says, &v.InsteadOf[k])
			}
		}
	}
	return says
}
