package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// errDiffers makes a plan or a diff with differences exit with 1. No message is printed.
var errDiffers = errors.New("something would change")

// plan requests the plan of operations.
func (s *session) plan(c *cli.Context, conn client, ops []operation) (api.Plan, error) {
	_, plan, err := s.requestPlan(c, conn, map[string]any{"operations": ops})
	return plan, describeLocations(ops, err, describeOperation)
}

// requestPlan requests the plan of operations, or of an action.
func (s *session) requestPlan(c *cli.Context, conn client, request map[string]any) (json.RawMessage, api.Plan, error) {
	var edits []edit
	ops, _ := request["operations"].([]operation)
	if slices.ContainsFunc(ops, func(op operation) bool {
		return op.Kind() == accessDocuments.kind || op.Kind() == webhookDocuments.kind
	}) {
		edits = append(edits, func(ctx context.Context, req *http.Request) error { return s.connection.sendToken(ctx, req, false) })
	}
	var a answer
	if err := s.withoutWarnings(func() (err error) {
		a, err = receive(send(c.Context, conn, http.MethodPost, "/plan", request, edits))
		return err
	}); err != nil {
		return nil, api.Plan{}, err
	}
	var plan api.Plan
	return a.body, plan, a.decode(&plan)
}

// showPlan prints the plan of a change.
func (s *session) showPlan(c *cli.Context, conn client, ch change) error {
	for _, flag := range []string{"dry-run", "if-match", "plan-hash"} {
		if c.IsSet(flag) {
			return args.Errorf("--plan changes nothing, so it excludes --%s", flag)
		}
	}
	if c.IsSet("templates") && c.String("templates") == "" {
		return args.Errorf("--templates must not be empty")
	}
	var err error
	if ch.rendered, err = s.rendering(c); err != nil {
		return err
	}
	document, plan, err := ch.plan(s, c, conn)
	if err != nil {
		return err
	}
	made, err := renderedPlan(c, plan)
	if err != nil {
		return err
	}
	err = s.print(c, render.Output{
		Document: document,
		Text: func(wide bool) string {
			return planview.Plan(plan, made, s.planStyle(wide || c.Bool("full"), s.env.StdoutTerminal))
		},
		Names: func() ([]string, error) { return planview.AffectedClusters(plan), nil },
	})
	if err == nil && len(plan.Changes) > 0 {
		err = errDiffers
	}
	return err
}

// planStyle returns the style of a plan's text; terminal: for colors.
func (s *session) planStyle(full, terminal bool) planview.Style {
	return planview.Style{Full: full, KindName: nameOfKind, Paint: func(code, text string) string { return s.paint(terminal, code, text) }}
}

func renderedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "rendered", Usage: "with --plan: show how the Kubernetes objects of the clusters would differ"},
		&cli.StringFlag{Name: "templates", Usage: "with --plan: the clusters' templates, as ResourceSets in a YAML `FILE` (default: the shipped ones)"},
	}
}

const (
	// allClusters is the largest number of clusters that a plan may render.
	allClusters = 100_000
	// silentlyRendered is the largest number of clusters that are rendered to detect a change without effect.
	silentlyRendered = 20
)

// rendering returns what a plan renders: what flags request, or a few clusters for a plan as text; nil: nothing.
func (s *session) rendering(c *cli.Context) (*api.PlanRendering, error) {
	sets, err := s.resourceSets(c.String("templates"))
	if err != nil {
		return nil, err
	}
	out := &api.PlanRendering{ResourceSets: sets}
	switch {
	case c.Bool("rendered") || sets != "":
		if c.Bool("full") {
			out.Clusters = allClusters
		}
	case s.printsForPeople(c):
		out.Clusters = silentlyRendered
	default:
		return nil, nil
	}
	return out, nil
}

// printsForPeople reports whether a plan is shown as text.
func (s *session) printsForPeople(c *cli.Context) bool {
	format, err := s.format(c)
	return err == nil && (format == "table" || format == "wide")
}

// renderedPlan returns the objects of a plan with --rendered. Without it, the result is nil unless certainly no object changes: such a
// change is usually a mistake.
func renderedPlan(c *cli.Context, plan api.Plan) (*planview.Objects, error) {
	if plan.Rendered == nil {
		return nil, nil
	}
	made, given := &planview.Objects{RenderedPlan: *plan.Rendered, Templates: c.String("templates")}, c.IsSet("templates")
	for _, one := range made.Clusters {
		switch {
		case one.Error == "":
		case c.Bool("rendered") || given:
			return nil, fmt.Errorf("cluster %q: %s", one.Cluster, one.Error)
		default:
			return nil, nil
		}
	}
	switch t := plan.Totals; {
	case c.Bool("rendered"):
		return made, nil
	case !made.ChangesNothing(), !given && (t.Added+t.Removed+t.Removals > 0 || t.Clusters == 0):
		return nil, nil
	}
	made.Clusters = nil // the plan shows these clusters
	return made, nil
}
