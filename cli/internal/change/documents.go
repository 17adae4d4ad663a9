package change

import (
	"errors"
	"slices"

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
			return s.PrintChange(c, n.Output(results[0].Document))
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
