package server

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/store"
)

// maxExplained is how many revisions are looked up for one explanation.
const maxExplained = 100

// ExplainCluster implements the operation of that name.
func (s *Server) ExplainCluster(c echo.Context, id string, p api.ExplainClusterParams) error {
	return s.explain(c, id, "", "", value(p.Pointer))
}

// ExplainInput implements the operation of that name.
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
	out, err := st.Explain(doc, list, inputID, pointer, job.stopped)
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
	actors := map[int64]string{}
	name := func(say *api.Saying) error {
		actor, known := actors[say.Revision]
		if !known && len(actors) < maxExplained {
			found, err := s.cfg.History.Summaries(ctx, store.HistoryQuery{Before: fleet.Revision(say.Revision) + 1, Limit: 1}, 1)
			if err != nil {
				return err
			}
			if len(found) > 0 && int64(found[0].Revision) == say.Revision {
				actor = found[0].Actor
			}
			actors[say.Revision] = actor
		}
		say.Actor = actor
		return nil
	}
	for i := range out.Inputs {
		for j := range out.Inputs[i].Values {
			v := &out.Inputs[i].Values[j]
			if err := name(&v.SaidBy); err != nil {
				return err
			}
			for k := range v.InsteadOf {
				if err := name(&v.InsteadOf[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
