package change

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// Change is a change of the fleet that can be planned.
type Change struct {
	Operations Planner
	// Recomputed: the operations depend on the fleet. They are computed again when another client changes one of the documents at the
	// same time.
	Recomputed bool
	// Single: it is about one document, so --if-match is a condition of its operations.
	Single bool
	// Describe names the subject of an operation in errors; nil: DescribeOperation.
	Describe func(Operation) string
	// Refused improves an error of the server; nil: it is good enough.
	Refused func(client conn.Client, err error) error
	// Description describes the change in prompts. Empty: it is confirmed only if it removes something or the server requires
	// confirmation.
	Description string
	// UnconfirmedInScripts: without a terminal, --yes is not needed unless the server requires confirmation.
	UnconfirmedInScripts bool
	// PlanRequest is the body of the request for its plan; nil: its operations.
	PlanRequest map[string]any
	// PlanPath is the path of the API that has its plan; empty: the plan is requested with PlanRequest.
	PlanPath string
	// rendered requests the objects of its plan; nil: none.
	rendered *api.PlanRendering
	// stages describes the stages of the rollout that it would create; nil: it creates none.
	stages func(client conn.Client, hash string) (string, error)
	// repeated: it creates a rollout whose name exists; the server compares the changes.
	repeated bool
	// Request sends an action on a rollout or a freeze, with the plan's hash if that is not empty; nil: the operations, as a batch.
	Request func(client conn.Client, hash string) (conn.Answer, error)
	// Show prints the response; nil: as the result of a batch.
	Show func(client conn.Client, a conn.Answer) error
	// PrintsSummary: Show prints the summary itself.
	PrintsSummary bool
}

// plan requests the plan of the change.
func (ch Change) plan(s *Engine, c *cli.Context, client conn.Client) (json.RawMessage, api.Plan, error) {
	if ch.PlanPath != "" {
		return s.receivePlan(func() (*http.Response, error) {
			return conn.Send(c.Context, client, http.MethodGet, ch.PlanPath, nil, nil)
		})
	}
	ops, err := ch.Operations(client)
	if err != nil {
		return nil, api.Plan{}, err
	}
	request := map[string]any{"operations": ops}
	if ch.PlanRequest != nil {
		request = maps.Clone(ch.PlanRequest)
	}
	if ch.rendered != nil {
		request["rendered"] = ch.rendered
	}
	document, plan, err := s.RequestPlan(c, client, request)
	s.planned = plan
	return document, plan, ch.explain(client, ops, err)
}

// explain returns an error of the server in the words of the command line.
func (ch Change) explain(client conn.Client, ops []Operation, err error) error {
	if err = DescribeLocations(ops, err, ch.Describe); err != nil && ch.Refused != nil {
		err = ch.Refused(client, err)
	}
	return err
}

// Perform plans, confirms and makes a change, depending on the flags.
func (s *Engine) Perform(c *cli.Context, ch Change) error {
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	if ch.Describe == nil {
		ch.Describe = DescribeOperation
	}
	if ch, err = s.inRollout(c, client, ch); err != nil {
		return err
	}
	if tag := c.String("if-match"); tag != "" && ch.Single {
		ch.Operations = ch.Operations.conditional(tag)
	}
	if ch.repeated {
		return s.repeatRollout(c, client, ch)
	}
	if c.Bool("plan") {
		return s.ShowPlan(c, client, ch)
	}
	for _, flag := range []string{"rendered", "templates"} { // these flags request a plan with the change
		if c.IsSet(flag) {
			return args.Errorf("--%s is for --plan, which changes nothing", flag)
		}
	}
	if c.Int("max-removals") < 0 {
		return args.Errorf("--max-removals must not be negative")
	}
	hash, err := s.PlanHash(c)
	if err != nil {
		return err
	}
	var ops []Operation
	ch.Operations = ch.Operations.recordedIn(&ops)
	if hash == "" {
		if hash, err = s.confirmBeforeSending(c, client, ch); err != nil {
			return err
		}
	}
	a, err := s.send(c, client, ch, hash)
	if apiclient.ErrorCode(err) == "confirmation_required" && hash == "" {
		if hash, err = s.confirmAfterRefusal(c, client, ch, err); err != nil {
			return err
		}
		a, err = s.send(c, client, ch, hash)
	}
	if err != nil {
		return err
	}
	if !ch.PrintsSummary {
		s.Line = planview.ResultLine(ops, a.Body, kinds.NameOf, s.Reached(c, client, a))
	}
	if ch.Show != nil {
		return ch.Show(client, a)
	}
	return s.PrintBatch(c, a)
}

// Reached returns the number of clusters whose inputs a change changed, for the line about it; -1: no line is shown, it concerns no
// clusters, or the number is unknown.
func (s *Engine) Reached(c *cli.Context, client conn.Client, a conn.Answer) int {
	var result api.BatchResult
	if !s.PrintsOneLine(c) || a.Decode(&result) != nil || !slices.ContainsFunc(result.Changes, func(ref api.ChangeRef) bool {
		return !slices.ContainsFunc(kinds.Administrative(), func(n kinds.Kind) bool { return n.API == ref.Kind })
	}) {
		return -1
	}
	if s.planned.PlanHash != "" && s.planned.BaseRevision+1 == result.Revision { // otherwise the fleet has changed since the plan
		return s.planned.Totals.Clusters
	}
	filter := url.Values{"changed_in": {strconv.FormatInt(result.Revision, 10)}, "limit": {"1"}}
	known, err := conn.ReceiveAs[api.FleetStatus](client.GetStatus(c.Context, nil, conn.Query(filter)))
	if err != nil {
		return -1 // the change was made, and the line lacks the number
	}
	return known.Total
}

func (s *Engine) send(c *cli.Context, client conn.Client, ch Change, hash string) (conn.Answer, error) {
	if ch.Request != nil {
		return ch.Request(client, hash)
	}
	if c.String("if-match") != "" && !ch.Single {
		return conn.Answer{}, args.Errorf("--if-match is about one document; for more, use --plan and then --plan-hash")
	}
	var sent []Operation
	for range maxRaces {
		ops, err := ch.Operations(client)
		if err != nil {
			return conn.Answer{}, err
		}
		a, err := s.sendBatch(c, client, ops, hash)
		raced := c.String("if-match") == "" && slices.Contains([]string{"conflict", "not_found", "stale"}, apiclient.ErrorCode(err))
		if !ch.Recomputed || !raced || reflect.DeepEqual(ops, sent) {
			return a, ch.explain(client, ops, err)
		}
		sent = ops
	}
	return conn.Answer{}, errors.New("other clients keep changing the same documents; try again")
}

// maxRaces is the number of attempts of a change that depends on a read, when other clients change the same document.
const maxRaces = 5
