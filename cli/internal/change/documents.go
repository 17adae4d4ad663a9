package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// OnTargets makes a change of clusters. The output for one cluster is the cluster; for several, and with --plan-hash, it is the batch's.
func (s *Engine) OnTargets(c *cli.Context, on Targets, ch Change) error {
	if _, single := on.Single(); !single || c.IsSet("plan-hash") {
		return s.Perform(c, ch)
	}
	return s.PerformOn(c, kinds.Clusters, ch)
}

// PerformOn makes a change of one document of a kind, and prints that unless the change has an output of its own.
func (s *Engine) PerformOn(c *cli.Context, n kinds.Kind, ch Change) error {
	ch.Single = true
	if ch.Describe == nil {
		ch.Describe = func(Operation) string { return "" } // the command line names the document
	}
	if ch.Show == nil {
		ch.Show = func(_ conn.Client, a conn.Answer) error {
			results, err := ResultsOf(a)
			if err != nil {
				return err
			}
			return s.PrintChange(c, n.Output(results[len(results)-1].Document))
		}
	}
	return s.Perform(c, ch)
}

// ResultsOf returns the results of a batch, which has at least one operation, all on one document each.
func ResultsOf(a conn.Answer) ([]api.OperationResult, error) {
	var result api.BatchResult
	if err := a.Decode(&result); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(result.Results, func(r api.OperationResult) bool { return r.Document == nil }) || len(result.Results) == 0 {
		return nil, errors.New("unexpected response of the server: it lacks the changed document")
	}
	return result.Results, nil
}

// AssignmentOf returns the argument and the targets of a command about assignments.
func AssignmentOf(c *cli.Context) (id string, on Targets, err error) {
	operands, err := args.Operands(c, "NAME")
	if err != nil {
		return "", on, err
	}
	on, err = TargetsOf(c)
	return operands[0], on, err
}

// FieldsFrom returns the fields of a document: the file's, overridden by those of flags. The id is the file's; empty without one.
func (s *Engine) FieldsFrom(c *cli.Context, n kinds.Kind) (id string, doc map[string]any, err error) {
	doc = map[string]any{}
	if name := c.String("file"); name != "" {
		data, err := s.Input(name)
		if err != nil {
			return "", nil, err
		}
		object, err := input.Object(data, name)
		if err != nil {
			return "", nil, err
		}
		// Values stay as written: a number is not rounded.
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(object, &fields); err != nil {
			return "", nil, err
		}
		if string(fields["kind"]) == strconv.Quote(n.Name) { // as export --split writes it
			delete(fields, "kind")
		}
		for field, value := range fields {
			doc[field] = value
		}
		if raw, ok := fields["id"]; ok {
			if err := json.Unmarshal(raw, &id); err != nil {
				return "", nil, fmt.Errorf("%s: the id must be a string", name)
			}
		}
	}
	return id, doc, kinds.CollectFields(c, n.Fields, doc)
}

// DocumentFrom returns the document of a create or update. Its id is the argument's, or else the file's.
func (s *Engine) DocumentFrom(c *cli.Context, n kinds.Kind) (id string, doc map[string]any, err error) {
	id, doc, err = s.FieldsFrom(c, n)
	if err != nil {
		return "", nil, err
	}
	if c.NArg() > 0 || id == "" {
		operands, err := args.Operands(c, "NAME")
		if err != nil {
			return "", nil, err
		}
		if id != "" && id != operands[0] {
			return "", nil, args.Errorf("%s is about %q, not %q", c.String("file"), id, operands[0])
		}
		id = operands[0]
	}
	if err := args.CheckID("NAME", id); err != nil {
		return "", nil, err
	}
	doc["id"] = id
	return id, doc, nil
}
