package cli

import (
	"fmt"
	"slices"
	"strings"

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
			s.describeCommand(),
			s.statusCommand(),
			kindCommands{s.session, kinds.Clusters}.createDocumentCommand(),
			kindCommands{s.session, kinds.Clusters}.setCommand(),
			s.labelCommand(),
			s.variablesCommand(),
			pins[0], pins[1],
			s.excludeCommand(),
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
			if change.HasTargetFlags(c) {
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

func (s clusterCommands) deleteCommand() *cli.Command {
	v := kinds.Clusters
	return &cli.Command{
		Name: v.Name, Aliases: v.Aliases,
		Usage:     "Delete clusters: Flux on them uninstalls everything of this service",
		ArgsUsage: "[NAME]",
		Description: "Without --cluster, --selector or --all the argument names the cluster. Several clusters are deleted in one change.\n\n" +
			args.ExampleText("delete cluster demo-cluster-01 --plan", "delete cluster --selector region=eu --plan"),
		Flags: slices.Concat(change.ClusterFlags(), []cli.Flag{
			&cli.StringFlag{Name: "mode", Value: "uninstall", Usage: "`MODE`: uninstall makes Flux remove everything; orphan forgets the cluster, and Flux keeps its objects"},
			change.YesFlag(),
		}, change.WriteFlags(), change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			on, err := change.ClustersOf(c)
			if err != nil {
				return err
			}
			description, its := on.String(), "their"
			if id, single := on.Single(); single {
				description, its = fmt.Sprintf("the cluster %q", id), "its"
			}
			mode := c.String("mode")
			switch mode {
			case "uninstall":
				description = fmt.Sprintf("delete %s; Flux removes all %s objects of this service", description, its)
			case "orphan":
				description = fmt.Sprintf("forget %s; Flux keeps %s objects", description, its)
			default:
				return args.Errorf("--mode is uninstall or orphan, not %q", mode)
			}
			return s.PerformOnEach(c, on, change.Change{Description: description}, func(id string) []change.Operation {
				return []change.Operation{kinds.Clusters.Operation("delete", id, map[string]any{"mode": mode})}
			})
		},
	}
}
