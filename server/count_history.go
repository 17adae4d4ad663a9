package server

import (
	"net/http"
	"slices"
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
	details := detailCounter{components: map[string]*clusterstatus.ComponentCount{}}
	n := (&stateCollector{server: s}).count(func() {}, &details)
	now := s.cfg.Now()
	s.tracker.RecordCount(clusterstatus.StateCount{
		Total: len(st.All(fleet.KindCluster)), Progressing: n.clusters[clusterstatus.Progressing], Failed: n.clusters[clusterstatus.Failed], Silent: n.clusters[clusterstatus.Silent],
	}, now)
	s.tracker.RecordCountDetails(details.result(), now)
}

// detailCounter counts the clusters that fail or progress by component, and names those that fail or are silent.
type detailCounter struct {
	components     map[string]*clusterstatus.ComponentCount
	failed, silent []string
	inputs         []detailInput // of the cluster that is evaluated, in the order of its components
}

type detailInput struct {
	state   clusterstatus.State
	enabled bool
}

// input is called with each input of a cluster, before add.
func (t *detailCounter) input(list string, enabled bool, state clusterstatus.State) {
	if list == fleet.KindComponent.Endpoint() {
		t.inputs = append(t.inputs, detailInput{state, enabled})
	}
}

// add adds a cluster whose inputs are known.
func (t *detailCounter) add(st *fleet.State, cluster *fleet.Document, known *clusterstatus.Status) {
	inputs := t.inputs
	t.inputs = t.inputs[:0]
	for _, state := range known.States() {
		switch state { //nolint:exhaustive // the others are not counted
		case clusterstatus.Failed:
			t.failed = append(t.failed, cluster.ID)
		case clusterstatus.Silent:
			t.silent = append(t.silent, cluster.ID)
		}
	}
	if !slices.ContainsFunc(inputs, func(in detailInput) bool {
		return in.state == clusterstatus.Failed || in.state == clusterstatus.Progressing
	}) {
		return
	}
	n := 0
	for component := range st.Components(cluster) {
		if n == len(inputs) {
			return
		}
		in := inputs[n]
		n++
		failed, progressing := in.state == clusterstatus.Failed, known.StateOfInput(in.state, in.enabled) == clusterstatus.Progressing
		if !failed && !progressing {
			continue
		}
		of := t.components[component.ID]
		if of == nil {
			of = &clusterstatus.ComponentCount{ID: component.ID}
			t.components[component.ID] = of
		}
		if failed {
			of.Failed++
		}
		if progressing {
			of.Progressing++
		}
	}
}

func (t *detailCounter) result() clusterstatus.CountDetails {
	out := clusterstatus.CountDetails{Failed: t.failed, Silent: t.silent}
	for _, of := range t.components {
		out.Components = append(out.Components, *of)
	}
	return out
}

// GetStatusHistory answers with the counts of the fleet, of a component or of a cluster.
func (s *Server) GetStatusHistory(c echo.Context, p api.GetStatusHistoryParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	counts, err := s.historicCounts(st, p)
	if err != nil {
		return err
	}
	out := api.StatusHistory{IntervalSeconds: int(clusterstatus.CountInterval.Seconds()), Counts: []api.HistoricCount{}}
	for _, n := range counts {
		out.Counts = append(out.Counts, api.HistoricCount{At: time.Unix(n.At, 0).UTC(), Total: n.Total, Progressing: n.Progressing, Failed: n.Failed, Silent: n.Silent})
	}
	return response.WriteJSON(c, http.StatusOK, out)
}

func (s *Server) historicCounts(st *fleet.State, p api.GetStatusHistoryParams) ([]clusterstatus.StateCount, error) {
	now := s.cfg.Now()
	switch {
	case p.Cluster != nil && p.Component != nil:
		return nil, fleet.Invalid([]fleet.Problem{{Detail: "query parameter cluster: not with component"}})
	case p.Cluster != nil:
		doc, err := st.Find(fleet.KindCluster, *p.Cluster)
		if err != nil {
			return nil, err
		}
		counts := s.tracker.ClusterCounts(doc.ID, now)
		return slices.DeleteFunc(counts, func(n clusterstatus.StateCount) bool {
			return time.Unix(n.At, 0).Before(doc.CreatedAt) // a deleted cluster may have had its id
		}), nil
	case st.Limited(): // the counts are of the whole fleet
		return nil, errNeedsUnlimitedRead
	case p.Component != nil:
		doc, err := st.Find(fleet.KindComponent, *p.Component)
		if err != nil {
			return nil, err
		}
		return s.tracker.ComponentCounts(doc.ID, now), nil
	}
	return s.tracker.Counts(now), nil
}
