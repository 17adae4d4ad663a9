package cli

import (
	"context"
	"encoding/json"
	"errors"
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
	_, plan, err := s.requestPlan(c, conn, ops)
	return plan, describeLocations(ops, err, describeOperation)
}

func (s *session) requestPlan(c *cli.Context, conn client, ops []operation) (json.RawMessage, api.Plan, error) {
	var edits []edit
	if slices.ContainsFunc(ops, func(op operation) bool {
		return op.Kind() == accessDocuments.kind || op.Kind() == webhookDocuments.kind
	}) {
		edits = append(edits, func(ctx context.Context, req *http.Request) error { return s.connection.sendToken(ctx, req, false) })
	}
	return s.sendPlanRequest(c, conn, map[string]any{"operations": ops}, edits...)
}

func (s *session) sendPlanRequest(c *cli.Context, conn client, request map[string]any, edits ...edit) (json.RawMessage, api.Plan, error) {
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
	var ops []operation
	ch.operations = ch.operations.recordedIn(&ops)
	document, plan, err := ch.plan(s, c, conn)
	if err != nil {
		return err
	}
	made, err := s.renderedPlan(c, conn, plan, ops)
	if err == nil && made != nil && c.Bool("rendered") {
		document, err = made.AddTo(document)
	}
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
