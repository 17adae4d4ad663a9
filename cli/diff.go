package cli

import (
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/urfave/cli/v2"
)

func (s *session) diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "Show in which fields the documents of files differ from the fleet, or two documents of the fleet from each other",
		ArgsUsage: "[KIND/NAME[@REVISION] [KIND/NAME[@REVISION]]]",
		Description: "KIND/NAME@REVISION is a document at a revision. One alone is compared with the current document. With --effective, it " +
			"compares the inputs that clusters are served, with layers, rollouts and pins.\n\nThe output is text, also without a terminal; -o json and -o yaml print a list.\n" +
			"Exit code 0: no difference, 1: differences, 2: wrong command line, 3: error.\n\n" +
			args.ExampleText("diff -f fleet/", "diff cluster/prod-01 cluster/prod-02 --effective", "diff cluster/prod-01@41", "diff cluster/prod-01@41 --effective", "export > fleet.yaml && $EDITOR fleet.yaml && flux-resourceset-cli diff -f fleet.yaml"),
		Flags: slices.Concat([]cli.Flag{
			documentsFlag(), &cli.BoolFlag{Name: "effective", Usage: "of clusters: what they are served"},
		}, pruneFlags()),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return s.diffDocuments(c)
			}
			if c.Bool("effective") {
				return args.Errorf("--effective compares clusters of the fleet with each other: name two")
			}
			a, err := s.newApplyRun(c)
			if err != nil {
				return err
			}
			a.set.Compares = true
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			diffs, err := a.diff(client)
			if err != nil {
				return err
			}
			return s.printDiffs(c, diffs)
		},
	}
}

// diff compares the documents with the fleet. Only the server can compare: it fills in defaults and normalizes values.
func (a *applyRun) diff(client conn.Client) ([]manifests.Diff, error) {
	diffs := []manifests.Diff{}
	ops, err := a.operations(client)
	if err != nil {
		return nil, err
	}
	_, plan, err := a.s.RequestPlan(a.c, client, map[string]any{"operations": ops})
	if err != nil {
		return nil, change.DescribeLocations(ops, err, a.describe)
	}
	for _, ref := range plan.Changes {
		d, err := a.set.Diff(ref.Kind, ref.ID, ref.Action)
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}
