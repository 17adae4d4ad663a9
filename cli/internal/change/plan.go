package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// ErrDiffers makes a plan or a diff with differences exit with 1. No message is printed.
var ErrDiffers = errors.New("something would change")

// Plan requests the plan of operations.
func (s *Engine) Plan(c *cli.Context, client conn.Client, ops []Operation) (api.Plan, error) {
	_, plan, err := s.RequestPlan(c, client, map[string]any{"operations": ops})
	return plan, DescribeLocations(ops, err, DescribeOperation)
}

// RequestPlan requests the plan of operations, or of an action.
func (s *Engine) RequestPlan(c *cli.Context, client conn.Client, request map[string]any) (json.RawMessage, api.Plan, error) {
	ops, _ := request["operations"].([]Operation)
	return s.receivePlan(func() (*http.Response, error) {
		return conn.Send(c.Context, client, http.MethodPost, "/plan", request, s.PlanEdits(ops))
	})
}

// PlanEdits returns what sets the token of a request that plans operations, if the token for reads may not be sufficient.
func (s *Engine) PlanEdits(ops []Operation) []conn.Edit {
	if !slices.ContainsFunc(ops, func(op Operation) bool {
		return slices.Contains([]string{kinds.Access.API, kinds.Webhooks.API, kinds.Sources.API, kinds.Policies.API}, op.Kind())
	}) {
		return nil
	}
	return []conn.Edit{func(ctx context.Context, req *http.Request) error { return s.Connection.SendToken(ctx, req, false) }}
}

// receivePlan returns the plan that a request is answered with. Its warnings are in the plan.
func (s *Engine) receivePlan(request func() (*http.Response, error)) (json.RawMessage, api.Plan, error) {
	var a conn.Answer
	if err := s.WithoutWarnings(func() (err error) {
		a, err = conn.Receive(request())
		return err
	}); err != nil {
		return nil, api.Plan{}, err
	}
	var plan api.Plan
	return a.Body, plan, a.Decode(&plan)
}

// ShowPlan prints the plan of a change.
func (s *Engine) ShowPlan(c *cli.Context, client conn.Client, ch Change) error {
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
	document, plan, err := ch.plan(s, c, client)
	if err != nil {
		return err
	}
	made, err := renderedPlan(c, plan)
	if err != nil {
		return err
	}
	stages := ""
	if ch.stages != nil && len(plan.Changes) > 0 && s.printsForPeople(c) {
		if stages, err = ch.stages(client, plan.PlanHash); err != nil {
			return err
		}
	}
	err = s.Print(c, render.Output{
		Document: document,
		Text: func(wide bool) string {
			return planview.Plan(plan, made, s.PlanStyle(wide || c.Bool("full"), s.Env.StdoutTerminal)) + stages
		},
		Names: func() ([]string, error) { return planview.AffectedClusters(plan), nil },
	})
	if err == nil && len(plan.Changes)+len(plan.Adopted) > 0 {
		err = ErrDiffers
	}
	return err
}

// PlanStyle returns the style of a plan's text; terminal: for colors.
func (s *Engine) PlanStyle(full, terminal bool) planview.Style {
	return planview.Style{Full: full, KindName: kinds.NameOf, Paint: func(code, text string) string { return s.Paint(terminal, code, text) }}
}

// RenderedFlags are the flags about the Kubernetes objects of a plan.
func RenderedFlags() []cli.Flag {
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
func (s *Engine) rendering(c *cli.Context) (*api.PlanRendering, error) {
	sets, err := s.ResourceSets(c.String("templates"))
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
func (s *Engine) printsForPeople(c *cli.Context) bool {
	format, err := s.Format(c)
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

// ResourceSets returns the text of a file with ResourceSets; empty without a file.
func (s *Engine) ResourceSets(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := s.Environment().Input(file)
	if err == nil && len(text) == 0 {
		err = fmt.Errorf("%s is empty", file)
	}
	return string(text), err
}
