package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// operation is one operation of a batch or a plan, as the API takes it.
type operation = planview.Operation

// planner computes the operations of a change. It may read the fleet.
type planner func(conn client) ([]operation, error)

// plannedFlags are the flags of every change that can be planned.
func plannedFlags() []cli.Flag {
	return ofChanges(slices.Concat([]cli.Flag{
		&cli.BoolFlag{Name: "plan", Usage: "show the effect on each cluster, without a change; exit code 0: none, 1: changes, 3: error"},
		fullFlag(),
	}, renderedFlags(), []cli.Flag{
		&cli.IntFlag{Name: "max-removals", Usage: "only if Flux uninstalls at most `N` things because of it; this confirms a change for which the server requires confirmation"},
		&cli.StringSliceFlag{Name: "confirm", Usage: "also remove things from clusters of this protected `ENVIRONMENT`; repeat for more"},
		&cli.StringSliceFlag{Name: "override-freeze", Usage: "although this `FREEZE` forbids the change; it requires --reason; repeat for more"},
		&cli.StringFlag{Name: "plan-hash", Usage: "only if the effect is still that of the plan with this `HASH`; @FILE: of the plan (-o json) in that file"},
	}, rolloutFlags()))
}

// ofChanges puts flags into the category that help explains once.
func ofChanges(flags []cli.Flag) []cli.Flag {
	for _, flag := range flags {
		switch f := flag.(type) {
		case *cli.BoolFlag:
			f.Category = args.ChangeCategory
		case *cli.StringFlag:
			f.Category = args.ChangeCategory
		case *cli.StringSliceFlag:
			f.Category = args.ChangeCategory
		case *cli.IntFlag:
			f.Category = args.ChangeCategory
		}
	}
	return flags
}

// changeFlags are the flags that all changes share, for the help of the program.
func changeFlags() []cli.Flag {
	return ofChanges(slices.Concat(writeFlags(), []cli.Flag{yesFlag()}, plannedFlags()))
}

// planHash returns the value of --plan-hash, read from the file for @FILE.
func (s *session) planHash(c *cli.Context) (string, error) {
	hash := c.String("plan-hash")
	name, inFile := strings.CutPrefix(hash, "@")
	switch {
	case hash == "" && c.IsSet("plan-hash"), inFile && name == "":
		return "", args.Errorf("--plan-hash must not be empty")
	case !inFile:
		return hash, nil
	}
	data, err := s.environment().Input(name)
	if err != nil {
		return "", err
	}
	var plan api.Plan
	if err := json.Unmarshal(data, &plan); err != nil || plan.PlanHash == "" {
		return "", args.Errorf("%s does not hold a plan in JSON", name)
	}
	return plan.PlanHash, nil
}

// sendBatch sends operations as one change, or with --dry-run has them checked. The answer has the documents of operations on one.
func (s *session) sendBatch(c *cli.Context, conn client, ops []operation, hash string) (answer, error) {
	body := map[string]any{"operations": ops}
	if hash != "" {
		body["plan_hash"] = hash
	}
	return receive(send(c.Context, conn, http.MethodPost, "/batch", body, append(changeEdits(c), query(url.Values{"return": {"documents"}}))))
}

var operationPointer = regexp.MustCompile(`/operations/(\d+)(?:/(?:document|patch|values)\b)?(/?)`)

// describeLocations replaces the pointers to operations in a server's error by descriptions: the user typed no operations.
func describeLocations(ops []operation, err error, describe func(operation) string) error {
	problem, ok := errors.AsType[*apiclient.Error](err)
	if !ok {
		return err
	}
	words := func(text string) string {
		return strings.TrimPrefix(operationPointer.ReplaceAllStringFunc(text, func(place string) string {
			parts := operationPointer.FindStringSubmatch(place)
			n, err := strconv.Atoi(parts[1])
			if err != nil || n >= len(ops) {
				return place
			}
			name := describe(ops[n])
			if name != "" && parts[2] != "" {
				name += " "
			}
			return name + parts[2]
		}), ": ")
	}
	problem.Problem.Detail = words(problem.Problem.Detail)
	for i, field := range problem.Problem.Errors {
		problem.Problem.Errors[i].Pointer = words(field.Pointer)
	}
	return err
}

// describeOperation names the document of an operation, or the revision that it reverts; empty for others.
func describeOperation(op operation) string {
	if op["op"] == "revert" {
		return fmt.Sprintf("revision %v", op["revision"])
	}
	kind := op.Kind()
	id, _ := op["id"].(string)
	if id == "" {
		return kind
	}
	return nameOfKind(kind) + "/" + id
}

// change is a change of the fleet that can be planned.
type change struct {
	operations planner
	// recomputed: the operations depend on the fleet. They are computed again when another client changes one of the documents at the
	// same time.
	recomputed bool
	// single: it is about one document, so --if-match is a condition of its operations.
	single bool
	// describe names the subject of an operation in errors; nil: describeOperation.
	describe func(operation) string
	// refused improves an error of the server; nil: it is good enough.
	refused func(conn client, err error) error
	// description describes the change in prompts. Empty: it is confirmed only if it removes something or the server requires
	// confirmation.
	description string
	// unconfirmedInScripts: without a terminal, --yes is not needed unless the server requires confirmation.
	unconfirmedInScripts bool
	// planRequest is the body of the request for its plan; nil: its operations.
	planRequest map[string]any
	// rendered requests the objects of its plan; nil: none.
	rendered *api.PlanRendering
	// repeated: it creates a rollout whose name exists; the server compares the changes.
	repeated bool
	// request sends an action on a rollout or a freeze, with the plan's hash if that is not empty; nil: the operations, as a batch.
	request func(conn client, hash string) (answer, error)
	// show prints the response; nil: as the result of a batch.
	show func(conn client, a answer) error
	// printsSummary: show prints the summary itself.
	printsSummary bool
}

// plan requests the plan of the change.
func (ch change) plan(s *session, c *cli.Context, conn client) (json.RawMessage, api.Plan, error) {
	ops, err := ch.operations(conn)
	if err != nil {
		return nil, api.Plan{}, err
	}
	request := map[string]any{"operations": ops}
	if ch.planRequest != nil {
		request = maps.Clone(ch.planRequest)
	}
	if ch.rendered != nil {
		request["rendered"] = ch.rendered
	}
	document, plan, err := s.requestPlan(c, conn, request)
	return document, plan, ch.explain(conn, ops, err)
}

// explain returns an error of the server in the words of the command line.
func (ch change) explain(conn client, ops []operation, err error) error {
	if err = describeLocations(ops, err, ch.describe); err != nil && ch.refused != nil {
		err = ch.refused(conn, err)
	}
	return err
}

// conditional returns a planner whose operations have the condition of --if-match.
func (p planner) conditional(tag string) planner {
	return func(conn client) ([]operation, error) {
		ops, err := p(conn)
		for _, op := range ops {
			op["if_match"] = tag
		}
		return ops, err
	}
}

// perform plans, confirms and makes a change, depending on the flags.
func (s *session) perform(c *cli.Context, ch change) error {
	conn, err := s.connect(c)
	if err != nil {
		return err
	}
	if ch.describe == nil {
		ch.describe = describeOperation
	}
	if ch, err = s.inRollout(c, conn, ch); err != nil {
		return err
	}
	if tag := c.String("if-match"); tag != "" && ch.single {
		ch.operations = ch.operations.conditional(tag)
	}
	if ch.repeated {
		return s.repeatRollout(c, conn, ch)
	}
	if c.Bool("plan") {
		return s.showPlan(c, conn, ch)
	}
	for _, flag := range []string{"rendered", "templates"} { // these flags request a plan with the change
		if c.IsSet(flag) {
			return args.Errorf("--%s is for --plan, which changes nothing", flag)
		}
	}
	if c.Int("max-removals") < 0 {
		return args.Errorf("--max-removals must not be negative")
	}
	hash, err := s.planHash(c)
	if err != nil {
		return err
	}
	var ops []operation
	ch.operations = ch.operations.recordedIn(&ops)
	if hash == "" {
		if hash, err = s.confirmBeforeSending(c, conn, ch); err != nil {
			return err
		}
	}
	a, err := s.send(c, conn, ch, hash)
	if apiclient.ErrorCode(err) == "confirmation_required" && hash == "" {
		if hash, err = s.confirmAfterRefusal(c, conn, ch, err); err != nil {
			return err
		}
		a, err = s.send(c, conn, ch, hash)
	}
	if err != nil {
		return err
	}
	if !ch.printsSummary {
		s.line = planview.ResultLine(ops, a.body, nameOfKind)
	}
	if ch.show != nil {
		return ch.show(conn, a)
	}
	return s.printBatch(c, a)
}

func (s *session) send(c *cli.Context, conn client, ch change, hash string) (answer, error) {
	if ch.request != nil {
		return ch.request(conn, hash)
	}
	if c.String("if-match") != "" && !ch.single {
		return answer{}, args.Errorf("--if-match is about one document; for more, use --plan and then --plan-hash")
	}
	var sent []operation
	for range maxRaces {
		ops, err := ch.operations(conn)
		if err != nil {
			return answer{}, err
		}
		a, err := s.sendBatch(c, conn, ops, hash)
		raced := c.String("if-match") == "" && slices.Contains([]string{"conflict", "not_found", "stale"}, apiclient.ErrorCode(err))
		if !ch.recomputed || !raced || reflect.DeepEqual(ops, sent) {
			return a, ch.explain(conn, ops, err)
		}
		sent = ops
	}
	return answer{}, errors.New("other clients keep changing the same documents; try again")
}

// maxRaces is the number of attempts of a change that depends on a read, when other clients change the same document.
const maxRaces = 5

// printBatch shows the response to a batch.
func (s *session) printBatch(c *cli.Context, a answer) error {
	var result api.BatchResult
	if err := a.decode(&result); err != nil {
		return err
	}
	switch {
	case s.printsOneLine(c) && s.line != "": // the line is printed instead
	case len(result.Changes) == 0:
		s.note("Nothing to change.")
	case c.Bool("dry-run"):
		s.note("%s would change.", summarize.Count(len(result.Changes), "document"))
	default:
		s.note("%s changed, as revision %d.", summarize.Count(len(result.Changes), "document"), result.Revision)
	}
	return s.printChange(c, render.Output{
		Document: a.body,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"KIND", "ID", "ACTION"}}
			for _, ref := range result.Changes {
				t.Rows = append(t.Rows, []string{nameOfKind(ref.Kind), ref.ID, ref.Action})
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) { return changeNames(result.Changes), nil },
	})
}

func changeNames(refs []api.ChangeRef) []string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = nameOfKind(ref.Kind) + "/" + ref.ID
	}
	return names
}
