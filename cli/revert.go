package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

func (s revisionCommands) revertCommand() *cli.Command {
	return &cli.Command{
		Name: "revert", Usage: "Revert the changes of a revision, as a new revision; later changes stay",
		ArgsUsage: "REVISION...",
		Description: "Of each document it is a three-way merge: field by field, entry by entry of lists, value by value of patches. A value that was changed " +
			"again later is a conflict: each is listed, and nothing is reverted without --ours or --theirs. Several revisions " +
			"are reverted newest first, in one change. Documents that the revision created are deleted, and Flux removes their objects: check " +
			"with --plan. Tokens are never reverted.\n\n" +
			args.ExampleText("revision revert 41 --plan", "revision revert 41", "revision revert 41 --only cluster/demo-cluster-01 --theirs"),
		Flags: slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "only", Usage: "only the changes of this `KIND/NAME`; repeat for more"},
			&cli.BoolFlag{Name: "ours", Usage: "on a conflict, keep the later change"},
			&cli.BoolFlag{Name: "theirs", Usage: "on a conflict, restore the value before the revision"},
			change.DryRunFlag(), change.YesFlag(),
		}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			revisions, err := revisionArguments(c)
			if err != nil {
				return err
			}
			ops, err := revertOperations(c, revisions)
			if err != nil {
				return err
			}
			what := "revert revision " + joinNumbers(revisions)
			if only := c.StringSlice("only"); len(only) > 0 {
				what += " of " + strings.Join(only, ", ")
			}
			if c.String("reason") == "" {
				if err := c.Set("reason", "reverted revision "+joinNumbers(revisions)); err != nil {
					return err
				}
			}
			return s.Perform(c, change.Change{Operations: change.FixedOperations(ops...), Description: what})
		},
	}
}

// revisionArguments returns the revisions of the command line, newest first.
func revisionArguments(c *cli.Context) ([]int64, error) {
	operands, err := args.SeveralOperands(c, "REVISION")
	if err != nil {
		return nil, err
	}
	var revisions []int64
	for _, arg := range operands {
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || n < 1 {
			return nil, args.Errorf("%q is not the number of a revision", arg)
		}
		revisions = append(revisions, n)
	}
	slices.Sort(revisions)
	slices.Reverse(revisions)
	return slices.Compact(revisions), nil
}

func revertOperations(c *cli.Context, revisions []int64) ([]change.Operation, error) {
	prefer := ""
	switch {
	case c.Bool("ours") && c.Bool("theirs"):
		return nil, args.Errorf("--ours and --theirs exclude each other")
	case c.Bool("ours"):
		prefer = "ours"
	case c.Bool("theirs"):
		prefer = "theirs"
	}
	var documents []change.Operation
	for _, name := range c.StringSlice("only") {
		slash := max(0, strings.LastIndexByte(name, '/'))
		n, known := kinds.Find(name[:slash])
		if !known {
			return nil, args.Errorf("--only takes KIND/NAME, such as component/podinfo, not %q; kinds are %s", name, args.ListOf(kinds.Words()))
		}
		id := name[slash+1:]
		if err := args.CheckID("--only", id); err != nil {
			return nil, err
		}
		documents = append(documents, n.Operation("revert", id, nil))
	}
	if len(documents) == 0 {
		documents = []change.Operation{{}}
	}
	var ops []change.Operation
	for _, revision := range revisions {
		for _, doc := range documents {
			op := maps.Clone(doc)
			op["op"], op["revision"] = "revert", revision
			if prefer != "" {
				op["prefer"] = prefer
			}
			ops = append(ops, op)
		}
	}
	return ops, nil
}

func joinNumbers(numbers []int64) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(words, ", ")
}
