package cli

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourceset"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

const (
	// renderedClusters is the number of clusters of a plan whose objects are compared without --full.
	renderedClusters = 100
	// silentlyRendered is the largest number of clusters whose inputs are requested to detect a change without effect.
	silentlyRendered = 20
)

func renderedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "rendered", Usage: "with --plan: show how the Kubernetes objects of the clusters would differ"},
		&cli.StringFlag{Name: "templates", Usage: "with --plan: the clusters' templates, as ResourceSets in a YAML `FILE` (default: the shipped ones)"},
	}
}

// renderedPlan returns the objects of a plan with --rendered. Without it, objects are compared only if few clusters have changed
// values, and the result is nil unless no object changes: such a change is usually a mistake.
func (s *session) renderedPlan(c *cli.Context, conn client, plan api.Plan, ops []operation) (*planview.Objects, error) {
	most := renderedClusters
	if c.Bool("full") {
		most = 0
	}
	if c.Bool("rendered") {
		made, err := renderer{s}.compareObjects(c, conn, plan, ops, most)
		return &made, err
	}
	t, given := plan.Totals, c.IsSet("templates")
	if !given && (t.Added+t.Removed+t.Removals > 0 || t.Clusters == 0 || t.Clusters > silentlyRendered || !s.printsForPeople(c)) {
		return nil, nil
	}
	made, err := renderer{s}.compareObjects(c, conn, plan, ops, most)
	if err != nil && given {
		return nil, err
	}
	if err != nil || !made.ChangesNothing() {
		return nil, nil //nolint:nilerr // the plan was asked for, and is good; what it comes to elsewhere could not be found out
	}
	made.Clusters = nil // the plan shows these clusters
	return &made, nil
}

// printsForPeople reports whether a plan is shown as text.
func (s *session) printsForPeople(c *cli.Context) bool {
	format, err := s.format(c)
	return err == nil && (format == "table" || format == "wide")
}

// compareObjects compares the objects of at most so many clusters of a plan (0: all). ops are the operations of the plan.
func (s renderer) compareObjects(c *cli.Context, conn client, plan api.Plan, ops []operation, most int) (planview.Objects, error) {
	sets, err := s.resourceSets(c, conn, c.String("templates"), "")
	if err != nil {
		return planview.Objects{}, err
	}
	for _, set := range sets {
		set.AcceptAnyCluster()
	}
	out, err := planview.Compare(plan, sets, &plannedFleet{renderer: s, c: c, conn: conn, ops: ops, base: plan.BaseRevision, lists: map[string]inputType{}}, most)
	out.Templates = c.String("templates")
	return out, err
}

// plannedFleet reads the clusters and inputs of a plan's revision.
type plannedFleet struct {
	renderer
	c     *cli.Context
	conn  client
	ops   []operation // of the plan
	base  int64       // the plan's revision
	lists map[string]inputType
}

var _ planview.Source = (*plannedFleet)(nil)

func (r *plannedFleet) Cluster(id string) (api.FluxCluster, error) {
	a, err := receive(r.conn.GetCluster(r.c.Context, id, nil))
	doc := a.body
	if apiclient.ErrorCode(err) == "not_found" {
		for _, op := range r.ops {
			if is, _ := op["id"].(string); is == id && op.Kind() == clusters.kind {
				doc, err = render.Encode(op["document"])
			}
		}
	}
	if err != nil {
		return api.FluxCluster{}, err
	}
	var c api.Cluster
	err = json.Unmarshal(doc, &c)
	return api.FluxCluster{Name: cmp.Or(c.ClusterName, id), DNS: c.ClusterDNS, Environment: c.Environment}, err
}

func (r *plannedFleet) Inputs(dns, list string) ([]resourceset.Input, error) {
	t, known := r.lists[list]
	if !known {
		var err error
		if t, err = r.inputType(r.c, r.conn, list); err != nil {
			return nil, err
		}
		r.lists[list] = t
	}
	a, err := receive(r.conn.PollResources(r.c.Context, dns, t.name, nil))
	switch {
	case apiclient.ErrorCode(err) == "not_found":
		return nil, nil
	case err != nil:
		return nil, err
	case a.revision != strconv.FormatInt(r.base, 10):
		return nil, planview.ErrFleetChanged
	}
	var body struct {
		Inputs []resourceset.Input `json:"inputs"`
	}
	return body.Inputs, a.decode(&body)
}
