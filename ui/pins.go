package ui

import (
	"time"

	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// pinRow is a pinned cluster.
type pinRow struct {
	ID, Link string
	Pin      api.ClusterPin
	Overdue  bool   // its time is over, but a person has to confirm what the end removes
	End      string // the address of the form that unpins it; empty: the token may not
}

func (req *pageRequest) pinRow(c *api.Cluster) pinRow {
	row := pinRow{ID: c.ID, Link: link("clusters", c.ID), Pin: *c.Pinned}
	row.Overdue = row.Pin.Until != nil && row.Pin.Until.Add(time.Minute).Before(req.page.cfg.Now())
	if req.mayChange(writing, client.KindCluster, c.ID) {
		row.End = link("clusters", c.ID, "unpin")
	}
	return row
}

// pinnedClusters returns the first pinned clusters, and the number of the others.
func (req *pageRequest) pinnedClusters() (rows []pinRow, more int, err error) {
	list, err := req.fleet.ListClustersWithResponse(req.r.Context(), &api.ListClustersParams{Pinned: new(true), Limit: new(shownFreezes)})
	if err != nil {
		return nil, 0, err
	}
	for i := range *list.JSON200 {
		rows = append(rows, req.pinRow(&(*list.JSON200)[i]))
	}
	total, err := totalOf(list.HTTPResponse)
	return rows, total - len(rows), err
}

// unpinForm unpins a cluster.
func unpinForm(req *pageRequest) (changeForm, error) {
	id := req.r.PathValue("id")
	return changeForm{
		Headline: "Unpin cluster " + id, Button: "Unpin", NoChange: "The cluster is not pinned.", NavSection: "clusters",
		Notes:   []string{"The cluster is served the changes since it was pinned."},
		Command: "frs cluster unpin " + id, Crumbs: []pageLink{{"Clusters", link("clusters")}, {id, link("clusters", id)}},
		Operation: api.Operation{Op: client.OpPatch, Kind: client.KindCluster, ID: id, Patch: []byte(`{"pinned":null}`)},
	}, nil
}
