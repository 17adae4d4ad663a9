package change

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// Operation is one operation of a batch or a plan, as the API takes it.
type Operation = planview.Operation

// Planner computes the operations of a change. It may read the fleet.
type Planner func(client conn.Client) ([]Operation, error)

// sendBatch sends operations as one change, or with --dry-run has them checked. The answer has the documents of operations on one.
func (s *Engine) sendBatch(c *cli.Context, client conn.Client, ops []Operation, hash string) (conn.Answer, error) {
	body := map[string]any{"operations": ops}
	if hash != "" {
		body["plan_hash"] = hash
	}
	return conn.Receive(conn.Send(c.Context, client, http.MethodPost, "/batch", body, append(changeEdits(c), conn.Query(url.Values{"return": {"documents"}}))))
}

var operationPointer = regexp.MustCompile(`/operations/(\d+)(?:/(?:document|patch|values)\b)?(/|: )?`)

// DescribeLocations replaces the pointers to operations in a server's error by descriptions: the user typed no operations.
func DescribeLocations(ops []Operation, err error, describe func(Operation) string) error {
	problem, ok := errors.AsType[*apiclient.Error](err)
	if !ok {
		return err
	}
	words := func(text string) string {
		return operationPointer.ReplaceAllStringFunc(text, func(place string) string {
			parts := operationPointer.FindStringSubmatch(place)
			n, err := strconv.Atoi(parts[1])
			if err != nil || n >= len(ops) {
				return place
			}
			name, end := describe(ops[n]), parts[2]
			switch {
			case name == "" && end == ": ":
				end = ""
			case name != "" && end == "/":
				name += " "
			}
			return name + end
		})
	}
	problem.Problem.Detail = words(problem.Problem.Detail)
	for i, field := range problem.Problem.Errors {
		problem.Problem.Errors[i].Pointer = words(field.Pointer)
	}
	return err
}

// DescribeOperation names the document of an operation, or the revision that it reverts; empty for others.
func DescribeOperation(op Operation) string {
	if op["op"] == "revert" {
		return fmt.Sprintf("revision %v", op["revision"])
	}
	kind := op.Kind()
	id, _ := op["id"].(string)
	if id == "" {
		return kind
	}
	return kinds.NameOf(kind) + "/" + id
}

// conditional returns a planner whose operations have the condition of --if-match.
func (p Planner) conditional(tag string) Planner {
	return func(client conn.Client) ([]Operation, error) {
		ops, err := p(client)
		for i, op := range ops {
			if i > 0 && op["id"] != nil && op["id"] == ops[i-1]["id"] && op["kind"] == ops[i-1]["kind"] {
				continue // the operation before it changes the document
			}
			op["if_match"] = tag
		}
		return ops, err
	}
}

// PrintBatch shows the response to a batch.
func (s *Engine) PrintBatch(c *cli.Context, a conn.Answer) error {
	var result api.BatchResult
	if err := a.Decode(&result); err != nil {
		return err
	}
	switch {
	case s.PrintsOneLine(c) && s.Line != "": // the line is printed instead
	case len(result.Changes) == 0:
		s.Note("Nothing to change.")
	case c.Bool("dry-run"):
		s.Note("%s would change.", summarize.Count(len(result.Changes), "document"))
	default:
		s.Note("%s changed, as revision %d.", summarize.Count(len(result.Changes), "document"), result.Revision)
	}
	return s.PrintChange(c, render.Output{
		Document: a.Body,
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"KIND", "ID", "ACTION"}}
			for _, ref := range result.Changes {
				t.Rows = append(t.Rows, []string{kinds.NameOf(ref.Kind), ref.ID, ref.Action})
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) { return ChangeNames(result.Changes), nil },
	})
}

// ChangeNames returns the changed documents as KIND/NAME.
func ChangeNames(refs []api.ChangeRef) []string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = kinds.NameOf(ref.Kind) + "/" + ref.ID
	}
	return names
}

// recordedIn returns a planner that also stores its operations.
func (p Planner) recordedIn(in *[]Operation) Planner {
	return func(client conn.Client) ([]Operation, error) {
		ops, err := p(client)
		*in = slices.Clone(ops)
		return ops, err
	}
}

// FixedOperations returns a planner of operations that do not depend on the fleet.
func FixedOperations(ops ...Operation) Planner {
	return func(conn.Client) ([]Operation, error) { return ops, nil }
}
