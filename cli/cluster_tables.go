package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// Columns of clusters that are no fields of their documents: inherited entries, and the state.

// effectiveCluster returns a cluster with the entries of its layers.
func (s *session) effectiveCluster(c *cli.Context, client conn.Client, id string) (conn.Answer, error) {
	return conn.Receive(client.GetCluster(c.Context, id, nil, conn.Query(url.Values{"view": {"effective"}})))
}

// effectiveTables returns a function that makes the table of clusters with their inherited entries. The function requests them only
// when a table is printed.
func effectiveTables(c *cli.Context, docs []json.RawMessage, effective func() (map[string]json.RawMessage, error)) func() ([]render.Table, error) {
	return func() ([]render.Table, error) {
		has, err := effective()
		if err != nil {
			return nil, err
		}
		t, err := effectiveTable(docs, has)
		if err == nil {
			t, err = withLabels(c, t, docs)
		}
		return []render.Table{t}, err
	}
}

// effectiveTable returns the table of clusters with counts as OWN+INHERITED where layers add entries, and with the layers for -o
// wide. has is the effective clusters by id; nil: the fleet has no layers.
func effectiveTable(docs []json.RawMessage, has map[string]json.RawMessage) (render.Table, error) {
	t, err := kinds.Clusters.View.Table(docs...)
	if err != nil || has == nil {
		return t, err
	}
	for i, own := range docs {
		all, there := has[t.Rows[i][0]]
		if !there { // deleted in the meantime
			t.Rows[i] = append(t.Rows[i], "")
			continue
		}
		var doc api.Cluster
		if err := json.Unmarshal(all, &doc); err != nil {
			return t, err
		}
		for _, n := range kinds.Definitions() {
			inherited, err := inheritedCount(n, own, all)
			if err != nil {
				return t, err
			}
			if column := slices.Index(t.Header, strings.ToUpper(n.Name)+"S"); inherited > 0 && column >= 0 {
				t.Rows[i][column] += fmt.Sprintf("+%d", inherited)
			}
		}
		t.Rows[i] = append(t.Rows[i], strings.Join(doc.Layers, ","))
	}
	t.Header = append(t.Header, "LAYERS")
	return t, nil
}

// effectiveClusters reads effective clusters one by one, by id.
func (s *session) effectiveClusters(c *cli.Context, docs []json.RawMessage) (map[string]json.RawMessage, error) {
	client, err := s.Connection.Client(c)
	if err != nil {
		return nil, err
	}
	out := make(map[string]json.RawMessage, len(docs))
	for _, doc := range docs {
		id, err := kinds.DocumentID(doc)
		if err != nil {
			return nil, err
		}
		has, err := s.effectiveCluster(c, client, id)
		if err != nil {
			return nil, err
		}
		out[id] = has.Body
	}
	return out, nil
}

// effectiveList reads a list of effective clusters, by id. Without layers it is nil, because the list would equal the documents.
func (s *session) effectiveList(c *cli.Context, limit int, page func(e ...conn.Edit) (*http.Response, error)) (map[string]json.RawMessage, error) {
	client, err := s.Connection.Client(c)
	if err != nil {
		return nil, err
	}
	if layered, err := s.hasLayers(c.Context, client); err != nil || !layered {
		return nil, err
	}
	docs, _, err := conn.ReadPages(limit, 0, func(e ...conn.Edit) (*http.Response, error) {
		return page(append(e, conn.Query(url.Values{"view": {"effective"}}))...)
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]json.RawMessage, len(docs))
	for _, doc := range docs {
		id, err := kinds.DocumentID(doc)
		if err != nil {
			return nil, err
		}
		out[id] = doc
	}
	return out, nil
}

// inheritedCount returns the number of entries in a list of an effective cluster that its document does not have.
func inheritedCount(n kinds.Kind, own, has json.RawMessage) (int, error) {
	says, err := n.Entries(own)
	if err != nil {
		return 0, err
	}
	entries, err := n.Entries(has)
	return len(entries) - len(says), err
}

// addStateColumns adds the state of each cluster to a table that begins with their ids. When the server is busy, the
// list is shown without it.
func addStateColumns(c *cli.Context, s *session, client conn.Client, tables func() ([]render.Table, error)) func() ([]render.Table, error) {
	return func() ([]render.Table, error) {
		out, err := tables()
		if err != nil || len(out) != 1 {
			return out, err
		}
		if len(out[0].Rows) == 0 {
			out[0].Header = append(slices.Clone(out[0].Header), "STATE", "SEEN", "DRIFTED")
			return out, nil
		}
		known, err := conn.ReceiveAs[api.FleetStatus](client.GetStatus(c.Context, nil, statusFilter(c, out[0].Rows), conn.Query(url.Values{"limit": {strconv.Itoa(conn.MaxPage)}})))
		if err != nil {
			s.Note("STATE, SEEN and DRIFTED are left out: %s", conn.ErrorText(err))
			return out, nil
		}
		of := map[string]api.ClusterSummary{}
		for _, summary := range known.Clusters {
			of[summary.ID] = summary
		}
		t := &out[0]
		t.Header = append(slices.Clone(t.Header), "STATE", "SEEN", "DRIFTED")
		for i, row := range t.Rows {
			summary := of[row[0]]
			t.Rows[i] = append(slices.Clone(row), summary.State, render.TimeOr(summary.SeenAt, "-"), render.TimeOr(summary.DriftedAt, "-"))
		}
		return out, nil
	}
}

// Limits of a selector; the server parses the ids in it as label values.
const (
	maxSelector   = 4096
	maxLabelValue = 63
)

// statusFilter selects the clusters in the rows of a list: by id, or with the list's own filters if there are too many. The filter
// by component is left out: it would select the status of that component.
func statusFilter(c *cli.Context, rows [][]string) conn.Edit {
	ids := make([]string, len(rows))
	long := false
	for i, row := range rows {
		ids[i] = row[0]
		long = long || len(row[0]) > maxLabelValue
	}
	if selector := "id in (" + strings.Join(ids, ",") + ")"; !long && len(selector) <= maxSelector {
		return conn.Query(url.Values{"selector": {selector}})
	}
	var those []kinds.Filter
	for _, f := range kinds.ClusterFilters() {
		if f.Param == "environment" || f.Param == "selector" {
			those = append(those, f)
		}
	}
	return kinds.FilterEdit(c, those)
}

// hasLayers reports whether the fleet has layers.
func (s *session) hasLayers(ctx context.Context, client conn.Client) (bool, error) {
	docs, err := conn.ReceiveAs[[]json.RawMessage](kinds.Layers.Calls.List(ctx, client, conn.Query(url.Values{"limit": {"1"}})))
	return len(docs) > 0, err
}
