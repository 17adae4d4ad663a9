package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// CountClusters counts the clusters by state for the history, once in each interval. Any number of processes may call it. It counts
// nothing while this process does not know the status of all clusters, or does not follow the store.
func (s *Server) CountClusters() {
	st, _, problem := s.cfg.Replica.StateForReads()
	if st == nil || problem != nil || !s.tracker.Stats().Complete || !s.tracker.CountDue(s.cfg.Now()) {
		return
	}
	n := (&stateCollector{server: s}).count(func() {})
	s.tracker.RecordCount(clusterstatus.StateCount{
		Total: len(st.All(fleet.KindCluster)), Progressing: n.clusters[clusterstatus.Progressing], Failed: n.clusters[clusterstatus.Failed], Silent: n.clusters[clusterstatus.Silent],
	}, s.cfg.Now())
}

func (s *Server) GetStatusHistory(c echo.Context, _ api.GetStatusHistoryParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	if st.Limited() { // the counts are of the whole fleet
		return errNeedsUnlimitedRead
	}
	out := api.StatusHistory{IntervalSeconds: int(clusterstatus.CountInterval.Seconds()), Counts: []api.HistoricCount{}}
	for _, n := range s.tracker.Counts(s.cfg.Now()) {
		out.Counts = append(out.Counts, api.HistoricCount{At: time.Unix(n.At, 0).UTC(), Total: n.Total, Progressing: n.Progressing, Failed: n.Failed, Silent: n.Silent})
	}
	return response.WriteJSON(c, http.StatusOK, out)
}
