package server

import (
	"fmt"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/server/internal/response"
)

// modeOrphan is the mode of DELETE that removes a cluster without uninstalling it.
const modeOrphan = "orphan"

func (s *Server) ListClusters(c echo.Context, p api.ListClustersParams) error {
	st, err := s.state(c)
	if err != nil {
		return err
	}
	docs := st.All(fleet.KindCluster)
	if value(p.Deleted) {
		docs = st.Decommissioned()
	}
	if docs, err = selectClusters(docs, p.Environment, p.Selector); err != nil {
		return err
	}
	if p.ClusterDNS != nil {
		dns := fleet.NormalDNS(*p.ClusterDNS)
		docs = slices.DeleteFunc(docs, func(d *fleet.Document) bool { return fleet.NormalDNS(d.Cluster().ClusterDNS) != dns })
	}
	if value(p.Pinned) {
		docs = slices.DeleteFunc(docs, func(d *fleet.Document) bool { return d.Cluster().Pinned == nil })
	}
	if value(p.Drifted) {
		docs = slices.DeleteFunc(docs, func(d *fleet.Document) bool {
			return len(uncorrectedDrifts(st, d, s.tracker.Drifts(s.statusQuery(st, d, nil)))) == 0
		})
	}
	running, err := runningOnly(st, p.Component, p.ComponentVersion, p.OCITag)
	if err != nil {
		return err
	}
	docs = slices.DeleteFunc(docs, func(d *fleet.Document) bool { return !running(d) })
	if p.Image != nil {
		docs = slices.DeleteFunc(docs, func(d *fleet.Document) bool { return !st.DeclaresImage(d, *p.Image) })
	}
	if len(docs) == 0 {
		if err := warnUnknownLabels(c, st, value(p.Selector)); err != nil {
			return err
		}
	}
	if p.View != nil {
		return listViews(c, docs, p.Limit, p.Offset, st.EffectiveView)
	}
	return listDocuments(c, docs, p.Limit, p.Offset)
}

// warnUnknownLabels warns of labels in a selector that no cluster has.
func warnUnknownLabels(c echo.Context, st *fleet.State, selector string) error {
	sel, err := fleet.ParseSelector(selector)
	if err != nil {
		return err
	}
	isKnown := func(label string) bool {
		return slices.ContainsFunc(st.All(fleet.KindCluster), func(d *fleet.Document) bool {
			_, has := fleet.Label(d.Cluster(), label)
			return has
		})
	}
	for _, label := range sel.UnknownLabels(isKnown) {
		response.AddWarnings(c, []string{fmt.Sprintf("no cluster has the label %q; clusters have their labels, environment and id", label)})
	}
	return nil
}

// selectClusters keeps the clusters of an environment that match a selector; nil does not filter.
func selectClusters(docs []*fleet.Document, environment, selector *string) ([]*fleet.Document, error) {
	sel, err := fleet.ParseSelector(value(selector))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(docs, func(d *fleet.Document) bool {
		return environment != nil && d.Cluster().Environment != *environment || !sel.Matches(d.Cluster())
	}), nil
}

// runningOnly keeps the clusters whose desired state has a component, with a version and a tag; nil does not filter.
func runningOnly(st *fleet.State, component, version, tag *string) (func(*fleet.Document) bool, error) {
	if component == nil {
		var problems []fleet.Problem
		if version != nil {
			problems = append(problems, fleet.Problem{Detail: "query parameter component_version: requires component"})
		}
		if tag != nil {
			problems = append(problems, fleet.Problem{Detail: "query parameter oci_tag: requires component"})
		}
		return func(*fleet.Document) bool { return true }, fleet.Invalid(problems)
	}
	return func(d *fleet.Document) bool {
		runs, ok := st.Running(d, *component)
		return ok && (value(version) == "" || runs.ComponentVersion == *version) && (value(tag) == "" || runs.OCITag == *tag)
	}, nil
}

func (s *Server) CreateCluster(c echo.Context, p api.CreateClusterParams) error {
	return s.createDocument(c, fleet.KindCluster, writeParams{nil, p.DryRun, p.XChangeReason, p.PlanHash})
}

func (s *Server) GetCluster(c echo.Context, id string, p api.GetClusterParams) error {
	if p.View != nil {
		return s.view(c, fleet.KindCluster, id, p.Revision, p.IfNoneMatch, (*fleet.State).EffectiveView)
	}
	return s.getDocument(c, fleet.KindCluster, id, readParams{p.IfNoneMatch, p.Revision})
}

func (s *Server) UpdateCluster(c echo.Context, id string, p api.UpdateClusterParams) error {
	return s.putDocument(c, fleet.KindCluster, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, value(p.Force))
}

func (s *Server) PatchCluster(c echo.Context, id string, p api.PatchClusterParams) error {
	return s.patchDocument(c, fleet.KindCluster, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, value(p.Force))
}

func (s *Server) DeleteCluster(c echo.Context, id string, p api.DeleteClusterParams) error {
	return s.deleteDocument(c, fleet.KindCluster, id, writeParams{p.IfMatch, p.DryRun, p.XChangeReason, p.PlanHash}, fleet.DeleteOptions{Orphan: value(p.Mode) == modeOrphan})
}

func (s *Server) GetClusterHistory(c echo.Context, id string, p api.GetClusterHistoryParams) error {
	if p.View != nil {
		return s.servedHistory(c, fleet.DocumentName{Kind: fleet.KindCluster, ID: id}, historyParams{p.Since, p.Until, p.Limit, p.Cursor})
	}
	return s.history(c, fleet.KindCluster, id, historyParams{p.Since, p.Until, p.Limit, p.Cursor})
}
