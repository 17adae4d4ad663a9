package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

func (s clusterCommands) clusterCommand() *cli.Command {
	pins := s.pinCommands()
	return &cli.Command{
		Name: kinds.Clusters.Name, Aliases: kinds.Clusters.Aliases, Usage: kinds.Clusters.Usage,
		Subcommands: []*cli.Command{
			kindCommands{s.session, kinds.Clusters}.listCommand(),
			kindCommands{s.session, kinds.Clusters}.getCommand(),
			s.describeCommand(),
			s.statusCommand(),
			kindCommands{s.session, kinds.Clusters}.historyCommand(),
			kindCommands{s.session, kinds.Clusters}.createDocumentCommand(),
			kindCommands{s.session, kinds.Clusters}.setCommand(),
			kindCommands{s.session, kinds.Clusters}.editCommand(),
			s.labelCommand(),
			s.reconcileCommand(),
			s.protectCommand(),
			pins[0], pins[1],
			s.excludeCommand(),
			s.deleteClusterCommand(),
		},
	}
}

func (s clusterCommands) labelCommand() *cli.Command {
	return &cli.Command{
		Name:      "label",
		Usage:     "Set and remove labels of clusters; the others stay",
		ArgsUsage: "[NAME] KEY=VALUE... KEY-...",
		Description: "Without --cluster, --selector or --all the first argument names the cluster.\n\n" +
			args.ExampleText("cluster label demo-cluster-01 tier=web old-", "cluster label --selector environment=dev canary=true --plan"),
		Flags: slices.Concat(change.TargetFlags(), change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.PlannedFlags(),
			[]cli.Flag{&cli.BoolFlag{Name: "overwrite", Hidden: true, Usage: "accepted for compatibility with kubectl; labels are always overwritten"}}),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			on := change.Targets{}
			if c.IsSet("cluster") || c.IsSet("selector") || c.IsSet("all") {
				var err error
				if on, err = change.TargetsOf(c); err != nil {
					return err
				}
			} else if len(operands) > 0 {
				if err := args.CheckID("NAME", operands[0]); err != nil {
					return err
				}
				on.Ids, operands = operands[:1], operands[1:]
			}
			if len(operands) == 0 {
				return args.Errorf("%s takes NAME, or --cluster, --selector or --all, and at least one KEY=VALUE or KEY-", c.Command.HelpName)
			}
			labels, err := labelsFrom(operands)
			if err != nil {
				return err
			}
			return s.OnTargets(c, on, change.Change{Operations: on.Planner("set_labels", map[string]any{"labels": labels})})
		},
	}
}

// reconcileCommand requests a reconciliation: a value in the inputs of the next poll, which the templates write to the annotation
// that `flux reconcile` sets.
func (s clusterCommands) reconcileCommand() *cli.Command {
	return &cli.Command{
		Name:      "reconcile",
		Usage:     "Let Flux reconcile everything on clusters at their next poll",
		ArgsUsage: "[NAME]",
		Description: "Flux fetches the sources and applies all releases and Kustomizations again, although nothing changed. Without --cluster, " +
			"--selector or --all the argument names the cluster.\n\n" +
			args.ExampleText("cluster reconcile demo-cluster-01", "cluster reconcile --selector environment=dev"),
		Flags: slices.Concat(change.TargetFlags(), change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			var on change.Targets
			operands := c.Args().Slice()
			switch many := c.IsSet("cluster") || c.IsSet("selector") || c.IsSet("all"); {
			case many && len(operands) > 0, !many && len(operands) != 1:
				return args.Errorf("%s takes NAME, or --cluster, --selector or --all", c.Command.HelpName)
			case many:
				var err error
				if on, err = change.TargetsOf(c); err != nil {
					return err
				}
			default:
				if err := args.CheckID("NAME", operands[0]); err != nil {
					return err
				}
				on.Ids = operands
			}
			at := s.Env.Now().UTC().Format(time.RFC3339Nano)
			return s.Perform(c, change.Change{Operations: on.Planner("reconcile", map[string]any{"requested_at": at})})
		},
	}
}

// labelsFrom reads KEY=VALUE and KEY-, the latter as null.
func labelsFrom(operands []string) (map[string]any, error) {
	labels := map[string]any{}
	for _, arg := range operands {
		key, value, isSet := strings.Cut(arg, "=")
		gone, isGone := strings.CutSuffix(arg, "-")
		switch {
		case isSet && key != "":
			labels[key] = value
		case isGone && !isSet && gone != "":
			labels[gone] = nil
		default:
			return nil, args.Errorf("%q is neither KEY=VALUE nor KEY-", arg)
		}
	}
	return labels, nil
}

func (s clusterCommands) protectCommand() *cli.Command {
	return &cli.Command{
		Name:      "protect",
		Usage:     "Protect a cluster against deletion and a change of its DNS name",
		ArgsUsage: "NAME",
		Flags:     slices.Concat(change.WriteFlags(), []cli.Flag{change.YesFlag(), &cli.BoolFlag{Name: "off", Usage: "lift the protection"}}, change.PlannedFlags()),
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			return kindCommands{s.session, kinds.Clusters}.mergePatch(c, operands[0], map[string]any{"deletion_protection": !c.Bool("off")})
		}),
	}
}

func (s clusterCommands) deleteClusterCommand() *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "Delete a cluster: Flux on it removes everything that came from here",
		ArgsUsage: "NAME",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "mode", Value: "uninstall", Usage: "`MODE`: uninstall makes Flux remove everything; orphan forgets the cluster, and Flux keeps its objects"},
			change.YesFlag(),
		}, change.WriteFlags(), change.PlannedFlags()),
		Action: args.WithOperands(func(c *cli.Context, operands []string) error {
			mode, what := c.String("mode"), fmt.Sprintf("delete the cluster %q; Flux removes all its objects of this service", operands[0])
			switch mode {
			case "uninstall":
			case "orphan":
				what = fmt.Sprintf("forget the cluster %q; Flux keeps its objects", operands[0])
			default:
				return args.Errorf("--mode is uninstall or orphan, not %q", mode)
			}
			return s.PerformOn(c, kinds.Clusters, change.Change{
				Operations:  change.FixedOperations(change.Operation{"op": "delete", "kind": kinds.Clusters.API, "id": operands[0], "mode": mode}),
				Description: what,
			})
		}),
	}
}
